// Fields of the inspector's form, one for each kind of JSON Schema that node types use.

import { type ReactElement, Suspense, createContext, lazy, useContext, useId, useRef, useState } from "react";
import { numberOf, numberText, parsed } from "../../shared/exact";
import { Icon } from "../icons";
import type { Candidate, Json, Schema } from "../types";
import { emptyOf, kindOf, resolved, titleOf } from "../schema";

const CodeField = lazy(() => import("./CodeField"));

/** What all fields of one form share. */
export interface FormContext {
  root: Schema;
  candidates: readonly Candidate[];
  /** Names that a template of this node can use. */
  names: readonly string[];
  chip(reference: string): { words: string; known: boolean } | null;
  language: string;
  locked: boolean;
  flush(): void;
}

export const Form = createContext<FormContext>({ root: {}, candidates: [], names: [], chip: () => null, language: "", locked: true, flush: () => undefined });

export interface FieldProps {
  schema: Schema | undefined;
  value: Json | undefined;
  label: string;
  name?: string;
  change(value: Json, now?: boolean): void;
}

/** A control for a value, without its label. */
export function Control({ schema, value, label, name = "", change }: FieldProps): ReactElement {
  const { root, locked, flush } = useContext(Form);
  const kind = kindOf(schema, root, name);
  switch (kind.kind) {
    case "selector":
      return <SelectorField value={value} label={label} change={change} />;
    case "condition":
      return <ConditionField operators={kind.operators} value={value} label={label} change={change} />;
    case "choice":
      return (
        <select aria-label={label} disabled={locked} value={JSON.stringify(value ?? null)} onChange={(event) => change(parsed<Json>(event.target.value), true)}>
          {!kind.options.some((option) => JSON.stringify(option) === JSON.stringify(value ?? null)) && (
            <option value={JSON.stringify(value ?? null)}>{value === undefined || value === null ? "" : optionOf(value)}</option>
          )}
          {kind.options.map((option) => <option key={JSON.stringify(option)} value={JSON.stringify(option)}>{option === null ? "default" : optionOf(option)}</option>)}
        </select>
      );
    case "boolean":
      return <input type="checkbox" className="switch" role="switch" aria-label={label} disabled={locked} checked={value === true} onChange={(event) => change(event.target.checked, true)} />;
    case "number":
      return (
        <input
          type="number" aria-label={label} disabled={locked} value={numberText(value)} step={kind.integer ? 1 : "any"}
          min={kind.minimum} max={kind.maximum} onBlur={flush}
          onChange={(event) => {
            if (event.target.value !== "") change(numberOf(event.target.value));
          }}
        />
      );
    case "text":
      return (
        <input
          type="text" dir="auto" aria-label={label} disabled={locked} value={textOf(value)} spellCheck={false} onBlur={flush}
          placeholder={label.includes(" of ") ? label.split(" of ")[0] : undefined}
          onChange={(event) => change(event.target.value)}
        />
      );
    case "long":
      return <LongField language={kind.language} value={textOf(value)} label={label} change={change} />;
    case "list":
      return <ListField item={kind.item} unique={kind.unique} value={value} label={label} change={change} />;
    case "tuple":
      return <TupleField items={kind.items} least={kind.least} value={value} label={label} change={change} />;
    case "object":
      return <ObjectField fields={kind.fields} value={value} label={label} change={change} />;
    case "optional":
      return <OptionalField of={kind.of} value={value} label={label} name={name} change={change} />;
    case "either":
      return <EitherField schema={schema} options={kind.options} value={value} label={label} change={change} />;
    case "json":
      return <JsonField value={value} label={label} change={change} />;
  }
}

/** A choice in words: an operator with its port as `triage.refund`. */
const optionOf = (option: Json): string =>
  option && typeof option === "object" && !Array.isArray(option) && "operator" in option ? `${String(option["operator"])}.${String(option["port"])}` : String(option);

