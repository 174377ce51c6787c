// The list of runs: filters, and a row for each. The filters stand in the address, so that a list can be kept or sent.

import { type Child, byId, icon, make } from "../shared/dom";
import { type Usage, count, duration, plural, price } from "../shared/numbers";
import { stateInWords, verdict } from "../shared/states";
import { keptTheme, setTheme } from "../shared/theme";
import "./page.css";

/** A run of the list. */
interface Listed {
  id: string;
  workflow: string;
  state: string;
  done: number;
  total: number;
  created: number;
  seconds: number;
  usage: Usage;
  verdict: string;
  error: string;
}

interface Column {
  name: string;
  of(run: Listed): string | number;
  cell(run: Listed): Child;
  number?: boolean;
}

const PAUSE = 5000; // milliseconds between looks
const LOOKS: Record<string, string> = { paused: "asking", finished: "done" };
const lookOf = (state: string): string => LOOKS[state] ?? state;
const PERIODS = [["", "any time"], ["3600", "last hour"], ["86400", "last 24 hours"], ["604800", "last 7 days"], ["2592000", "last 30 days"]];

const verdictIn = (run: Listed): string => run.verdict && verdict(run.verdict);

const COLUMNS: readonly Column[] = [
  { name: "Status", of: (run) => run.state, cell: (run) => make("span.badge", {}, icon(lookOf(run.state)), ` ${stateInWords(lookOf(run.state))}`) },
  { name: "Workflow", of: (run) => run.workflow, cell: (run) => make("span", { dir: "auto", textContent: run.workflow }) },
  { name: "Run", of: (run) => run.id, cell: (run) => make("a", { href: `runs/${encodeURIComponent(run.id)}/`, dir: "auto", textContent: run.id }) },
  { name: "Started", of: (run) => run.created, cell: (run) => make("time", { textContent: moment(run.created) }) },
  { name: "Took", of: (run) => run.seconds, cell: (run) => duration(run.seconds), number: true },
  { name: "Operators", of: (run) => run.done, cell: (run) => `${count(run.done)} of ${count(run.total)}`, number: true },
  { name: "Cost", of: (run) => run.usage.cost ?? 0, cell: (run) => price(run.usage), number: true },
  { name: "Verdict", of: verdictIn, cell: (run) => run.error ? make("span.bad.error-line", { dir: "auto", title: run.error, textContent: run.error.split("\n")[0] }) : verdictIn(run) },
];

function moment(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleString("sv"); // 2026-01-31 12:00:00, in every country
}

const FILTERS = { status: "Status", workflow: "Workflow", time: "Started", cost: "Cost at least", verdict: "Verdict" };

type Filter = keyof typeof FILTERS;
const NAMES = Object.keys(FILTERS) as Filter[];

class List {
  private runs = JSON.parse(byId("runs-data").textContent) as Listed[];
  private readonly filters: Record<Filter | "sort", string>;
  private readonly controls: { [Name in Filter]: Name extends "status" | "time" | "verdict" ? HTMLSelectElement : HTMLInputElement };
  private looks = "";

  constructor() {
    const given = new URLSearchParams(location.hash.slice(1));
    this.filters = Object.fromEntries([...NAMES, "sort"].map((name) => [name, given.get(name) ?? ""])) as Record<Filter | "sort", string>;
    this.controls = {
      status: make("select"), workflow: make("input", { type: "search", autocomplete: "off", placeholder: "part of a name" }),
      time: make("select", {}, PERIODS.map(([value, textContent]) => make("option", { value, textContent }))),
      cost: make("input", { type: "number", min: "0", step: "any", placeholder: "USD" }), verdict: make("select"),
    };
    byId("filters").append(
      ...NAMES.map((name) => make("label", {}, FILTERS[name], this.controls[name])),
      make("button", { textContent: "Clear", onclick: () => this.clear() }));
    for (const name of NAMES) {
      const control = this.controls[name];
      control.setAttribute("aria-label", FILTERS[name]);
      control.addEventListener("input", () => this.filter(name, control.value));
    }
    this.draw();
    void this.look();
  }

  private filter(name: Filter | "sort", value: string): void {
    this.filters[name] = value;
    const said = new URLSearchParams(Object.entries(this.filters).filter(([, each]) => each));
    history.replaceState(null, "", `#${said}`);
    this.draw();
  }

