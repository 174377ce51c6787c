// Search: in names, states and errors at once, then in all that was said.

import { type Child, byId, icon, make } from "../shared/dom";
import { count, plural } from "../shared/numbers";
import { lookOf } from "../shared/states";
import type { App } from "./app";
import type { Span, Told } from "./data";
import { NUMBER, keyOf } from "./run";

interface Found {
  span: Span;
  /** The text in which it was found; empty for a name. */
  said: string;
}

const MOST_FOUND = 50;
const AT_ONCE = 400; // spans that are looked through before the page may draw

export class Search {
  private readonly field = byId<HTMLInputElement>("search");
  private readonly list = byId("found");
  /** The texts of a span's details, by its id. */
  private readonly texts = new Map<string, string[]>();
  private turn = {};

  constructor(private readonly app: App) {
    this.field.addEventListener("input", () => void this.start());
    this.field.addEventListener("focus", () => this.field.value && this.start());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  private async start(): Promise<void> {
    const { view, run, source } = this.app;
    const query = this.field.value.trim().toLowerCase();
    const turn = (this.turn = {});
    view.query = query;
    if (!query) {
      this.clear();
      return;
    }
    const found: Found[] = [];
    let failed = "";
    for (const span of run.spans) {
      const line = this.outline(span).find((each) => each.toLowerCase().includes(query));
      if (line !== undefined) found.push({ span, said: line === span.name || line === run.nameOf(span.name) ? "" : around(line, query) });
    }
    this.show(query, found, true, failed);
    let told: Told = {};
    try {
      told = await source.details();
    } catch (error) {
      failed = (error as Error).message;
    }
    if (source.live) this.texts.clear();
    const known = new Set(found.map(({ span }) => span.id));
    let looked = 0;
    for (const [id, about] of Object.entries(told)) {
      if (++looked % AT_ONCE === 0) await new Promise((go) => setTimeout(go));
      if (turn !== this.turn) return;
      const span = run.spans[Number(id)];
      if (!span) continue;
      const said = this.texts.get(id) ?? strings(about);
      this.texts.set(id, said);
      const line = known.has(span.id) ? undefined : said.find((each) => each.toLowerCase().includes(query));
      if (line !== undefined) found.push({ span, said: around(line, query) });
    }
    if (turn === this.turn) this.show(query, found, false, failed);
  }

  /** What a span says without its details. */
  private outline(span: Span): string[] {
    const { label } = lookOf(span.state);
    const instruction = span.kind === "operator" ? this.app.run.instructionOf(span.path) : "";
    const title = span.kind === "operator" ? this.app.run.nameOf(span.name) : "";
    return [span.name, title, span.kind, span.state, label, span.error ?? "", span.status ?? "", instruction];
  }

  private show(query: string, found: readonly Found[], more: boolean, failed: string): void {
    const { run, view } = this.app;
    const hits = (view.hits = new Set<string>());
    const hitSpans = (view.hitSpans = new Set<number>());
    for (const { span } of found) {
      const path = run.owner(span).path;
      for (let end = 1; end <= path.length; end++) {
        hits.add(keyOf(path.slice(0, end)));
        hits.add(keyOf([...path.slice(0, end - 1), path[end - 1]?.replace(NUMBER, "") ?? ""]));
      }
      for (let each: Span | undefined = span; each; each = run.parent(each)) hitSpans.add(each.id);
    }
    const shown = found.slice(0, MOST_FOUND);
    const told = found.length > shown.length ? `${shown.length} of ${count(found.length)} found; the timeline shows all` : plural(found.length, "place found", "places found");
    this.list.hidden = false;
    this.list.replaceChildren(
      make("p.soft", { role: "status", textContent: more ? `${told}, searching what was said …` : failed ? `${told}; the texts cannot be loaded: ${failed}` : told }),
      ...shown.map(({ span, said }) => make("button.hit", { onclick: () => this.go(span) },
        icon(run.stateOf(span, Infinity, new Set())),
        make("span.name", { dir: "auto", textContent: [...run.namesOf(span.path.slice(0, -1)), span.kind === "operator" ? run.nameOf(span.name) : `${span.path.length ? run.nameOf(span.path.at(-1) ?? "") : "run"} › ${span.kind} ${span.name}`].join(" / ") }),
        make("span.soft", { textContent: span.round > 1 ? ` round ${span.round}` : "" }),
        said ? make("span.snippet", { dir: "auto" }, marked(said, query)) : null)));
    this.app.draw();
  }

  private go(span: Span): void {
    this.list.hidden = true;
    this.app.graph.show(this.app.run.owner(span).path);
    this.app.select(this.app.run.owner(span).path, span.id, true);
    this.app.timeline.show(span);
  }

  clear(): void {
    const { view } = this.app;
    this.turn = {};
    Object.assign(view, { hits: null, hitSpans: null, query: "" });
    this.field.value = "";
    this.list.hidden = true;
    this.app.draw();
  }

  private key(event: KeyboardEvent): void {
    const all: HTMLElement[] = [this.field, ...this.list.querySelectorAll("button")];
    const here = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "ArrowDown") all[Math.min(all.length - 1, here + 1)]?.focus();
    else if (event.key === "ArrowUp") all[Math.max(0, here - 1)]?.focus();
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
function strings(value: unknown, into: string[] = []): string[] {
  if (typeof value === "string") into.push(value);
  else if (typeof value === "number" || typeof value === "bigint") into.push(String(value));
  else if (value && typeof value === "object") for (const [key, each] of Object.entries(value)) if (!UNSAID.has(key)) strings(each, into);
  return into;
}

/** Where in a text it was found. */
function around(said: string, query: string): string {
  const at = said.toLowerCase().indexOf(query);
  const begin = Math.max(0, at - 30);
  return `${begin ? "…" : ""}${said.slice(begin, at + query.length + 60)}`;
}

function marked(said: string, query: string): Child[] {
  const at = said.toLowerCase().indexOf(query);
  return [said.slice(0, at), make("mark", { textContent: said.slice(at, at + query.length) }), said.slice(at + query.length)];
}
