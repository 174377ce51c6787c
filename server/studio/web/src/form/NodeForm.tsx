// The form of a node's parameters, made from the JSON Schema of its type.

import { type ReactElement, useEffect, useMemo, useState } from "react";
import { setting } from "../operations";
import type { Commands } from "../commands";
import { useCommands, useStudio } from "../store";
import { textOf } from "../values/Difference";
import type { Candidate, Document, Issue, Json, NodeDocument, NodeType, Schema } from "../types";
import { type Base, CONFLICT, useDraft } from "./draft";
import { FailureField } from "./FailureField";
import { Control, Form, type FormContext, singular } from "./Field";
import { CheckField } from "./CheckField";
import { ModelField } from "./ModelField";
import { kindOf, titleOf } from "../schema";

/** Nodes that do nothing that can fail. */
const NEVER_FAIL = new Set(["start", "end", "answer", "conversation", "iteration-start", "loop-start", "loop-end"]);

/** Parameters that few need, folded away. */
const RARE = new Set(["sampling", "messages", "memory", "context", "files", "output_schema", "separate_thoughts", "groups", "timeout", "authorization", "then", "concurrency", "flatten_output", "on_error", "defaults"]);

interface Props {
  node: NodeDocument;
  type: NodeType;
  issues: readonly Issue[];
  version: number;
  locked: boolean;
}

