// The timeline: a row per span, folded and unfolded like a tree; only the rows in sight are made.

import { type Child, byId, icon, make, sign } from "../shared/dom";
import { clock, duration, plural } from "../shared/numbers";
import { lookOf } from "../shared/states";
import type { App } from "./app";
import type { Span } from "./data";
import { SIGNS } from "./signs";

const ROW = 26;
const AXIS = 28;
const FOLD = 20; // the width of what folds a row, with some room
const FAILURES = 5; // letters of the mark of failed calls
const MOST_MEASURED = 2000;
const MOST_IN_A_BAR = 200;

interface Row {
  span: Span;
  level: number;
  open: boolean;
  foldable: boolean;
}

export class Timeline {
  private readonly pane = byId("timeline");
  /** Whether a span is unfolded, where that is not as usual, by its id. */
  private readonly folds = new Map<number, boolean>();
  /** The row that has the focus. */
  private at = 0;
  /** The part of the time that is shown, in seconds, where it is not all of the run. */
  private window: readonly [from: number, to: number] | null = null;
  private list: Row[] = [];
  private listedFor = "";
  private folded = 0;
  private readonly axis: HTMLElement;
  private readonly rows: HTMLElement;
  private readonly space = make("div.space");
  private readonly playhead = make("div.playhead", { "aria-hidden": "true" });
  private readonly scroller: HTMLElement;

  constructor(private readonly app: App) {
    this.axis = make("div.axis", { title: "Click to see the run at that time; ctrl and the wheel for a part of it, shift and the wheel to move" });
    this.rows = make("div.rows", { role: "tree", tabIndex: 0, "aria-label": "What took how long; arrow keys move, fold and unfold" });
    this.rows.append(this.space);
    this.scroller = make("div.scroller", {}, this.axis, this.rows);
    this.pane.replaceChildren(this.scroller, this.playhead);
    this.listen();
  }

