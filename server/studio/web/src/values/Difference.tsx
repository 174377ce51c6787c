// What differs between two texts, or between values of the same names.

import { type ReactElement, useMemo } from "react";
import { difference } from "../../shared/difference";
import type { Fields, Json } from "../types";

const MARKS = { same: "span", gone: "del", new: "ins" } as const;

export function Difference({ before, after }: { before: string; after: string }): ReactElement {
  const pieces = useMemo(() => difference(before, after), [before, after]);
  if (!pieces) return <><pre className="plain">{before}</pre><pre className="plain">{after}</pre></>;
  return (
    <pre className="plain diff" dir="auto" tabIndex={0}>
      {pieces.map(({ kind, text }, at) => {
        const Mark = MARKS[kind];
        return <Mark key={at}>{text}</Mark>;
      })}
    </pre>
  );
}

export function FieldsDifference({ before, after }: { before: Fields; after: Fields }): ReactElement {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => textOf(before[name]) !== textOf(after[name]));
  if (!names.length) return <p className="soft">The same values.</p>;
  return (
    <dl className="values">
      {names.map((name) => <div key={name}><dt dir="auto">{name}</dt><dd><Difference before={textOf(before[name])} after={textOf(after[name])} /></dd></div>)}
    </dl>
  );
}

export const textOf = (value: Json | undefined): string => (typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value, null, 2));