  private clear(): void {
    for (const name of NAMES) this.filters[name] = "";
    this.filter("status", "");
  }

  /** The runs that the filters let through, in the order that was chosen; the newest first. */
  private get shown(): Listed[] {
    const { status, workflow, time, cost: least, verdict, sort } = this.filters;
    const since = time ? Date.now() / 1000 - Number(time) : -Infinity;
    const shown = this.runs.filter((run) => (!status || run.state === status) && (!verdict || verdictIn(run) === verdict)
      && run.workflow.toLowerCase().includes(workflow.trim().toLowerCase()) && run.created >= since && (run.usage.cost ?? 0) >= Number(least || 0));
    const column = COLUMNS.find(({ name }) => name === sort.replace(/^-/, ""));
    if (!column) return shown;
    const by = sort.startsWith("-") ? -1 : 1;
    return shown.sort((a, b) => by * (column.of(a) < column.of(b) ? -1 : column.of(a) > column.of(b) ? 1 : 0));
  }

  private draw(): void {
    const choices = (name: "status" | "verdict", values: readonly string[], word: (value: string) => string): void => this.options(this.controls[name], [["", "any"], ...[...new Set(values)].sort().map((each) => [each, word(each)] as const)], this.filters[name]);
    choices("status", this.runs.map((run) => run.state), (state) => stateInWords(lookOf(state)));
    choices("verdict", this.runs.map(verdictIn).filter(Boolean), (each) => each);
    for (const name of ["workflow", "time", "cost"] as const) if (this.controls[name].value !== this.filters[name]) this.controls[name].value = this.filters[name];
    const { shown } = this;
    byId("listed").textContent = shown.length === this.runs.length ? plural(shown.length, "run") : `${count(shown.length)} of ${plural(this.runs.length, "run")}`;
    const looks = JSON.stringify([shown, this.filters.sort]);
    if (looks === this.looks) return;
    this.looks = looks;
    const keyOf = (each: Element | null): string | null => each && ((each as HTMLElement).dataset["key"] ?? each.getAttribute("href"));
    const focused = byId("runs").contains(document.activeElement) ? keyOf(document.activeElement) : null;
    byId("runs").replaceChildren(shown.length ? this.table(shown) : make("p.soft", { textContent: this.runs.length ? "No run passes these filters." : "No runs yet." }));
    if (focused) [...byId("runs").querySelectorAll<HTMLElement>("a, button")].find((each) => keyOf(each) === focused)?.focus();
  }

  private options(select: HTMLSelectElement, options: readonly (readonly [value: string, textContent: string])[], value: string): void {
    const looks = JSON.stringify(options);
    if (looks !== select.dataset["looks"]) select.replaceChildren(...options.map(([each, textContent]) => make("option", { value: each, textContent })));
    select.dataset["looks"] = looks;
    select.value = value;
  }

  private table(shown: readonly Listed[]): HTMLElement {
    const { sort } = this.filters;
    const heads = COLUMNS.map(({ name, number }) => {
      const way = sort === name ? "ascending" : sort === `-${name}` ? "descending" : undefined;
      const button = make("button.link", { textContent: `${name}${way ? (way === "ascending" ? " ↑" : " ↓") : ""}`, onclick: () => this.filter("sort", sort === name ? `-${name}` : sort === `-${name}` ? "" : name) });
      button.dataset["key"] = name;
      return make(`th${number ? ".number" : ""}`, { scope: "col", "aria-sort": way }, button);
    });
    return make("table", {}, make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, shown.map((run) => make("tr", {}, COLUMNS.map(({ cell, number }) => make(`td${number ? ".number" : ""}`, {}, cell(run)))))));
  }

  private async look(): Promise<void> {
    const again = setTimeout(() => void this.look(), PAUSE);
    if (document.hidden) return;
    try {
      const response = await fetch("data/runs", { cache: "no-store" });
      const told = (await response.json()) as Listed[] & { error?: string };
      if (response.status === 404) clearTimeout(again); // the server was restarted: it has another address
      if (!response.ok) throw new Error(told.error);
      this.runs = told;
      byId("connection").textContent = "";
    } catch (error) {
      byId("connection").textContent = `not up to date: ${(error as Error).message}`;
    }
    this.draw();
  }
}

setTheme(keptTheme());
new List();
