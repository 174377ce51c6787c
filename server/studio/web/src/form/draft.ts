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

export function useDraft<Value>(given: Value, commit: (value: Value) => Promise<unknown>): Draft<Value> {
  const [value, setValue] = useState(given);
  const [answers, setAnswers] = useState(0);
  const pending = useRef<{ value: Value; sent: boolean } | null>(null); // until it is answered: an earlier answer must not replace it
  const timer = useRef(0);
  const latest = useRef(commit);
  latest.current = commit;

  const flush = useCallback(() => {
    window.clearTimeout(timer.current);
    const waiting = pending.current;
    if (!waiting || waiting.sent) return;
    waiting.sent = true;
    void latest.current(waiting.value).then((done) => {
      if (pending.current !== waiting) return;
      pending.current = null;
      if (done) setAnswers((count) => count + 1); // a refused value stays in its field
    });
  }, []);

  const set = useCallback((next: Value, now = false) => {
    setValue(next);
    pending.current = { value: next, sent: false };
    window.clearTimeout(timer.current);
    if (now) flush();
    else timer.current = window.setTimeout(flush, PAUSE);
  }, [flush]);

  const key = JSON.stringify(given);
  useEffect(() => {
    if (!pending.current) setValue(given);
    // The value counts, not the object: the server sends a new object after each step.
  }, [key, answers]);

  useEffect(() => {
    window.addEventListener("pagehide", flush);
    return () => {
      window.removeEventListener("pagehide", flush);
      flush();
    };
  }, [flush]);

  return { value, set, flush };
}
