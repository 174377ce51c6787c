// A value of a run, shown as what it is: text as Markdown, a picture, sound, a table, a file, a list, named values.

import { type ReactElement, Suspense, lazy, useEffect, useRef, useState } from "react";
import { structured } from "../../shared/exact";
import { isMarkdown } from "../../shared/markup";
import type { Fields, FileValue, Json } from "../types";
import { FileView } from "./FileView";
import { Table } from "./Table";

const Markdown = lazy(() => import("./Markdown"));

const MOST_ITEMS = 100;
const MOST_TEXT = 20_000;

/** Values inside of values that are shown as what they are; what lies deeper is shown as JSON. */
const MOST_DEEP = 5;

export function ValuesView({ values, depth = 0 }: { values: Fields; depth?: number }): ReactElement {
  const entries = Object.entries(values);
  if (!entries.length) return <p className="soft">Nothing.</p>;
  return (
    <dl className="values">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt dir="auto">{name}</dt>
          <dd><ValueView value={value} depth={depth} /></dd>
        </div>
      ))}
    </dl>
  );
}

export function ValueView({ value, depth = 0 }: { value: Json; depth?: number }): ReactElement {
  const file = fileOf(value);
  if (file) return <FileView file={file} />;
  if (typeof value === "string") return <TextView text={value} depth={depth} />;
  if (value === null || typeof value !== "object") return <code>{String(value)}</code>;
  if (depth >= MOST_DEEP) return <Long text={JSON.stringify(value, null, 2)} />;
  const inner = (each: Json): ReactElement => <ValueView value={each} depth={depth + 1} />;
  if (!Array.isArray(value)) return <div className="nested"><ValuesView values={value} depth={depth + 1} /></div>;
  if (!value.length) return <span className="soft">empty list</span>;
  if (value.every(fileOf)) return <div className="files">{value.map((each, at) => <ValueView value={each} key={at} />)}</div>;
  if (value.every(isFields)) return <Table columns={columnsOf(value)} rows={value.map((row) => columnsOf(value).map((column) => row[column] ?? null))} cell={inner} />;
  if (value.length > 1 && value.every(isRow)) return <Table columns={[]} rows={value} cell={inner} />;
  if (value.every((each) => each === null || ["number", "bigint", "boolean"].includes(typeof each))) return <p>{value.slice(0, MOST_ITEMS * 5).map(String).join(", ")}</p>;
  return (
    <>
      <ol className="value-list">{value.slice(0, MOST_ITEMS).map((each, at) => <li key={at}>{inner(each)}</li>)}</ol>
      {value.length > MOST_ITEMS && <p className="soft">{value.length - MOST_ITEMS} more items</p>}
    </>
  );
}

const fileOf = (value: Json): FileValue["file"] | null => {
  if (!value || typeof value !== "object" || Array.isArray(value)) return null;
  const file = value["file"];
  const sound = file && typeof file === "object" && !Array.isArray(file) && typeof file["type"] === "string" && typeof file["name"] === "string" && "url" in file;
  return sound ? (file as unknown as FileValue["file"]) : null;
};

const isFields = (value: Json): value is Fields => value !== null && typeof value === "object" && !Array.isArray(value) && !fileOf(value);

const isRow = (value: Json): value is Json[] => Array.isArray(value) && value.length > 1 && value.every((each) => each === null || typeof each !== "object");

const columnsOf = (rows: readonly Fields[]): string[] => [...new Set(rows.slice(0, MOST_ITEMS).flatMap((row) => Object.keys(row)))];

export function TextView({ text, depth = 0 }: { text: string; depth?: number }): ReactElement {
  const [raw, setRaw] = useState(false);
  if (!text) return <span className="soft">empty text</span>;
  const cut = text.slice(0, MOST_TEXT);
  const value = structured<Json[] | Fields>(text);
  const said = value && Object.keys(value).length ? value : null;
  const marked = said !== null || isMarkdown(cut);
  const plain = <pre className="plain" dir="auto" tabIndex={0}>{cut}</pre>;
  return (
    <div className="text-value">
      {!marked || raw ? plain : said !== null ? <ValueView value={said} depth={depth + 1} /> : <Suspense fallback={plain}><Markdown text={cut} /></Suspense>}
      {text.length > MOST_TEXT && (said === null || raw) && <p className="soft">{text.length - MOST_TEXT} more characters are not shown.</p>}
      {marked && <button type="button" className="link" onClick={() => setRaw(!raw)}>{raw ? "Formatted" : "As text"}</button>}
    </div>
  );
}

/** A text that a model is writing; its end stays in sight. */
export function Writing({ text }: { text: string }): ReactElement {
  const shown = useRef<HTMLPreElement>(null);
  useEffect(() => {
    shown.current?.scrollTo(0, shown.current.scrollHeight);
  }, [text]);
  return <pre ref={shown} className="plain" dir="auto" tabIndex={0} aria-live="off">{text}</pre>;
}

function Long({ text }: { text: string }): ReactElement {
  return <pre className="mono" tabIndex={0}>{text.slice(0, MOST_TEXT)}{text.length > MOST_TEXT ? "\n…" : ""}</pre>;
}
