// The inspector: the selected node's parameters, edges, outputs, and what it read and produced in the last run.

import { type ReactElement, useEffect, useState } from "react";
import { NodeForm } from "../form/NodeForm";
import { Icon, iconOf } from "../icons";
import { inspected, shownDocument } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import { type Fault, MOST_FAULTS, placeOf, quoted } from "../../shared/faults";
import type { Document, Fields, LastRun, NodeDocument, NodeType, Schema } from "../types";
import { Difference, FieldsDifference, textOf } from "../values/Difference";
import { titleOf } from "../schema";
import { ValuesView, Writing } from "../values/ValueView";
import { DocumentPanel } from "./DocumentPanel";
import { Gist } from "./Gist";
import { PinActions, Pinned } from "./Pinned";

export function Inspector(): ReactElement | null {
  const document = useStudio(shownDocument);
  const id = useStudio(inspected);
  const count = useStudio((state) => state.selection.nodes.length);
  const node = document?.nodes.find((each) => each.id === id);
  if (!document) return null;
  if (node) return <NodeInspector key={node.id} node={node} document={document} />;
  if (count > 1) return <Several count={count} />;
  return <DocumentPanel document={document} />;
}

function NodeInspector({ node, document }: { node: NodeDocument; document: Document }): ReactElement {
  const type = useStudio((state) => state.catalogue.get(node.type));
  const overlay = useStudio((state) => state.overlay);
  const stops = useStudio((state) => state.breakpoints.includes(node.id));
  const schema = type ?? partOf(node.type, document.schemas?.[node.type]);
  const fixed = node.type === "expert" || node.type === "leader"; // not copied, and connected by what they hold
  const tryable = document.kind === "experts" ? !fixed && typeof node.params["instruction"] === "string" : type?.schema.properties?.["model_name"] !== undefined;
  const { dispatch } = useStore();
  const commands = useCommands();
  const locked = document.readonly !== null || overlay !== null;
  const issues = document.issues.filter((issue) => issue.node === node.id);
  const elsewhere = issues.filter((issue) => !issue.field);
  const change = overlay?.changes.changed.find((each) => each.node === node.id);
  return (
    <div className="inspector">
      <header className="node-head">
        <span className="card-icon large"><Icon name={iconOf(node.type)} /></span>
        <div>
          <h2 dir="auto">{node.title}</h2>
          <p className="soft">{node.title === node.id || node.type === node.id ? (type?.title ?? node.type) : `${type?.title && type.title !== node.title ? `${type.title} · ` : ""}id ${node.id}`}</p>
        </div>
      </header>
      {type?.summary && <p className="about">{type.summary}</p>}
      <Gist node={node.id} label="Last run" title="Show what this node did in the run" show={() => window.document.querySelector(".inspector :is(.lesson, .last)")?.scrollIntoView({ block: "start" })} />
      <div className="actions wrap">
        {!fixed && document.runs && <button type="button" disabled={locked} onClick={() => commands.panel("run")} title={`Run the whole, this ${document.kind === "experts" ? node.type : "node"} alone, or from here`}><Icon name="run" size={14} /> Run…</button>}
        {tryable && <button type="button" disabled={locked} title="Try other prompts and models on the last input" onClick={() => dispatch({ type: "dialog", dialog: { kind: "try", node: node.id } })}><Icon name="model" size={14} /> Try prompts…</button>}
        {document.kind === "workflow" && document.runs && <button type="button" aria-pressed={stops} title="Runs wait before this node  b" onClick={() => commands.breakpoint(node.id)}><span className={stops ? "stop-dot on" : "stop-dot"} aria-hidden="true" /> Breakpoint</button>}
        {node.type === "expert" && <button type="button" disabled={locked} title="Add an operator  /" onClick={() => dispatch({ type: "dialog", dialog: { kind: "palette", source: node.id } })}><Icon name="plus" size={14} /> Add an operator</button>}
        {!fixed && <button type="button" disabled={locked} title="Rename  F2" onClick={() => dispatch({ type: "dialog", dialog: { kind: "rename", node: node.id } })}>Rename…</button>}
        {!fixed && <button type="button" disabled={locked} title="Duplicate  Ctrl+D" onClick={() => commands.duplicate()}><Icon name="copy" size={14} /> Duplicate</button>}
        <button type="button" disabled={locked} title="Remove  Delete" onClick={() => commands.remove()}><Icon name="bin" size={14} /> Remove</button>
      </div>
      {change && (
        <section className="changed-fields" aria-label="Changes">
          {change.fields.map((field) => (
            <div key={field.field}>
              <h4>{field.field}</h4>
              <Difference before={textOf(field.before)} after={textOf(field.after)} />
            </div>
          ))}
        </section>
      )}
      {elsewhere.map((issue, at) => <p className={`fault ${issue.severity}`} key={at}>{issue.what}</p>)}
      {schema
        ? <NodeForm node={node} type={schema} issues={issues} version={document.version} locked={locked} />
        : (
          <section className="block">
            {document.runs && <p className="fault">{`There is no node type "${node.type}" here; its parameters are kept as they are.`}</p>}
            <h3>Parameters</h3>
            <ValuesView values={node.params} />
          </section>
        )}
      {node.type === "expert" && <Judges node={node} document={document} locked={locked} />}
      {!fixed && <Edges node={node} document={document} locked={locked} />}
      <Outputs node={node} />
      <Lesson node={node} />
      <Last node={node} />
    </div>
  );
}

