// Where the page has its data from: from itself, or from a server.

/** A report: all that there is to know stands in the page. */
class Embedded {
  constructor() {
    this.live = false;
  }

  open(merge) {
    merge(parsed(byId("picture-data").textContent));
  }

  async details() {
    this.all ??= new Promise((found) => {
      const read = () => found(parsed(byId("details-data").textContent));
      if (byId("details-data")) read();
      else addEventListener("DOMContentLoaded", read); // it stands behind the script, so that the picture comes first
    });
    return this.all;
  }
}

const FIRST_WAIT = 1000; // milliseconds before the server is asked again, once it is gone
const LONGEST_WAIT = 30000;

/** A server: a picture first, then what changes; details when asked. */
class Server {
  constructor() {
    this.live = true;
    this.version = 0;
    this.connection = "connecting";
    this.gone = ""; // why the server is asked no longer
    this.patience = FIRST_WAIT;
  }

  open(merge, changed) {
    this.merge = (picture) => {
      this.version = picture.version;
      merge(picture);
    };
    this.changed = changed;
    this.follow();
    document.addEventListener("visibilitychange", () => !document.hidden && this.stream?.readyState === 2 && this.follow());
  }

  async follow() {
    try {
      const picture = await this.get(this.version ? `data/picture?since=${this.version}` : "data/picture");
      this.merge(picture);
    } catch (error) {
      if (error.status === 404) this.is((this.gone = error.message));
      else this.lost();
      return;
    }
    this.stream?.close();
    this.stream = new EventSource(`data/changes?since=${this.version}`);
    this.stream.onopen = () => {
      this.patience = FIRST_WAIT;
      this.is("live");
    };
    this.stream.onmessage = (message) => this.merge(parsed(message.data));
    this.stream.onerror = () => this.lost(); // what EventSource would ask for again is no longer since the right version
  }

  lost() {
    this.stream?.close();
    this.is("lost");
    clearTimeout(this.again);
    this.again = setTimeout(() => this.follow(), this.patience);
    this.patience = Math.min(LONGEST_WAIT, this.patience * 1.5);
  }

  is(connection) {
    if (connection === this.connection) return;
    this.connection = connection;
    this.changed();
  }

  details(id) {
    return this.get(id === undefined ? "data/details" : `data/details?span=${id}`);
  }

  /** Answer a question; the answer is JSON text. */
  answer(interrupt_id, json) {
    return this.post("data/answer", `{"interrupt_id":${JSON.stringify(interrupt_id)},"value":${json}}`);
  }

  cancel() {
    return this.post("data/cancel", "{}");
  }

  async get(url, options = {}) {
    if (this.gone) throw new Error(this.gone);
    const response = await fetch(url, { cache: "no-store", ...options }).catch(() => {
      throw new Error("the server does not answer");
    });
    const body = await response.text();
    if (response.ok) return body ? parsed(body) : null;
    let said = body;
    try {
      said = JSON.parse(body).error ?? body;
    } catch {
      // it is text already
    }
    const error = new Error(typeof said === "string" && said ? said : `the server answered ${response.status}`);
    throw Object.assign(error, { status: response.status });
  }

  post(url, body) {
    return this.get(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  }
}
