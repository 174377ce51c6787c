// Sticky notes on the canvas: where they lie, and the operations that change them. Their ids begin so that no node has one.

import type { Document, Operation, StickyNote } from "./types";
import type { Point } from "./place";

export const COLORS = ["yellow", "blue", "cyan", "green", "pink", "violet"] as const;

const MARK = "#note/";
const SIZE: readonly [number, number] = [240, 120];
const GAP = 24;

export const isNote = (id: string): boolean => id.startsWith(MARK);
export const canvasId = (note: StickyNote): string => MARK + note.id;
export const noteId = (id: string): string => id.slice(MARK.length);

/** Where notes lie by the ids that they have on the canvas; those without a place lie in a row above all else. */
export function notePlaces(document: Document, positions: Readonly<Record<string, Point>>): Record<string, Point> {
  const tops = document.nodes.flatMap((node) => (node.parent ? [] : positions[node.id]?.y ?? []));
  tops.push(...document.sticky_notes.flatMap((note) => note.at?.[1] ?? []));
  const top = tops.length ? Math.min(...tops) : 0;
  let left = 0;
  return Object.fromEntries(document.sticky_notes.map((note) => {
    const [x, y] = note.at ?? [left, top - note.size[1] - GAP];
    if (!note.at) left += note.size[0] + GAP;
    return [canvasId(note), { x, y }];
  }));
}

/** A free place for a new note: where it is wanted, or above all nodes and notes. */
export function freePlace(document: Document, positions: Readonly<Record<string, Point>>): Point {
  const nodes = document.nodes.flatMap((node) => (node.parent ? [] : positions[node.id] ?? []));
  const all = [...nodes, ...Object.values(notePlaces(document, positions))];
  if (!all.length) return { x: 0, y: 0 };
  return { x: Math.min(...all.map(({ x }) => x)), y: Math.min(...all.map(({ y }) => y)) - SIZE[1] - GAP };
}

export const moving = (places: Readonly<Record<string, Point>>): Operation[] =>
  Object.entries(places).map(([id, { x, y }]) => ({ op: "set_note", id: noteId(id), at: [x, y] }));

export const removingNotes = (ids: readonly string[]): Operation[] =>
  ids.filter(isNote).map((id) => ({ op: "remove_note", id: noteId(id) }));

/** The operations that add notes under free ids, and these ids as the canvas has them. */
export function adding(document: Document, notes: readonly Omit<StickyNote, "id">[]): { ids: string[]; operations: Operation[] } {
  const taken = new Set(document.sticky_notes.map((note) => note.id));
  const ids: string[] = [];
  for (let number = 1; ids.length < notes.length; number++) if (!taken.has(String(number))) ids.push(String(number));
  const operations = notes.map(({ text, color, at, size }, place): Operation => ({ op: "set_note", id: ids[place] ?? "", text, color, size, ...(at && { at }) }));
  return { ids: ids.map((id) => MARK + id), operations };
}

/** The notes among what is selected, with their places, to be copied. */
export function copiedNotes(document: Document, positions: Readonly<Record<string, Point>>, ids: readonly string[]): Omit<StickyNote, "id">[] {
  const places = notePlaces(document, positions);
  return document.sticky_notes.filter((note) => ids.includes(canvasId(note))).map((note) => {
    const { x, y } = places[canvasId(note)] ?? { x: 0, y: 0 };
    return { text: note.text, color: note.color, size: note.size, at: [x + GAP, y + GAP] };
  });
}

