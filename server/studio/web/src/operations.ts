// Operations for what a person does on the canvas. Pure: a document in, operations out.

import { parsed } from "../shared/exact";
import { GAP_X, type Point, sizes } from "./place";
import { startingParams } from "./starting";
import { edgeId } from "./state";
import type { Document, EdgeDocument, Fields, Json, NodeDocument, NodeType, Operation, StickyNote } from "./types";

/** Ids that are free, behind the largest number of those that run inside the same node. */
export function freeIds(document: Document, parent: string, count = 1): string[] {
  const begin = parent ? `${parent}-` : "";
  const numbers = document.nodes
    .map((node) => node.id)
    .filter((id) => id.startsWith(begin))
    .map((id) => id.slice(begin.length))
    .filter((rest) => /^\d{1,9}$/.test(rest))
    .map(Number);
  const largest = Math.max(0, ...numbers);
  return Array.from({ length: count }, (_, at) => `${begin}${largest + 1 + at}`);
}

/** A name that no operator of a file of experts has. */
export function freeName(document: Document, base: string, taken: ReadonlySet<string> = new Set()): string {
  const names = new Set([...document.nodes.map((node) => node.title), ...taken]);
  const begin = base.replace(/-\d+$/, "");
  for (let number = 1; ; number++) {
    const name = number === 1 ? begin : `${begin}-${number}`;
    if (!names.has(name)) return name;
  }
}

export interface Adding {
  at?: Point;
  inside?: string;
  source?: string;
  port?: number;
  /** The edge that the node is put into, by its id. */
  edge?: string;
}

/** Add a node: connected to the one before it, or in an edge; a container comes with the node its inside starts with. */
export function added(
  document: Document, types: ReadonlyMap<string, NodeType>, positions: Readonly<Record<string, Point>>, type: string, options: Adding,
): { id: string; operations: Operation[]; place: Point | undefined } {
  const edge = document.edges.find((each) => edgeId(each) === options.edge);
  const before = document.nodes.find((node) => node.id === (edge?.source ?? options.source));
  const inside = options.inside ?? before?.parent ?? "";
  const id = type === "conversation" ? "conversation" : (freeIds(document, inside)[0] ?? "1");
  const port = edge?.port ?? options.port ?? (before ? freePort(document, before) : 0);
  const params = startingParams(document, types.get(type), id, before && { node: before, port });
  const operations: Operation[] = edge
    ? [{ op: "insert_between", source: edge.source, target: edge.target, port: edge.port, id, type, params }]
    : [{ op: "add_node", id, type, params, inside }];
  const start = types.get(type)?.body_start;
  if (start) operations.push({ op: "add_node", id: `${id}-1`, type: start, params: {}, inside: id });
  const follows = before && !edge && (before.parent ?? "") === inside && !BEGINNING.has(type) && !ENDING.has(before.type);
  if (follows) operations.push({ op: "connect", source: before.id, target: id, port });
  return { id, operations, place: options.at ?? (edge && between(document, positions, edge)) };
}

/** A part of a file of experts that is to be added. */
export interface NewPart {
  kind: string;
  name: string;
  instruction: string;
  /** The expert that an operator or an evaluator belongs to. */
  expert: string;
  /** Of an expert: what it is good at, and its first operator. */
  desc?: string;
  operator?: string;
  source?: string;
  port?: number;
  edge?: string;
}

/** Add an operator or an evaluator to an expert, an expert, or the leader. */
export function addedOperator(document: Document, said: NewPart): Operation[] {
  if (said.kind === "leader") return [{ op: "add_node", id: "leader", type: "leader", params: {}, inside: "" }];
  if (said.kind === "expert") {
    const params = { desc: said.desc ?? "", operator: said.operator ?? "", instruction: said.instruction };
    return [{ op: "add_node", id: said.name, type: "expert", params, inside: "" }];
  }
  const edge = document.edges.find((each) => edgeId(each) === said.edge);
  const made = { id: said.name, type: said.kind, params: { instruction: said.instruction } };
  if (edge) return [{ op: "insert_between", source: edge.source, target: edge.target, port: edge.port, ...made }];
  const before = document.nodes.find((node) => node.id === said.source);
  return [
    { op: "add_node", ...made, inside: said.expert },
    ...(before ? [{ op: "connect" as const, source: before.id, target: said.name, port: said.port ?? freePort(document, before) }] : []),
  ];
}

