// Search: in names, states and errors at once, then in all that was said.

const MOST_FOUND = 50;
const AT_ONCE = 400; // spans that are looked through before the page may draw

class Search {
  constructor(app) {
    this.app = app;
    this.field = byId("search");
    this.list = byId("found");
    this.texts = new Map(); // a span's id → the texts of its details
    this.field.addEventListener("input", () => this.start());
    this.field.addEventListener("focus", () => this.field.value && this.start());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  async start() {
    const { view, run, source } = this.app;
    const query = this.field.value.trim().toLowerCase();
    const turn = (this.turn = {});
    view.query = query;
    if (!query) {
      this.clear();
      return;
    }
    const found = [];
    for (const span of run.spans) {
      const line = this.outline(span).find((each) => each.toLowerCase().includes(query));
      if (line !== undefined) found.push({ span, said: line === span.name || line === run.nameOf(span.name) ? "" : around(line, query) });
    }
    this.show(query, found, true);
    let told = {};
    try {
      told = await source.details();
    } catch (error) {
      found.failed = error.message;
    }
    if (source.live) this.texts.clear();
    const known = new Set(found.map(({ span }) => span.id));
    let looked = 0;
    for (const [id, about] of Object.entries(told)) {
      if (++looked % AT_ONCE === 0) await new Promise((go) => setTimeout(go));
      if (turn !== this.turn) return;
      const span = run.spans[id];
      if (!span) continue;
      const said = this.texts.get(id) ?? strings(about);
      this.texts.set(id, said);
      const line = known.has(span.id) ? undefined : said.find((each) => each.toLowerCase().includes(query));
      if (line !== undefined) found.push({ span, said: around(line, query) });
    }
    if (turn === this.turn) this.show(query, found, false);
  }

  /** What a span says without its details. */
  outline(span) {
    const label = STATES[span.state]?.label ?? "";
    const instruction = span.kind === "operator" ? this.app.run.instructionOf(span.path) : "";
    const title = span.kind === "operator" ? this.app.run.nameOf(span.name) : "";
    return [span.name, title, span.kind, span.state, label, span.error ?? "", span.status ?? "", instruction];
  }

  show(query, found, more) {
    const { run, view } = this.app;
    view.hits = new Set();
    view.hitSpans = new Set();
    for (const { span } of found) {
      const path = run.owner(span).path;
      for (let end = 1; end <= path.length; end++) {
        view.hits.add(keyOf(path.slice(0, end)));
        view.hits.add(keyOf([...path.slice(0, end - 1), path[end - 1].replace(NUMBER, "")]));
      }
      for (let each = span; each; each = run.spans[each.parent]) view.hitSpans.add(each.id);
    }
    const shown = found.slice(0, MOST_FOUND);
    const told = found.length > shown.length ? `${shown.length} of ${count(found.length)} found; the timeline shows all` : plural(found.length, "place found", "places found");
    this.list.hidden = false;
    this.list.replaceChildren(
      make("p.soft", { role: "status", textContent: more ? `${told}, searching what was said …` : found.failed ? `${told}; the texts cannot be loaded: ${found.failed}` : told }),
      ...shown.map(({ span, said }) => make("button.hit", { onclick: () => this.go(span) },
        icon(run.stateOf(span, Infinity, new Set())),
        make("span.name", { dir: "auto", textContent: [...run.namesOf(span.path.slice(0, -1)), span.kind === "operator" ? run.nameOf(span.name) : `${span.path.length ? run.nameOf(span.path.at(-1)) : "run"} › ${span.kind} ${span.name}`].join(" / ") }),
        make("span.soft", { textContent: span.round > 1 ? ` round ${span.round}` : "" }),
        said ? make("span.snippet", { dir: "auto" }, marked(said, query)) : null)));
    this.app.draw();
  }

  go(span) {
    this.list.hidden = true;
    this.app.graph.show(this.app.run.owner(span).path);
    this.app.select(this.app.run.owner(span).path, span.id, true);
    this.app.timeline.show(span);
  }

  clear() {
    const { view } = this.app;
    this.turn = {};
    Object.assign(view, { hits: null, hitSpans: null, query: "" });
    this.field.value = "";
    this.list.hidden = true;
    this.app.draw();
  }

  key(event) {
    const all = [this.field, ...this.list.querySelectorAll("button")];
    const here = all.indexOf(document.activeElement);
    if (event.key === "ArrowDown") all[Math.min(all.length - 1, here + 1)].focus();
    else if (event.key === "ArrowUp") all[Math.max(0, here - 1)].focus();
    else if (event.key === "Enter" && here === 0) all[1]?.click();
    else if (event.key === "Escape") {
      this.clear();
      this.field.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const UNSAID = new Set(["job_id", "usage", "status", "time", "progress"]); // figures and ids that nobody said

/** All texts in a value. */
function strings(value, into = []) {
  if (typeof value === "string") into.push(value);
  else if (typeof value === "number" || typeof value === "bigint") into.push(String(value));
  else if (value && typeof value === "object") for (const [key, each] of Object.entries(value)) if (!UNSAID.has(key)) strings(each, into);
  return into;
}

/** Where in a text it was found. */
function around(said, query) {
  const at = said.toLowerCase().indexOf(query);
  const begin = Math.max(0, at - 30);
  return `${begin ? "…" : ""}${said.slice(begin, at + query.length + 60)}`;
}

function marked(said, query) {
  const at = said.toLowerCase().indexOf(query);
  return [said.slice(0, at), make("mark", { textContent: said.slice(at, at + query.length) }), said.slice(at + query.length)];
}
