// Run one node with values that a person gives to the variables that it reads.

import type { FormEvent, ReactElement } from "react";
import { useReads } from "../panels/useReads";
import { useCommands, useStore, useStudio } from "../store";
import { Dialog } from "./Dialog";

export function RunNode({ node }: { node: string }): ReactElement | null {
  const found = useStudio((state) => state.document?.nodes.find((each) => each.id === node));
  const { dispatch } = useStore();
  const commands = useCommands();
  const { variables, changed, fields } = useReads(node);
  if (!found) return null;
  const run = (event: FormEvent): void => {
    event.preventDefault();
    dispatch({ type: "dialog", dialog: null });
    // Only what was changed: the server has the other values whole, and the page perhaps their beginnings.
    const empty = (variables ?? []).filter((each) => each.value === null && each.type === "string" && !each.has_file);
    void commands.run({}, { only: node, given: { ...Object.fromEntries(empty.map((each) => [each.reference, ""])), ...changed } });
  };
  return (
    <Dialog title={`Run ${found.name} with values`} className="operator values">
      <form className="fields" onSubmit={run}>
        {fields}
        <footer>
          <span className="soft">Nothing else runs.</span>
          <span className="room" />
          <button type="submit" className="main" data-field disabled={!variables}>Run</button>
        </footer>
      </form>
    </Dialog>
  );
}
