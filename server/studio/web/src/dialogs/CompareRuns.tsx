// Two runs side by side: their inputs, costs and results, and each node with its state, time and what differs.

import { type ReactElement, useEffect, useState } from "react";
import { api } from "../api";
import { RunMark, timeOf, usageOf } from "../panels/Runs";
import { duration } from "../../shared/numbers";
import { stateInWords } from "../../shared/states";
import { type RunState, merged, started } from "../run";
import { useCommands, useStudio } from "../store";
import type { Fields, RunRow } from "../types";
import { FieldsDifference } from "../values/Difference";
import { ValuesView } from "../values/ValueView";
import { Dialog } from "./Dialog";

export function CompareRuns({ rows }: { rows: readonly [RunRow, RunRow] }): ReactElement {
  const document = useStudio((state) => state.document);
  const commands = useCommands();
  const [runs, setRuns] = useState<readonly RunState[]>([]);
  useEffect(() => {
    let gone = false;
    Promise.all(rows.map(async ({ id }) => merged(started(id, ""), await api.picture(id))))
      .then((found) => gone || setRuns(found))
      .catch((error: Error) => commands.say(error.message, "error"));
    return () => {
      gone = true;
    };
  }, [rows, commands]);
  const nodes = (document?.nodes ?? []).filter((node) => runs.some((run) => run.nodes[node.id] ?? run.outputs[node.id]));
  return (
    <Dialog title="Two runs compared" className="compare-runs">
      <div className="compare-body" tabIndex={0}>
        <table aria-busy={!runs.length}>
          <thead>
            <tr><th scope="col">Run</th>{rows.map((row) => <th scope="col" key={row.id}>{timeOf(row)} <RunMark row={row} /></th>)}</tr>
          </thead>
          <tbody>
            <tr><th scope="row">Inputs</th>{rows.map((row) => <td key={row.id} dir="auto">{row.inputs || "none"}</td>)}</tr>
            <tr><th scope="row">Duration</th>{rows.map((row) => <td key={row.id}>{[duration(row.seconds), usageOf(row)].filter(Boolean).join(" · ")}</td>)}</tr>
            {runs.length > 0 && <Compared name="Result" values={runs.map((run) => run.result)} notes={runs.map((run) => run.error ?? "")} />}
            {nodes.map((node) => (
              <Compared
                key={node.id} name={node.title} id={node.id} values={runs.map((run) => run.outputs[node.id] ?? null)}
                notes={runs.map((run) => {
                  const now = run.nodes[node.id];
                  return now ? [stateInWords(now.state), now.seconds === null ? "" : duration(now.seconds), now.error].filter(Boolean).join(" · ") : "did not run";
                })}
              />
            ))}
          </tbody>
        </table>
      </div>
    </Dialog>
  );
}

function Compared({ name, id = "", values, notes }: { name: string; id?: string; values: readonly (Fields | null)[]; notes: readonly string[] }): ReactElement {
  const [one, other] = [textOf(values[0]), textOf(values[1])];
  const same = one === other;
  const differs = !same && values.every((each) => each !== null);
  const [before, after] = values;
  return (
    <>
    <tr className={differs ? "differs" : ""}>
      <th scope="row" dir="auto">{name} {id && <span className="soft">#{id}</span>} {differs && <span className="chip">differs</span>}</th>
      {values.map((each, at) => (
        <td key={at}>
          {notes[at] && <p className="soft">{notes[at]}</p>}
          {each && (same ? <details><summary>Same values</summary><ValuesView values={each} /></details> : <ValuesView values={each} />)}
        </td>
      ))}
    </tr>
    {differs && before && after && <tr className="difference"><th scope="row">What differs</th><td colSpan={2}><FieldsDifference before={before} after={after} /></td></tr>}
    </>
  );
}

/** Values as text, to compare them; large integers, which are exact here, have no JSON. */
const textOf = (values: Fields | null | undefined): string =>
  JSON.stringify(values ?? null, (_, each: unknown) => (typeof each === "bigint" ? `${each}n` : each));
