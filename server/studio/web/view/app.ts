// The page: one state, and what draws it.

import { byId, icon, make, sign } from "../shared/dom";
import { cost, duration, plural, tokens } from "../shared/numbers";
import { STATES, lookOf } from "../shared/states";
import { turnTheme } from "../shared/theme";
import type { Path, Picture, Span } from "./data";
import { GraphView } from "./graph";
import { Panel } from "./panel";
import { Replay } from "./replay";
import { Rounds } from "./rounds";
import { NUMBER, Run, keyOf, verdictState } from "./run";
import { Search } from "./search";
import { SIGNS } from "./signs";
import type { Source } from "./source";
import { Timeline } from "./timeline";
import { verdictWord } from "./verdict";

const KEYS: readonly [key: string, what: string][] = [
  ["/", "search"], ["space", "play or pause"], [", .", "to the change before, to the next"], ["arrow keys", "along the edges; in the timeline, rows and folds"],
  ["Enter", "open the details"], ["u", "unfold or fold a workflow or a map"], ["Esc", "close"], ["f", "fit"], ["+ −", "larger, smaller; so does ctrl and the wheel"], ["< >", "in the timeline: earlier, later"],
  ["1 2 3 4", "run, graph, timeline, rounds"], ["t", "light or dark"], ["?", "this"],
];

const NARROW = matchMedia("(max-width: 899px)");

/** An operator, by its path, and the span that was chosen, if one was. */
export interface Selected {
  path: Path;
  span: number | null;
}

interface View {
  /** Seconds since the epoch; null for the end, or for now. */
  time: number | null;
  selected: Selected | null;
  /** Keys of the workflows that are unfolded, and the item of each map that is shown. */
  unfolded: Set<string>;
  chosen: Map<string, string>;
  tab: string;
  query: string;
  /** Keys of the operators, and ids of the spans, that a search has found. */
  hits: Set<string> | null;
  hitSpans: Set<number> | null;
}