/** A part of an expert, as a type of the catalogue. */
const partOf = (type: string, schema: Schema | undefined): NodeType | undefined =>
  schema && { type, title: type, family: "", summary: "", container: false, schema };

/** The criteria of an expert's evaluators, each with a way to the evaluator. */
function Judges({ node, document, locked }: { node: NodeDocument; document: Document; locked: boolean }): ReactElement | null {
  const commands = useCommands();
  const { dispatch } = useStore();
  const judges = document.nodes.filter((each) => each.type === "evaluator" && each.parent === node.id);
  const instruction = document.schemas?.["evaluator"]?.properties?.["instruction"];
  if (!instruction) return null;
  return (
    <section className="block" aria-label="Criteria">
      <h3>Criteria</h3>
      {judges.map((judge) => (
        <div className="judge" key={judge.id}>
          {typeof judge.params["instruction"] === "string"
            ? <NodeForm node={judge} type={criteriaOf(judge.title, instruction)} issues={document.issues.filter((issue) => issue.node === judge.id)} version={document.version} locked={locked} />
            : <p className="soft">{judge.title} is a function.</p>}
          <button type="button" className="link" dir="auto" aria-label={`All fields of ${judge.title}`} onClick={() => commands.select([judge.id])}>All fields</button>
        </div>
      ))}
      <button type="button" className="add" disabled={locked} onClick={() => dispatch({ type: "dialog", dialog: { kind: "palette", source: node.id, part: "evaluator" } })}><Icon name="plus" size={14} /> New evaluator</button>
    </section>
  );
}

const criteriaOf = (title: string, instruction: Schema): NodeType => {
  const field = { ...instruction, title, description: "" };
  return { type: "evaluator", title: "evaluator", family: "", summary: "", container: false, schema: { properties: { instruction: field }, required: ["instruction"] } };
};

function Edges({ node, document, locked }: { node: NodeDocument; document: Document; locked: boolean }): ReactElement {
  const commands = useCommands();
  const { dispatch } = useStore();
  const title = (id: string): string => document.nodes.find((each) => each.id === id)?.name ?? id;
  const incoming = document.edges.filter((edge) => edge.target === node.id);
  const outgoing = document.edges.filter((edge) => edge.source === node.id);
  return (
    <section className="block">
      <h3>Edges</h3>
      <ul className="edges">
        {[...incoming, ...outgoing].map((edge, at) => {
          const other = edge.target === node.id ? edge.source : edge.target;
          const label = edge.source === node.id && node.ports.length > 1 ? ` (${node.ports[edge.port] ?? edge.port})` : "";
          const judged = document.nodes.find((each) => each.id === edge.target)?.type === "evaluator";
          return (
            <li key={at}>
              <span className="direction">{edge.target === node.id ? "from" : "to"}</span>
              <button type="button" className="link" dir="auto" onClick={() => commands.select([other])}>{title(other)}</button>
              <span className="soft">{label}</span>
              <span className="room" />
                {!judged && <button
                type="button" className="ghost small" disabled={locked} title="Remove this edge" aria-label={`Remove the edge ${edge.target === node.id ? "from" : "to"} ${title(other)}`}
                onClick={() => void commands.edit([{ op: "disconnect", source: edge.source, target: edge.target, port: edge.port }])}
              ><Icon name="close" size={14} /></button>}
            </li>
          );
        })}
      </ul>
      {node.type !== "evaluator" && (
        <button type="button" className="add" disabled={locked} onClick={() => dispatch({ type: "dialog", dialog: { kind: "connect", source: node.id } })}>
          <Icon name="plus" size={14} /> Connect to…
        </button>
      )}
    </section>
  );
}

