// The runs of the file: those in progress first. One is shown on the canvas, or two are compared.

import { type ReactElement, useState } from "react";
import { whatRan } from "../commands";
import { Icon } from "../icons";
import { duration, price, tokens } from "../../shared/numbers";
import { stateInWords } from "../../shared/states";
import { useCommands, useStore, useStudio } from "../store";
import type { RunRow } from "../types";

const GOING = ["running", "asking"];

export function Runs(): ReactElement | null {
  const { rows, note } = useStudio((state) => state.runs);
  const shown = useStudio((state) => state.run?.id);
  const document = useStudio((state) => state.document);
  const commands = useCommands();
  const { dispatch } = useStore();
  const [first, setFirst] = useState<string | null>(null);
  const compared = rows.find((row) => row.id === first);
  if (!document || (!rows.length && !note)) return null;
  const compare = (row: RunRow): void => {
    if (!compared) setFirst(row.id);
    else {
      setFirst(null);
      if (compared.id !== row.id) dispatch({ type: "dialog", dialog: { kind: "runs", runs: [compared, row] } });
    }
  };
  return (
    <section className="history runs block" aria-label="Runs of this file">
      <h3>Runs</h3>
      {note && <p className="notice">{note}</p>}
      {compared && <p className="soft">Compare the run of {timeOf(compared)} with… <button type="button" className="link" onClick={() => setFirst(null)}>Cancel</button></p>}
      <ol>
        {rows.map((row) => (
          <li key={row.id} className={row.id === shown ? "here" : ""} aria-current={row.id === shown ? "true" : undefined}>
            <button type="button" className="step" title="Show on the canvas" onClick={() => commands.showRun(row)}>
              <span className="run-line"><RunMark row={row} /> <span className="soft">{timeOf(row)}</span></span>
              <span className="words" dir="auto">{[whatRan(document, row.only, row.from), row.inputs].filter(Boolean).join(" · ") || "without inputs"}</span>
              <span className="soft">{[row.seconds ? duration(row.seconds) : "", usageOf(row)].filter(Boolean).join(" · ")}</span>
            </button>
            {row.state === "interrupted" && <button type="button" className="ghost small" aria-label={`Continue the run of ${timeOf(row)}`} title="Continue" onClick={() => void commands.resumeRun(row)}><Icon name="redo" size={14} /></button>}
            <button type="button" className="ghost small" aria-label={compared ? `Compare with the run of ${timeOf(row)}` : `Compare the run of ${timeOf(row)} with another`} onClick={() => compare(row)}>{!compared ? "Compare" : compared === row ? "…" : "with this"}</button>
            {GOING.includes(row.state)
              ? <button type="button" className="ghost small" aria-label={`Cancel the run of ${timeOf(row)}`} title="Cancel" onClick={() => void commands.cancelRun(row)}><Icon name="stop" size={14} /></button>
              : <button type="button" className="ghost small" aria-label={`Delete the run of ${timeOf(row)}`} title="Delete" onClick={() => void commands.deleteRun(row)}><Icon name="bin" size={14} /></button>}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The runs in progress that keep another one from starting, of any file. */
export function Busy(): ReactElement | null {
  const busy = useStudio((state) => state.busy);
  const commands = useCommands();
  if (!busy.length) return null;
  return (
    <section className="history runs" role="alert" aria-label="Runs in progress">
      <p className="notice">No more runs can be in progress at once. Cancel one of these, or wait.</p>
      <ol>
        {busy.map((row) => (
          <li key={row.id}>
            <span className="step"><span className="words" dir="auto">{[row.file, row.inputs].filter(Boolean).join(" · ")}</span> <span className="soft">{stateInWords(row.state)} since {timeOf(row)}</span></span>
            <button type="button" className="small" onClick={() => void commands.cancelRun(row)}><Icon name="stop" size={14} /> Cancel</button>
          </li>
        ))}
      </ol>
    </section>
  );
}

export const RunMark = ({ row }: { row: RunRow }): ReactElement => (
  <span className={`run-mark is-${row.state}`}><span className="run-dot" aria-hidden="true" />{stateInWords(row.state)}</span>
);

/** The time of the start, with the day if that was not today. */
export function timeOf(row: RunRow): string {
  const at = new Date(row.started * 1000);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString([], { day: "numeric", month: "short" })}, `;
  return day + at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** Tokens and cost of a run; empty if it asked no model. */
export const usageOf = ({ usage }: RunRow): string => [tokens(usage), usage.cost ? price(usage) : ""].filter(Boolean).join(" · ");
