// The graph: a card per operator, lines between them; a workflow inside an operator is shown inside its card.

import { byId, icon, make, makeSvg, sign } from "../shared/dom";
import { count, duration, plural } from "../shared/numbers";
import { lookOf } from "../shared/states";
import type { App } from "./app";
import type { Graph, Path, Span } from "./data";
import { type Layers, type Placed, type Point, curve, layered } from "./layout";
import { NUMBER, isOpen, keyOf, placeOf } from "./run";
import { SIGNS } from "./signs";

const PORT = 17; // height of the name of a port
const CARD = { w: 190, widest: 270, h: 46, line: 18, beside: 66 }; // beside: what stands beside the name
const SMALL = { w: 108, widest: 170, h: 28, line: 0, beside: 44 };
const MANY = 60; // operators, from which on cards are small
const FRAME = { side: 14, top: 52, bottom: 14 };
const SCALES = [0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2];

type Layout = Layers & {
  inner: Map<string, { layout: Layout; inside: Path }>;
  judges: readonly string[];
  ports(from: string, to: string): readonly string[];
};

interface Box {
  left: number;
  top: number;
  width?: number;
  height?: number;
}

/** An operator that is drawn. */
interface Card {
  path: Path;
  card: HTMLElement;
  icon: HTMLElement;
  name: HTMLElement;
  how: HTMLElement;
  box: Required<Box> & { row: number };
  /** The keys of its neighbours. */
  above: string[];
  below: string[];
  /** What it is beside an operator: a map, a workflow; empty otherwise. */
  more: string;
  judge: boolean;
  state: string;
  looks: string;
}

interface Line {
  line: SVGPathElement;
  from: string;
  to: string;
  looks: string;
}

export class GraphView {
  /** The operators that are drawn, by the keys of their paths. */
  readonly nodes = new Map<string, Card>();
  private readonly pane = byId("graph");
  private readonly canvas = byId("canvas");
  private scale = 1;
  private fitted = true;
  private drawn = "";
  private small = false;
  private width = 0;
  private w = 0;
  private h = 0;
  private lines = makeSvg("svg");
  private edges: Line[] = [];
  /** Names of ports, above all lines. */
  private names: HTMLElement[] = [];
  private ruler: CanvasRenderingContext2D | null = null;

  constructor(private readonly app: App) {
    this.listen();
  }