function Outputs({ node }: { node: NodeDocument }): ReactElement | null {
  if (!node.outputs.length) return null;
  return (
    <section className="block">
      <h3>Outputs</h3>
      <ul className="outputs">
        {node.outputs.map((output) => (
          <li key={output.name}><code>{output.name}</code><span className="soft">{output.type}</span></li>
        ))}
      </ul>
    </section>
  );
}

/** What is wrong in a result, and what would be right. */
function FaultView({ fault }: { fault: Fault }): ReactElement {
  return (
    <div dir="auto">
      <h4>{placeOf(fault)}{fault.sure ? "" : " (suspected)"}</h4>
      {fault.wrong && <p>Wrong: <del>{quoted(fault.wrong)}</del></p>}
      {fault.right && <p>Right: <ins>{quoted(fault.right)}</ins></p>}
      {fault.lesson && <p>{quoted(fault.lesson)}</p>}
    </div>
  );
}

/** Why a node was blamed, and what the lesson changed. */
function Lesson({ node }: { node: NodeDocument }): ReactElement | null {
  const run = useStudio((state) => state.run?.nodes[node.id]);
  const rounds = useStudio((state) => state.run?.rounds);
  const before = useStudio((state) => state.run?.before[node.id]);
  const now = useStudio((state) => state.run?.outputs[node.id]);
  const verdict = run?.blamed ? rounds?.[run.blamed - 1] : undefined;
  if (!run || !rounds || rounds.length < 2) return null;
  return (
    <section className="block lesson" aria-label="Rounds">
      <h3>Round {rounds.length}</h3>
      {run.verdict && rounds.map((round, at) => round.status && (
        <p className={round.status === "SUCCESS" ? "soft" : "fault error"} dir="auto" key={at}>Round {at + 1}: {round.status === "SUCCESS" ? "accepted" : "rejected"}{round.evaluation && `: ${round.evaluation}`}</p>
      ))}
      {run.state === "reused" && <p className="soft">Its result of an earlier round is reused.</p>}
      {run.again && <p className="soft">Ran again, because {run.again}.</p>}
      {verdict && (
        <>
          <p className="fault error">Blamed in round {run.blamed}{verdict.evaluation ? `: ${verdict.evaluation}` : "."}</p>
          {run.faults.slice(0, MOST_FAULTS).map((fault, at) => <FaultView key={at} fault={fault} />)}
          {verdict.lesson && !run.faults.length && <><h4>Lesson</h4><p dir="auto">{verdict.lesson}</p></>}
        </>
      )}
      {before && run.state !== "reused" && run.state !== "waiting" && now && <details open><summary>What changed</summary><FieldsDifference before={before} after={now} /></details>}
      {before && run.state !== "reused" && <details open={!now || run.state === "waiting"}><summary>Outputs before</summary><ValuesView values={before} /></details>}
    </section>
  );
}

/** What the chat is asked when a node went wrong: the error, its texts, and what it gave. */
function faultOf(node: NodeDocument, error: string, outputs: Fields | null): string {
  const texts = Object.entries(node.params).filter((each): each is [string, string] => typeof each[1] === "string" && each[1] !== "");
  return [
    `Node ${node.id} (${node.name}) failed. Change the workflow so that it does not fail like this again.`,
    `Error: ${quoted(error)}`,
    ...texts.map(([name, text]) => `${titleOf(name, undefined)}: ${quoted(text)}`),
    ...(outputs ? [`It gave: ${quoted(JSON.stringify(outputs))}`] : []),
  ].join("\n");
}

