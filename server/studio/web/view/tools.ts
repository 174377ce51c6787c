// Calls of tools and items of a map, as tables.

import { type Child, icon, make } from "../shared/dom";
import { structured } from "../shared/exact";
import { count, duration } from "../shared/numbers";
import { rich, wide } from "../shared/said";
import type { App } from "./app";
import type { Span, Told } from "./data";
import { isOpen } from "./run";

/** A call of a tool, as a row of the table. */
export interface ToolCall {
  span?: number;
  name: string;
  state?: string;
  took?: string;
  arguments: unknown;
  result?: unknown;
  failed?: boolean;
}

const MOST_ITEMS = 100;

/** A value in a cell: the fields of an object each on a line, texts as they are. */
export function cell(value: unknown): HTMLElement {
  const fields = value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : null;
  if (!fields) return rich(pretty(value));
  if (!fields.length) return make("span.soft", { textContent: "none" });
  return make("dl.fields", {}, fields.flatMap(([name, each]) => [make("dt", { dir: "auto", textContent: name }), make("dd", {}, rich(pretty(each)))]));
}

/** A text that holds JSON as the value it is; numbers and truth as texts. */
export function pretty(said: unknown): unknown {
  if (typeof said === "number" || typeof said === "bigint" || typeof said === "boolean") return String(said);
  return typeof said === "string" ? structured(said) ?? said : said;
}

const tableWith = (label: string, names: readonly string[], rows: Child): HTMLElement =>
  wide(label, make("table.calls", {},
    make("thead", {}, make("tr", {}, names.map((name) => make("th", { scope: "col", textContent: name })))),
    make("tbody", {}, rows)));

export function toolTable(calls: readonly ToolCall[]): HTMLElement {
  return tableWith("Calls of tools", ["tool", "arguments", "result"], calls.map((each) => {
    const row = make("tr", {},
      make("th", { scope: "row" }, each.state ? icon(each.state) : "", " ", make("span", { dir: "auto", textContent: each.name }), each.took ? make("div.soft", { textContent: each.took }) : null),
      make("td", {}, cell(pretty(each.arguments ?? {}))),
      make(`td${each.failed ? ".bad" : ""}`, {}, each.result === undefined ? "" : cell(pretty(each.result))));
    if (each.span !== undefined) row.dataset["span"] = String(each.span);
    return row;
  }));
}

/** Items of a map: what each was given, what came of it. */
export function itemTable(app: App, items: readonly Span[], told: Told, results: readonly unknown[]): Child[] {
  const { run } = app;
  const whole = results.length === items.length;
  let next = 0;
  const rows = items.slice(0, MOST_ITEMS).map((item, at) => {
    const state = run.stateOf(item, app.time, run.askingAt(app.time));
    const result = whole ? results[at] : item.state === "failed" ? undefined : results[next++];
    return make("tr", {},
      make("th", { scope: "row" }, icon(state), " ", make("button.link", { textContent: String(at + 1), "aria-label": `Item ${at + 1}`, onclick: () => app.select(item.path, item.id) }),
        make("div.soft", { textContent: duration((isOpen(item, app.time) ? app.time : item.end ?? app.time) - item.start) })),
      make("td", {}, told[item.id]?.item === undefined ? "" : cell(pretty(told[item.id]?.item))),
      make("td", {}, result === undefined || result === null ? "" : cell(pretty(result))));
  });
  const left = items.length - rows.length;
  return [tableWith("Items", ["item", "input", "output"], rows), left > 0 ? make("p.soft", { textContent: `${count(left)} more; the graph and the timeline show all` }) : null];
}
