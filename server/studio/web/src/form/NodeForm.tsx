// The form of a node's parameters, made from the JSON Schema of its type.

import { type ReactElement, useEffect, useMemo, useState } from "react";
import { setting } from "../operations";
import { useCommands } from "../store";
import type { Candidate, Issue, Json, NodeDocument, NodeType, Schema } from "../types";
import { useDraft } from "./draft";
import { Control, Form, type FormContext, singular } from "./Field";
import { kindOf, titleOf } from "../schema";

/** Parameters that few need, folded away. */
const RARE = new Set(["failure", "sampling", "model_name", "messages", "memory", "context", "files", "output_schema", "separate_thoughts", "groups", "timeout", "authorization", "then", "concurrency", "flatten_output", "on_error", "defaults"]);

interface Props {
  node: NodeDocument;
  type: NodeType;
  issues: readonly Issue[];
  version: number;
  locked: boolean;
}

export function NodeForm({ node, type, issues, version, locked }: Props): ReactElement {
  const commands = useCommands();
  const [candidates, setCandidates] = useState<readonly Candidate[]>([]);
  useEffect(() => {
    let gone = false;
    void commands.candidates(node.id).then((found) => {
      if (!gone) setCandidates(found);
    });
    return () => {
      gone = true;
    };
  }, [commands, node.id, version]);

  const fields = useMemo(() => Object.entries(type.schema.properties ?? {}), [type]);
  const rare = ([name, schema]: [string, Schema]): boolean =>
    (schema["x-advanced"] ?? RARE.has(name)) && !type.schema.required?.includes(name);
  const shared = useMemo<Omit<FormContext, "flush">>(() => ({
    root: type.schema,
    candidates,
    names: namesOf(node.params["variables"]),
    language: typeof node.params["language"] === "string" ? node.params["language"] : "python",
    locked,
  }), [type, candidates, node.params, locked]);

  const shown = (entry: [string, Schema], first: boolean): ReactElement => (
    <Param
      key={entry[0]} node={node} name={entry[0]} schema={entry[1]} shared={shared} first={first}
      needed={(type.schema.required?.includes(entry[0]) ?? false) && !mayBeEmpty(entry[1])}
      issues={issues.filter((issue) => issue.field?.split(/[.[]/)[0] === entry[0])}
    />
  );
  const common = fields.filter((field) => !rare(field));
  const others = fields.filter(rare);
  const set = others.filter(([name, schema]) => JSON.stringify(node.params[name] ?? null) !== JSON.stringify(schema.default ?? null) && node.params[name] !== undefined);
  return (
    <div className="form">
      {common.map((entry, at) => shown(entry, at === 0))}
      {others.length > 0 && (
        <details className="more" open={set.length > 0 || undefined}>
          <summary>More settings{set.length ? ` (${set.length} set)` : ""}</summary>
          {others.map((entry) => shown(entry, common.length === 0))}
        </details>
      )}
    </div>
  );
}

const namesOf = (variables: Json | undefined): string[] =>
  Array.isArray(variables)
    ? variables.flatMap((each) => (Array.isArray(each) && typeof each[0] === "string" ? [each[0]] : []))
    : [];

interface ParamProps {
  node: NodeDocument;
  name: string;
  schema: Schema;
  shared: Omit<FormContext, "flush">;
  needed: boolean;
  first: boolean;
  issues: readonly Issue[];
}

function Param({ node, name, schema, shared, needed, first, issues }: ParamProps): ReactElement {
  const commands = useCommands();
  const draft = useDraft<Json | undefined>(node.params[name], (value) => commands.edit([setting(node, name, value ?? null)]));
  const label = titleOf(name, schema);
  const context = useMemo<FormContext>(() => ({ ...shared, flush: draft.flush }), [shared, draft.flush]);
  const faults = new Map(issues.map((issue) => [`${itemOf(issue, label)}${issue.what}`, issue.severity])); // each once
  const inline = kindOf(schema, shared.root, name).kind === "boolean";
  return (
    <div className={inline ? "param inline" : "param"} {...(first ? { "data-first": true } : {})}>
      <div className="param-head">
        <span className="param-name">{label}{needed && <span className="needed" title="needed" aria-hidden="true"> *</span>}</span>
        {schema.description && <Hint text={schema.description} />}
      </div>
      <Form value={context}>
        <Control schema={schema} value={draft.value ?? schema.default} label={label} name={name} change={draft.set} />
      </Form>
      {[...faults].map(([what, severity]) => <p className={`fault ${severity}`} key={what}>{what}</p>)}
    </div>
  );
}

/** Which item of a list an issue is about: "Variable 1: ". */
function itemOf(issue: Issue, label: string): string {
  const at = /^[^.[]*\[(\d+)\]/.exec(issue.field ?? "")?.[1];
  return at === undefined ? "" : `${singular(label)} ${Number(at) + 1}: `;
}

/** How descriptions say that a text may be empty. */
const EMPTY = '"" for none';

const mayBeEmpty = (schema: Schema): boolean => schema.description?.includes(EMPTY) ?? false;

/** A description without how a value is written as JSON, [like, this], which a form need not say. */
function withoutNotation(text: string): string {
  let [out, depth] = ["", 0];
  for (const [at, sign] of [...text].entries()) {
    const begins = (sign === "[" || (sign === "{" && text[at + 1] !== "{" && text[at - 1] !== "{")) && (depth > 0 || /[\s,:]/.test(text[at - 1] ?? " "));
    if (begins) {
      if (depth === 0) out = out.replace(/[,:]?\s*$/, "");
      depth++;
    }
    if (depth === 0) out += sign;
    if (depth > 0 && (sign === "]" || sign === "}")) depth--;
  }
  const broken = /[;,:]\s*[;,:]/.test(out); // the notation was what the description is about
  return (broken ? text : out).replace(EMPTY, "may be empty").trim();
}

function Hint({ text: whole }: { text: string }): ReactElement | null {
  const text = withoutNotation(whole);
  const short = text.length <= 90;
  const [open, setOpen] = useState(false);
  if (!text) return null;
  if (short) return <p className="hint">{text}</p>;
  return (
    <p className="hint">
      {open ? text : `${text.slice(0, 80).replace(/\s\S*$/, "")}… `}
      {!open && <button type="button" className="link" aria-label={`All of the description: ${text.slice(0, 40)}`} onClick={() => setOpen(true)}>more</button>}
    </p>
  );
}
