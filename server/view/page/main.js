// The page: one state, and what draws it.

const KEYS = [
  ["/", "search"], ["space", "play or pause"], [", .", "to the change before, to the next"], ["arrow keys", "along the edges; in the timeline, rows and folds"],
  ["Enter", "open the details"], ["u", "unfold or fold a workflow or a map"], ["Esc", "close"], ["f", "fit"], ["+ −", "larger, smaller; so does ctrl and the wheel"], ["< >", "in the timeline: earlier, later"],
  ["1 2 3 4", "run, graph, timeline, rounds"], ["t", "light or dark"], ["?", "this"],
];

const NARROW = matchMedia("(max-width: 899px)");

class App {
  constructor(source) {
    this.source = source;
    this.run = new Run();
    this.view = {
      time: null, // seconds since the epoch; null for the end, or for now
      selected: null, // {path, span}: an operator's path, and the span that was chosen, if one was
      unfolded: new Set(), chosen: new Map(), tab: "both", query: "", hits: null, hitSpans: null,
    };
    this.graph = new GraphView(this);
    this.timeline = new Timeline(this);
    this.panel = new Panel(this);
    this.rounds = new Rounds(this);
    this.search = new Search(this);
    this.replay = new Replay(this);
    this.theme = new Theme();
    this.listen();
  }

  start() {
    this.source.open((picture) => this.merge(picture), () => this.drawSoon());
    setInterval(() => this.following && !document.hidden && this.drawSoon(), 500);
  }

  merge(picture) {
    this.run.merge(picture);
    this.run.cut = !this.source.live && !this.run.ended;
    if (!this.view.selected && this.run.root && !NARROW.matches) this.view.selected = { path: [], span: null };
    this.drawSoon();
  }

  /** Whether a person can answer, or cancel, from here. */
  may(what) {
    return this.source.live && !this.run.ended && this.run.can.includes(what);
  }

  /** Whether the run goes on, and the page shows it. */
  get following() {
    return this.source.live && !this.run.ended && Boolean(this.run.root);
  }

  /** The last moment that is known: the end, or now. */
  get end() {
    const { run } = this;
    return this.following ? run.now + (performance.now() - run.heard) / 1000 : Math.max(run.now, run.root?.end ?? 0);
  }

  get time() {
    return this.view.time ?? this.end;
  }

  /** Which view is on: on a narrow page the graph stands alone. */
  get tab() {
    return this.view.tab === "both" && NARROW.matches ? "graph" : this.view.tab;
  }

  goTo(time) {
    this.view.time = time === null || (time >= this.end && !this.following) ? null : time;
    this.drawSoon();
  }

  select(path, span = null, wanted = false) {
    this.view.selected = { path, span };
    this.panel.wanted = wanted;
    if (NARROW.matches) this.show("panel");
    this.drawSoon();
  }

  unselect() {
    const path = this.view.selected?.path;
    this.view.selected = { path: [], span: null };
    if (this.view.tab === "panel") this.show(this.last ?? "both");
    this.drawSoon();
    if (path) this.graph.nodes.get(keyOf(path))?.card.focus({ preventScroll: true });
  }

  show(tab) {
    if (tab === "panel") this.last = this.view.tab === "panel" ? this.last : this.view.tab;
    if (tab === "panel" && !this.view.selected) this.view.selected = { path: [], span: null };
    this.view.tab = tab;
    document.body.dataset.tab = tab;
    this.drawSoon();
  }

  drawSoon() {
    this.due ??= requestAnimationFrame(() => {
      this.due = null;
      this.draw();
    });
  }

  draw() {
    this.drawHead();
    if (!this.run.root) return;
    this.graph.draw();
    this.timeline.draw();
    this.replay.draw();
    this.rounds.draw();
    this.panel.draw();
    if (!performance.getEntriesByName("first-picture").length) performance.mark("first-picture");
  }

