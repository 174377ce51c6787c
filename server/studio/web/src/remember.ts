// Places of cards that a person chose, and the run that a tab shows, kept by the browser; a file of a workflow has no room for them.

import type { Positions } from "./state";
import type { Point } from "./place";
import type { Document } from "./types";

const MOST = 40;
const key = (path: string): string => `operad-places:${path}`;

export function remember(document: Document, positions: Positions): void {
  const kept = Object.fromEntries(document.nodes.flatMap(({ id }) => (positions[id] ? [[id, positions[id]]] : [])));
  try {
    const others = Object.keys(localStorage).filter((each) => each.startsWith(key("")) && each !== key(document.path));
    for (const old of others.slice(MOST)) localStorage.removeItem(old);
    localStorage.setItem(key(document.path), JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing: the layout is made anew next time.
  }
}

export function remembered(document: Document): Record<string, Point> {
  try {
    const kept = JSON.parse(localStorage.getItem(key(document.path)) ?? "{}") as Record<string, Partial<Point> | undefined>;
    return Object.fromEntries(
      document.nodes.flatMap(({ id }) => {
        const at = kept[id];
        return at && Number.isFinite(at.x) && Number.isFinite(at.y) ? [[id, { x: at.x ?? 0, y: at.y ?? 0 }]] : [];
      }),
    );
  } catch {
    return {};
  }
}

const runKey = (path: string): string => `operad-run:${path}`;

/** Keep which run of a file this tab shows; null for none. */
export function rememberRun(path: string, run: string | null): void {
  try {
    if (run) sessionStorage.setItem(runKey(path), run);
    else sessionStorage.removeItem(runKey(path));
  } catch {
    // A browser that keeps nothing.
  }
}

export function rememberedRun(path: string): string | null {
  try {
    return sessionStorage.getItem(runKey(path));
  } catch {
    return null;
  }
}
