// Changes between two documents, as the canvas draws them.

import { type Overlay, edgeId } from "./state";
import type { Changes, Document, NodeDocument } from "./types";

export type Mark = "added" | "changed" | "removed";

/** The newer document with what was removed still in it, so that it can be drawn. */
export function overlayOf(kind: Overlay["kind"], title: string, changes: Changes, before: Document, after: Document): Overlay {
  const there = new Set(after.nodes.map((node) => node.id));
  const known = new Map(before.nodes.map((node) => [node.id, node]));
  const gone = changes.removed_nodes
    .filter((node) => !there.has(node.id))
    .map((node): NodeDocument => known.get(node.id) ?? { ...node, params: {}, ports: [], outputs: [], summary: "", given_title: "", name: node.title });
  const all = new Set([...there, ...gone.map((node) => node.id)]);
  const edges = new Set(after.edges.map(edgeId));
  const cut = changes.edges_removed
    .map(([source, port, target]) => ({ source, port, target }))
    .filter((edge) => !edges.has(edgeId(edge)) && all.has(edge.source) && all.has(edge.target));
  return { kind, title, changes, document: { ...after, nodes: [...after.nodes, ...gone], edges: [...after.edges, ...cut] } };
}

export function nodeMark(overlay: Overlay | null, id: string): Mark | null {
  if (!overlay) return null;
  const { added, removed, changed } = overlay.changes;
  if (added.includes(id)) return "added";
  if (removed.includes(id)) return "removed";
  return changed.some((change) => change.node === id) ? "changed" : null;
}

export function edgeMark(overlay: Overlay | null, id: string): Mark | null {
  if (!overlay) return null;
  const among = (edges: Changes["edges_added"]): boolean =>
    edges.some(([source, port, target]) => edgeId({ source, port, target }) === id);
  return among(overlay.changes.edges_added) ? "added" : among(overlay.changes.edges_removed) ? "removed" : null;
}