  drawHead() {
    const { run, source } = this;
    const root = run.root;
    const time = this.time;
    const links = { lost: "connection lost, trying again …", connecting: "connecting …", live: "" };
    const link = run.ended || !source.live ? "" : links[source.connection] ?? source.connection; // why the page is served no longer
    byId("connection").textContent = link || run.note || (root ? "" : "waiting for the run to begin …");
    for (const tab of document.querySelectorAll("#tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.tab === this.tab));
    if (!root) return;
    const asking = run.askingAt(time);
    const state = run.stateOf(root, time, asking);
    document.title = `${STATES[state].label}: ${run.workflow}`;
    set(byId("workflow"), run.workflow);
    const badge = byId("state");
    if (badge.dataset.state !== state) {
      badge.dataset.state = state;
      badge.replaceChildren(icon(state), ` ${STATES[state].label}`);
    }
    this.drawTotals(root, time);
    this.drawGoal();
    const cancel = byId("cancel");
    cancel.hidden = !this.may("cancel");
    if (cancel.hidden && cancel.disabled) this.askWhetherToCancel(); // another run may follow
    byId("legend").hidden = !run.critical.size;
    const question = this.may("answer") ? run.questions.find((each) => each.end === null) : null;
    const alert = byId("alert");
    const trouble = question ? `q${question.id}` : run.cut ? "cut" : root.error && time >= root.end ? "error" : "";
    if (alert.dataset.of !== trouble) {
      alert.dataset.of = trouble;
      alert.hidden = !trouble;
      const told = question
        ? [icon("asking"), " ", make("b", { dir: "auto", textContent: this.run.namesOf(question.path).join(" / ") }), " asks: ", make("span.asks", { dir: "auto", textContent: question.question ?? "" }), " ", make("button.main", { textContent: "Answer", onclick: () => this.select(question.path, question.id, true) })]
        : trouble === "cut" ? [icon("cut"), " The file ends before the run does: what came later is not in it."]
        : [icon(root.state === "stopped" ? "stopped" : "failed"), " ", make("span", { dir: "auto", textContent: (root.error ?? "").split("\n")[0] })];
      alert.className = trouble === "error" ? "bad" : "";
      alert.replaceChildren(...(trouble ? told : []));
      if (question) this.bringToView(question);
    }
  }

  /** Show who asks; and the form, where the reader looks at nothing else. */
  bringToView(question) {
    if (this.view.time !== null) return;
    setTimeout(() => this.graph.show(question.path)); // once it is drawn
    if (!this.view.selected?.path.length && !NARROW.matches) this.select(question.path, question.id);
  }

  drawTotals(root, time) {
    const { run } = this;
    const rounds = (run.rounds.get("[]") ?? []).filter((round) => round.start <= time);
    const usage = this.view.time === null ? root.usage : run.usageBy(time);
    const totals = [
      duration((root.end !== null && root.end <= time ? root.end : time) - root.start),
      usage.calls ? plural(usage.calls, "model call") : "", tokens(usage), cost(usage),
    ].filter(Boolean).join(" · ");
    const looks = JSON.stringify([totals, rounds.map((round) => [round.status, round.end !== null && round.end <= time])]);
    if (looks === this.totals) return;
    this.totals = looks;
    const chips = rounds.length > 1 || (rounds[0]?.status ?? "SUCCESS") !== "SUCCESS" ? rounds.slice(-8).map((round) => {
      const over = round.end !== null && round.end <= time;
      const [state, word] = over ? [verdictState(round), verdictWord(round)] : ["running", "going on"];
      return make("button.chip", { title: `Round ${round.name}: ${word}`, onclick: () => this.show("rounds") }, icon(state), `Round ${round.name}`);
    }) : [];
    byId("totals").replaceChildren(...chips, make("span.soft", { textContent: totals }));
  }

  drawGoal() {
    const { goal } = this.run;
    const element = byId("goal");
    if (element.dataset.of === goal) return;
    element.dataset.of = goal;
    element.replaceChildren(make("button.goal", {
      textContent: goal.slice(0, 1000), title: "All of the goal", dir: "auto", onclick: () => this.select([], null, true),
    }));
    element.hidden = !goal;
  }

  listen() {
    for (const tab of document.querySelectorAll("#tabs button")) tab.onclick = () => this.show(tab.dataset.tab);
    byId("tabs").addEventListener("keydown", (event) => {
      const tabs = [...document.querySelectorAll("#tabs button")].filter((each) => each.offsetWidth);
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const to = tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length];
      to.focus();
      this.show(to.dataset.tab);
    });
    byId("theme").append(sign(SIGNS.theme));
    byId("theme").onclick = () => this.theme.next();
    byId("help").onclick = () => this.help();
    byId("cancel").onclick = () => this.cancel();
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".search")) byId("found").hidden = true;
    });
  }

  key(event) {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    if (event.key === "Escape") {
      if (this.view.query) this.search.clear();
      else this.unselect();
      return;
    }
    if (target.closest("input:not([type=range]), textarea, select")) return;
    if (event.key === " " && target.closest("button, summary")) return;
    const tabs = { 1: "both", 2: "graph", 3: "timeline", 4: "rounds" };
    const keys = {
      "/": () => byId("search").focus(), " ": () => this.replay.toggle(), ",": () => this.replay.step(-1), ".": () => this.replay.step(1),
      f: () => { this.graph.fit(); this.timeline.fit(); }, "+": () => this.graph.zoom(1), "=": () => this.graph.zoom(1), "-": () => this.graph.zoom(-1),
      t: () => this.theme.next(), "?": () => this.help(),
    };
    const act = keys[event.key] ?? (tabs[event.key] && (() => this.show(tabs[event.key])));
    if (!act) return;
    event.preventDefault();
    act();
  }

  async cancel() {
    const button = byId("cancel");
    if (button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
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
      byId("connection").textContent = `not cancelled: ${error.message}`;
      this.askWhetherToCancel();
    }
  }

  askWhetherToCancel() {
    const button = byId("cancel");
    Object.assign(button, { textContent: "Cancel run", disabled: false });
    button.dataset.sure = "";
  }

  help() {
    const dialog = byId("keys");
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

function set(element, said) {
  if (element.textContent !== said) element.textContent = said;
}

/** Light, dark, or as the system says. */
class Theme {
  constructor() {
    this.set(this.kept());
  }

  kept() {
    try {
      return localStorage.getItem("operad-theme");
    } catch {
      return null; // a file may not keep anything
    }
  }

  set(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
  }

  next() {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = dark ? "light" : "dark";
    this.set(theme);
    try {
      localStorage.setItem("operad-theme", theme);
    } catch {
      // it holds for this page alone
    }
  }
}

new App(byId("picture-data").textContent.trim() ? new Embedded() : new Server()).start();
