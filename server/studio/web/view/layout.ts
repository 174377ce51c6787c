// Where the operators of a graph stand: in layers from top to bottom, each below all that it waits for. Pure functions.

import { listed } from "./run";

const GAP = { x: 18, y: 28, named: 42, dummy: 10, row: 12 };
const MOST_DUMMIES = 1500;

export type Point = readonly [x: number, y: number];

export interface Placed {
  x: number;
  y: number;
  w: number;
  h: number;
  row: number;
}

export interface Layers {
  boxes: Map<string, Placed>;
  edges: { from: string; to: string; points: Point[] }[];
  width: number;
  height: number;
}

/** A box to be placed, or the point in a layer at which an edge passes through. */
interface Node {
  id: string;
  w: number;
  h: number;
  real: boolean;
  above: Node[];
  below: Node[];
  rank: number;
  /** Where it stands in its layer, as a share, and where it would like to. */
  at: number;
  want: number;
  cx: number;
  y: number;
  row: number;
  top: number;
  bottom: number;
}

interface Edge {
  from: Node;
  to: Node;
  through: Node[];
}

const nodeOf = (id: string, w: number, h: number, real: boolean, rank: number): Node =>
  ({ id, w, h, real, rank, above: [], below: [], at: 0, want: 0, cx: 0, y: 0, row: 0, top: 0, bottom: 0 });

/**
 * Lay out boxes: widest is the width from which a layer is broken into rows; named tells whether the edge from one id
 * to another has a name, for which there is room above the second.
 */
export function layered(
  boxes: readonly { id: string; w: number; h: number }[], before: ReadonlyMap<string, readonly string[]>, widest: number,
  named: (from: string, to: string) => boolean,
): Layers {
  const nodes = new Map(boxes.map(({ id, w, h }) => [id, nodeOf(id, w, h, true, -1)]));
  const edges: Edge[] = [];
  for (const [id, froms] of before) {
    for (const each of froms) {
      const [from, to] = [nodes.get(each), nodes.get(id)];
      if (from && to && from !== to) edges.push({ from, to, through: [] });
    }
  }
  rank(nodes, edges);
  const wide = new Set(edges.filter(({ from, to }) => named(from.id, to.id)).map(({ to }) => to.rank - 1));
  const gap = (rank: number): number => (wide.has(rank) ? GAP.named : GAP.y);
  const layers: Node[][] = [];
  for (const node of nodes.values()) (layers[node.rank] ??= []).push(node);
  const broken = layers.some((layer) => widthOf(layer) > widest);
  const long = edges.reduce((sum, { from, to }) => sum + to.rank - from.rank - 1, 0);
  for (const edge of edges) link(edge, layers, !broken && long < MOST_DUMMIES);
  order(layers);
  return broken ? placeInRows(layers, edges, widest, gap) : place(layers, edges, gap);
}

/** The longest way from a beginning; what is in a circle, which only a damaged file has, comes last. */
function rank(nodes: ReadonlyMap<string, Node>, edges: readonly Edge[]): void {
  const waits = new Map([...nodes.values()].map((node) => [node, 0]));
  const waitsFor = (node: Node): number => waits.get(node) ?? 0;
  const after = new Map<Node, Node[]>();
  for (const edge of edges) {
    waits.set(edge.to, waitsFor(edge.to) + 1);
    listed(after, edge.from).push(edge.to);
  }
  const ready = [...nodes.values()].filter((node) => !waitsFor(node));
  for (const node of ready) {
    node.rank = Math.max(0, node.rank);
    for (const next of after.get(node) ?? []) {
      next.rank = Math.max(next.rank, node.rank + 1);
      waits.set(next, waitsFor(next) - 1);
      if (!waitsFor(next)) ready.push(next);
    }
  }
  for (const node of nodes.values()) node.rank = Math.max(0, node.rank);
}

function link(edge: Edge, layers: readonly Node[][], withDummies: boolean): void {
  let last = edge.from;
  for (let at = edge.from.rank + 1; withDummies && at < edge.to.rank; at++) {
    const dummy = nodeOf("", GAP.dummy, 0, false, at);
    layers[at]?.push(dummy);
    edge.through.push(dummy);
    last.below.push(dummy);
    dummy.above.push(last);
    last = dummy;
  }
  last.below.push(edge.to);
  edge.to.above.push(last);
}

/** Few crossings: each layer in the order of the mean place of its neighbours, downwards and upwards in turn. */
function order(layers: readonly Node[][]): void {
  const number = (layer: readonly Node[]): void => layer.forEach((node, at) => (node.at = at / layer.length));
  layers.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const node of layer) {
        const near = down ? node.above : node.below;
        node.want = near.length ? near.reduce((sum, each) => sum + each.at, 0) / near.length : node.at;
      }
      layer.sort((a, b) => a.want - b.want);
      number(layer);
    }
  }
}

