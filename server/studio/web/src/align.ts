// Places of nodes that are put in line.

import { GAP_X, type Point, sizes } from "./place";
import type { Positions } from "./state";
import type { Document } from "./types";

export type Alignment = "left" | "top" | "columns" | "rows";

export function aligned(document: Document, positions: Positions, ids: readonly string[], how: Alignment): Record<string, Point> {
  const measured = sizes(document, positions);
  const boxes = ids.flatMap((id) => {
    const at = positions[id];
    const size = measured.get(id);
    return at && size ? [{ id, ...at, ...size }] : [];
  });
  if (boxes.length < 2) return {};
  const moved: Record<string, Point> = {};
  const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  if (how === "left") for (const box of boxes) moved[box.id] = { x, y: box.y };
  if (how === "top") for (const box of boxes) moved[box.id] = { x: box.x, y };
  let at = how === "columns" ? x : y;
  if (how === "columns") {
    for (const box of boxes.sort((one, other) => one.x - other.x)) {
      moved[box.id] = { x: at, y: box.y };
      at += box.width + GAP_X;
    }
  }
  if (how === "rows") {
    for (const box of boxes.sort((one, other) => one.y - other.y)) {
      moved[box.id] = { x: box.x, y: at };
      at += box.height + 28;
    }
  }
  return moved;
}
