// The rounds side by side: each one's verdict and faults, who ran again, what that cost, and what it changed.

import { type Child, byId, icon, make } from "../shared/dom";
import { type Fault, concerns, placeOf } from "../shared/faults";
import { duration, price, tokens } from "../shared/numbers";
import { rich, wide } from "../shared/said";
import type { App } from "./app";
import type { About, Path, Span, Told } from "./data";
import { verdictState } from "./run";
import { changes, faultsOf, repairsOf, unsureOf, verdictWord } from "./verdict";

const MOST_COMPARISONS = 30;
const OPTIONAL = new Set(["Score", "Lesson", "Not verified", "Runs again, too", "Kept, input unchanged", "Cost"]); // rows that are left out while empty

export class Rounds {
  private readonly pane = byId("rounds");
  /** The key of the workflow whose rounds are shown. */
  private where: string | undefined;
  private shown = "";

  constructor(private readonly app: App) {}

  /** The workflows of which more than one round was made; the run's own always. */
  private places(): [string, Span[]][] {
    return [...this.app.run.rounds].filter(([key, rounds]) => key === "[]" || rounds.length > 1);
  }

  async draw(): Promise<void> {
    const { run, view, source } = this.app;
    if (view.tab !== "rounds" || !run.root) return;
    const places = this.places();
    this.where ??= (places.find(([, rounds]) => rounds.length > 1) ?? places[0])?.[0];
    const looks = JSON.stringify([this.where, places.length, run.rounds.get(this.where ?? "")?.map((round) => [round.id, round.end])]);
    if (looks === this.shown) return;
    this.shown = looks;
    let told: Told;
    try {
      told = await source.details();
    } catch (error) {
      this.pane.replaceChildren(make("p.bad", { textContent: `the rounds cannot be loaded: ${(error as Error).message}` }));
      this.shown = "";
      return;
    }
    if (looks !== this.shown) return;
    const rounds = run.rounds.get(this.where ?? "") ?? [];
    const choice = places.length > 1 ? make("label.choice", {}, "Rounds of ", make("select", {
      onchange: (event) => {
        this.where = (event.target as HTMLSelectElement).value;
        void this.draw();
      },
    }, places.slice(0, 500).map(([key, rounds]) => make("option", { value: key, selected: key === this.where, textContent: `${(JSON.parse(key) as string[]).join(" / ") || run.workflow} (${rounds.length})` })))) : null;
    this.pane.replaceChildren(...[choice, this.table(rounds, told), ...this.comparisons(rounds, told)].filter((each) => each !== null));
  }

  private ran(round: Span): Span[] {
    return this.app.run.children(round).filter((each) => each.kind === "operator" && each.state !== "skipped");
  }

  private table(rounds: readonly Span[], told: Told): HTMLElement {
    const { app } = this;
    const of = (round: Span): About => told[round.id] ?? {};
    const kept = (round: Span): HTMLElement[] => (round.kept ?? []).map((id) => make("li", { dir: "auto", textContent: app.run.nameOf(id) }));
    const names = (spans: readonly Span[]): HTMLElement => make("ul.plain.names", {}, spans.map((span) => make("li", {}, make("button.link", { dir: "auto", textContent: app.run.nameOf(span.name), onclick: () => app.select(span.path, span.id, true) }))));
    const all: [string, (round: Span) => Child][] = [
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
      ["Cost", (round) => price(round.usage)],
    ];
    const rows = all.filter(([title, cell]) => !OPTIONAL.has(title) || rounds.some((round) => cell(round)));
    const head = make("tr", {}, make("td"), rounds.map((round) => make("th", { scope: "col", textContent: `Round ${round.name}` })));
    const body = rows.map(([title, cell]) => make("tr", {}, make("th", { scope: "row", textContent: title }), rounds.map((round) => make("td", {}, cell(round)))));
    return wide("Rounds side by side", make("table.verdicts", {}, make("tbody", {}, head, body)));
  }

  /** For whoever ran again: what it said before and after. */
  private comparisons(rounds: readonly Span[], told: Told): (HTMLElement | null)[] {
    const { run } = this.app;
    const judges = run.graphAt(JSON.parse(this.where ?? "[]") as Path)?.judges ?? [];
    const made: [Span, Span, Fault[]][] = [];
    rounds.slice(1).forEach((round, at) => {
      const judged = rounds[at];
      const blame = judged?.blame ?? [];
      const faults = judged ? told[judged.id]?.faults ?? [] : [];
      const isBlamed = (span: Span): number => Number(blame.some((place) => concerns(place, span.name)));
      for (const span of this.ran(round).sort((a, b) => isBlamed(b) - isBlamed(a))) {
        if (judges.includes(span.name)) continue;
        const before = (run.byPath.get(span.key) ?? []).filter((each) => each.start < round.start).at(-1);
        if (before) made.push([before, span, faults.filter((fault) => concerns(placeOf(fault), span.name))]);
      }
    });
    if (!made.length) return [];
    const said = (span: Span): string => told[span.id]?.message?.scratchpad ?? told[span.id]?.error ?? "";
    const shown = made.slice(0, MOST_COMPARISONS).map(([before, after, faults]): HTMLElement => {
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
