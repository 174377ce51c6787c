// Sizes of cards, and places for nodes that have none yet. Places are relative to the container around a node.

import type { Document, NodeDocument } from "./types";

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

export const WIDTH = 224;
const HEAD = 46;
const SUMMARY = 24;
const PORT = 24;
const PADDING = 8;
export const GAP_X = 56;
const GAP_Y = 28;

/** The room that a container leaves around its nodes. */
export const AROUND = { top: 54, left: 20, right: 20, bottom: 20 };

export function cardSize(node: NodeDocument): Size {
  const ports = node.ports.length > 1 ? node.ports.length * PORT : 0;
  return { width: WIDTH, height: HEAD + (node.summary ? SUMMARY : 0) + ports + PADDING };
}

/** The middle of the port that edges lead to, and of an only port, from a card's top. */
export const HEAD_PORT = HEAD / 2;

/** The middle of a port on a card, from its top. */
export function portTop(node: NodeDocument, port: number, size: Size): number {
  if (node.ports.length < 2) return HEAD_PORT;
  return size.height - PADDING - (node.ports.length - port) * PORT + PORT / 2;
}

export const childrenOf = (document: Document): Map<string, NodeDocument[]> => {
  const inside = new Map<string, NodeDocument[]>();
  for (const node of document.nodes) {
    const parent = node.parent ?? "";
    const siblings = inside.get(parent);
    if (siblings) siblings.push(node);
    else inside.set(parent, [node]);
  }
  return inside;
};

/** The nodes around a node, the innermost first. */
export function aroundOf(document: Document, id: string): string[] {
  const found: string[] = [];
  const parentOf = (each: string): string => document.nodes.find((node) => node.id === each)?.parent ?? "";
  for (let at = parentOf(id); at && !found.includes(at); at = parentOf(at)) found.push(at);
  return found;
}

/** A document without what is inside of folded containers; issues of what is hidden are those of the container. */
export function foldedIn(document: Document, folded: ReadonlySet<string>): Document {
  if (!folded.size) return document;
  const holder = new Map(document.nodes.map((node) => [node.id, aroundOf(document, node.id).findLast((id) => folded.has(id))]));
  const seen = (id: string): boolean => !holder.get(id);
  return {
    ...document,
    nodes: document.nodes.filter((node) => seen(node.id)),
    edges: document.edges.filter((edge) => seen(edge.source) && seen(edge.target)),
    issues: document.issues.map((issue) => ({ ...issue, node: (issue.node !== null && holder.get(issue.node)) || issue.node })),
  };
}

/** The sizes of all nodes; a container is as large as what is inside of it. */
export function sizes(document: Document, positions: Readonly<Record<string, Point>>): Map<string, Size> {
  const inside = childrenOf(document);
  const found = new Map<string, Size>();
  const measure = (node: NodeDocument, depth: number): Size => {
    const children = depth < 20 ? (inside.get(node.id) ?? []) : [];
    const own = cardSize(node);
    let { width, height } = own;
    for (const child of children) {
      const size = measure(child, depth + 1);
      const at = positions[child.id] ?? { x: AROUND.left, y: AROUND.top };
      width = Math.max(width, at.x + size.width + AROUND.right);
      height = Math.max(height, at.y + size.height + AROUND.bottom);
    }
    found.set(node.id, { width, height });
    return { width, height };
  };
  for (const node of inside.get("") ?? []) measure(node, 0);
  for (const node of document.nodes) if (!found.has(node.id)) measure(node, 0); // inside of one that is not there
  return found;
}

/** Positions for all nodes: the known ones stay, each of the others stands right of what leads to it, or left of what it leads to. */
export function placed(document: Document, known: Readonly<Record<string, Point>>): Record<string, Point> {
  const positions: Record<string, Point> = { ...known };
  if (document.nodes.every((node) => positions[node.id])) return positions;
  // Containers first from within: how large they are depends on what is inside.
  for (const [parent, siblings] of [...childrenOf(document)].reverse()) {
    const measured = sizes(document, positions);
    const boxes: Box[] = [];
    const stand = (node: NodeDocument, at: Point): void => {
      positions[node.id] = at;
      boxes.push({ id: node.id, ...at, ...(measured.get(node.id) ?? cardSize(node)) });
    };
    for (const node of siblings) if (positions[node.id]) stand(node, positions[node.id] ?? { x: 0, y: 0 });
    const origin = parent ? { x: AROUND.left, y: AROUND.top } : { x: 0, y: 0 };
    for (const node of siblings) {
      if (positions[node.id]) continue;
      const before = document.edges.filter((edge) => edge.target === node.id).map((edge) => edge.source);
      const after = document.edges.filter((edge) => edge.source === node.id).map((edge) => edge.target);
      stand(node, node.position ?? freePlace(boxes, before, after, measured.get(node.id) ?? cardSize(node), origin));
    }
  }
  return positions;
}

