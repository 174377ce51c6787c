// The list of runs: filters, and a row for each. The filters stand in the address, so that a list can be kept or sent.

const PAUSE = 5000; // milliseconds between looks
const LOOKS = { running: "running", paused: "asking", finished: "done", failed: "failed", cancelled: "stopped", interrupted: "cut" };
const WORDS = { paused: "asks a person", interrupted: "interrupted" };
const PERIODS = [["", "any time"], ["3600", "last hour"], ["86400", "last 24 hours"], ["604800", "last 7 days"], ["2592000", "last 30 days"]];

const verdictIn = (run) => {
  const word = run.verdict.toLowerCase().replaceAll("_", " ");
  return !word || word === "success" ? word : `rejected (${word})`;
};
const costOf = (run) => (run.usage.calls ? cost(run.usage).replace(/^cost /, "") : "");

const COLUMNS = [
  { name: "Status", of: (run) => run.state, cell: (run) => make("span.badge", {}, icon(LOOKS[run.state] ?? "idle"), ` ${WORDS[run.state] ?? run.state}`) },
  { name: "Workflow", of: (run) => run.workflow, cell: (run) => make("span", { dir: "auto", textContent: run.workflow }) },
  { name: "Run", of: (run) => run.id, cell: (run) => make("a", { href: `runs/${encodeURIComponent(run.id)}/`, dir: "auto", textContent: run.id }) },
  { name: "Started", of: (run) => run.created, cell: (run) => make("time", { textContent: moment(run.created) }) },
  { name: "Took", of: (run) => run.seconds, cell: (run) => duration(run.seconds), number: true },
  { name: "Operators", of: (run) => run.done, cell: (run) => `${count(run.done)} of ${count(run.total)}`, number: true },
  { name: "Cost", of: (run) => run.usage.cost, cell: costOf, number: true },
  { name: "Verdict", of: verdictIn, cell: (run) => run.error ? make("span.bad.error-line", { dir: "auto", title: run.error, textContent: run.error.split("\n")[0] }) : verdictIn(run) },
];

function moment(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleString("sv"); // 2026-01-31 12:00:00, in every country
}

class List {
  constructor() {
    this.runs = JSON.parse(byId("runs-data").textContent);
    const given = new URLSearchParams(location.hash.slice(1));
    this.filters = Object.fromEntries(["status", "workflow", "time", "cost", "verdict", "sort"].map((name) => [name, given.get(name) ?? ""]));
    this.controls = {
      status: make("select"), workflow: make("input", { type: "search", autocomplete: "off", placeholder: "part of a name" }),
      time: make("select", {}, PERIODS.map(([value, textContent]) => make("option", { value, textContent }))),
      cost: make("input", { type: "number", min: "0", step: "any", placeholder: "USD" }), verdict: make("select"),
    };
    const labels = { status: "Status", workflow: "Workflow", time: "Started", cost: "Cost at least", verdict: "Verdict" };
    byId("filters").append(
      ...Object.entries(this.controls).map(([name, control]) => make("label", {}, labels[name], control)),
      make("button", { textContent: "Clear", onclick: () => this.clear() }));
    for (const [name, control] of Object.entries(this.controls)) control.setAttribute("aria-label", labels[name]);
    for (const [name, control] of Object.entries(this.controls)) control.addEventListener("input", () => this.filter(name, control.value));
    this.draw();
    this.look();
  }

  filter(name, value) {
    this.filters[name] = value;
    const said = new URLSearchParams(Object.entries(this.filters).filter(([, each]) => each));
    history.replaceState(null, "", `#${said}`);
    this.draw();
  }

  clear() {
    for (const name of Object.keys(this.controls)) this.filters[name] = "";
    this.filter("status", "");
  }

  /** The runs that the filters let through, in the order that was chosen; the newest first. */
  get shown() {
    const { status, workflow, time, cost: least, verdict, sort } = this.filters;
    const since = time ? Date.now() / 1000 - Number(time) : -Infinity;
    const shown = this.runs.filter((run) => (!status || run.state === status) && (!verdict || verdictIn(run) === verdict)
      && run.workflow.toLowerCase().includes(workflow.trim().toLowerCase()) && run.created >= since && run.usage.cost >= Number(least || 0));
    const column = COLUMNS.find(({ name }) => name === sort.replace(/^-/, ""));
    if (!column) return shown;
    const by = sort.startsWith("-") ? -1 : 1;
    return shown.sort((a, b) => by * (column.of(a) < column.of(b) ? -1 : column.of(a) > column.of(b) ? 1 : 0));
  }

  draw() {
    const choices = (name, values, word) => this.options(this.controls[name], [["", "any"], ...[...new Set(values)].sort().map((each) => [each, word(each)])], this.filters[name]);
    choices("status", this.runs.map((run) => run.state), (state) => WORDS[state] ?? state);
    choices("verdict", this.runs.map(verdictIn).filter(Boolean), (each) => each);
    for (const name of ["workflow", "time", "cost"]) if (this.controls[name].value !== this.filters[name]) this.controls[name].value = this.filters[name];
    const { shown } = this;
    byId("listed").textContent = shown.length === this.runs.length ? plural(shown.length, "run") : `${count(shown.length)} of ${plural(this.runs.length, "run")}`;
    const looks = JSON.stringify([shown, this.filters.sort]);
    if (looks === this.looks) return;
    this.looks = looks;
    const focused = byId("runs").contains(document.activeElement) ? document.activeElement.dataset.key ?? document.activeElement.getAttribute("href") : null;
    byId("runs").replaceChildren(shown.length ? this.table(shown) : make("p.soft", { textContent: this.runs.length ? "No run passes these filters." : "No runs yet." }));
    if (focused) [...byId("runs").querySelectorAll("a, button")].find((each) => (each.dataset.key ?? each.getAttribute("href")) === focused)?.focus();
  }

  options(select, options, value) {
    const looks = JSON.stringify(options);
    if (looks !== select.dataset.looks) select.replaceChildren(...options.map(([each, textContent]) => make("option", { value: each, textContent })));
    select.dataset.looks = looks;
    select.value = value;
  }

  table(shown) {
    const { sort } = this.filters;
    const heads = COLUMNS.map(({ name, number }) => {
      const way = sort === name ? "ascending" : sort === `-${name}` ? "descending" : undefined;
      const button = make("button.link", { textContent: `${name}${way ? (way === "ascending" ? " ↑" : " ↓") : ""}`, onclick: () => this.filter("sort", sort === name ? `-${name}` : sort === `-${name}` ? "" : name) });
      button.dataset.key = name;
      return make(`th${number ? ".number" : ""}`, { scope: "col", "aria-sort": way }, button);
    });
    return make("table", {}, make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, shown.map((run) => make("tr", {}, COLUMNS.map(({ cell, number }) => make(`td${number ? ".number" : ""}`, {}, cell(run)))))));
  }

  async look() {
    const again = setTimeout(() => this.look(), PAUSE);
    if (document.hidden) return;
    try {
      const response = await fetch("data/runs", { cache: "no-store" });
      const told = await response.json();
      if (response.status === 404) clearTimeout(again); // the server was restarted: it has another address
      if (!response.ok) throw new Error(told.error);
      this.runs = told;
      byId("connection").textContent = "";
    } catch (error) {
      byId("connection").textContent = `not up to date: ${error.message}`;
    }
    this.draw();
  }
}

new List();
