// The nodes and edges of React Flow for a document.

import { type Edge, type Node, MarkerType } from "@xyflow/react";
import { type Mark, edgeMark, nodeMark } from "../changes";
import { type Overlay, type Positions, type Selection, edgeId } from "../state";
import { cardSize, childrenOf, sizes } from "../place";
import { canvasId, notePlaces } from "../notes";
import type { Document, Issue, NodeDocument, StickyNote } from "../types";

export interface CardData extends Record<string, unknown> {
  node: NodeDocument;
  errors: number;
  warnings: number;
  mark: Mark | null;
  container: boolean;
  folded: boolean;
  locked: boolean;
}

export type CardNode = Node<CardData, "card">;

export interface NoteData extends Record<string, unknown> {
  note: StickyNote;
  locked: boolean;
}

export type NoteNode = Node<NoteData, "note">;
export type CanvasNode = CardNode | NoteNode;

export interface LineData extends Record<string, unknown> {
  mark: Mark | null;
  locked: boolean;
}

export type LineEdge = Edge<LineData, "line">;

interface Drawn {
  document: Document;
  positions: Positions;
  selection: Selection;
  overlay: Overlay | null;
  containers: ReadonlySet<string>;
  folded: ReadonlySet<string>;
}

/** Nodes for React Flow; one that has not changed is the same object as before. */
export function canvasNodes(drawn: Drawn, before: readonly CanvasNode[]): CanvasNode[] {
  return [...noteNodes(drawn, before.filter((node) => node.type === "note")), ...cardNodes(drawn, before.filter((node) => node.type === "card"))];
}

function noteNodes({ document, positions, selection, overlay }: Drawn, before: readonly NoteNode[]): NoteNode[] {
  const known = new Map(before.map((node) => [node.id, node]));
  const places = notePlaces(document, positions);
  const locked = overlay !== null || document.readonly !== null;
  return document.sticky_notes.map((note) => {
    const id = canvasId(note);
    return {
      ...(known.get(id)?.measured && { measured: { width: note.size[0], height: note.size[1] } }),
      id, type: "note", position: places[id] ?? { x: 0, y: 0 }, data: { note, locked }, width: note.size[0], height: note.size[1],
      selected: selection.nodes.includes(id), draggable: !locked, connectable: false, zIndex: -1,
      ariaLabel: `Note: ${note.text.slice(0, 100)}`, domAttributes: { "aria-roledescription": "note" },
    };
  });
}

function cardNodes(drawn: Drawn, before: readonly CardNode[]): CardNode[] {
  const { document, positions, overlay, containers } = drawn;
  const known = new Map(before.map((node) => [node.id, node]));
  const measured = sizes(document, positions);
  const inside = childrenOf(document);
  const selected = new Set(drawn.selection.nodes);
  const ids = new Set(document.nodes.map((node) => node.id));
  const issues = counted(document.issues);
  const locked = overlay !== null || document.readonly !== null;
  const made = new Map<string, CardNode>();
  for (const node of document.nodes) {
    if (made.has(node.id)) continue; // two nodes with one id: the issues tell
    const [errors, warnings] = issues.get(node.id) ?? [0, 0];
    const folded = drawn.folded.has(node.id);
    const container = !folded && (containers.has(node.type) || inside.has(node.id));
    const mark = nodeMark(overlay, node.id);
    const size = measured.get(node.id) ?? cardSize(node);
    const position = positions[node.id] ?? { x: 0, y: 0 };
    const parentId = node.parent && ids.has(node.parent) ? node.parent : undefined;
    const old = known.get(node.id);
    const data: CardData = old && sameData(old.data, { node, errors, warnings, mark, container, folded, locked })
      ? old.data
      : { node, errors, warnings, mark, container, folded, locked };
    const isSelected = selected.has(node.id);
    const unchanged =
      old && old.data === data && old.selected === isSelected && old.parentId === parentId && !old.dragging &&
      old.position.x === position.x && old.position.y === position.y && old.width === size.width && old.height === size.height;
    made.set(node.id, unchanged ? old : {
      ...(old && { measured: old.measured }),
      id: node.id,
      type: "card",
      position,
      data,
      width: size.width,
      height: size.height,
      selected: isSelected,
      draggable: overlay === null,
      ariaLabel: labelOf(data),
      domAttributes: { "aria-roledescription": container ? "container" : "node" },
      zIndex: container ? 0 : 1,
      ...(parentId ? { parentId, expandParent: false } : {}),
    });
  }
  return outerFirst([...made.values()]);
}

const sameData = (one: CardData, other: CardData): boolean =>
  one.node === other.node && one.errors === other.errors && one.warnings === other.warnings && one.mark === other.mark &&
  one.container === other.container && one.folded === other.folded && one.locked === other.locked;

function labelOf({ node, errors, warnings, mark }: CardData): string {
  const parts = [node.title, node.type, `id ${node.id}`];
  if (errors) parts.push(`${errors} ${errors === 1 ? "error" : "errors"}`);
  if (warnings) parts.push(`${warnings} ${warnings === 1 ? "warning" : "warnings"}`);
  if (mark) parts.push(mark);
  return parts.join(", ");
}

function counted(issues: readonly Issue[]): Map<string, [number, number]> {
  const found = new Map<string, [number, number]>();
  for (const issue of issues) {
    if (!issue.node) continue;
    const [errors, warnings] = found.get(issue.node) ?? [0, 0];
    found.set(issue.node, issue.severity === "warning" ? [errors, warnings + 1] : [errors + 1, warnings]);
  }
  return found;
}

/** React Flow wants containers before what is inside of them. */
function outerFirst(nodes: CardNode[]): CardNode[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const depth = (node: CardNode): number => {
    let count = 0;
    for (let at = node.parentId; at && count < 20; at = byId.get(at)?.parentId) count++;
    return count;
  };
  return nodes.map((node) => [depth(node), node] as const).sort(([one], [other]) => one - other).map(([, node]) => node);
}

export function lineEdges(document: Document, selection: Selection, overlay: Overlay | null, before: readonly LineEdge[]): LineEdge[] {
  const known = new Map(before.map((edge) => [edge.id, edge]));
  const ids = new Set(document.nodes.map((node) => node.id));
  const selected = new Set(selection.edges);
  const fixed = overlay !== null || document.readonly !== null;
  const judges = new Set(document.nodes.filter((node) => node.type === "evaluator" || node.type === "expert").map((node) => node.id));
  const made = new Map<string, LineEdge>();
  for (const edge of document.edges) {
    const id = edgeId(edge);
    if (!ids.has(edge.source) || !ids.has(edge.target)) continue;
    const mark = edgeMark(overlay, id);
    const locked = fixed || judges.has(edge.target); // what comes last is judged, and a leader has all experts
    const old = known.get(id);
    const isSelected = selected.has(id);
    const unchanged = old && old.selected === isSelected && old.data?.mark === mark && old.data.locked === locked;
    made.set(id, unchanged ? old : {
      id,
      type: "line",
      source: edge.source,
      target: edge.target,
      sourceHandle: String(edge.port),
      selected: isSelected,
      focusable: false,
      data: { mark, locked },
      className: mark ? `mark-${mark}` : "",
      markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: `var(--${isSelected ? "accent" : mark ?? "edge"})` },
    });
  }
  return [...made.values()];
}
