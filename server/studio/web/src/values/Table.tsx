// Rows of values; a long table begins with its first rows.

import { type ReactElement, useState } from "react";
import type { Json } from "../types";

const FIRST = 50;
const MOST_COLUMNS = 40;

interface Props {
  /** The names of the columns; none for a table without a head. */
  columns: readonly string[];
  rows: readonly (readonly Json[])[];
  /** How a value is shown that is no text, number or the like. */
  cell(value: Json): ReactElement;
}

export function Table({ columns, rows, cell }: Props): ReactElement {
  const [all, setAll] = useState(false);
  const shown = all ? rows : rows.slice(0, FIRST);
  const numbers = (rows[0] ?? []).map((_, place) => rows.every((row) => typeof row[place] === "number" || row[place] === null));
  return (
    <div className="table" tabIndex={0} role="region" aria-label={`Table of ${rows.length} ${rows.length === 1 ? "row" : "rows"}`}>
      <table>
        {columns.length > 0 && <thead><tr>{columns.slice(0, MOST_COLUMNS).map((column, at) => <th key={column} scope="col" dir="auto" className={numbers[at] ? "number" : undefined}>{column}</th>)}</tr></thead>}
        <tbody>
          {shown.map((row, at) => (
            <tr key={at}>
              {row.slice(0, MOST_COLUMNS).map((value, place) => (
                <td key={place} dir="auto" className={numbers[place] ? "number" : undefined}>{flat(value) ?? cell(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < rows.length && <button type="button" className="link" onClick={() => setAll(true)}>Show all {rows.length} rows</button>}
    </div>
  );
}

const flat = (value: Json): string | null =>
  value === null ? "" : typeof value === "object" ? null : String(value);
