// The graph: a card per operator, lines between them; a workflow inside an operator is shown inside its card.

const PORT = 17; // height of the name of a port
const CARD = { w: 190, widest: 270, h: 46, line: 18, beside: 66 }; // beside: what stands beside the name
const SMALL = { w: 108, widest: 170, h: 28, line: 0, beside: 44 };
const MANY = 60; // operators, from which on cards are small
const FRAME = { side: 14, top: 52, bottom: 14 };
const SCALES = [0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2];

class GraphView {
  constructor(app) {
    this.app = app;
    this.pane = byId("graph");
    this.canvas = byId("canvas");
    this.scale = 1;
    this.fitted = true;
    this.nodes = new Map(); // a path's key → {path, card, box, …}
    this.drawn = "";
    this.listen();
  }

  listen() {
    byId("in").onclick = () => this.zoom(1);
    byId("out").onclick = () => this.zoom(-1);
    byId("fit").onclick = () => this.fit();
    this.pane.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = this.pane.getBoundingClientRect();
      this.scaleTo(this.scale * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    this.pane.addEventListener("pointerdown", (event) => this.pan(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      if (this.pane.clientWidth !== this.width && this.fitted) this.draw();
    }).observe(this.pane);
  }

  /** Lay out and draw anew where what there is has changed; else bring up to date how it is. */
  draw() {
    const { run, view } = this.app;
    this.width = this.pane.clientWidth;
    if (!this.width) return;
    const shape = JSON.stringify([run.shape, [...view.unfolded], [...view.chosen], Math.round(this.width / 40)]);
    if (shape !== this.drawn) {
      this.drawn = shape;
      this.build();
    }
    this.paint();
  }

  build() {
    const focused = document.activeElement?.closest?.("#canvas .card")?.dataset.key;
    this.nodes.clear();
    this.small = this.shown([]) > MANY;
    const size = this.small ? SMALL : CARD;
    const widest = Math.max((this.width - 40) / (this.small ? 0.8 : 0.7), size.w * 2.2);
    const layout = this.layout([], widest);
    this.lines = makeSvg("svg", { class: "lines", "aria-hidden": "true" });
    this.edges = [];
    this.names = []; // of ports, above all lines
    this.canvas.replaceChildren(this.lines);
    this.canvas.classList.toggle("small", this.small);
    this.add([], layout, 0, 0);
    this.canvas.append(...this.names);
    [this.w, this.h] = [layout.width, layout.height];
    this.lines.setAttribute("width", this.w);
    this.lines.setAttribute("height", this.h);
    this.pane.parentElement.style.setProperty("--graph", `${Math.ceil(this.h * Math.min(1, (this.width - 32) / this.w)) + 36}px`);
    if (this.fitted) this.fit();
    else this.scaleTo(this.scale);
    const first = this.nodes.get(focused) ?? this.nodes.values().next().value;
    if (first) first.card.tabIndex = 0;
    if (focused) this.nodes.get(focused)?.card.focus({ preventScroll: true });
  }

  /** How many operators are to be drawn. */
  shown(path) {
    const graph = this.app.run.graphAt(path);
    return graph ? Object.keys(graph.before).reduce((sum, id) => {
      const inner = this.insideOf([...path, id]);
      return sum + 1 + (inner ? this.shown(inner) : 0);
    }, 0) : 0;
  }

  /** The path of the workflow that is shown inside an operator: its own, or that of an item of a map; none if folded. */
  insideOf(path) {
    const { run, view } = this.app;
    if (!run.graphAt(path) || !view.unfolded.has(keyOf(placeOf(path)))) return null;
    const items = run.items(path, Infinity);
    if (!items.length) return path;
    const chosen = items.find((item) => item.name === view.chosen.get(keyOf(path)));
    return (chosen ?? items.find((item) => item.state === "failed") ?? items[0]).path;
  }

  layout(path, widest) {
    const graph = this.app.run.graphAt(path) ?? { before: {}, judges: [] };
    const before = new Map(Object.entries(graph.before));
    const ends = new Set(before.keys());
    for (const froms of Object.values(graph.before)) froms.forEach((id) => ends.delete(id));
    for (const judge of graph.judges) before.set(judge, [...ends].filter((id) => !graph.judges.includes(id)));
    const inner = new Map();
    const boxes = [...before.keys()].map((id) => {
      const inside = this.insideOf([...path, id]);
      if (!inside) return { id, ...this.sizeOf(this.app.run.nameOf(id)) };
      const layout = this.layout(inside, widest * 0.8);
      inner.set(id, { layout, inside });
      return {
        id,
        w: Math.max(layout.width + 2 * FRAME.side, CARD.w * (this.isMap([...path, id]) ? 1.9 : 1.3)),
        h: layout.height + FRAME.top + FRAME.bottom,
      };
    });
    if (!boxes.length) return { boxes: new Map(), edges: [], width: CARD.w, height: CARD.h, inner, judges: [], ports: () => [] };
    const ports = (from, to) => (Object.hasOwn(graph.ports ?? {}, to) && Object.hasOwn(graph.ports[to], from) ? graph.ports[to][from] : []);
    const named = (from, to) => !this.small && ports(from, to).length > 0;
    return { ...layered(boxes, before, widest, named), inner, judges: graph.judges, ports };
  }

  add(path, layout, left, top) {
    const neighbours = new Map([...layout.boxes.keys()].map((id) => [id, { above: [], below: [] }]));
    for (const { from, to, points } of layout.edges) {
      const line = makeSvg("path", {
        d: curve(points.map(([x, y]) => [x + left, y + top])),
        class: layout.judges.includes(to) ? "judged" : "",
      });
      this.lines.append(line);
      const port = layout.ports(from, to).join(", ");
      if (port && !this.small) this.names.push(portName(port, points, left, top, layout.boxes.get(to), layout.boxes));
      this.edges.push({ line, from: keyOf([...path, from]), to: keyOf([...path, to]) });
      neighbours.get(from).below.push(keyOf([...path, to]));
      neighbours.get(to).above.push(keyOf([...path, from]));
    }
    for (const [id, box] of layout.boxes) {
      const inner = layout.inner.get(id);
      this.addCard([...path, id], box, left, top, { ...neighbours.get(id), inner, judge: layout.judges.includes(id) });
      if (!inner) continue;
      const innerLeft = left + box.x + (box.w - inner.layout.width) / 2;
      this.add(inner.inside, inner.layout, innerLeft, top + box.y + FRAME.top);
    }
  }

  addCard(path, box, left, top, { above, below, inner, judge }) {
    const { app } = this;
    const key = keyOf(path);
    const foldable = app.run.graphAt(path);
    const parts = { icon: make("span.sign"), name: make("span.name", { dir: "auto", textContent: app.run.nameOf(path.at(-1)), title: app.run.nameOf(path.at(-1)) }), how: make("span.how") };
    const card = make(
      `div.card${inner ? ".frame" : ""}${judge ? ".judge" : ""}`,
      { role: "button", tabIndex: -1, onclick: () => app.select(path), onfocus: () => this.focused(key) },
      parts.icon, make("span.words", {}, parts.name, " ", parts.how),
    );
    card.dataset.key = key;
    const place = { left: left + box.x, top: top + box.y, width: box.w, height: inner ? FRAME.top - 8 : box.h };
    if (inner) {
      const around = make("div.around");
      at(around, { ...place, height: box.h });
      this.canvas.append(around);
    }
    at(card, place);
    this.canvas.append(card);
    if (foldable) {
      const caret = make("button.caret", {
        tabIndex: -1, "aria-label": `${inner ? "Fold" : "Unfold"} ${app.run.nameOf(path.at(-1))}`, title: inner ? "Fold  u" : "Unfold  u",
        onclick: (event) => {
          event.stopPropagation();
          this.toggle(path);
        },
      }, sign(inner ? SIGNS.unfolded : SIGNS.folded));
      at(caret, { left: place.left + box.w - 26, top: place.top + (this.small && !inner ? 3 : 8) });
      this.canvas.append(caret);
    }
    const items = inner ? app.run.items(path, Infinity) : [];
    if (items.length) card.classList.add("map");
    if (items.length) this.addItems(path, items, inner.inside, { ...place, right: place.left + box.w - 30 });
    const more = foldable && (this.isMap(path) ? "map" : "workflow");
    this.nodes.set(key, { path, card, box: { ...place, x: place.left, y: place.top, row: box.row, h: box.h }, above, below, more, judge, ...parts });
  }

  /** The size of a card: as wide as its name, up to a bound, beyond which the name takes two lines. */
  sizeOf(name) {
    const size = this.small ? SMALL : CARD;
    this.ruler ??= document.createElement("canvas").getContext("2d");
    this.ruler.font = `600 ${this.small ? 12.5 : 14}px ${getComputedStyle(document.body).fontFamily}`;
    const wanted = Math.ceil(this.ruler.measureText(name.slice(0, 200)).width) + size.beside;
    return { w: Math.min(size.widest, Math.max(size.w, wanted)), h: size.h + (wanted > size.widest ? size.line : 0) };
  }

  isMap(path) {
    return this.app.run.items(path, Infinity).length > 0;
  }

  /** Which item of a map is shown. */
  addItems(path, items, shown, place) {
    const shownAt = items.findIndex((item) => keyOf(item.path) === keyOf(shown));
    const go = (to) => {
      this.app.view.chosen.set(keyOf(path), items[to].name);
      this.app.draw();
    };
    const step = (by, label, shape) => make("button", {
      "aria-label": label, title: label, disabled: !items[shownAt + by], onclick: () => go(shownAt + by),
    }, sign(shape));
    const choice = make(
      "div.items", { role: "group", "aria-label": `Item of ${this.app.run.nameOf(path.at(-1))}` },
      step(-1, "Item before", "M10 4L6 8l4 4"),
      make("span", { textContent: `item ${count(shownAt + 1)} of ${count(items.length)}` }),
      step(1, "Next item", SIGNS.folded),
    );
    at(choice, { left: place.right - 136, top: place.top + 7, width: 132 });
    this.canvas.append(choice);
  }

  toggle(path) {
    const { view } = this.app;
    const key = keyOf(placeOf(path));
    if (!view.unfolded.delete(key)) view.unfolded.add(key);
    this.app.draw();
    this.nodes.get(keyOf(path))?.card.focus({ preventScroll: true });
  }

  paint() {
    const { run, view } = this.app;
    const time = this.app.time;
    const asking = run.askingAt(time);
    const selected = view.selected && keyOf(view.selected.path);
    for (const [key, node] of this.nodes) {
      const { state, span } = run.at(node.path, time, asking);
      const critical = Boolean(span && run.critical.has(span.id) && span.start <= time);
      const blamed = run.wasBlamed(node.path, time);
      const how = `${this.how(node, state, span, time)}${blamed ? " · blamed" : ""}`;
      const hit = view.hits?.has(key);
      const looks = [state, critical, how, key === selected, view.hits && (hit ? 1 : 2)].join("|");
      if (looks === node.looks) continue;
      node.looks = looks;
      node.state = state;
      node.icon.replaceChildren(icon(state));
      node.how.textContent = how;
      const { card } = node;
      for (const name of [...card.classList]) if (name.startsWith("is-")) card.classList.remove(name);
      card.classList.add(`is-${state}`);
      card.classList.toggle("critical", critical);
      card.classList.toggle("blamed", blamed);
      card.classList.toggle("selected", key === selected);
      card.classList.toggle("dim", Boolean(view.hits) && !hit);
      card.setAttribute("aria-label", [
        run.nameOf(node.path.at(-1)), how, node.judge && "evaluator", node.more, how !== STATES[state].label && STATES[state].label, critical && "on the critical path",
      ].filter(Boolean).join(", "));
      card.title = `${run.nameOf(node.path.at(-1))}\n${STATES[state].label}${how ? `, ${how}` : ""}${critical ? "\non the critical path" : ""}`;
    }
    for (const edge of this.edges) {
      const [from, to] = [this.nodes.get(edge.from), this.nodes.get(edge.to)];
      const gone = from.state === "skipped" || to.state === "skipped";
      const critical = run.criticalEdges.has(`${edge.from} ${edge.to}`) && from.card.classList.contains("critical") && to.card.classList.contains("critical");
      const near = edge.from === selected || edge.to === selected;
      const looks = `${gone ? "gone " : ""}${critical ? "critical " : ""}${near ? "near " : ""}`;
      if (looks === edge.looks) continue;
      edge.looks = looks;
      edge.line.setAttribute("class", `${looks}${to.judge ? "judged" : ""}`);
      if (critical || near) this.lines.append(edge.line); // above the others
    }
  }

  /** What a card says below the name. */
  how(node, state, span, time) {
    if (!span || ["waiting", "idle", "skipped", "cached", "kept"].includes(state)) return STATES[state].label;
    const parts = state === "asking" ? ["asks"] : state === "retrying" ? ["pauses"] : [];
    const open = isOpen(span, time);
    parts.push(duration((open ? time : span.end ?? time) - span.start));
    const items = this.app.run.children(span).filter((each) => each.kind === "item");
    if (items.length && !open) parts.push(plural(items.length, "item"));
    else if (items.length && span.progress) {
      parts.push(`${count(items.filter((item) => item.end !== null && item.end <= time).length)} of ${count(span.progress[1])}`);
    } else if (span.progress && open) parts.push(`${count(span.progress[0])} of ${count(span.progress[1])}`);
    if (span.attempt > 1 && !open) parts.push(plural(span.attempt, "attempt"));
    if (state === "fell") parts.unshift("failed");
    if (state === "reused" && parts.length < 2) parts.push(`round ${span.round}`); // the sign says so too
    return parts.join(" · ");
  }

  focused(key) {
    for (const node of this.nodes.values()) node.card.tabIndex = -1;
    const node = this.nodes.get(key);
    if (node) node.card.tabIndex = 0;
  }

  key(event) {
    const node = this.nodes.get(event.target.dataset?.key);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const near = (keys) => keys.map((key) => this.nodes.get(key)).sort((a, b) => distance(a, node) - distance(b, node))[0];
    const beside = (sign) => [...this.nodes.values()]
      .filter((each) => each.box.row === node.box.row && (each.box.x - node.box.x) * sign > 0 && Math.abs(each.box.y - node.box.y) < 60)
      .sort((a, b) => Math.abs(a.box.x - node.box.x) - Math.abs(b.box.x - node.box.x))[0];
    const moves = {
      ArrowDown: () => near(node.below), ArrowUp: () => near(node.above),
      ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
    };
    if (moves[event.key]) {
      const to = moves[event.key]();
      to?.card.focus();
    } else if (event.key === "Enter") this.app.select(node.path, null, true);
    else if (event.key === "u" && this.app.run.graphAt(node.path)) this.toggle(node.path);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  show(path) {
    const { view } = this.app;
    for (let end = 1; end < path.length; end++) {
      const outer = path.slice(0, end);
      const place = [...path.slice(0, end - 1), outer.at(-1).replace(NUMBER, "")];
      view.unfolded.add(keyOf(placeOf(place)));
      if (NUMBER.test(outer.at(-1))) view.chosen.set(keyOf(place), outer.at(-1));
    }
    this.draw();
    this.nodes.get(keyOf(path))?.card.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // Scale

  fit() {
    this.fitted = true;
    const [w, h] = [this.pane.clientWidth - 32, this.pane.clientHeight - 32];
    const width = Math.min(1, w / this.w);
    const whole = Math.min(width, h / this.h);
    this.setScale(whole > 0.7 * width ? whole : width);
  }

  zoom(by) {
    const next = by > 0 ? SCALES.find((scale) => scale > this.scale + 0.01) : SCALES.findLast((scale) => scale < this.scale - 0.01);
    if (next) this.scaleTo(next);
  }

  scaleTo(scale, x = this.pane.clientWidth / 2, y = this.pane.clientHeight / 2) {
    const to = Math.min(2.5, Math.max(0.1, scale));
    const grown = to / this.scale;
    const [left, top] = [(this.pane.scrollLeft + x) * grown - x, (this.pane.scrollTop + y) * grown - y];
    this.fitted = false;
    this.setScale(to);
    this.pane.scrollTo(left, top);
  }

  setScale(scale) {
    this.scale = scale;
    this.canvas.style.transform = `scale(${scale})`;
    this.canvas.style.width = `${this.w}px`;
    this.canvas.style.height = `${this.h}px`;
    this.canvas.style.marginRight = `${this.w * (scale - 1)}px`;
    this.canvas.style.marginBottom = `${this.h * (scale - 1)}px`;
    this.canvas.style.left = `${Math.max(0, (this.pane.clientWidth - 32 - this.w * scale) / 2)}px`;
    byId("scale").textContent = `${Math.round(scale * 100)}%`;
  }

  pan(event) {
    if (event.pointerType !== "mouse" || event.button || event.target.closest(".card, button")) return;
    const start = [event.clientX + this.pane.scrollLeft, event.clientY + this.pane.scrollTop];
    const move = (moved) => this.pane.scrollTo(start[0] - moved.clientX, start[1] - moved.clientY);
    this.pane.classList.add("panning");
    addEventListener("pointermove", move);
    addEventListener("pointerup", () => {
      removeEventListener("pointermove", move);
      this.pane.classList.remove("panning");
    }, { once: true });
  }
}

/**
 * The name of a port, on the last bend of its edge: edges that leave together are apart there. Where another card is in
 * the way, it is at the corner of the card that the edge leads to.
 */
function portName(port, points, left, top, target, boxes) {
  const [[x1, y1], [x2, y2]] = points.slice(-3, -1);
  const [x, y] = [x1 * 0.22 + x2 * 0.78, y1 * 0.34 + y2 * 0.66];
  const covers = [...boxes.values()].some((box) => x > box.x && x < box.x + box.w && y > box.y - PORT / 2 && y < box.y + box.h + PORT / 2);
  const name = make("span.port", { dir: "auto", title: `port ${port}`, textContent: port });
  at(name, covers ? { left: left + target.x, top: top + target.y } : { left: left + x, top: top + y });
  return name;
}

const distance = (a, b) => Math.abs(a.box.x + a.box.width / 2 - b.box.x - b.box.width / 2);

function at(element, place) {
  for (const [side, length] of Object.entries(place)) {
    if (["left", "top", "width", "height"].includes(side)) element.style[side] = `${length}px`;
  }
}