export function NodeForm({ node, type, issues, version, locked }: Props): ReactElement {
  const commands = useCommands();
  const nodes = useStudio((state) => state.document?.nodes) ?? [];
  const [candidates, setCandidates] = useState<readonly Candidate[] | null>(null);
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
  const failing = fields.find(([name]) => name === "failure" && !(NEVER_FAIL.has(node.type) && !node.params[name]));
  const rare = ([name, schema]: [string, Schema]): boolean =>
    (schema["x-advanced"] ?? RARE.has(name)) && !type.schema.required?.includes(name);
  const shared = useMemo<Omit<FormContext, "flush">>(() => ({
    root: type.schema,
    candidates: candidates ?? [],
    names: namesOf(node.params["variables"]),
    chip: (reference) => chipOf(reference, nodes, candidates),
    language: typeof node.params["language"] === "string" ? node.params["language"] : "python",
    locked,
  }), [type, candidates, nodes, node.params, locked]);

  const shown = (entry: [string, Schema], first: boolean): ReactElement => (
    <Param
      key={entry[0]} node={node} name={entry[0]} schema={entry[1]} shared={shared} first={first}
      needed={(type.schema.required?.includes(entry[0]) ?? false) && !mayBeEmpty(entry[1])}
      issues={issues.filter((issue) => issue.field?.split(/[.[]/)[0] === entry[0])}
    />
  );
  const plain = fields.filter(([name]) => name !== "failure");
  const common = plain.filter((field) => !rare(field));
  const others = plain.filter(rare);
  const set = others.filter(([name, schema]) => JSON.stringify(node.params[name] ?? null) !== JSON.stringify(schema.default ?? null) && node.params[name] !== undefined);
  return (
    <div className="form">
      {common.map((entry, at) => shown(entry, at === 0))}
      {failing && shown(failing, false)}
      {others.length > 0 && (
        <details className="more" open={set.length > 0 || undefined}>
          <summary>More settings{set.length ? ` (${set.length} set)` : ""}</summary>
          {others.map((entry) => shown(entry, common.length === 0))}
        </details>
      )}
    </div>
  );
}

/** A variable by its name and that of its node; null for what is none, or as long as it is not known what may be read. */
function chipOf(reference: string, nodes: readonly NodeDocument[], candidates: readonly Candidate[] | null): { words: string; known: boolean } | null {
  const [id = "", ...path] = reference.split(".");
  const node = nodes.find((each) => each.id === id);
  if (!candidates || !path.length) return null;
  const known = candidates.some((each) => reference === each.reference || reference.startsWith(`${each.reference}.`));
  return { words: `${path.join(".")} · ${node?.name ?? id}`, known };
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
  const draft = useDraft<Json | undefined>(node.params[name], (value, base) => commit(commands, node, name, value, base));
  const failure = name === "failure" && schema["x-editor"] === undefined && schema.anyOf !== undefined;
  const model = schema["x-editor"] === "model";
  const label = failure ? "If it fails" : model ? "Model" : titleOf(name, schema);
  const context = useMemo<FormContext>(() => ({ ...shared, flush: draft.flush }), [shared, draft.flush]);
  const faults = new Map(issues.map((issue) => [`${itemOf(issue, label)}${issue.what}`, issue.severity])); // each once
  const inline = kindOf(schema, shared.root, name).kind === "boolean";
  return (
    <div className={inline ? "param inline" : "param"} {...(first ? { "data-first": true } : {})}>
      <div className="param-head">
        <span className="param-name">{label}{needed && <span className="needed" title="needed" aria-hidden="true"> *</span>}</span>
        {schema.description && !failure && !model && <Hint text={schema.description} />}
      </div>
      <Form value={context}>
        {failure
          ? <FailureField value={draft.value} outputs={node.outputs} change={draft.set} />
          : model
            ? <ModelField label={label} value={String(draft.value ?? "")} locked={shared.locked} ofNode change={(text) => draft.set(text)} leave={draft.flush} />
            : schema["x-editor"] === "check"
              ? <CheckField label={label} value={draft.value} locked={shared.locked} change={draft.set} leave={draft.flush} />
            : <Control schema={schema} value={draft.value ?? schema.default} label={label} name={name} change={draft.set} />}
      </Form>
      {draft.conflict && (
        <div className="fault warning conflict" role="alert">
          <p>{`Another tab, the chat or a program changed ${label} while you edited it. Nothing of yours is written yet.`}</p>
          <p className="soft theirs" dir="auto">{textOf(node.params[name] ?? null).slice(0, 300)}</p>
          <div className="actions wrap">
            <button type="button" onClick={() => draft.choose(true)}>Keep mine</button>
            <button type="button" onClick={() => draft.choose(false)}>Take theirs</button>
          </div>
        </div>
      )}
      {[...faults].map(([what, severity]) => <p className={`fault ${severity}`} key={what}>{what}</p>)}
    </div>
  );
}

/** Set a parameter, unless it was changed elsewhere since its editing began. */
async function commit(commands: Commands, node: NodeDocument, name: string, value: Json | undefined, base: Base): Promise<unknown> {
  const valueIn = (document: Document): string => JSON.stringify(document.nodes.find(({ id }) => id === node.id)?.params[name]) ?? "";
  let conflict = false;
  const done = await commands.edit((document) => {
    const now = valueIn(document);
    conflict = base.current !== null && now !== base.current && now !== JSON.stringify(value);
    return conflict ? [] : [setting(node, name, value ?? null)];
  }, (document) => {
    base.current = valueIn(document);
    return {};
  });
  return conflict ? CONFLICT : done;
}

/** Which item of a list an issue is about: "Variable 1: ". */
function itemOf(issue: Issue, label: string): string {
  const at = /^[^.[]*\[(\d+)\]/.exec(issue.field ?? "")?.[1];
  return at === undefined ? "" : `${singular(label)} ${Number(at) + 1}: `;
}

/** How descriptions say that a text may be empty. */
const EMPTY = '"" for none';

/** How descriptions say that a text may name variables. */
const VARIABLES = /\b([Vv])ariables as \{\{#id\.variable#\}\}/;

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
  return (broken ? text : out).replace(EMPTY, "may be empty").replace(VARIABLES, (_, first: string) => `${first === "V" ? "T" : "t"}ype / to insert a variable`).trim();
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
      {!open && <button type="button" className="link" aria-label={`more of the description: ${text.slice(0, 40)}`} onClick={() => setOpen(true)}>more</button>}
    </p>
  );
}
