// An edge; when it is selected, it offers to insert a node or to go away.

import { BaseEdge, EdgeLabelRenderer, type EdgeProps, getBezierPath } from "@xyflow/react";
import { type ReactElement, memo } from "react";
import { Icon } from "../icons";
import type { NodeRun } from "../run";
import { useCommands, useStore, useStudio } from "../store";
import type { LineEdge } from "./elements";

function LineOf(edge: EdgeProps<LineEdge>): ReactElement {
  const [path, x, y] = getBezierPath(edge);
  const taken = useStudio((state) => (state.overlay ? "" : takenIn(state.run?.nodes, edge.source, edge.target)));
  return (
    <>
      <BaseEdge id={edge.id} path={path} interactionWidth={16} className={taken} {...(edge.markerEnd ? { markerEnd: edge.markerEnd } : {})} />
      {edge.selected && !edge.data?.locked && <Tools id={edge.id} x={x} y={y} />}
    </>
  );
}

export const Line = memo(LineOf);

/** How an edge was taken in the run, to a node that ran in it: a class, empty where it was not. */
function takenIn(nodes: Readonly<Record<string, NodeRun>> | undefined, source: string, target: string): string {
  const [from, to] = [nodes?.[source], nodes?.[target]];
  if (!from?.passed || to?.passed !== "ran" || from.state === "waiting" || to.state === "waiting") return "";
  return from.state === "fell" ? "taken fell" : "taken";
}

function Tools({ id, x, y }: { id: string; x: number; y: number }): ReactElement {
  const { dispatch } = useStore();
  const commands = useCommands();
  return (
    <EdgeLabelRenderer>
      <div className="line-tools nodrag nopan" style={{ transform: `translate(-50%, -50%) translate(${x}px, ${y}px)` }}>
        <button type="button" aria-label="Insert a node here" title="Insert a node  /" onClick={() => dispatch({ type: "dialog", dialog: { kind: "palette", edge: id } })}>
          <Icon name="plus" size={14} />
        </button>
        <button type="button" aria-label="Remove this edge" title="Remove  Delete" onClick={() => commands.remove()}>
          <Icon name="close" size={14} />
        </button>
      </div>
    </EdgeLabelRenderer>
  );
}