  private listen(): void {
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
  draw(): void {
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

  private build(): void {
    const focused = document.activeElement?.closest<HTMLElement>("#canvas .card")?.dataset["key"] ?? "";
    this.nodes.clear();
    this.small = this.shown([]) > MANY;
    const size = this.small ? SMALL : CARD;
    const widest = Math.max((this.width - 40) / (this.small ? 0.8 : 0.7), size.w * 2.2);
    const layout = this.layout([], widest);
    this.lines = makeSvg("svg", { class: "lines", "aria-hidden": "true" });
    this.edges = [];
    this.names = [];
    this.canvas.replaceChildren(this.lines);
    this.canvas.classList.toggle("small", this.small);
    this.add([], layout, 0, 0);
    this.canvas.append(...this.names);
    [this.w, this.h] = [layout.width, layout.height];
    this.lines.setAttribute("width", String(this.w));
    this.lines.setAttribute("height", String(this.h));
    this.pane.parentElement?.style.setProperty("--graph", `${Math.ceil(this.h * Math.min(1, (this.width - 32) / this.w)) + 36}px`);
    if (this.fitted) this.fit();
    else this.scaleTo(this.scale);
    const first = this.nodes.get(focused) ?? [...this.nodes.values()][0];
    if (first) first.card.tabIndex = 0;
    this.nodes.get(focused)?.card.focus({ preventScroll: true });
  }

  /** How many operators are to be drawn. */
  private shown(path: Path): number {
    const graph = this.app.run.graphAt(path);
    return graph ? Object.keys(graph.before).reduce((sum, id) => {
      const inner = this.insideOf([...path, id]);
      return sum + 1 + (inner ? this.shown(inner) : 0);
    }, 0) : 0;
  }

  /** The path of the workflow that is shown inside an operator: its own, or that of an item of a map; none if folded. */
  private insideOf(path: Path): Path | null {
    const { run, view } = this.app;
    if (!run.graphAt(path) || !view.unfolded.has(keyOf(placeOf(path)))) return null;
    const items = run.items(path, Infinity);
    if (!items.length) return path;
    const chosen = items.find((item) => item.name === view.chosen.get(keyOf(path)));
    return (chosen ?? items.find((item) => item.state === "failed") ?? items[0])?.path ?? path;
  }

  private layout(path: Path, widest: number): Layout {
    const graph: Pick<Graph, "before" | "judges" | "ports"> = this.app.run.graphAt(path) ?? { before: {}, judges: [], ports: {} };
    const before = new Map(Object.entries(graph.before));
    const ends = new Set(before.keys());
    for (const froms of Object.values(graph.before)) froms.forEach((id) => ends.delete(id));
    for (const judge of graph.judges) before.set(judge, [...ends].filter((id) => !graph.judges.includes(id)));
    const inner: Layout["inner"] = new Map();
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
    const ports = (from: string, to: string): readonly string[] => {
      const own = Object.hasOwn(graph.ports, to) ? graph.ports[to] : undefined;
      return own && Object.hasOwn(own, from) ? own[from] ?? [] : [];
    };
    const named = (from: string, to: string): boolean => !this.small && ports(from, to).length > 0;
    return { ...layered(boxes, before, widest, named), inner, judges: graph.judges, ports };
  }

  private add(path: Path, layout: Layout, left: number, top: number): void {
    const neighbours = new Map([...layout.boxes.keys()].map((id) => [id, { above: [] as string[], below: [] as string[] }]));
    for (const { from, to, points } of layout.edges) {
      const line = makeSvg("path", {
        d: curve(points.map(([x, y]): Point => [x + left, y + top])),
        class: layout.judges.includes(to) ? "judged" : "",
      });
      this.lines.append(line);
      const port = layout.ports(from, to).join(", ");
      if (port && !this.small) this.names.push(portName(port, points, left, top, layout.boxes.get(to), layout.boxes));
      this.edges.push({ line, from: keyOf([...path, from]), to: keyOf([...path, to]), looks: "" });
      neighbours.get(from)?.below.push(keyOf([...path, to]));
      neighbours.get(to)?.above.push(keyOf([...path, from]));
    }
    for (const [id, box] of layout.boxes) {
      const inner = layout.inner.get(id);
      this.addCard([...path, id], box, left, top, neighbours.get(id) ?? { above: [], below: [] }, inner, layout.judges.includes(id));
      if (!inner) continue;
      const innerLeft = left + box.x + (box.w - inner.layout.width) / 2;
      this.add(inner.inside, inner.layout, innerLeft, top + box.y + FRAME.top);
    }
  }

  private addCard(
    path: Path, box: Placed, left: number, top: number, near: Pick<Card, "above" | "below">, inner: { inside: Path } | undefined, judge: boolean,
  ): void {
    const { app } = this;
    const title = app.run.nameOf(path.at(-1) ?? "");
    const key = keyOf(path);
    const foldable = app.run.graphAt(path);
    const parts = { icon: make("span.sign"), name: make("span.name", { dir: "auto", textContent: title, title }), how: make("span.how") };
    const card = make(
      `div.card${inner ? ".frame" : ""}${judge ? ".judge" : ""}`,
      { role: "button", tabIndex: -1, onclick: () => app.select(path), onfocus: () => this.focused(key) },
      parts.icon, make("span.words", {}, parts.name, " ", parts.how),
    );
    card.dataset["key"] = key;
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
        tabIndex: -1, "aria-label": `${inner ? "Fold" : "Unfold"} ${title}`, title: inner ? "Fold  u" : "Unfold  u",
        onclick: (event: Event) => {
          event.stopPropagation();
          this.toggle(path);
        },
      }, sign(inner ? SIGNS.unfolded : SIGNS.folded));
      at(caret, { left: place.left + box.w - 26, top: place.top + (this.small && !inner ? 3 : 8) });
      this.canvas.append(caret);
    }
    const items = inner ? app.run.items(path, Infinity) : [];
    if (items.length) card.classList.add("map");
    if (inner && items.length) this.addItems(path, items, inner.inside, { ...place, right: place.left + box.w - 30 });
    const more = !foldable ? "" : this.isMap(path) ? "map" : "workflow";
    this.nodes.set(key, { path, card, box: { ...place, row: box.row }, ...near, more, judge, state: "", looks: "", ...parts });
  }

  /** The size of a card: as wide as its name, up to a bound, beyond which the name takes two lines. */
  private sizeOf(name: string): { w: number; h: number } {
    const size = this.small ? SMALL : CARD;
    this.ruler ??= document.createElement("canvas").getContext("2d");
    if (!this.ruler) return { w: size.widest, h: size.h + size.line };
    this.ruler.font = `600 ${this.small ? 12.5 : 14}px ${getComputedStyle(document.body).fontFamily}`;
    const wanted = Math.ceil(this.ruler.measureText(name.slice(0, 200)).width) + size.beside;
    return { w: Math.min(size.widest, Math.max(size.w, wanted)), h: size.h + (wanted > size.widest ? size.line : 0) };
  }

  private isMap(path: Path): boolean {
    return this.app.run.items(path, Infinity).length > 0;
  }

  /** Which item of a map is shown. */
  private addItems(path: Path, items: readonly Span[], shown: Path, place: Box & { right: number }): void {
    const shownAt = items.findIndex((item) => keyOf(item.path) === keyOf(shown));
    const go = (to: number): void => {
      this.app.view.chosen.set(keyOf(path), items[to]?.name ?? "");
      this.app.draw();
    };
    const step = (by: number, label: string, shape: string): HTMLElement => make("button", {
      "aria-label": label, title: label, disabled: !items[shownAt + by], onclick: () => go(shownAt + by),
    }, sign(shape));
    const choice = make(
      "div.items", { role: "group", "aria-label": `Item of ${this.app.run.nameOf(path.at(-1) ?? "")}` },
      step(-1, "Item before", "M10 4L6 8l4 4"),
      make("span", { textContent: `item ${count(shownAt + 1)} of ${count(items.length)}` }),
      step(1, "Next item", SIGNS.folded),
    );
    at(choice, { left: place.right - 136, top: place.top + 7, width: 132 });
    this.canvas.append(choice);
  }

  private toggle(path: Path): void {
    const { view } = this.app;
    const key = keyOf(placeOf(path));
    if (!view.unfolded.delete(key)) view.unfolded.add(key);
    this.app.draw();
    this.nodes.get(keyOf(path))?.card.focus({ preventScroll: true });
  }

  private paint(): void {
    const { run, view } = this.app;
    const time = this.app.time;
    const asking = run.askingAt(time);
    const selected = view.selected && keyOf(view.selected.path);
    for (const [key, node] of this.nodes) {
      const { state, span } = run.at(node.path, time, asking);
      const critical = Boolean(span && run.critical.has(span.id) && span.start <= time);
      const blamed = run.wasBlamed(node.path, time);
      const name = run.nameOf(node.path.at(-1) ?? "");
      const how = `${this.how(state, span, time)}${blamed ? " · blamed" : ""}`;
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
      card.classList.toggle("broke", Boolean(span && run.failedCalls(span, time).length));
      card.classList.toggle("selected", key === selected);
      card.classList.toggle("dim", Boolean(view.hits) && !hit);
      card.setAttribute("aria-label", [
        name, how, node.judge && "evaluator", node.more, how !== lookOf(state).label && lookOf(state).label, critical && "on the critical path",
      ].filter(Boolean).join(", "));
      card.title = `${name}\n${lookOf(state).label}${how ? `, ${how}` : ""}${critical ? "\non the critical path" : ""}`;
    }
    for (const edge of this.edges) {
      const [from, to] = [this.nodes.get(edge.from), this.nodes.get(edge.to)];
      if (!from || !to) continue;
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
  private how(state: string, span: Span | null, time: number): string {
    if (!span || ["waiting", "idle", "skipped", "cached", "kept"].includes(state)) return lookOf(state).label;
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
    const failed = this.app.run.failedCalls(span, time).length;
    if (failed) parts.push(plural(failed, "failed call"));
    if (state === "reused" && parts.length < 2) parts.push(`round ${span.round}`); // the sign says so too
    return parts.join(" · ");
  }

  private focused(key: string): void {
    for (const node of this.nodes.values()) node.card.tabIndex = -1;
    const node = this.nodes.get(key);
    if (node) node.card.tabIndex = 0;
  }

  private key(event: KeyboardEvent): void {
    const node = this.nodes.get((event.target as HTMLElement).dataset["key"] ?? "");
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const near = (keys: readonly string[]): Card | undefined => keys.map((key) => this.nodes.get(key)).filter((each) => each !== undefined).sort((a, b) => distance(a, node) - distance(b, node))[0];
    const beside = (way: number): Card | undefined => [...this.nodes.values()]
      .filter((each) => each.box.row === node.box.row && (each.box.left - node.box.left) * way > 0 && Math.abs(each.box.top - node.box.top) < 60)
      .sort((a, b) => Math.abs(a.box.left - node.box.left) - Math.abs(b.box.left - node.box.left))[0];
    const moves: Record<string, () => Card | undefined> = {
      ArrowDown: () => near(node.below), ArrowUp: () => near(node.above),
      ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
    };
    const move = moves[event.key];
    if (move) move()?.card.focus();
    else if (event.key === "Enter") this.app.select(node.path, null, true);
    else if (event.key === "u" && this.app.run.graphAt(node.path)) this.toggle(node.path);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  show(path: Path): void {
    const { view } = this.app;
    for (let end = 1; end < path.length; end++) {
      const last = path[end - 1] ?? "";
      const place = [...path.slice(0, end - 1), last.replace(NUMBER, "")];
      view.unfolded.add(keyOf(placeOf(place)));
      if (NUMBER.test(last)) view.chosen.set(keyOf(place), last);
    }
    this.draw();
    this.nodes.get(keyOf(path))?.card.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // Scale

  fit(): void {
    this.fitted = true;
    const [w, h] = [this.pane.clientWidth - 32, this.pane.clientHeight - 32];
    const width = Math.min(1, w / this.w);
    const whole = Math.min(width, h / this.h);
    this.setScale(whole > 0.7 * width ? whole : width);
  }

  zoom(by: number): void {
    const next = by > 0 ? SCALES.find((scale) => scale > this.scale + 0.01) : SCALES.findLast((scale) => scale < this.scale - 0.01);
    if (next) this.scaleTo(next);
  }

  private scaleTo(scale: number, x = this.pane.clientWidth / 2, y = this.pane.clientHeight / 2): void {
    const to = Math.min(2.5, Math.max(0.1, scale));
    const grown = to / this.scale;
    const [left, top] = [(this.pane.scrollLeft + x) * grown - x, (this.pane.scrollTop + y) * grown - y];
    this.fitted = false;
    this.setScale(to);
    this.pane.scrollTo(left, top);
  }

  private setScale(scale: number): void {
    this.scale = scale;
    this.canvas.style.transform = `scale(${scale})`;
    this.canvas.style.width = `${this.w}px`;
    this.canvas.style.height = `${this.h}px`;
    this.canvas.style.marginRight = `${this.w * (scale - 1)}px`;
    this.canvas.style.marginBottom = `${this.h * (scale - 1)}px`;
    this.canvas.style.left = `${Math.max(0, (this.pane.clientWidth - 32 - this.w * scale) / 2)}px`;
    byId("scale").textContent = `${Math.round(scale * 100)}%`;
  }

  private pan(event: PointerEvent): void {
    if (event.pointerType !== "mouse" || event.button || (event.target as Element).closest(".card, button")) return;
    const [x, y] = [event.clientX + this.pane.scrollLeft, event.clientY + this.pane.scrollTop];
    const move = (moved: PointerEvent): void => this.pane.scrollTo(x - moved.clientX, y - moved.clientY);
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
function portName(port: string, points: readonly Point[], left: number, top: number, target: Placed | undefined, boxes: ReadonlyMap<string, Placed>): HTMLElement {
  const [[x1, y1] = [0, 0], [x2, y2] = [0, 0]] = points.slice(-3, -1);
  const [x, y] = [x1 * 0.22 + x2 * 0.78, y1 * 0.34 + y2 * 0.66];
  const covers = [...boxes.values()].some((box) => x > box.x && x < box.x + box.w && y > box.y - PORT / 2 && y < box.y + box.h + PORT / 2);
  const name = make("span.port", { dir: "auto", title: `port ${port}`, textContent: port });
  at(name, covers && target ? { left: left + target.x, top: top + target.y } : { left: left + x, top: top + y });
  return name;
}

const distance = (a: Card, b: Card): number => Math.abs(a.box.left + a.box.width / 2 - b.box.left - b.box.width / 2);

function at(element: HTMLElement, place: Box): void {
  for (const side of ["left", "top", "width", "height"] as const) if (place[side] !== undefined) element.style[side] = `${place[side]}px`;
}
