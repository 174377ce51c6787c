// Changes that could not be sent before the page was left, because an answer was still on its way: kept for the reload.

import { parsed } from "./exact";
import type { Operation } from "./types";

const key = (path: string): string => `operad-unsent:${location.pathname}:${path}`; // the address names the studio, too

export function keepUnsent(path: string, operations: readonly Operation[]): void {
  try {
    sessionStorage.setItem(key(path), JSON.stringify([...read(path), ...operations]));
  } catch {
    // A browser that keeps nothing.
  }
}

/** The changes of a file, which are forgotten by that. */
export function takeUnsent(path: string): Operation[] {
  const operations = read(path);
  try {
    sessionStorage.removeItem(key(path));
  } catch {
    return [];
  }
  return operations;
}

function read(path: string): Operation[] {
  try {
    return parsed<Operation[]>(sessionStorage.getItem(key(path)) ?? "[]");
  } catch {
    return [];
  }
}
