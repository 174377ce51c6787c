// The rounds side by side: each one's verdict and lesson, who ran again, and what the lesson changed.

const MOST_COMPARISONS = 30;

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
    const usage = (round) => this.ran(round).reduce((sum, each) => sum + each.usage.prompt_tokens + each.usage.completion_tokens, 0);
    const names = (spans) => make("ul.plain.names", {}, spans.map((span) => make("li", {}, make("button.link", { dir: "auto", textContent: app.run.nameOf(span.name), onclick: () => app.select(span.path, span.id, true) }))));
    const rows = [
      ["Verdict", (round) => make("span", {}, icon(verdictState(round)), ` ${verdictWord(round)}`)],
      ["Score", (round) => (round.score ?? null) === null ? "" : String(round.score)],
      ["Evaluation", (round) => of(round).evaluation ? rich(of(round).evaluation) : ""],
      ["Lesson", (round) => of(round).lesson ? rich(of(round).lesson) : ""],
      ["Blamed", (round) => make("ul.plain", {}, (round.blame ?? []).map((id) => make("li", { dir: "auto", textContent: id })))],
      ["Ran", (round) => names(this.ran(round))],
      ["Took", (round) => duration((round.end ?? app.end) - round.start)],
      ["Tokens", (round) => (usage(round) ? count(usage(round)) : "")],
    ];
    const head = make("tr", {}, make("td"), rounds.map((round) => make("th", { scope: "col", textContent: `Round ${round.name}` })));
    const body = rows.map(([title, cell]) => make("tr", {}, make("th", { scope: "row", textContent: title }), rounds.map((round) => make("td", {}, cell(round)))));
    return make("div.wide", { tabIndex: 0, role: "region", "aria-label": "Rounds side by side" }, make("table.verdicts", {}, make("tbody", {}, head, body)));
  }

  /** For whoever ran again: what it said before and after. */
  comparisons(rounds, told) {
    const { run } = this.app;
    const judges = run.graphAt(JSON.parse(this.where))?.judges ?? [];
    const made = [];
    for (const round of rounds.slice(1)) {
      for (const span of this.ran(round)) {
        if (judges.includes(span.name)) continue;
        const before = (run.byPath.get(span.key) ?? []).filter((each) => each.start < round.start).at(-1);
        if (before) made.push([before, span]);
      }
    }
    if (!made.length) return [];
    const said = (span) => told[span.id]?.message?.scratchpad ?? told[span.id]?.error ?? "";
    const shown = made.slice(0, MOST_COMPARISONS).map(([before, after]) => {
      const lesson = told[after.id]?.tasks?.at(-1)?.lesson;
      return make("details.section.change", { open: true },
        make("summary", {}, make("span", { dir: "auto", textContent: run.nameOf(after.name) }), make("span.soft", { textContent: ` round ${before.round} → ${after.round}` })),
        lesson ? make("div.field", {}, make("h4", { textContent: "lesson it was given" }), rich(lesson)) : null,
        changes(said(before), said(after)));
    });
    const left = made.length - shown.length;
    return [make("h3", { textContent: "What the lessons changed" }), ...shown, left > 0 ? make("p.soft", { textContent: `${left} more ran again; each one's panel shows what it said.` }) : null];
  }
}