interface Box extends Point, Size {
  id: string;
}

function freePlace(boxes: readonly Box[], before: readonly string[], after: readonly string[], size: Size, origin: Point): Point {
  const leading = boxes.filter((box) => before.includes(box.id));
  const led = leading.length ? [] : boxes.filter((box) => after.includes(box.id)); // a leader, left of its experts
  const beside = leading.length ? leading : led.length ? led : boxes.slice(-1);
  const place = {
    x: led.length ? Math.min(...led.map((box) => box.x)) - GAP_X - size.width : beside.length ? Math.max(...beside.map((box) => box.x + box.width)) + GAP_X : origin.x,
    y: beside.length ? Math.min(...beside.map((box) => box.y)) : origin.y,
  };
  const hit = (): Box | undefined =>
    boxes.find(
      (box) =>
        place.x < box.x + box.width + GAP_Y / 2 && box.x < place.x + size.width + GAP_Y / 2 &&
        place.y < box.y + box.height + GAP_Y / 2 && box.y < place.y + size.height + GAP_Y / 2,
    );
  for (let box = hit(); box; box = hit()) place.y = box.y + box.height + GAP_Y;
  return place;
}

/** Places for new nodes, moved down together until they cover no other. */
export function clearOf(document: Document, positions: Readonly<Record<string, Point>>, at: Readonly<Record<string, Point>>): Record<string, Point> {
  const measured = sizes(document, { ...positions, ...at });
  const boxOf = (id: string, place: Point): Box => ({ id, ...place, ...(measured.get(id) ?? { width: 0, height: 0 }) });
  let by = 0;
  const hit = (): number | undefined => {
    for (const node of document.nodes) {
      const own = at[node.id];
      if (!own) continue;
      const box = boxOf(node.id, { x: own.x, y: own.y + by });
      const other = document.nodes.find((each) => {
        const place = at[each.id] || each.parent !== node.parent ? undefined : positions[each.id];
        return place && covers(box, boxOf(each.id, place));
      });
      if (other) return by + (positions[other.id]?.y ?? 0) + (measured.get(other.id)?.height ?? 0) + GAP_Y - box.y;
    }
    return undefined;
  };
  for (let next = hit(); next !== undefined; next = hit()) by = next;
  return Object.fromEntries(Object.entries(at).map(([id, place]) => [id, { x: place.x, y: place.y + by }]));
}

const covers = (one: Box, other: Box): boolean =>
  one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;

/** Places right of a container for the nodes that it covers, and for those right of them. */
export function besideOf(document: Document, positions: Readonly<Record<string, Point>>, id: string): Record<string, Point> {
  const measured = sizes(document, positions);
  const boxOf = (each: string): Box => ({ id: each, ...(positions[each] ?? { x: 0, y: 0 }), ...(measured.get(each) ?? { width: 0, height: 0 }) });
  const own = boxOf(id);
  const parent = document.nodes.find((node) => node.id === id)?.parent ?? "";
  const others = document.nodes.filter((node) => node.id !== id && (node.parent ?? "") === parent).map((node) => boxOf(node.id));
  const covered = others.filter((box) => covers(own, box));
  if (!covered.length) return {};
  const first = Math.min(...covered.map((box) => box.x));
  const by = own.x + own.width + GAP_X - first;
  return Object.fromEntries(others.filter((box) => box.x >= first).map((box) => [box.id, { x: box.x + by, y: box.y }]));
}

/** Whether cards lie upon each other at the places that the file gives them: other platforms draw smaller ones. */
export function overlapping(document: Document): boolean {
  const positions = Object.fromEntries(document.nodes.flatMap(({ id, position }) => (position ? [[id, position]] : [])));
  const measured = sizes(document, positions);
  return [...childrenOf(document).values()].some((siblings) => {
    const boxes = siblings.flatMap(({ id, position }): Box[] => (position ? [{ id, ...position, ...(measured.get(id) ?? { width: 0, height: 0 }) }] : []));
    return boxes.some((one, at) => boxes.slice(at + 1).some((other) => covers(one, other)));
  });
}

/** The place of a node on the canvas, its containers added up. */
export function absolute(document: Document, positions: Readonly<Record<string, Point>>, id: string): Point {
  const byId = new Map(document.nodes.map((node) => [node.id, node]));
  let at = { x: 0, y: 0 };
  let node = byId.get(id);
  for (let depth = 0; node && depth < 20; depth++) {
    const own = positions[node.id] ?? { x: 0, y: 0 };
    at = { x: at.x + own.x, y: at.y + own.y };
    node = node.parent ? byId.get(node.parent) : undefined;
  }
  return at;
}
