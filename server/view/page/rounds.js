// The rounds side by side: each one's verdict and faults, who ran again, what that cost, and what it changed.

const MOST_COMPARISONS = 30;
const OPTIONAL = new Set(["Score", "Lesson", "Not verified", "Runs again, too", "Kept, input unchanged", "Cost"]); // rows that are left out while empty

class Rounds {
  constructor(app) {
    this.app = app;
    this.pane = byId("rounds");
    this.where = null; // the key of the workflow whose rounds are shown
  }

  /** The workflows of which more than one round was made; the run's own always. */
  places() {
    return [...this.app.run.rounds].filter(([key, rounds]) => key === "[]" || rounds.length > 1);
  }

  async draw() {
    const { run, view, source } = this.app;
    if (view.tab !== "rounds" || !run.root) return;
    const places = this.places();
    this.where ??= (places.find(([, rounds]) => rounds.length > 1) ?? places[0])?.[0];
    const looks = JSON.stringify([this.where, places.length, run.rounds.get(this.where)?.map((round) => [round.id, round.end])]);
    if (looks === this.shown) return;
    this.shown = looks;
    let told;
    try {
      told = await source.details();
    } catch (error) {
      this.pane.replaceChildren(make("p.bad", { textContent: `the rounds cannot be loaded: ${error.message}` }));
      this.shown = "";
      return;
    }
    if (looks !== this.shown) return;
    const rounds = run.rounds.get(this.where) ?? [];
    const choice = places.length > 1 ? make("label.choice", {}, "Rounds of ", make("select", {
      onchange: (event) => {
        this.where = event.target.value;
        this.draw();
      },
    }, places.slice(0, 500).map(([key, rounds]) => make("option", { value: key, selected: key === this.where, textContent: `${JSON.parse(key).join(" / ") || run.workflow} (${rounds.length})` })))) : null;
    this.pane.replaceChildren(...[choice, this.table(rounds, told), ...this.comparisons(rounds, told)].filter(Boolean));
  }

  ran(round) {
    return this.app.run.children(round).filter((each) => each.kind === "operator" && each.state !== "skipped");
  }

  table(rounds, told) {
    const { app } = this;
    const of = (round) => told[round.id] ?? {};
    const kept = (round) => (round.kept ?? []).map((id) => make("li", { dir: "auto", textContent: app.run.nameOf(id) }));
    const names = (spans) => make("ul.plain.names", {}, spans.map((span) => make("li", {}, make("button.link", { dir: "auto", textContent: app.run.nameOf(span.name), onclick: () => app.select(span.path, span.id, true) }))));
    const rows = [
      ["Verdict", (round) => make("span", {}, icon(verdictState(round)), ` ${verdictWord(round)}`)],
      ["Score", (round) => (round.score ?? null) === null ? "" : String(round.score)],
      ["Evaluation", (round) => of(round).evaluation ? rich(of(round).evaluation) : ""],
      ["At fault", (round) => faultsOf(of(round).faults ?? [], round.blame ?? []) ?? ""],
      ["Lesson", (round) => (of(round).lesson && !of(round).faults?.length ? rich(of(round).lesson) : "")],
      ["Not verified", (round) => unsureOf(of(round).unsure ?? []) ?? ""],
      ["Runs again, too", (round) => repairsOf(of(round).repairs ?? {}) ?? ""],
      ["Ran", (round) => names(this.ran(round))],
      ["Kept, input unchanged", (round) => (kept(round).length ? make("ul.plain.names", {}, kept(round)) : "")],
      ["Took", (round) => duration((round.end ?? app.end) - round.start)],
      ["Tokens", (round) => tokens(round.usage)],
      ["Cost", (round) => cost(round.usage).replace(/^cost /, "")],
    ].filter(([title, cell]) => !OPTIONAL.has(title) || rounds.some((round) => cell(round)));
    const head = make("tr", {}, make("td"), rounds.map((round) => make("th", { scope: "col", textContent: `Round ${round.name}` })));
    const body = rows.map(([title, cell]) => make("tr", {}, make("th", { scope: "row", textContent: title }), rounds.map((round) => make("td", {}, cell(round)))));
    return make("div.wide", { tabIndex: 0, role: "region", "aria-label": "Rounds side by side" }, make("table.verdicts", {}, make("tbody", {}, head, body)));
  }

  /** For whoever ran again: what it said before and after. */
  comparisons(rounds, told) {
    const { run } = this.app;
    const judges = run.graphAt(JSON.parse(this.where))?.judges ?? [];
    const made = [];
    rounds.slice(1).forEach((round, at) => {
      const blame = rounds[at].blame ?? [];
      const isBlamed = (span) => blame.some((place) => concerns(place, span.name));
      for (const span of this.ran(round).sort((a, b) => isBlamed(b) - isBlamed(a))) {
        if (judges.includes(span.name)) continue;
        const before = (run.byPath.get(span.key) ?? []).filter((each) => each.start < round.start).at(-1);
        if (before) made.push([before, span, (told[rounds[at].id]?.faults ?? []).filter((fault) => concerns(placeOfFault(fault), span.name))]);
      }
    });
    if (!made.length) return [];
    const said = (span) => told[span.id]?.message?.scratchpad ?? told[span.id]?.error ?? "";
    const shown = made.slice(0, MOST_COMPARISONS).map(([before, after, faults]) => {
      const lesson = faults.length ? "" : told[after.id]?.tasks?.at(-1)?.lesson;
      return make("details.section.change", { open: true },
        make("summary", {}, make("span", { dir: "auto", textContent: run.nameOf(after.name) }), make("span.soft", { textContent: ` round ${before.round} → ${after.round}` })),
        faults.length ? make("div.field", {}, make("h4", { textContent: "fault it was told" }), faultsOf(faults, [])) : null,
        lesson ? make("div.field", {}, make("h4", { textContent: "lesson it was given" }), rich(lesson)) : null,
        changes(said(before), said(after)));
    });
    const left = made.length - shown.length;
    return [make("h3", { textContent: "What changed between rounds" }), ...shown, left > 0 ? make("p.soft", { textContent: `${left} more ran again; each one's panel shows what it said.` }) : null];
  }
}
