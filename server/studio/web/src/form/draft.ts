// A value that is being edited: what was typed is handed on after a pause, and at the latest when the field is left.

import { useCallback, useEffect, useRef, useState } from "react";

const PAUSE = 800;

export interface Draft<Value> {
  value: Value;
  /** Change it; `now` for a choice, otherwise it is handed on after a pause. */
  set(value: Value, now?: boolean): void;
  /** Hand on what is pending. */
  flush(): void;
}

export function useDraft<Value>(given: Value, commit: (value: Value) => void): Draft<Value> {
  const [value, setValue] = useState(given);
  const pending = useRef<{ value: Value } | null>(null);
  const timer = useRef(0);
  const latest = useRef(commit);
  latest.current = commit;

  const flush = useCallback(() => {
    window.clearTimeout(timer.current);
    const waiting = pending.current;
    pending.current = null;
    if (waiting) latest.current(waiting.value);
  }, []);

  const set = useCallback((next: Value, now = false) => {
    setValue(next);
    pending.current = { value: next };
    window.clearTimeout(timer.current);
    if (now) flush();
    else timer.current = window.setTimeout(flush, PAUSE);
  }, [flush]);

  const key = JSON.stringify(given);
  useEffect(() => {
    if (!pending.current) setValue(given);
    // The value counts, not the object: the server sends a new object after each step.
  }, [key]);

  useEffect(() => {
    window.addEventListener("pagehide", flush);
    return () => {
      window.removeEventListener("pagehide", flush);
      flush();
    };
  }, [flush]);

  return { value, set, flush };
}