export class App {
  readonly run = new Run();
  readonly view: View = { time: null, selected: null, unfolded: new Set(), chosen: new Map(), tab: "both", query: "", hits: null, hitSpans: null };
  readonly graph = new GraphView(this);
  readonly timeline = new Timeline(this);
  readonly panel = new Panel(this);
  private readonly rounds = new Rounds(this);
  private readonly search = new Search(this);
  private readonly replay: Replay;
  private readonly cancelButton = byId<HTMLButtonElement>("cancel");
  private last = "both";
  private due: number | null = null;
  private totals = "";
  private sure: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly source: Source) {
    this.replay = new Replay(this);
    this.listen();
  }

  start(): void {
    this.source.open((picture) => this.merge(picture), () => this.drawSoon());
    setInterval(() => this.following && !document.hidden && this.drawSoon(), 500);
  }

  private merge(picture: Picture): void {
    this.run.merge(picture);
    this.run.cut = !this.source.live && !this.run.ended;
    if (!this.view.selected && this.run.root) this.selectNamed();
    if (!this.view.selected && this.run.root && !NARROW.matches) this.view.selected = { path: [], span: null };
    this.drawSoon();
  }

  /** Select the operator that the address names, as the studio's link to it does. */
  private selectNamed(): void {
    const id = new URLSearchParams(location.hash.slice(1)).get("node");
    const span = id && this.run.spans.find((each) => each.kind === "operator" && each.name.replace(NUMBER, "") === id);
    if (!span) return;
    this.select(span.path);
    setTimeout(() => this.graph.show(span.path)); // once it is drawn
  }

  /** Whether a person can answer, or cancel, from here. */
  may(what: string): boolean {
    return this.source.live && !this.run.ended && this.run.can.includes(what);
  }

  /** Whether the run goes on, and the page shows it. */
  get following(): boolean {
    return this.source.live && !this.run.ended && Boolean(this.run.root);
  }

  /** The last moment that is known: the end, or now. */
  get end(): number {
    const { run } = this;
    return this.following ? run.now + (performance.now() - run.heard) / 1000 : Math.max(run.now, run.root?.end ?? 0);
  }

  get time(): number {
    return this.view.time ?? this.end;
  }

  /** Which view is on: on a narrow page the graph stands alone. */
  get tab(): string {
    return this.view.tab === "both" && NARROW.matches ? "graph" : this.view.tab;
  }

  goTo(time: number | null): void {
    this.view.time = time === null || (time >= this.end && !this.following) ? null : time;
    this.drawSoon();
  }

  select(path: Path, span: number | null = null, wanted = false): void {
    this.view.selected = { path, span };
    this.panel.wanted = wanted;
    if (NARROW.matches) this.show("panel");
    this.drawSoon();
  }

  unselect(): void {
    const path = this.view.selected?.path;
    this.view.selected = { path: [], span: null };
    if (this.view.tab === "panel") this.show(this.last);
    this.drawSoon();
    if (path) this.graph.nodes.get(keyOf(path))?.card.focus({ preventScroll: true });
  }

  show(tab: string): void {
    if (tab === "panel") this.last = this.view.tab === "panel" ? this.last : this.view.tab;
    if (tab === "panel" && !this.view.selected) this.view.selected = { path: [], span: null };
    this.view.tab = tab;
    document.body.dataset["tab"] = tab;
    this.drawSoon();
  }

  drawSoon(): void {
    this.due ??= requestAnimationFrame(() => {
      this.due = null;
      this.draw();
    });
  }

  draw(): void {
    this.drawHead();
    if (!this.run.root) return;
    this.graph.draw();
    this.timeline.draw();
    this.replay.draw();
    void this.rounds.draw();
    void this.panel.draw();
    if (!performance.getEntriesByName("first-picture").length) performance.mark("first-picture");
  }

  private drawHead(): void {
    const { run, source } = this;
    const root = run.root;
    const time = this.time;
    const links: Record<string, string> = { lost: "connection lost, trying again …", connecting: "connecting …", live: "" };
    const link = run.ended || !source.live ? "" : links[source.connection] ?? source.connection; // why the page is served no longer
    byId("connection").textContent = link || run.note || (root ? "" : "waiting for the run to begin …");
    for (const tab of this.tabs) tab.setAttribute("aria-selected", String(tab.dataset["tab"] === this.tab));
    if (!root) return;
    const asking = run.askingAt(time);
    const state = run.stateOf(root, time, asking);
    document.title = `${lookOf(state).label}: ${run.workflow}`;
    set(byId("workflow"), run.workflow);
    const badge = byId("state");
    if (badge.dataset["state"] !== state) {
      badge.dataset["state"] = state;
      badge.replaceChildren(icon(state), ` ${lookOf(state).label}`);
    }
    this.drawTotals(root, time);
    this.drawGoal();
    const cancel = this.cancelButton;
    cancel.hidden = !this.may("cancel");
    if (cancel.hidden && cancel.disabled) this.askWhetherToCancel(); // another run may follow
    byId("legend").hidden = !run.critical.size;
    const question = this.may("answer") ? run.questions.find((each) => each.end === null) : null;
    const alert = byId("alert");
    const trouble = question ? `q${question.id}` : run.cut ? "cut" : root.error && time >= (root.end ?? Infinity) ? "error" : "";
    if (alert.dataset["of"] !== trouble) {
      alert.dataset["of"] = trouble;
      alert.hidden = !trouble;
      const told: (string | Node)[] = question
        ? [icon("asking"), " ", make("b", { dir: "auto", textContent: this.run.namesOf(question.path).join(" / ") }), " asks: ", make("span.asks", { dir: "auto", textContent: question.question ?? "" }), " ", make("button.main", { textContent: "Answer", onclick: () => this.select(question.path, question.id, true) })]
        : trouble === "cut" ? [icon("cut"), " The file ends before the run does: what came later is not in it."]
        : [icon(root.state === "stopped" ? "stopped" : "failed"), " ", make("span", { dir: "auto", textContent: (root.error ?? "").split("\n")[0] })];
      alert.className = trouble === "error" ? "bad" : "";
      alert.replaceChildren(...(trouble ? told : []));
      if (question) this.bringToView(question);
    }
  }

  /** Show who asks; and the form, where the reader looks at nothing else. */
  private bringToView(question: Span): void {
    if (this.view.time !== null) return;
    setTimeout(() => this.graph.show(question.path)); // once it is drawn
    if (!this.view.selected?.path.length && !NARROW.matches) this.select(question.path, question.id);
  }

  private drawTotals(root: Span, time: number): void {
    const { run } = this;
    const rounds = (run.rounds.get("[]") ?? []).filter((round) => round.start <= time);
    const usage = this.view.time === null ? root.usage : run.usageBy(time, root);
    const totals = [
      duration((root.end !== null && root.end <= time ? root.end : time) - root.start),
      usage.calls ? plural(usage.calls, "model call") : "", tokens(usage), cost(usage),
    ].filter(Boolean).join(" · ");
    const looks = JSON.stringify([totals, rounds.map((round) => [round.status, round.end !== null && round.end <= time])]);
    if (looks === this.totals) return;
    this.totals = looks;
    const chips = rounds.length > 1 || (rounds[0]?.status ?? "SUCCESS") !== "SUCCESS" ? rounds.slice(-8).map((round) => {
      const over = round.end !== null && round.end <= time;
      const [state, word] = over ? [verdictState(round), verdictWord(round)] as const : ["running", "going on"] as const;
      return make("button.chip", { title: `Round ${round.name}: ${word}`, onclick: () => this.show("rounds") }, icon(state), `Round ${round.name}`);
    }) : [];
    byId("totals").replaceChildren(...chips, make("span.soft", { textContent: totals }));
  }

  private drawGoal(): void {
    const goal = [this.run.goal, this.run.inputs].filter(Boolean).join(" · ");
    const element = byId("goal");
    if (element.dataset["of"] === goal) return;
    element.dataset["of"] = goal;
    element.replaceChildren(make("button.goal", {
      textContent: goal.slice(0, 1000), title: this.run.inputs ? "All inputs" : "All of the goal", dir: "auto", onclick: () => this.select([], null, true),
    }));
    element.hidden = !goal;
  }

  private get tabs(): NodeListOf<HTMLElement> {
    return document.querySelectorAll<HTMLElement>("#tabs button");
  }

  private listen(): void {
    for (const tab of this.tabs) tab.onclick = () => this.show(tab.dataset["tab"] ?? "both");
    byId("tabs").addEventListener("keydown", (event) => {
      const tabs = [...this.tabs].filter((each) => each.offsetWidth);
      const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      const to = tabs[(tabs.indexOf(document.activeElement as HTMLElement) + by + tabs.length) % tabs.length];
      if (!by || !to) return;
      to.focus();
      this.show(to.dataset["tab"] ?? "both");
    });
    byId("theme").append(sign(SIGNS.theme));
    byId("theme").onclick = turnTheme;
    byId("help").onclick = () => this.help();
    this.cancelButton.onclick = () => void this.cancel();
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!(event.target as Element).closest(".search")) byId("found").hidden = true;
    });
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as Element;
    if (event.ctrlKey || event.metaKey || event.altKey || byId<HTMLDialogElement>("keys").open) return;
    if (event.key === "Escape") {
      if (this.view.query) this.search.clear();
      else this.unselect();
      return;
    }
    if (target.closest("input:not([type=range]), textarea, select")) return;
    if (event.key === " " && target.closest("button, summary")) return;
    const tabs: Record<string, string> = { 1: "both", 2: "graph", 3: "timeline", 4: "rounds" };
    const keys: Record<string, () => void> = {
      "/": () => byId("search").focus(), " ": () => this.replay.toggle(), ",": () => this.replay.step(-1), ".": () => this.replay.step(1),
      f: () => { this.graph.fit(); this.timeline.fit(); }, "+": () => this.graph.zoom(1), "=": () => this.graph.zoom(1), "-": () => this.graph.zoom(-1),
      t: turnTheme, "?": () => this.help(),
    };
    const tab = tabs[event.key];
    const act = keys[event.key] ?? (tab && (() => this.show(tab)));
    if (!act) return;
    event.preventDefault();
    act();
  }

  private async cancel(): Promise<void> {
    const button = this.cancelButton;
    if (button.dataset["sure"] !== "yes") {
      button.dataset["sure"] = "yes";
      button.textContent = "Really cancel?";
      this.sure = setTimeout(() => this.askWhetherToCancel(), 4000);
      return;
    }
    clearTimeout(this.sure);
    try {
      await this.source.cancel();
      if (!this.may("cancel")) return; // it has ended meanwhile
      button.textContent = "Cancelling …";
      button.disabled = true;
    } catch (error) {
      byId("connection").textContent = `not cancelled: ${(error as Error).message}`;
      this.askWhetherToCancel();
    }
  }

  private askWhetherToCancel(): void {
    const button = this.cancelButton;
    Object.assign(button, { textContent: "Cancel run", disabled: false });
    button.dataset["sure"] = "";
  }

  private help(): void {
    const dialog = byId<HTMLDialogElement>("keys");
    const states = Object.entries(STATES).map(([state, { label }]) => make("li", {}, icon(state), ` ${label}`));
    dialog.replaceChildren(
      make("h2", { textContent: "Keys" }), make("dl", {}, KEYS.flatMap(([key, what]) => [make("dt", { textContent: key }), make("dd", { textContent: what })])),
      make("h2", { textContent: "Marks" }), make("ul.plain.marks", {}, states,
        make("li", {}, make("span.mark-critical"), " on the critical path: what made the run last as long as it did"),
        make("li", {}, make("span.mark.call"), " a model call"), make("li", {}, make("span.mark.pause"), " a pause before the next attempt"),
        make("li", {}, make("span.mark.asked"), " waits for a person")),
      make("form", { method: "dialog" }, make("button.main", { textContent: "Close" })),
    );
    dialog.showModal();
  }
}

function set(element: HTMLElement, said: string): void {
  if (element.textContent !== said) element.textContent = said;
}
