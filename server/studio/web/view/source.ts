// Where the page has its data from: from itself, or from a server.

import { byId } from "../shared/dom";
import { parsed } from "../shared/exact";
import type { Picture, Told } from "./data";

export interface Source {
  readonly live: boolean;
  /** Whether the server is there: live, connecting, lost, or why it is asked no longer. */
  readonly connection: string;
  open(merge: (picture: Picture) => void, changed: () => void): void;
  /** The details of a span and of what it did itself; of all spans without an id. */
  details(id?: number): Promise<Told>;
  /** Answer a question; the answer is JSON text. */
  answer(interrupt: string, json: string): Promise<unknown>;
  cancel(): Promise<unknown>;
  restart(operator: string, round: number, fields: readonly string[]): Promise<string>;
}

/** A report: all that there is to know stands in the page. */
export class Embedded implements Source {
  readonly live = false;
  readonly connection = "";
  private all: Promise<Told> | null = null;

  open(merge: (picture: Picture) => void): void {
    merge(parsed(byId("picture-data").textContent));
  }

  details(): Promise<Told> {
    return (this.all ??= new Promise((found) => {
      const read = (): void => found(parsed(byId("details-data").textContent));
      if (document.getElementById("details-data")) read();
      else addEventListener("DOMContentLoaded", read); // it stands behind the script, so that the picture comes first
    }));
  }

  answer(): Promise<unknown> {
    return Promise.reject(new Error("a report takes no answers"));
  }

  cancel(): Promise<unknown> {
    return Promise.reject(new Error("a report cannot be cancelled"));
  }

  restart(): Promise<string> {
    return Promise.reject(new Error("a report cannot be restarted"));
  }
}

const FIRST_WAIT = 1000; // milliseconds before the server is asked again, once it is gone
const LONGEST_WAIT = 30000;

class RefusedError extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

/** A server: a picture first, then what changes; details when asked. */
export class Server implements Source {
  readonly live = true;
  connection = "connecting";
  private version = 0;
  /** Why the server is asked no longer. */
  private gone = "";
  private patience = FIRST_WAIT;
  private again: ReturnType<typeof setTimeout> | undefined;
  private stream: EventSource | undefined;
  private merge: (picture: Picture) => void = () => undefined;
  private changed: () => void = () => undefined;

  open(merge: (picture: Picture) => void, changed: () => void): void {
    this.merge = (picture) => {
      this.version = picture.version;
      merge(picture);
    };
    this.changed = changed;
    void this.follow();
    document.addEventListener("visibilitychange", () => !document.hidden && this.stream?.readyState === 2 && this.follow());
  }

  private async follow(): Promise<void> {
    try {
      const picture = await this.get<Picture>(this.version ? `data/picture?since=${this.version}` : "data/picture");
      this.merge(picture);
    } catch (error) {
      if (error instanceof RefusedError && error.status === 404) this.is((this.gone = error.message));
      else this.lost();
      return;
    }
    this.stream?.close();
    this.stream = new EventSource(`data/changes?since=${this.version}`);
    this.stream.onopen = () => {
      this.patience = FIRST_WAIT;
      this.is("live");
    };
    this.stream.onmessage = (message) => this.merge(parsed(String(message.data)));
    this.stream.onerror = () => this.lost(); // what EventSource would ask for again is no longer since the right version
  }

  private lost(): void {
    this.stream?.close();
    this.is("lost");
    clearTimeout(this.again);
    this.again = setTimeout(() => void this.follow(), this.patience);
    this.patience = Math.min(LONGEST_WAIT, this.patience * 1.5);
  }

  private is(connection: string): void {
    if (connection === this.connection) return;
    this.connection = connection;
    this.changed();
  }

  details(id?: number): Promise<Told> {
    return this.get(id === undefined ? "data/details" : `data/details?span=${id}`);
  }

  answer(interrupt: string, json: string): Promise<unknown> {
    return this.post("data/answer", `{"interrupt_id":${JSON.stringify(interrupt)},"value":${json}}`);
  }

  /** Continue a copy of the run from an operator on; its id. */
  async restart(operator: string, round: number, fields: readonly string[]): Promise<string> {
    const told = (await this.post("data/restart", `{${[`"operator":${JSON.stringify(operator)}`, `"round":${round}`, ...fields].join()}}`)) as { run_id: string };
    return told.run_id;
  }

  cancel(): Promise<unknown> {
    return this.post("data/cancel", "{}");
  }

  private async get<Value>(url: string, options: RequestInit = {}): Promise<Value> {
    if (this.gone) throw new Error(this.gone);
    const response = await fetch(url, { cache: "no-store", ...options }).catch(() => {
      throw new Error("the server does not answer");
    });
    const body = await response.text();
    if (response.ok) return parsed<Value>(body || "null");
    let said: unknown = body;
    try {
      said = (JSON.parse(body) as { error?: unknown }).error ?? body;
    } catch {
      // it is text already
    }
    throw new RefusedError(typeof said === "string" && said ? said : `the server answered ${response.status}`, response.status);
  }

  private post(url: string, body: string): Promise<unknown> {
    return this.get(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  }
}