const between = (a: Node | undefined, b: Node): number => (!a ? 0 : a.real && b.real ? GAP.x : GAP.x * 0.7);

function widthOf(layer: readonly Node[]): number {
  return layer.reduce((sum, node, at) => sum + node.w + between(layer[at - 1], node), 0);
}

function place(layers: readonly Node[][], edges: readonly Edge[], gap: (rank: number) => number): Layers {
  for (const layer of layers) pack(layer, layer.map(() => 0));
  for (let sweep = 0; sweep < 12; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wanted = layer.map((node) => {
        const near = sweep < 10 ? (down ? node.above : node.below) : [...node.above, ...node.below];
        return near.length ? near.reduce((sum, each) => sum + each.cx, 0) / near.length : node.cx;
      });
      pack(layer, wanted);
    }
  }
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((node) => node.h));
    for (const node of layer) Object.assign(node, { y: y + (height - node.h) / 2, row: node.rank, top: y, bottom: y + height });
    y += height + gap(layer[0]?.rank ?? 0);
  }
  return finished(layers, edges);
}

/** The centres as near to those wanted as they can be side by side (isotonic regression: pool adjacent violators). */
function pack(layer: readonly Node[], wanted: readonly number[]): void {
  const offsets: number[] = [];
  layer.forEach((node, at) => {
    const last = layer[at - 1];
    offsets.push(last ? offsets[at - 1]! + last.w / 2 + between(last, node) + node.w / 2 : 0);
  });
  const pools: { sum: number; weight: number; size: number }[] = [];
  wanted.forEach((want, at) => {
    const weight = layer[at]?.real ? 1 : 3;
    pools.push({ sum: (want - offsets[at]!) * weight, weight, size: 1 });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (!a || !b || a.sum / a.weight <= b.sum / b.weight) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, size: a.size + b.size });
    }
  });
  let at = 0;
  for (const pool of pools) {
    for (let left = pool.size; left; left--, at++) layer[at]!.cx = pool.sum / pool.weight + offsets[at]!;
  }
}

/** Layers that are too wide become rows, one below the other. */
function placeInRows(layers: readonly Node[][], edges: readonly Edge[], widest: number, gap: (rank: number) => number): Layers {
  let y = 0;
  let row = 0;
  for (const layer of layers) {
    const even = (widthOf(layer) + 1) / Math.ceil(widthOf(layer) / widest); // so that the last row is not a rest
    const rows: Node[][] = [];
    let width = 0;
    for (const node of layer) {
      (rows[Math.floor((width + node.w / 2) / even)] ??= []).push(node);
      width += node.w + GAP.x;
    }
    const left = -Math.max(...rows.filter(Boolean).map(widthOf)) / 2;
    for (const nodes of rows.filter(Boolean)) {
      let x = left;
      const height = Math.max(...nodes.map((node) => node.h));
      for (const node of nodes) {
        Object.assign(node, { cx: x + node.w / 2, y: y + (height - node.h) / 2, row, top: y, bottom: y + height });
        x += node.w + GAP.x;
      }
      y += height + GAP.row;
      row++;
    }
    y += gap(layer[0]?.rank ?? 0) - GAP.row;
  }
  return finished(layers, edges);
}

function finished(layers: readonly Node[][], edges: readonly Edge[]): Layers {
  const all = layers.flat();
  const left = Math.min(...all.map((node) => node.cx - node.w / 2));
  const placed = new Map<string, Placed>();
  for (const node of all) {
    node.cx -= left;
    if (node.real) placed.set(node.id, { x: node.cx - node.w / 2, y: node.y, w: node.w, h: node.h, row: node.row });
  }
  return {
    boxes: placed,
    edges: edges.map(({ from, to, through }) => ({
      from: from.id,
      to: to.id,
      points: [
        [from.cx, from.y + from.h],
        [from.cx, from.bottom],
        ...through.flatMap((dummy): Point[] => [[dummy.cx, dummy.top], [dummy.cx, dummy.bottom]]),
        [to.cx, to.top],
        [to.cx, to.y],
      ],
    })),
    width: Math.max(...all.map((node) => node.cx + node.w / 2)),
    height: Math.max(...all.map((node) => node.y + node.h)),
  };
}

/** A line through points, leaving and arriving straight. */
export function curve([first, ...points]: readonly Point[]): string {
  let [x1, y1] = first ?? [0, 0];
  let path = `M${x1} ${y1}`;
  for (const [x2, y2] of points) {
    const middle = (y1 + y2) / 2;
    path += x1 === x2 ? `L${x2} ${y2}` : `C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
    [x1, y1] = [x2, y2];
  }
  return path;
}