const BEGINNING = new Set(["start", "conversation"]);
const ENDING = new Set(["end", "loop-end", "conversation"]);

/** The first port without an edge; the first one where all have edges. */
function freePort(document: Document, node: NodeDocument): number {
  const used = new Set(document.edges.filter((edge) => edge.source === node.id).map((edge) => edge.port));
  return Math.max(0, node.ports.findIndex((_, port) => !used.has(port)));
}

function between(document: Document, positions: Readonly<Record<string, Point>>, edge: EdgeDocument): Point | undefined {
  const [from, to] = [positions[edge.source], positions[edge.target]];
  const size = sizes(document, positions).get(edge.source);
  return from && to && size ? { x: Math.max(from.x + size.width + GAP_X, (from.x + to.x) / 2), y: (from.y + to.y) / 2 + 96 } : undefined;
}

export const removing = (document: Document, nodes: readonly string[], edges: readonly string[]): Operation[] => {
  const gone = new Set(nodes.filter((id) => document.nodes.some((node) => node.id === id)));
  const around = (id: string): boolean => {
    const parent = document.nodes.find((node) => node.id === id)?.parent;
    return !!parent && (gone.has(parent) || around(parent));
  };
  const cut = document.edges
    .filter((edge) => edges.includes(edgeId(edge)) && !gone.has(edge.source) && !gone.has(edge.target))
    .map((edge): Operation => ({ op: "disconnect", source: edge.source, target: edge.target, port: edge.port }));
  return [...cut, ...[...gone].filter((id) => !around(id)).map((node): Operation => ({ op: "remove_node", node }))];
};

export interface Copied {
  operad: "nodes";
  nodes: { id: string; type: string; params: Fields; parent: string | null; given_title?: string }[];
  edges: EdgeDocument[];
  notes?: Omit<StickyNote, "id">[];
}

export function copied(document: Document, ids: readonly string[]): Copied {
  const chosen = new Set(ids);
  for (let grew = true; grew; ) {
    const inside = document.nodes.filter((node) => node.parent && chosen.has(node.parent) && !chosen.has(node.id));
    for (const node of inside) chosen.add(node.id);
    grew = inside.length > 0;
  }
  return {
    operad: "nodes",
    nodes: document.nodes
      .filter((node) => chosen.has(node.id))
      .map(({ id, type, params, parent, given_title }) => ({ id, type, params, parent, given_title })),
    edges: document.edges.filter((edge) => chosen.has(edge.source) && chosen.has(edge.target)),
  };
}

