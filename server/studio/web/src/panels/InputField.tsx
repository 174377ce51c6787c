// A field of the run form: a text, a number, a choice, files by choosing or by drop, or JSON.

import { type ReactElement, useId, useState } from "react";
import { numberOf, numberText, parsed } from "../../shared/exact";
import { Icon } from "../icons";
import { useStudio } from "../store";
import type { Input, Json } from "../types";
import { bytes } from "../../shared/numbers";

interface Props {
  input: Input;
  value: Json;
  change(value: Json): void;
}

export function InputField({ input, value, change }: Props): ReactElement {
  const id = useId();
  return (
    <div className="param">
      <label className="param-name" htmlFor={id}>{input.title || input.name}{input.required && <span className="needed" aria-hidden="true"> *</span>} <span className="soft">{input.type}</span></label>
      <Control id={id} input={input} value={value} change={change} />
    </div>
  );
}

function Control({ id, input, value, change }: Props & { id: string }): ReactElement {
  switch (input.type) {
    case "file":
    case "array[file]":
      return <FilesField id={id} several={input.type !== "file"} value={value} change={change} />;
    case "number":
      return <input id={id} type="number" step="any" value={numberText(value)} onChange={(event) => change(event.target.value === "" ? null : numberOf(event.target.value))} />;
    case "boolean":
      return <input id={id} type="checkbox" role="switch" className="switch" checked={value === true} onChange={(event) => change(event.target.checked)} />;
    case "string":
      return <TextInput id={id} text={typeof value === "string" ? value : ""} change={change} />;
    case "array[string]":
    case "array[number]":
      return <RowsInput id={id} title={input.title || input.name} numbers={input.type === "array[number]"} value={value} change={change} />;
    default:
      return <JsonInput id={id} type={input.type} value={value} change={change} />;
  }
}

/** Characters that a browser lays out at once; a longer text is kept, and its beginning shown. */
const MOST_TYPED = 50_000;

interface TextProps {
  id: string;
  text: string;
  change(text: string): void;
  fault?: boolean;
  placeholder?: string;
}

/** A text; one that is too long for a field can be replaced and removed. */
function TextInput({ id, text, change, fault, placeholder }: TextProps): ReactElement {
  if (text.length > MOST_TYPED) {
    return (
      <div className="long-text">
        <pre id={id} className="plain" dir="auto" tabIndex={0}>{text.slice(0, 400)}…</pre>
        <p className="hint">{text.length.toLocaleString("en")} characters <button type="button" className="link" onClick={() => change("")}>Remove</button></p>
      </div>
    );
  }
  return (
    <textarea
      id={id} dir="auto" rows={2} className={fault === undefined ? "" : "mono"} spellCheck={fault === undefined} placeholder={placeholder} value={text} aria-invalid={fault}
      onChange={(event) => change(event.target.value)}
      onPaste={(event) => {
        const pasted = event.clipboardData.getData("text/plain");
        const { selectionStart: from, selectionEnd: to } = event.currentTarget;
        if (text.length - (to - from) + pasted.length <= MOST_TYPED) return;
        event.preventDefault(); // the field would lay it out, which takes seconds for each key
        change(text.slice(0, from) + pasted + text.slice(to));
      }}
    />
  );
}

/** A list with a field for each item, and an empty one for the next; several lines, or a list in JSON, are pasted as items. */
function RowsInput({ id, title, numbers, value, change }: { id: string; title: string; numbers: boolean; value: Json; change(value: Json): void }): ReactElement {
  const rows = Array.isArray(value) ? value : [];
  const put = (at: number, count: number, items: Json[]): void => change([...rows.slice(0, at), ...items, ...rows.slice(at + count)]);
  return (
    <div className="rows" role="group" aria-label={title}>
      {[...rows, null].map((row, at) => (
        <div className="row" key={at}>
          <input
            {...(at === 0 ? { id } : {})} type={numbers ? "number" : "text"} step="any" dir="auto" aria-label={`${title} ${at + 1}`}
            placeholder={at === rows.length ? "next item" : ""} value={numbers ? numberText(row) : typeof row === "string" ? row : row === null ? "" : JSON.stringify(row)}
            onChange={(event) => put(at, 1, numbers ? (event.target.value === "" ? [] : [numberOf(event.target.value)]) : [event.target.value])}
            onPaste={(event) => {
              const items = itemsOf(event.clipboardData.getData("text/plain"), numbers);
              if (items.length < 2) return;
              event.preventDefault();
              put(at, 1, items);
            }}
          />
          {at < rows.length && <button type="button" className="ghost small" aria-label={`Remove ${title} ${at + 1}`} title="Remove" onClick={() => put(at, 1, [])}><Icon name="close" size={14} /></button>}
        </div>
      ))}
    </div>
  );
}

