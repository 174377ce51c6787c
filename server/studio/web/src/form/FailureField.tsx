// What happens when a node fails: the run ends, the edges of the error branch are taken, or given values are the outputs.

import { type ReactElement, useContext } from "react";
import type { Fields, Json, Variable } from "../types";
import { Control, Form } from "./Field";

/** An empty value of each type, for the outputs of a node that failed. */
const EMPTY: Record<string, Json> = { string: "", number: 0, boolean: false, object: {} };

export function FailureField({ value, outputs, change }: { value: Json | undefined; outputs: readonly Variable[]; change(value: Json, now?: boolean): void }): ReactElement {
  const { locked } = useContext(Form);
  const now = value && typeof value === "object" && !Array.isArray(value) ? (value as Fields) : {};
  const then = typeof now["then"] === "string" ? now["then"] : "end";
  const set = (fields: Fields, immediately: boolean): void => {
    const { values, ...others } = { ...now, ...fields };
    const next: Fields = others["then"] === "values" ? { ...others, values: values ?? {} } : others;
    change((next["then"] ?? "end") === "end" && !next["retries"] ? null : next, immediately);
  };
  const empty = (): Fields => Object.fromEntries(outputs.filter((each) => !/^error_/.test(each.name)).map((each) => [each.name, EMPTY[each.type] ?? (each.type.startsWith("array") ? [] : null)]));
  return (
    <>
      <select aria-label="If it fails" disabled={locked} value={then} onChange={(event) => set({ then: event.target.value, ...(event.target.value === "values" ? { values: now["values"] ?? empty() } : {}) }, true)}>
        <option value="end">the run ends</option>
        <option value="branch">the error branch is taken</option>
        <option value="values">the run goes on with values</option>
      </select>
      <div className="part">
        <span className="part-name">Retries before that</span>
        <Control schema={{ type: "integer", minimum: 0, maximum: 100 }} value={now["retries"] ?? 0} label="Retries" change={(retries, immediately) => set({ retries }, immediately ?? false)} />
      </div>
      {then === "values" && <Control schema={undefined} value={now["values"]} label="Values" change={(values, immediately) => set({ values }, immediately ?? false)} />}
      {Number(now["retries"] ?? 0) > 0 && (
        <div className="part">
          <span className="part-name">Longest wait before a retry, in seconds</span>
          <Control schema={{ type: "number", minimum: 0, maximum: 3600 }} value={now["wait"] ?? 1} label="Wait" change={(wait, immediately) => set({ wait }, immediately ?? false)} />
        </div>
      )}
    </>
  );
}