  private listen(): void {
    this.scroller.addEventListener("scroll", () => this.paint());
    this.axis.addEventListener("pointerdown", (event) => this.seek(event));
    this.rows.addEventListener("keydown", (event) => this.key(event));
    this.rows.addEventListener("click", (event) => this.click(event)); // of the rows together, as each is made anew now and then
    this.pane.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.paint()).observe(this.pane);
  }

  private click(event: MouseEvent): void {
    const box = this.rows.getBoundingClientRect();
    const at = Math.floor((event.clientY - box.top) / ROW);
    const row = this.list[at];
    if (!row) return;
    this.at = at;
    const { span, level, open, foldable } = row;
    if (foldable && event.clientX - box.left < indent(level) + FOLD) this.fold(span, !open);
    else this.app.select(this.app.run.owner(span).path, span.id);
  }

  draw(): void {
    const { run, view } = this.app;
    const key = `${run.version}|${run.spans.length}|${this.folded}|${view.hitSpans?.size}|${view.query}`;
    if (key !== this.listedFor) {
      this.listedFor = key;
      this.list = [];
      if (run.root) this.collect(run.root, 0);
      this.at = Math.min(this.at, Math.max(0, this.list.length - 1));
      const longest = Math.max(0, ...this.list.slice(0, MOST_MEASURED).map(({ span, level }) => run.nameOf(span.name).length + 2 * level + (run.failedCalls(span, Infinity).length ? FAILURES : 0)));
      this.scroller.style.setProperty("--longest", String(longest));
    }
    this.paint();
  }

  /** What stands below a span: a workflow's only round is left out. */
  private below(span: Span): readonly Span[] {
    const children = this.app.run.children(span);
    const rounds = children.filter((each) => each.kind === "round");
    const [only, more] = rounds;
    if (!only || more) return children;
    return [...children.filter((each) => each.kind !== "round"), ...this.app.run.children(only)];
  }

  private isOpen(span: Span): boolean {
    return this.folds.get(span.id) ?? ["run", "round"].includes(span.kind);
  }

  private collect(span: Span, level: number): void {
    const { hitSpans } = this.app.view;
    if (hitSpans && !hitSpans.has(span.id)) return;
    const below = this.below(span);
    const open = hitSpans ? below.some((each) => hitSpans.has(each.id)) : this.isOpen(span);
    this.list.push({ span, level, open, foldable: below.length > 0 });
    if (open) for (const each of below) this.collect(each, level + 1);
  }

  private get range(): readonly [from: number, to: number] {
    const { run } = this.app;
    if (this.window) return this.window;
    return [run.start, Math.max(this.app.end, run.start + 0.001)];
  }

  private share(time: number): number {
    const [from, to] = this.range;
    return ((time - from) / (to - from)) * 100;
  }

  private paint(): void {
    if (!this.pane.clientHeight) return;
    const { run } = this.app;
    const height = this.scroller.clientHeight;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 4);
    const last = Math.min(this.list.length, Math.ceil((this.scroller.scrollTop + height) / ROW) + 4);
    this.space.style.height = `${this.list.length * ROW}px`;
    const asking = run.askingAt(this.app.time);
    this.rows.replaceChildren(this.space, ...this.list.slice(first, last).map((row, at) => this.row(row, first + at, asking)));
    const here = this.list[this.at];
    if (here) this.rows.setAttribute("aria-activedescendant", `row-${here.span.id}`);
    this.paintAxis();
  }

  private row({ span, level, open, foldable }: Row, at: number, asking: ReadonlySet<number>): HTMLElement {
    const { run, view } = this.app;
    const time = this.app.time;
    const state = ALWAYS[span.kind] ?? run.stateOf(span, time, asking);
    const end = span.end === null || span.end > time ? time : span.end;
    const took = time < span.start ? "" : span.state === "skipped" ? "skipped" : duration(end - span.start);
    const critical = run.critical.has(span.id);
    const failed = open && ["run", "round"].includes(span.kind) ? 0 : run.failedCalls(span, time).length; // what is unfolded tells itself
    const broke = failed ? plural(failed, "failed call") : "";
    const names: Record<string, () => string> = {
      run: () => span.name, round: () => `Round ${span.name}`, item: () => `item ${Number(span.name.match(/\[(\d+)\]$/)?.[1] ?? 0) + 1}`,
      attempt: () => `attempt ${span.name}`, pause: () => "pause before the next attempt", question: () => "question to a person",
    };
    const name = (names[span.kind] ?? (() => (span.kind === "operator" ? run.nameOf(span.name) : span.name)))();
    const row = make(`div.row.k-${span.kind}`, {
      id: `row-${span.id}`, role: "treeitem", "aria-level": level + 1, "aria-expanded": foldable ? String(open) : undefined,
      "aria-label": [name, took, span.kind, broke, took !== lookOf(state).label && lookOf(state).label, critical && "on the critical path"].filter(Boolean).join(", "),
    });
    row.style.top = `${at * ROW}px`;
    row.classList.toggle("selected", view.selected?.span === span.id);
    row.classList.toggle("here", at === this.at);
    row.classList.toggle("critical", critical);
    const label = make("div.label", {},
      make("span.fold", {}, foldable ? sign(open ? SIGNS.unfolded : SIGNS.folded) : ""), icon(state),
      make("span.name", { dir: "auto", textContent: name, title: name }), " ", broke && make("span.failures", { textContent: `✕ ${failed}`, title: broke }), make("span.took", { textContent: took }));
    label.style.paddingLeft = `${indent(level)}px`;
    row.append(label, make("div.track", {}, this.bars(span, state, time)));
    return row;
  }

  private bars(span: Span, state: string, time: number): Child[] {
    if (time < span.start) return [];
    const bars = [this.bar(span, BARS[span.kind] ?? `s-${state}`, time)];
    if (span.kind !== "operator") return bars;
    for (const each of this.app.run.own(span).slice(0, MOST_IN_A_BAR)) {
      if (each.start > time) continue;
      if (each.kind === "pause") bars.push(this.bar(each, "pause", time));
      if (each.kind === "question") bars.push(this.bar(each, "asked", time));
      if (each.kind === "model") bars.push(this.bar(each, "call", time));
      if (each.kind === "tool" && each.state === "failed" && each.end !== null) bars.push(this.bar({ start: each.end, end: each.end }, "broke", time));
      if (each.kind === "attempt" && each.state === "failed" && each.end !== null) bars.push(this.bar({ start: each.end, end: each.end }, "broke", time));
    }
    return bars;
  }

  private bar(span: Pick<Span, "start" | "end">, looks: string, time: number): HTMLElement {
    const end = Math.min(span.end ?? time, time);
    const [left, right] = [Math.max(0, this.share(span.start)), Math.min(100, this.share(end))];
    const bar = make(`div.bar.${looks}`);
    if (right < 0 || left > 100) bar.hidden = true;
    bar.style.left = `${left}%`;
    bar.style.width = `${Math.max(0, right - left)}%`;
    return bar;
  }

  private paintAxis(): void {
    const [from, to] = this.range;
    const start = this.app.run.start;
    const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
    const width = Math.max(50, this.axis.clientWidth - this.labelWidth);
    const step = steps.find((each) => ((to - from) / each) * 70 < width) ?? (to - from) / 4;
    const ticks: HTMLElement[] = [];
    for (let tick = Math.ceil((from - start) / step) * step; tick <= to - start + step / 1000; tick += step) {
      const mark = make("span.tick", { textContent: clock(tick, step) });
      mark.style.left = `${this.share(start + tick)}%`;
      if (this.share(start + tick) > 93) mark.classList.add("last");
      ticks.push(mark);
    }
    const label = make("div.label", { textContent: this.app.view.hitSpans ? "what was found" : this.window ? "a part; f for all" : "" });
    this.axis.replaceChildren(label, make("div.track", {}, ticks));
    this.movePlayhead();
  }

  private get labelWidth(): number {
    return (this.axis.firstChild as HTMLElement | null)?.offsetWidth ?? 0;
  }

  private movePlayhead(): void {
    const share = this.share(this.app.time) / 100;
    const left = this.labelWidth;
    this.playhead.hidden = share < 0 || share > 1;
    this.playhead.style.left = `${left + share * (this.axis.clientWidth - left - 12)}px`;
  }

  private fold(span: Span, open: boolean): void {
    this.folds.set(span.id, open);
    this.folded++;
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const here = this.list[this.at];
    if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = (to: number): void => {
      this.at = Math.max(0, Math.min(this.list.length - 1, to));
      const top = this.at * ROW;
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop) this.scroller.scrollTop = top;
      if (top + ROW + AXIS > scrollTop + clientHeight) this.scroller.scrollTop = top + ROW + AXIS - clientHeight;
      this.paint();
    };
    const parent = (): number => {
      for (let at = this.at - 1; at >= 0; at--) if ((this.list[at]?.level ?? 0) < here.level) return at;
      return this.at;
    };
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const keys: Record<string, () => void> = {
      ArrowDown: () => move(this.at + 1), ArrowUp: () => move(this.at - 1), Home: () => move(0), End: () => move(Infinity),
      PageDown: () => move(this.at + page), PageUp: () => move(this.at - page),
      ArrowRight: () => (here.foldable && !here.open ? this.fold(here.span, true) : move(this.at + 1)),
      ArrowLeft: () => (here.foldable && here.open ? this.fold(here.span, false) : move(parent())),
      "+": () => this.zoom(0.7, this.middle), "-": () => this.zoom(1 / 0.7, this.middle), "<": () => this.move(-0.2), ">": () => this.move(0.2),
      Enter: () => this.app.select(this.app.run.owner(here.span).path, here.span.id, true),
    };
    const act = keys[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  private timeAt(clientX: number): number {
    const box = this.axis.getBoundingClientRect();
    const [from, to] = this.range;
    const share = (clientX - box.left - this.labelWidth) / (box.width - this.labelWidth - 12);
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  }

  /** The moment that is shown, or, where that is not in sight, the middle of what is. */
  private get middle(): number {
    const [from, to] = this.range;
    const { time } = this.app;
    return this.app.view.time !== null && from <= time && time <= to ? time : (from + to) / 2;
  }

  private seek(event: PointerEvent): void {
    const go = (moved: PointerEvent): void => this.app.goTo(this.timeAt(moved.clientX));
    go(event);
    addEventListener("pointermove", go);
    addEventListener("pointerup", () => removeEventListener("pointermove", go), { once: true });
  }

  private wheel(event: WheelEvent): void {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 300), this.timeAt(event.clientX));
    else if (this.window && Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.move(sideways / 1000);
    else return;
    event.preventDefault();
  }

  /** Show a part of the time that is so many times as long, around a moment. */
  private zoom(times: number, around: number): void {
    const [from, to] = this.range;
    const [start, end] = [this.app.run.start, this.app.end];
    const [first, last] = [Math.max(start, around - (around - from) * times), Math.min(end, around + (to - around) * times)];
    if (last - first < 0.002) return;
    this.window = first <= start && last >= end ? null : [first, last];
    this.paint();
  }

  /** Show the time before or after, by so many times of what is shown. */
  private move(by: number): void {
    const [from, to] = this.range;
    const way = Math.max(this.app.run.start - from, Math.min(this.app.end - to, by * (to - from)));
    if (this.window) this.window = [from + way, to + way];
    this.paint();
  }

  fit(): void {
    this.window = null;
    this.paint();
  }

  /** Bring a span into sight. */
  show(span: Span): void {
    const at = this.list.findIndex((row) => row.span === span);
    if (at < 0) return;
    this.at = at;
    const top = at * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + ROW + AXIS > scrollTop + clientHeight) this.scroller.scrollTop = top - clientHeight / 3;
    this.paint();
  }
}

const BARS: Record<string, string> = { pause: "pause", question: "asked" };
const ALWAYS: Record<string, string> = { pause: "retrying", question: "asking" }; // what these look like also when they are over
const indent = (level: number): number => Math.min(level, 8) * 12 + 4;
