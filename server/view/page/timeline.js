// The timeline: a row per span, folded and unfolded like a tree; only the rows in sight are made.

const ROW = 26;
const AXIS = 28;
const FOLD = 20; // the width of what folds a row, with some room
const MOST_MEASURED = 2000;
const MOST_IN_A_BAR = 200;

class Timeline {
  constructor(app) {
    this.app = app;
    this.pane = byId("timeline");
    this.folds = new Map(); // a span's id → whether it is unfolded, where that is not as usual
    this.at = 0; // the row that has the focus
    this.window = null; // [from, to] in seconds, where it is not all of the run
    this.axis = make("div.axis", { title: "Click to see the run at that time; ctrl and the wheel for a part of it, shift and the wheel to move" });
    this.rows = make("div.rows", { role: "tree", tabIndex: 0, "aria-label": "What took how long; arrow keys move, fold and unfold" });
    this.space = make("div.space");
    this.playhead = make("div.playhead", { "aria-hidden": "true" });
    this.rows.append(this.space);
    this.scroller = make("div.scroller", {}, this.axis, this.rows);
    this.pane.replaceChildren(this.scroller, this.playhead);
    this.listen();
  }

  listen() {
    this.scroller.addEventListener("scroll", () => this.paint());
    this.axis.addEventListener("pointerdown", (event) => this.seek(event));
    this.rows.addEventListener("keydown", (event) => this.key(event));
    this.rows.addEventListener("click", (event) => this.click(event)); // of the rows together, as each is made anew now and then
    this.pane.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.paint()).observe(this.pane);
  }

  click(event) {
    const box = this.rows.getBoundingClientRect();
    const at = Math.floor((event.clientY - box.top) / ROW);
    const row = this.list[at];
    if (!row) return;
    this.at = at;
    const { span, level, open, foldable } = row;
    if (foldable && event.clientX - box.left < indent(level) + FOLD) this.fold(span, !open);
    else this.app.select(this.app.run.owner(span).path, span.id);
  }

  draw() {
    const { run, view } = this.app;
    const key = `${run.version}|${run.spans.length}|${this.folded}|${view.hitSpans?.size}|${view.query}`;
    if (key !== this.listedFor) {
      this.listedFor = key;
      this.list = [];
      if (run.root) this.collect(run.root, 0);
      this.at = Math.min(this.at, Math.max(0, this.list.length - 1));
      const longest = Math.max(0, ...this.list.slice(0, MOST_MEASURED).map(({ span, level }) => run.nameOf(span.name).length + 2 * level));
      this.scroller.style.setProperty("--longest", String(longest));
    }
    this.paint();
  }

  /** What stands below a span: a workflow's only round is left out. */
  below(span) {
    const children = this.app.run.children(span);
    const rounds = children.filter((each) => each.kind === "round");
    if (rounds.length !== 1) return children;
    return [...children.filter((each) => each.kind !== "round"), ...this.app.run.children(rounds[0])];
  }

  isOpen(span) {
    return this.folds.get(span.id) ?? ["run", "round"].includes(span.kind);
  }

  collect(span, level) {
    const { view } = this.app;
    if (view.hitSpans && !view.hitSpans.has(span.id)) return;
    const below = this.below(span);
    const open = view.hitSpans ? below.some((each) => view.hitSpans.has(each.id)) : this.isOpen(span);
    this.list.push({ span, level, open, foldable: below.length > 0 });
    if (open) for (const each of below) this.collect(each, level + 1);
  }

  get range() {
    const { run } = this.app;
    if (this.window) return this.window;
    return [run.start, Math.max(this.app.end, run.start + 0.001)];
  }

  share(time) {
    const [from, to] = this.range;
    return ((time - from) / (to - from)) * 100;
  }

  paint() {
    if (!this.list || !this.pane.clientHeight) return;
    const { run } = this.app;
    const height = this.scroller.clientHeight;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 4);
    const last = Math.min(this.list.length, Math.ceil((this.scroller.scrollTop + height) / ROW) + 4);
    this.space.style.height = `${this.list.length * ROW}px`;
    const asking = run.askingAt(this.app.time);
    const made = [];
    for (let at = first; at < last; at++) made.push(this.row(this.list[at], at, asking));
    this.rows.replaceChildren(this.space, ...made);
    if (this.list[this.at]) this.rows.setAttribute("aria-activedescendant", `row-${this.list[this.at].span.id}`);
    this.paintAxis();
  }

  row({ span, level, open, foldable }, at, asking) {
    const { run, view } = this.app;
    const time = this.app.time;
    const state = ALWAYS[span.kind] ?? run.stateOf(span, time, asking);
    const end = span.end === null || span.end > time ? time : span.end;
    const took = time < span.start ? "" : span.state === "skipped" ? "skipped" : duration(end - span.start);
    const critical = run.critical.has(span.id);
    const names = {
      run: () => span.name, round: () => `Round ${span.name}`, item: () => `item ${Number(span.name.match(/\[(\d+)\]$/)?.[1] ?? 0) + 1}`,
      attempt: () => `attempt ${span.name}`, pause: () => "pause before the next attempt", question: () => "question to a person",
    };
    const name = (names[span.kind] ?? (() => (span.kind === "operator" ? run.nameOf(span.name) : span.name)))();
    const row = make(`div.row.k-${span.kind}`, {
      id: `row-${span.id}`, role: "treeitem", "aria-level": level + 1, "aria-expanded": foldable ? String(open) : undefined,
      "aria-label": [name, took, span.kind, took !== STATES[state].label && STATES[state].label, critical && "on the critical path"].filter(Boolean).join(", "),
    });
    row.style.top = `${at * ROW}px`;
    row.classList.toggle("selected", view.selected?.span === span.id);
    row.classList.toggle("here", at === this.at);
    row.classList.toggle("critical", critical);
    const label = make("div.label", {},
      make("span.fold", {}, foldable ? sign(open ? SIGNS.unfolded : SIGNS.folded) : ""), icon(state),
      make("span.name", { dir: "auto", textContent: name, title: name }), " ", make("span.took", { textContent: took }));
    label.style.paddingLeft = `${indent(level)}px`;
    row.append(label, make("div.track", {}, this.bars(span, state, time)));
    return row;
  }

  bars(span, state, time) {
    if (time < span.start) return [];
    const bars = [this.bar(span, { pause: "pause", question: "asked" }[span.kind] ?? `s-${state}`, time)];
    if (span.kind !== "operator") return bars;
    for (const each of this.app.run.own(span).slice(0, MOST_IN_A_BAR)) {
      if (each.start > time) continue;
      if (each.kind === "pause") bars.push(this.bar(each, "pause", time));
      if (each.kind === "question") bars.push(this.bar(each, "asked", time));
      if (each.kind === "model") bars.push(this.bar(each, "call", time));
      if (each.kind === "attempt" && each.state === "failed") bars.push(this.bar({ start: each.end, end: each.end }, "broke", time));
    }
    return bars;
  }

  bar(span, looks, time) {
    const end = Math.min(span.end ?? time, time);
    const [left, right] = [Math.max(0, this.share(span.start)), Math.min(100, this.share(end))];
    const bar = make(`div.bar.${looks}`);
    if (right < 0 || left > 100) bar.hidden = true;
    bar.style.left = `${left}%`;
    bar.style.width = `${Math.max(0, right - left)}%`;
    return bar;
  }

  paintAxis() {
    const [from, to] = this.range;
    const start = this.app.run.start;
    const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
    const width = Math.max(50, this.axis.clientWidth - this.labelWidth);
    const step = steps.find((each) => ((to - from) / each) * 70 < width) ?? (to - from) / 4;
    const ticks = [];
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

  get labelWidth() {
    return this.axis.firstChild?.offsetWidth ?? 0;
  }

  movePlayhead() {
    const share = this.share(this.app.time) / 100;
    const left = this.labelWidth;
    this.playhead.hidden = share < 0 || share > 1;
    this.playhead.style.left = `${left + share * (this.axis.clientWidth - left - 12)}px`;
  }

  fold(span, open) {
    this.folds.set(span.id, open);
    this.folded = (this.folded ?? 0) + 1;
    this.draw();
  }

  key(event) {
    const here = this.list?.[this.at];
    if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = (to) => {
      this.at = Math.max(0, Math.min(this.list.length - 1, to));
      const top = this.at * ROW;
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop) this.scroller.scrollTop = top;
      if (top + ROW + AXIS > scrollTop + clientHeight) this.scroller.scrollTop = top + ROW + AXIS - clientHeight;
      this.paint();
    };
    const parent = () => {
      for (let at = this.at - 1; at >= 0; at--) if (this.list[at].level < here.level) return at;
      return this.at;
    };
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const keys = {
      ArrowDown: () => move(this.at + 1), ArrowUp: () => move(this.at - 1), Home: () => move(0), End: () => move(Infinity),
      PageDown: () => move(this.at + page), PageUp: () => move(this.at - page),
      ArrowRight: () => (here.foldable && !here.open ? this.fold(here.span, true) : move(this.at + 1)),
      ArrowLeft: () => (here.foldable && here.open ? this.fold(here.span, false) : move(parent())),
      "+": () => this.zoom(0.7, this.middle), "-": () => this.zoom(1 / 0.7, this.middle), "<": () => this.move(-0.2), ">": () => this.move(0.2),
      Enter: () => this.app.select(this.app.run.owner(here.span).path, here.span.id, true),
    };
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }

  timeAt(clientX) {
    const box = this.axis.getBoundingClientRect();
    const [from, to] = this.range;
    const share = (clientX - box.left - this.labelWidth) / (box.width - this.labelWidth - 12);
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  }

  /** The moment that is shown, or, where that is not in sight, the middle of what is. */
  get middle() {
    const [from, to] = this.range;
    const { time } = this.app;
    return this.app.view.time !== null && from <= time && time <= to ? time : (from + to) / 2;
  }

  seek(event) {
    const go = (moved) => this.app.goTo(this.timeAt(moved.clientX));
    go(event);
    addEventListener("pointermove", go);
    addEventListener("pointerup", () => removeEventListener("pointermove", go), { once: true });
  }

  wheel(event) {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 300), this.timeAt(event.clientX));
    else if (this.window && Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.move(sideways / 1000);
    else return;
    event.preventDefault();
  }

  /** Show a part of the time that is so many times as long, around a moment. */
  zoom(times, around) {
    const [from, to] = this.range;
    const [start, end] = [this.app.run.start, this.app.end];
    const wanted = [Math.max(start, around - (around - from) * times), Math.min(end, around + (to - around) * times)];
    if (wanted[1] - wanted[0] < 0.002) return;
    this.window = wanted[0] <= start && wanted[1] >= end ? null : wanted;
    this.paint();
  }

  /** Show the time before or after, by so many times of what is shown. */
  move(by) {
    const [from, to] = this.range;
    const way = Math.max(this.app.run.start - from, Math.min(this.app.end - to, by * (to - from)));
    if (this.window) this.window = [from + way, to + way];
    this.paint();
  }

  fit() {
    this.window = null;
    this.paint();
  }

  /** Bring a span into sight. */
  show(span) {
    const at = this.list?.findIndex((row) => row.span === span) ?? -1;
    if (at < 0) return;
    this.at = at;
    const top = at * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + ROW + AXIS > scrollTop + clientHeight) this.scroller.scrollTop = top - clientHeight / 3;
    this.paint();
  }
}

const ALWAYS = { pause: "retrying", question: "asking" }; // what these look like also when they are over
const indent = (level) => Math.min(level, 8) * 12 + 4;

/** Seconds since the beginning, as exact as the step between ticks. */
function clock(seconds, step = 0.01) {
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  if (seconds < 60) return `${seconds.toFixed(digits)} s`;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  const rest = (seconds % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}
