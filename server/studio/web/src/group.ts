// Nodes put into a container: copies of them inside of a new one, in their place. Pure: a document in, operations out.

import { copied, freeIds, pasting } from "./operations";
import type { Document, EdgeDocument, Fields, Json, NodeDocument, NodeType, Operation } from "./types";

/** Nodes that stay outside: a workflow begins and ends with them, or a container has its own. */
const OUTSIDE = new Set(["start", "end", "conversation", "iteration-start", "loop-start", "loop-end"]);

/** Why these nodes cannot be grouped; null where they can. */
export function ungroupable(nodes: readonly NodeDocument[]): string | null {
  if (!nodes.length) return "Select the nodes to group.";
  const outside = nodes.find((node) => OUTSIDE.has(node.type));
  if (outside) return `${outside.title} cannot be inside of a container.`;
  return new Set(nodes.map((node) => node.parent ?? "")).size > 1 ? "Select nodes that are inside of the same container." : null;
}

/**
 * The operations that put nodes into a container. What others read of the last of them they read of an iteration; what
 * the nodes read of its list they read of the item.
 */
export function grouping(document: Document, type: NodeType, ids: readonly string[]): { id: string; ids: Map<string, string>; operations: Operation[] } {
  const chosen = document.nodes.filter((node) => ids.includes(node.id));
  const parent = chosen[0]?.parent ?? "";
  const container = freeIds(document, parent)[0] ?? "1";
  const begin = `${container}-1`;
  const from = copied(document, chosen.map((node) => node.id));
  const held: Document = { ...document, nodes: [...document.nodes, hollow(container, type.type, parent), hollow(begin, type.body_start ?? "", container)] };
  const own = new Set(ids);
  const incoming = document.edges.filter((edge) => own.has(edge.target) && !own.has(edge.source));
  const list = type.type === "iteration" ? listOf(document, incoming[0]?.source) : null;
  const ofItem = (params: Fields): Fields => (list ? (rewritten(params, list, ["item", container]) as Fields) : params);
  const inside = {
    ...from,
    nodes: from.nodes.map((node) => ({ ...node, params: ofItem(node.params), parent: own.has(node.id) ? container : node.parent })),
  };
  const { ids: renamed, operations: copies } = pasting(held, inside);
  const among = (edge: EdgeDocument): boolean => own.has(edge.source) && own.has(edge.target);
  const edges = document.edges.filter(among);
  const heads = chosen.filter((node) => !edges.some((edge) => edge.target === node.id));
  const tails = chosen.filter((node) => !edges.some((edge) => edge.source === node.id));
  const outgoing = new Set(document.edges.filter((edge) => own.has(edge.source) && !own.has(edge.target)).map((edge) => edge.target));
  const last = tails.at(-1);
  const output = last?.outputs[0]?.name ?? "output";
  const result = [output, renamed.get(last?.id ?? "") ?? ""];
  const params: Fields = type.type === "iteration" ? { iterator_selector: list ?? ["", incoming[0]?.source ?? ""], output_selector: result } : { loop_count: 3 };
  const sources = [...new Map(incoming.map((edge) => [`${edge.source} ${edge.port}`, edge])).values()];
  const operations: Operation[] = [
    { op: "add_node", id: container, type: type.type, params: type.type === "iteration" ? { ...params, output_selector: [output, begin] } : params, inside: parent },
    { op: "add_node", id: begin, type: type.body_start ?? "", params: {}, inside: container },
    ...copies,
    ...heads.map((node): Operation => ({ op: "connect", source: begin, target: renamed.get(node.id) ?? "", port: 0 })),
    ...(type.type === "iteration" ? [{ op: "set", node: container, path: "output_selector", value: params["output_selector"] ?? [] } as const] : []),
    ...readers(document, own, last && type.type === "iteration" ? [output, last.id] : null, ["output", container]),
    ...chosen.map((node): Operation => ({ op: "remove_node", node: node.id, edges: "cut" })),
    ...sources.map((edge): Operation => ({ op: "connect", source: edge.source, target: container, port: edge.port })),
    ...[...outgoing].map((target): Operation => ({ op: "connect", source: container, target, port: 0 })),
  ];
  return { id: container, ids: renamed, operations };
}

const hollow = (id: string, type: string, parent: string): NodeDocument =>
  ({ id, type, title: "", given_title: "", name: "", parent: parent || null, params: {}, ports: [], outputs: [], summary: "" });

/** The list that an iteration goes through: the first one of the node before it, or its first output. */
function listOf(document: Document, source: string | undefined): [string, string] | null {
  const outputs = document.nodes.find((node) => node.id === source)?.outputs ?? [];
  const list = outputs.find((output) => output.type.startsWith("array")) ?? outputs[0];
  return list && source ? [list.name, source] : null;
}

/** A value in which one variable is read in place of another. */
function rewritten(value: Json, was: [string, string], now: [string, string]): Json {
  if (typeof value === "string") return value.replaceAll(`{{#${was[1]}.${was[0]}#}}`, `{{#${now[1]}.${now[0]}#}}`);
  if (Array.isArray(value)) return value.length === 2 && value[0] === was[0] && value[1] === was[1] ? now : value.map((each) => rewritten(each, was, now));
  return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, rewritten(each, was, now)])) : value;
}

/** What nodes outside read of a node that moves, they read of its container. */
function readers(document: Document, own: ReadonlySet<string>, was: [string, string] | null, now: [string, string]): Operation[] {
  if (!was) return [];
  return document.nodes.filter((node) => !own.has(node.id)).flatMap((node) =>
    Object.entries(node.params).flatMap(([name, value]): Operation[] => {
      const next = rewritten(value, was, now);
      return JSON.stringify(next) === JSON.stringify(value) ? [] : [{ op: "set", node: node.id, path: name, value: next }];
    }));
}
