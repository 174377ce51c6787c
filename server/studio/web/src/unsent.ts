// What a tab keeps of a file for a reload: changes that could not be sent because an answer was on its way, and the chat.

import { parsed } from "../shared/exact";
import type { Operation } from "./types";

const key = (what: string, path: string): string => `operad-${what}:${location.pathname}:${path}`; // the address names the studio, too

/** Keep a value for the reload. */
export function keep(what: string, path: string, value: unknown): void {
  try {
    sessionStorage.setItem(key(what, path), JSON.stringify(value));
  } catch {
    // A browser that keeps nothing.
  }
}

/** A value that was kept before the reload; null for none. */
export function kept<Value>(what: string, path: string): Value | null {
  try {
    return parsed<Value | null>(sessionStorage.getItem(key(what, path)) ?? "null");
  } catch {
    return null;
  }
}

export const keepUnsent = (path: string, operations: readonly Operation[]): void => keep("unsent", path, [...read(path), ...operations]);

/** The changes of a file, which are forgotten by that. */
export function takeUnsent(path: string): Operation[] {
  const operations = read(path);
  if (operations.length) keep("unsent", path, []);
  return operations;
}

const read = (path: string): Operation[] => kept<Operation[]>("unsent", path) ?? [];