/** The items of a pasted text: a list in JSON, or its lines. */
function itemsOf(text: string, numbers: boolean): Json[] {
  try {
    const list = parsed<Json>(text);
    if (Array.isArray(list) && list.every((each) => typeof each === (numbers ? "number" : "string"))) return list;
  } catch {
    // it is no JSON
  }
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (!numbers) return lines;
  return lines.some((line) => Number.isNaN(Number(line))) ? [] : lines.map(numberOf); // nothing is left out: the field takes it, or not
}

/** What a value of a type looks like as JSON. */
const LIKE: Record<string, string> = {
  "array[boolean]": "[true, false]",
  "array[object]": '[{"name": "value"}]',
  object: '{"name": "value"}',
};

function JsonInput({ id, type, value, change }: { id: string; type: string; value: Json; change(value: Json): void }): ReactElement {
  const [text, setText] = useState(value === null ? "" : JSON.stringify(value, null, 2));
  const [fault, setFault] = useState(false);
  return (
    <>
      <TextInput id={id} fault={fault} placeholder={`JSON${LIKE[type] ? `, such as ${LIKE[type]}` : ""}`} text={text} change={(written) => {
        setText(written);
        try {
          change(written.trim() ? parsed<Json>(written) : null);
          setFault(false);
        } catch {
          setFault(true);
        }
      }} />
      {fault && <p className="fault">Not JSON yet{LIKE[type] && <>; write it like <code>{LIKE[type]}</code></>}.</p>}
    </>
  );
}

/** Files of one input. */
const MOST_FILES = 50;

interface Chosen {
  name: string;
  base64: string;
}

function FilesField({ id, several, value, change }: { id: string; several: boolean; value: Json; change(value: Json): void }): ReactElement {
  const limits = useStudio((state) => state.files?.limits) ?? { file: 16 * 2 ** 20, files: 32 * 2 ** 20 };
  const [fault, setFault] = useState("");
  const [over, setOver] = useState(false);
  const chosen = (Array.isArray(value) ? value : value ? [value] : []) as unknown as Chosen[];
  const take = async (files: FileList | null): Promise<void> => {
    const list = [...(files ?? [])];
    if (!list.length) return;
    const kept = several ? chosen : [];
    const size = list.reduce((sum, file) => sum + file.size, kept.reduce((sum, file) => sum + (file.base64.length * 3) / 4, 0));
    const large = list.find((file) => file.size > limits.file);
    if (large) setFault(`${large.name} is larger than ${bytes(limits.file)}.`);
    else if (size > limits.files) setFault(`These files have more than ${bytes(limits.files)} together.`);
    else if (!several && list.length > 1) setFault("This input takes one file.");
    else if (kept.length + list.length > MOST_FILES) setFault(`This input takes up to ${MOST_FILES} files.`);
    else {
      setFault("");
      try {
        const read = await Promise.all(list.map(async (file): Promise<Chosen> => ({ name: file.name, base64: await base64Of(file) })));
        change((several ? [...kept, ...read] : (read[0] ?? null)) as unknown as Json);
      } catch {
        setFault("This cannot be read; choose files, not folders.");
      }
    }
  };
  return (
    <div
      className={over ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void take(event.dataTransfer.files);
      }}
    >
      <input
        id={id} type="file" multiple={several} aria-describedby={`${id}-bound`} onChange={(event) => {
          const field = event.target;
          void take(field.files).then(() => {
            field.value = ""; // so that the same file can be chosen again
          });
        }}
      />
      <p className="hint" id={`${id}-bound`}>{several ? `or drop files here: up to ${bytes(limits.file)} each, ${bytes(limits.files)} together` : `or drop a file here: up to ${bytes(limits.file)}`}</p>
      {chosen.map((file, at) => (
        <span className="chip" key={at}><Icon name="file" size={14} /> <span className="chip-name">{file.name}</span>
          <button type="button" className="ghost small" aria-label={`Remove ${file.name}`} onClick={() => change(several ? (chosen.filter((_, other) => other !== at) as unknown as Json) : null)}><Icon name="close" size={12} /></button>
        </span>
      ))}
      {fault && <p className="fault" role="alert">{fault}</p>}
    </div>
  );
}

export async function base64Of(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