const textOf = (value: Json | undefined): string =>
  typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value);

function LongField({ language, value, label, change }: { language: string; value: string; label: string; change: FieldProps["change"] }): ReactElement {
  const form = useContext(Form);
  const held = useRef(false); // the plain field has the focus, which the editor takes over when it has been loaded
  const plain = (
    <textarea
      aria-label={label} dir="auto" rows={3} disabled={form.locked} value={value}
      onFocus={() => {
        held.current = true;
      }}
      onBlur={(event) => {
        if (event.relatedTarget) held.current = false;
        form.flush();
      }}
      onChange={(event) => change(event.target.value)}
    />
  );
  return (
    <Suspense fallback={plain}>
      <CodeField
        value={value} label={label} language={language === "code" ? form.language : language} locked={form.locked}
        candidates={form.candidates} names={form.names} chip={form.chip} held={held} change={change} leave={form.flush}
      />
    </Suspense>
  );
}

function SelectorField({ value, label, change }: { value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const { candidates, locked } = useContext(Form);
  const [variable, node] = Array.isArray(value) ? value : [];
  const current = node ? `${String(node)}.${String(variable)}` : "";
  const known = candidates.some((each) => each.reference === current);
  return (
    <select
      className="selector" aria-label={label} disabled={locked} value={current}
      onChange={(event) => {
        const [id = "", ...rest] = event.target.value.split(".");
        change([rest.join("."), id], true);
      }}
    >
      {!current && <option value="">Choose a variable</option>}
      {current && !known && <option value={current}>{current}</option>}
      {candidates.map((each) => <option key={each.reference} value={each.reference}>{each.title ? `${each.name} · ${each.title}` : each.reference} ({each.type})</option>)}
    </select>
  );
}

function ListField({ item: given, unique, value, label, change }: { item: Schema; unique: boolean; value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const { root, locked } = useContext(Form);
  const rows = Array.isArray(value) ? value : [];
  const free = unique ? given.enum?.filter((each) => !rows.includes(each)) : given.enum;
  const item = free && unique ? { ...given, enum: free } : given;
  const nested = /\d$/.test(label) && item.title; // the rows of "chain 2" are operators
  const one = (nested || singular(label.split(" of ")[0] ?? label)).toLowerCase();
  const kind = kindOf(item, root);
  const flat = kind.kind === "tuple" ? !isWide(kind.items, root) : ["selector", "text", "choice", "number"].includes(kind.kind);
  const list = useRef<HTMLDivElement>(null);
  const add = (): void => {
    change([...rows, newRow(item, root, one, rows)], true);
    requestAnimationFrame(() => {
      const field = [...(list.current?.querySelectorAll<HTMLElement>(":scope > .row") ?? [])].at(-1)?.querySelector<HTMLElement>("input, textarea, select, button");
      field?.focus();
      if (field instanceof HTMLInputElement) field.select();
    });
  };
  return (
    <div className="rows" role="group" aria-label={label} ref={list}>
      {rows.map((row, at) => (
        <div className={flat ? "row" : "row tall"} key={at}>
          <Control schema={item} value={row} label={`${one} ${at + 1}`} change={(next, now) => change(rows.map((each, other) => (other === at ? next : each)), now)} />
          <button type="button" className="ghost small" aria-label={`Remove ${one} ${at + 1}`} title="Remove" disabled={locked} onClick={() => change(rows.filter((_, other) => other !== at), true)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
      {free?.length !== 0 && (
        <button type="button" className="add" disabled={locked} onClick={add}>
          <Icon name="plus" size={14} /> Add {one}
        </button>
      )}
    </div>
  );
}

export function singular(word: string): string {
  if (word.endsWith("ies")) return `${word.slice(0, -3)}y`;
  return /(ss|sh|x)es$/.test(word) ? word.slice(0, -2) : word.replace(/s$/, "");
}

/** An empty row; one with a name gets a name that is free. */
function newRow(item: Schema, root: Schema, one: string, rows: readonly Json[]): Json {
  const kind = kindOf(item, root);
  const empty = emptyOf(item, root);
  if (kind.kind !== "tuple" || !Array.isArray(empty)) return empty;
  const at = kind.items.findIndex((part) => part.title === "Name");
  const taken = rows.map((row) => (Array.isArray(row) ? row[at] : null));
  let number = rows.length + 1;
  while (taken.includes(`${one}_${number}`)) number++;
  return empty.map((part, each) => (each === at ? `${one}_${number}` : part));
}

/** Parts that need more than a place in a row. */
const isWide = (items: Schema[], root: Schema): boolean =>
  items.some((item) => ["list", "long", "either", "json"].includes(kindOf(item, root).kind));

/** Operators that compare with nothing. */
const ALONE = /empty|exists|null/;

/** A variable, how it is compared, and with what. */
function ConditionField({ operators, value, label, change }: { operators: Record<string, string[]>; value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const { candidates, locked } = useContext(Form);
  const [variable, operator, compared] = Array.isArray(value) ? value : [];
  const [name, node] = Array.isArray(variable) ? variable : [];
  const type = candidates.find((each) => each.reference === `${String(node)}.${String(name)}`)?.type ?? "string";
  const known = operators[type] ?? operators["string"] ?? [];
  const chosen = typeof operator === "string" ? operator : "";
  const made = (parts: { variable?: Json; operator?: string; compared?: Json }): Json => {
    const next = parts.operator ?? chosen;
    return [parts.variable ?? variable ?? ["", ""], next, ...(ALONE.test(next) ? [] : [parts.compared ?? compared ?? ""])];
  };
  return (
    <div className="condition" role="group" aria-label={label}>
      <SelectorField value={variable} label={`Variable of ${label}`} change={(next, now) => change(made({ variable: next }), now)} />
      <select aria-label={`Operator of ${label}`} disabled={locked} value={chosen} onChange={(event) => change(made({ operator: event.target.value }), true)}>
        {!known.includes(chosen) && <option>{chosen}</option>}
        {known.map((each) => <option key={each}>{each}</option>)}
      </select>
      {!ALONE.test(chosen) && <input type="text" dir="auto" aria-label={`Value of ${label}`} disabled={locked} value={textOf(compared)} onChange={(event) => change(made({ compared: event.target.value }))} />}
    </div>
  );
}

function TupleField({ items, least, value, label, change }: { items: Schema[]; least: number; value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const { root } = useContext(Form);
  const now = Array.isArray(value) ? value : [];
  return (
    <div className={isWide(items, root) ? "tuple wide" : "tuple"} role="group" aria-label={label}>
      {items.map((item, at) => {
        const title = titleOf(`part ${at + 1}`, titled(item, root));
        return (
          <div className="part" key={at}>
            <span className="part-name">{title}</span>
            <Control
              schema={item} value={now[at]} label={`${title} of ${label}`}
              change={(next, immediately) => {
                const filled = Array.from({ length: Math.max(now.length, at + 1, least) }, (_, each) => now[each] ?? emptyOf(items[each], root));
                filled[at] = next;
                change(filled, immediately);
              }}
            />
          </div>
        );
      })}
    </div>
  );
}

const titled = (item: Schema, root: Schema): Schema => {
  const found = resolved(item, root) ?? item;
  return found.title === "Selector" || !found.title ? { title: "Variable" } : found.title === "VariableType" ? { title: "Type" } : found;
};

function ObjectField({ fields, value, label, change }: { fields: [string, Schema][]; value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const now = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  return (
    <fieldset className="object">
      <legend className="hidden">{label}</legend>
      {fields.map(([name, field]) => (
        <div className="part" key={name} title={field.description}>
          <span className="part-name">{titleOf(name, field)}</span>
          <Control schema={field} value={now[name] ?? field.default} label={`${titleOf(name, field)} of ${label}`} name={name} change={(next, immediately) => change({ ...now, [name]: next }, immediately)} />
        </div>
      ))}
    </fieldset>
  );
}

function OptionalField({ of, value, label, name, change }: { of: Schema; value: Json | undefined; label: string; name: string; change: FieldProps["change"] }): ReactElement {
  const { root, locked } = useContext(Form);
  const kind = kindOf(of, root, name).kind;
  if (value === null || value === undefined) {
    return (
      <button type="button" className="add" disabled={locked} onClick={() => change(kind === "json" ? {} : emptyOf(of, root), true)}>
        <Icon name="plus" size={14} /> Set {label.toLowerCase()}
      </button>
    );
  }
  return (
    <div className="row tall">
      <Control schema={of} value={value} label={label} name={name} change={change} />
      <button type="button" className="ghost small" aria-label={`Clear ${label}`} title="Clear" disabled={locked} onClick={() => change(null, true)}>
        <Icon name="close" size={14} />
      </button>
    </div>
  );
}

/** A variable of another node, or a value written here; a text names variables in it. */
function EitherField({ schema, options, value, label, change }: { schema: Schema | undefined; options: Schema[]; value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const { root, locked } = useContext(Form);
  if (schema?.["x-editor"] === "prompt" && !Array.isArray(value)) return <LongField language="prompt" value={textOf(value)} label={label} change={change} />;
  const canRead = options.some((option) => kindOf(option, root).kind === "selector");
  const reads = canRead && Array.isArray(value) && value.length === 2 && value.every((each) => typeof each === "string");
  const others = options.filter((option) => kindOf(option, root).kind !== "selector");
  const asText = others.some((option) => resolved(option, root)?.type === "string");
  return (
    <div className="either">
      {canRead && (
        <select className="mode" aria-label={`Kind of ${label}`} disabled={locked} value={reads ? "variable" : "value"} onChange={(event) => change(event.target.value === "variable" ? ["", ""] : "", true)}>
          <option value="variable">variable</option>
          <option value="value">value</option>
        </select>
      )}
      {reads
        ? <SelectorField value={value} label={label} change={change} />
        : asText && (typeof value === "string" || value === undefined || value === null)
          ? <input type="text" dir="auto" aria-label={label} disabled={locked} value={textOf(value)} onChange={(event) => change(event.target.value)} />
          : <JsonField value={value} label={label} change={change} />}
    </div>
  );
}

function JsonField({ value, label, change }: { value: Json | undefined; label: string; change: FieldProps["change"] }): ReactElement {
  const { locked, flush } = useContext(Form);
  const written = value === undefined ? "" : JSON.stringify(value, null, 2);
  const [text, setText] = useState(written);
  const [seen, setSeen] = useState(written);
  const [fault, setFault] = useState("");
  const id = useId();
  if (seen !== written) {
    setSeen(written);
    if (fault === "" && compact(text) !== compact(written)) setText(written);
  }
  return (
    <div className="json">
      <textarea
        className="mono" aria-label={`${label}, as JSON`} aria-invalid={fault !== ""} aria-describedby={fault ? id : undefined} disabled={locked}
        rows={Math.min(8, Math.max(1, text.split("\n").length))} value={text} spellCheck={false} onBlur={flush}
        onChange={(event) => {
          setText(event.target.value);
          try {
            change(event.target.value.trim() ? parsed<Json>(event.target.value) : null);
            setFault("");
          } catch (error) {
            setFault(error instanceof Error ? error.message : String(error));
          }
        }}
      />
      {fault && <p className="fault" id={id}>Not JSON yet: {fault}</p>}
    </div>
  );
}

function compact(text: string): string {
  try {
    return JSON.stringify(parsed<Json>(text));
  } catch {
    return text;
  }
}
