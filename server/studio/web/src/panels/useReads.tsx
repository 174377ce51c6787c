// The variables that a node reads, as fields with their values, and those that a person has changed.

import { type ReactElement, useEffect, useState } from "react";
import { useCommands } from "../store";
import type { Fields, Json, ReadVariable } from "../types";
import { InputField } from "./InputField";

export interface Reads {
  /** The variables; null until they are known. */
  variables: readonly ReadVariable[] | null;
  changed: Fields;
  fields: ReactElement;
}

export function useReads(node: string): Reads {
  const commands = useCommands();
  const [variables, setVariables] = useState<readonly ReadVariable[] | null>(null);
  const [changed, setChanged] = useState<Fields>({});
  useEffect(() => {
    let gone = false;
    void commands.reads(node).then((told) => {
      if (!gone) setVariables(told ?? []);
    });
    return () => {
      gone = true;
    };
  }, [commands, node]);
  const fields = (
    <>
      {variables?.map((each) => (
        <InputField
          key={each.reference} input={{ name: each.reference, title: `${each.name} · ${each.title}${each.has_file ? " (as it was; or choose another)" : ""}`, type: each.type }}
          value={each.reference in changed ? (changed[each.reference] ?? null) : each.value}
          change={(value: Json) => setChanged((before) => ({ ...before, [each.reference]: value }))}
        />
      ))}
      {variables?.length === 0 && <p className="soft">It reads no variables.</p>}
    </>
  );
  return { variables, changed, fields };
}
