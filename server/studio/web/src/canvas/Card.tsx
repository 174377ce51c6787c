// A node as a card: its title, type, summary, ports, issues, and its state in the run.

import { Handle, type NodeProps, Position } from "@xyflow/react";
import { type ReactElement, memo } from "react";
import { Icon, iconOf } from "../icons";
import { type Usage, cost, count, duration, plural, price, tokens } from "../../shared/numbers";
import { stateInWords } from "../../shared/states";
import type { NodeRun } from "../run";
import { useCommands, useStudio } from "../store";
import type { CardNode } from "./elements";

/** Nodes that no edge leaves. */
const LAST = new Set(["end", "loop-end", "conversation", "expert", "evaluator"]);
/** Nodes that no edge leads to. */
const FIRST = new Set(["start", "iteration-start", "loop-start", "conversation", "leader"]);
/** A leader has all experts: its edges are drawn, and not made by hand. */
const TEAM = new Set(["leader", "expert"]);

function CardOf({ data, selected }: NodeProps<CardNode>): ReactElement {
  const { node, errors, warnings, mark, container, folded, locked } = data;
  const commands = useCommands();
  const inside = useStudio((state) => (folded ? state.document?.nodes.filter((each) => each.parent === node.id).length : 0));
  const run = useStudio((state) => (state.overlay ? undefined : state.run?.nodes[node.id]));
  const running = useStudio((state) => state.run !== null && !state.run.ended && !state.overlay);
  const typeTitle = useStudio((state) => state.catalogue.get(node.type)?.title ?? node.type);
  const stale = useStudio((state) => state.stale.has(node.id)) && run !== undefined && !AT_WORK.has(run.state);
  const state = stale ? "stale" : run?.state ?? (running ? "waiting" : "");
  const pinned = useStudio((at) => (node.id in at.pinned.pins ? "used" : node.id in at.pinned.faults ? "unused" : ""));
  const stops = useStudio((at) => at.breakpoints.includes(node.id));
  const fixed = TEAM.has(node.type);
  const classes = ["card", selected && "selected", container && "container", mark && `mark-${mark}`, state && `is-${state}`, run?.blamed && "is-blamed"];
  return (
    <div className={classes.filter(Boolean).join(" ")} data-state={state || undefined}>
      {!FIRST.has(node.type) && <Handle type="target" position={Position.Left} isConnectable={!locked && !fixed} className={fixed ? "of-team" : ""} />}
      <div className="card-head">
        <span className="card-icon"><Icon name={iconOf(node.type)} /></span>
        <span className="card-words">
          <span className="card-title" dir="auto">{node.title || typeTitle}</span>
          <span className="card-line">
            <span className="card-type">{node.title === node.id || typeTitle === node.id ? typeTitle : typeTitle === node.title ? `#${node.id}` : `${typeTitle} · ${node.id}`}</span>
            {run && <RunMark state={pinned === "used" && REUSED.has(state) ? "pinned" : state} seconds={run.seconds} times={run.times} error={stale ? "" : run.error} />}
            {run && run.blamed > 0 && <span className="card-mark blamed" title={run.lesson}>blamed</span>}
            {run && run.failedCalls > 0 && <span className="card-mark broke">{plural(run.failedCalls, "failed call")}</span>}
            {run?.again && <span className="card-mark again">again</span>}
            {mark && <span className={`card-mark ${mark}`}>{mark}</span>}
          </span>
        </span>
        {(container || folded) && (
          <button type="button" className="ghost small nodrag fold" aria-expanded={!folded} aria-label={`${folded ? "Unfold" : "Fold"} ${node.name}`} title={folded ? `Show the ${inside} nodes inside` : "Hide what is inside"} onClick={(event) => {
            event.stopPropagation();
            commands.fold(node.id);
          }}><Icon name={folded ? "plus" : "minus"} size={14} /></button>
        )}
      </div>
      {run?.verdict
        ? <div className={`card-summary verdict ${run.verdict.accepted ? "good" : "bad"}`} dir="auto" title={run.verdict.why}>{verdictOf(run.verdict)}</div>
        : run?.usage
          ? <div className="card-summary" title={`${run.model}: ${tokens(run.usage)}, ${cost(run.usage)}`}>{[run.model, spent(run.usage)].filter(Boolean).join(" · ")}</div>
          : node.summary && <div className="card-summary" dir="auto" title={node.summary}>{node.summary}</div>}
      {stops && <span className="card-stop" title="Runs wait before this node" />}
      {pinned && <span className={`card-pin ${pinned}`} title={pinned === "used" ? "Pinned: gives its value without running" : "Its pinned value is not used"}><Icon name="pin" size={12} /></span>}
      {errors + warnings > 0 && (
        <span className={`card-issues ${errors ? "bad" : "warn"}`} title={`${errors + warnings} issues`}>{errors + warnings}</span>
      )}
      {node.ports.length > 1
        ? (
          <div className="card-ports">
            {node.ports.map((label, port) => (
              <div className="card-port" key={port}>
                <span dir="auto" title={label}>{label.replace(/^__/, "")}</span>
                <Handle type="source" position={Position.Right} id={String(port)} isConnectable={!locked} />
              </div>
            ))}
          </div>
        )
        : !LAST.has(node.type) && <Handle type="source" position={Position.Right} id="0" isConnectable={!locked && !fixed} className={fixed ? "of-team" : container ? "at-head" : ""} />}
    </div>
  );
}

export const Card = memo(CardOf);

const verdictOf = ({ accepted, score, why }: NonNullable<NodeRun["verdict"]>): string =>
  [`${accepted ? "accepted" : "rejected"}${score === null ? "" : `, score ${Number(score.toFixed(2))}`}`, why].filter(Boolean).join(": ");

/** Tokens and cost in short. */
const spent = (usage: Usage): string => {
  const all = usage.prompt_tokens + usage.completion_tokens;
  return [`${all < 10_000 ? count(all) : `${(all / 1000).toFixed(0)}k`} tokens`, usage.cost ? price(usage) : ""].filter(Boolean).join(" · ");
};

/** States of nodes that have not ended. */
const AT_WORK = new Set(["running", "asking", "retrying", "waiting"]);

/** States of nodes that gave a value without running. */
const REUSED = new Set(["reused", "kept"]);

/** States whose duration says something. */
const TIMED = new Set(["done", "failed", "stopped", "cancelled"]);

function RunMark({ state, seconds, times, error }: { state: string; seconds: number | null; times: number; error: string }): ReactElement {
  const words = `${stateInWords(state)}${seconds === null ? "" : `, ${duration(seconds)}`}${times > 1 ? `, ${times} times` : ""}`;
  return (
    <span className={`run-mark is-${state}`} title={error || words}>
      <span className="run-dot" aria-hidden="true" />
      <span className="run-words">{seconds === null || !TIMED.has(state) ? stateInWords(state) : duration(seconds)}</span>
      {times > 1 && <span className="run-words">×{times}</span>}
    </span>
  );
}
