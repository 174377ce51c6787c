// A value that is being edited: what was typed is handed on after a pause, and at the latest when the field is left.

import { useCallback, useEffect, useRef, useState } from "react";

const PAUSE = 800;

export interface Draft<Value> {
  value: Value;
  /** Change it; `now` for a choice, otherwise it is handed on after a pause. */
  set(value: Value, now?: boolean): void;
  /** Hand on what is pending. */
  flush(): void;
  /** Whether another tab changed the value since it is being edited here: nothing is handed on until one is chosen. */
  conflict: boolean;
  /** Choose the value of this tab, or that of the other one. */
  choose(own: boolean): void;
}

/** What a commit gives if another tab has changed the value meanwhile. */
export const CONFLICT = "conflict";

/** The value, as JSON, that is being edited; null to replace whatever is there. A commit sets it to what is there then. */
export type Base = { current: string | null };

export function useDraft<Value>(given: Value, commit: (value: Value, base: Base) => Promise<unknown>): Draft<Value> {
  const [value, setValue] = useState(given);
  const [answers, setAnswers] = useState(0);
  const [conflict, setConflict] = useState(false);
  const base = useRef<string | null>(null);
  const pending = useRef<{ value: Value; sent: boolean } | null>(null); // until it is answered: an earlier answer must not replace it
  const refused = useRef(false);
  refused.current = conflict;
  const timer = useRef(0);
  const latest = useRef(commit);
  latest.current = commit;
  const key = JSON.stringify(given);
  const known = useRef(key);
  known.current = key;

  const flush = useCallback(() => {
    window.clearTimeout(timer.current);
    const waiting = pending.current;
    if (!waiting || waiting.sent) return;
    waiting.sent = true;
    void latest.current(waiting.value, base).then((done) => {
      setConflict(done === CONFLICT);
      if (pending.current !== waiting || done === CONFLICT) return;
      pending.current = null;
      if (done) setAnswers((count) => count + 1); // a refused value stays in its field
    });
  }, []);

  const force = useCallback(() => {
    base.current = null;
    if (pending.current) pending.current.sent = false;
    flush();
  }, [flush]);

  const leave = useCallback(() => {
    if (refused.current) force(); // nobody has chosen: both values are in the history
    else flush();
  }, [flush, force]);

  const choose = useCallback((own: boolean) => {
    setConflict(false);
    if (own) return force();
    pending.current = null;
    setAnswers((count) => count + 1);
  }, [force]);

  const set = useCallback((next: Value, now = false) => {
    setValue(next);
    if (!pending.current) base.current = known.current ?? "";
    pending.current = { value: next, sent: false };
    window.clearTimeout(timer.current);
    if (now) flush();
    else timer.current = window.setTimeout(flush, PAUSE);
  }, [flush]);

  useEffect(() => {
    if (!pending.current) setValue(given);
    // The value counts, not the object: the server sends a new object after each step.
  }, [key, answers]);

  useEffect(() => {
    window.addEventListener("pagehide", leave);
    return () => {
      window.removeEventListener("pagehide", leave);
      leave();
    };
  }, [leave]);

  return { value, set, flush, conflict, choose };
}
