// The check of an operator's answers: a criterion in words, which its model decides, or a function.

import { type ReactElement, useState } from "react";
import type { Json } from "../types";

interface Props {
  label: string;
  value: Json | undefined;
  locked: boolean;
  change(value: Json, now?: boolean): void;
  leave(): void;
}

export function CheckField({ label, value, locked, change, leave }: Props): ReactElement {
  const written = value && typeof value === "object" && !Array.isArray(value) ? String(value["function"] ?? "") : null;
  const [byFunction, setByFunction] = useState(written !== null);
  const text = written ?? (typeof value === "string" ? value : "");
  return (
    <div className="check-field">
      <select
        aria-label={`Kind of ${label}`} disabled={locked} value={byFunction ? "function" : "words"} onChange={(event) => {
          setByFunction(event.target.value === "function");
          if (text) change(null, true);
        }}
      >
        <option value="words">in words</option>
        <option value="function">by a function</option>
      </select>
      {byFunction
        ? <input type="text" aria-label={label} disabled={locked} spellCheck={false} autoComplete="off" placeholder="module.function" value={text} onBlur={leave} onChange={(event) => change(event.target.value.trim() ? { function: event.target.value.trim() } : null)} />
        : <textarea dir="auto" aria-label={label} rows={2} disabled={locked} placeholder="At most three words." value={text} onBlur={leave} onChange={(event) => change(event.target.value || null)} />}
    </div>
  );
}