/** Add copies of nodes; what they read of each other they read of the copies. */
export function pasting(document: Document, from: Copied): { ids: Map<string, string>; operations: Operation[] } {
  const ids = new Map<string, string>();
  const copiedIds = new Set(from.nodes.map((node) => node.id));
  const counted = new Map<string, number>();
  const newParent = (node: Copied["nodes"][number]): string =>
    node.parent && copiedIds.has(node.parent)
      ? (ids.get(node.parent) ?? "")
      : document.nodes.some((each) => each.id === node.parent) ? (node.parent ?? "") : "";
  const outerFirst = [...from.nodes].sort((one, other) => depth(one.id, from) - depth(other.id, from));
  for (const node of outerFirst) {
    const parent = newParent(node);
    const used = counted.get(parent) ?? 0;
    counted.set(parent, used + 1);
    const name = node.id.replace(/^.*\//, "");
    ids.set(node.id, document.kind === "experts" ? freeName(document, name, new Set(ids.values())) : (freeIds(document, parent, used + 1)[used] ?? node.id));
  }
  const operations: Operation[] = outerFirst.map((node) => ({
    op: "add_node", id: ids.get(node.id) ?? node.id, type: node.type,
    params: renamed(node.params, ids) as Fields, inside: newParent(node), ...titled(document, node),
  }));
  for (const edge of from.edges) {
    const source = ids.get(edge.source);
    const target = ids.get(edge.target);
    if (source && target) operations.push({ op: "connect", source, target, port: edge.port });
  }
  return { ids, operations };
}

/** The title of a copy; the parts of experts are named by their ids. */
export const titled = (document: Document, node: { given_title?: string }): { title?: string } =>
  document.kind === "workflow" && node.given_title ? { title: node.given_title.replace(/\s+/g, " ").slice(0, 200) } : {};

function depth(id: string, from: Copied): number {
  const parent = from.nodes.find((node) => node.id === id)?.parent;
  return parent && from.nodes.some((node) => node.id === parent) ? 1 + depth(parent, from) : 0;
}

function renamed(value: Json, ids: ReadonlyMap<string, string>): Json {
  if (typeof value === "string") {
    return value.replace(/\{\{#([^.#{}]+)\./g, (found, id: string) => (ids.has(id) ? `{{#${ids.get(id)}.` : found));
  }
  if (Array.isArray(value)) {
    const [name, id] = value;
    if (value.length === 2 && typeof name === "string" && typeof id === "string" && ids.has(id)) return [name, ids.get(id) ?? id];
    return value.map((each) => renamed(each, ids));
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, renamed(each, ids)]));
  }
  return value;
}

export function readCopied(text: string): Copied | null {
  if (text.length > 2_000_000) return null;
  try {
    const value = parsed<Partial<Copied> | null>(text);
    const sound =
      value?.operad === "nodes" && Array.isArray(value.nodes) && Array.isArray(value.edges) && value.nodes.length <= 1000 &&
      value.nodes.every((node) => typeof node?.id === "string" && typeof node.type === "string") &&
      (value.notes ?? []).every((note) => typeof note?.text === "string" && Array.isArray(note.size));
    return sound ? (value as Copied) : null;
  } catch {
    return null;
  }
}

/** By type, the parameter that names variables others read, and where in each of its items the name stands. */
const NAMED: Record<string, [string, number]> = {
  start: ["variables", 0],
  code: ["outputs", 0],
  end: ["outputs", 0],
  "parameter-extractor": ["parameters", 1],
  loop: ["variables", 0],
  conversation: ["variables", 0],
};

/** Give a parameter a value; where only a variable's name is another, rename it, so that what reads it follows. */
export function setting(node: { id: string; type: string; params: Fields }, name: string, value: Json): Operation {
  const [param, at] = NAMED[node.type] ?? ["", 0];
  const before = node.params[name];
  if (name === param && Array.isArray(before) && Array.isArray(value) && before.length === value.length) {
    const differing = value.flatMap((item, row) => (JSON.stringify(item) === JSON.stringify(before[row]) ? [] : [row]));
    const [row] = differing;
    if (differing.length === 1 && row !== undefined) {
      const was = before[row];
      const now = value[row];
      if (Array.isArray(was) && Array.isArray(now)) {
        const [old, fresh] = [was[at], now[at]];
        const others = (item: Json[]): string => JSON.stringify(item.filter((_, each) => each !== at));
        const taken = before.some((item) => Array.isArray(item) && item[at] === fresh);
        if (typeof old === "string" && typeof fresh === "string" && old && /^[^\s#{}.]+$/.test(fresh) && !taken && others(was) === others(now)) {
          return { op: "rename_variable", node: node.id, old, new: fresh };
        }
      }
    }
  }
  return { op: "set", node: node.id, path: name, value };
}

