// The pinned value of the node in the inspector, and what pins, edits and unpins values.

import type { ReactElement } from "react";
import { Icon } from "../icons";
import { useCommands, useStore, useStudio } from "../store";
import type { Fields, NodeDocument } from "../types";
import { ValuesView } from "../values/ValueView";

/** Types of nodes whose values are those that a run is given. */
const NOT_PINNED = new Set(["start", "iteration-start", "loop-start", "loop-end", "conversation"]);

/** The value that the node gives in every run, without running. */
export function Pinned({ node }: { node: NodeDocument }): ReactElement | null {
  const pin = useStudio((state) => state.pinned.pins[node.id]);
  const fault = useStudio((state) => state.pinned.faults[node.id]);
  if (!pin && !fault) return null;
  return (
    <section className="block pinned" aria-label="Pinned value">
      <h3><Icon name="pin" size={14} /> Pinned</h3>
      {fault ? <p className="fault error">{fault}</p> : <p className="soft">The node does not run; it gives this value until it is unpinned.</p>}
      {pin && <ValuesView values={pin} />}
      <Actions node={node} outputs={pin ?? {}} pinned />
    </section>
  );
}

/** Pin or edit what the node gave; without an edit, a value can be written before any run. */
export function PinActions({ node, outputs }: { node: NodeDocument; outputs: Fields | null }): ReactElement | null {
  const pinned = useStudio((state) => node.id in state.pinned.pins || node.id in state.pinned.faults);
  return pinned ? null : <Actions node={node} outputs={outputs} />;
}

function Actions({ node, outputs, pinned = false }: { node: NodeDocument; outputs: Fields | null; pinned?: boolean }): ReactElement | null {
  const commands = useCommands();
  const { dispatch } = useStore();
  const workflow = useStudio((state) => state.document?.kind === "workflow" && state.document.runs && !state.overlay);
  if (!workflow || NOT_PINNED.has(node.type) || !node.outputs.length) return null;
  return (
    <div className="actions wrap">
      {pinned
        ? <button type="button" onClick={() => void commands.unpin(node.id)}><Icon name="pin" size={14} /> Unpin</button>
        : outputs && <button type="button" title="Keep this value: the node gives it in every run, without running" onClick={() => void commands.pin(node.id)}><Icon name="pin" size={14} /> Pin</button>}
      <button type="button" title="Write a value that the node gives in place of running" onClick={() => dispatch({ type: "dialog", dialog: { kind: "edit-value", node: node.id, outputs: outputs ?? {} } })}>{outputs ? "Edit…" : "Pin a value…"}</button>
    </div>
  );
}