function Last({ node }: { node: NodeDocument }): ReactElement | null {
  const commands = useCommands();
  const { dispatch } = useStore();
  const canSay = useStudio((state) => state.document?.kind === "workflow" && state.document.readonly === null && state.files?.model.configured !== false);
  const fix = (text: string): void => {
    dispatch({ type: "writing", text });
    commands.panel("chat");
  };
  const run = useStudio((state) => state.run?.nodes[node.id]);
  const shown = useStudio((state) => state.run?.id);
  const live = useStudio((state) => state.run?.outputs[node.id]);
  const writing = useStudio((state) => (state.run?.ended ? undefined : state.run?.writing[node.id]));
  const [last, setLast] = useState<LastRun | null>(null);
  const [item, setItem] = useState(""); // that was chosen; empty for the last one
  const ended = run?.seconds ?? null;
  useEffect(() => {
    let gone = false;
    void commands.last(node.id, item).then((found) => {
      if (!gone) setLast(found?.ran ? found : null);
    });
    return () => {
      gone = true;
    };
  }, [commands, node.id, ended, item]);
  const outputs = item ? last?.outputs : (live ?? last?.outputs);
  const error = item ? last?.error : run?.error || last?.error;
  if (!outputs && !last?.inputs && !error && !writing) return <><Pinned node={node} /><PinActions node={node} outputs={null} /></>;
  return (
    <>
      <Pinned node={node} />
      <section className="block last">
      <h3>Last run</h3>
      {shown && run && <p><a href={`runs/${encodeURIComponent(shown)}/#node=${encodeURIComponent(node.id)}`} target="_blank" rel="noopener">In the timeline</a></p>}
      {(last?.items?.length ?? 0) > 1 && (
        <label className="part">
          <span className="part-name">Item</span>
          <select value={item} onChange={(event) => setItem(event.target.value)}>
            <option value="">the last one that ran</option>
            {last?.items?.map((label) => <option key={label} value={label}>{label.split(".").map((part) => Number(part) + 1).join(" › ")}</option>)}
          </select>
          {last?.more_items && <span className="hint">The values of the first {last.items?.length} items are kept.</span>}
        </label>
      )}
      {last?.current === false && <p className="soft">The node was changed since.</p>}
      {error && <p className="fault error">{error}</p>}
      {error && canSay && <button type="button" className="small" onClick={() => fix(faultOf(node, error, outputs ?? null))}><Icon name="chat" size={14} /> Fix this</button>}
      {writing && <Writing text={writing} />}
      {last?.inputs && <details><summary>Inputs</summary><ValuesView values={last.inputs} /></details>}
      {outputs && <details open><summary>Outputs</summary><ValuesView values={outputs} /></details>}
      <PinActions node={node} outputs={outputs ?? null} />
    </section>
    </>
  );
}

function Several({ count }: { count: number }): ReactElement {
  const commands = useCommands();
  const catalogue = useStudio((state) => state.catalogue);
  const fixed = useStudio((state) => state.document?.kind === "experts");
  const locked = useStudio((state) => state.overlay !== null || state.document?.readonly !== null);
  return (
    <div className="inspector">
      <header className="node-head"><h2>{count} nodes</h2></header>
      <div className="actions wrap">
        <button type="button" onClick={() => commands.align("left")}>Align left</button>
        <button type="button" onClick={() => commands.align("top")}>Align top</button>
        <button type="button" onClick={() => commands.align("columns")}>In a row</button>
        <button type="button" onClick={() => commands.align("rows")}>In a column</button>
        <button type="button" disabled={locked} onClick={() => commands.duplicate()}><Icon name="copy" size={14} /> Duplicate</button>
        {[...catalogue.values()].filter((type) => type.container && !fixed).map((type) => (
          <button type="button" key={type.type} disabled={locked} title="Put these nodes into a container" onClick={() => void commands.group(type.type)}>Group as {type.title.toLowerCase()}</button>
        ))}
        <button type="button" disabled={locked} onClick={() => commands.remove()}><Icon name="bin" size={14} /> Remove</button>
      </div>
    </div>
  );
}
