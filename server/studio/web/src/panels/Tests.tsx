// The tests of the file, with the results of its versions, by test and by operator.

import { Fragment, type ReactElement, useCallback, useEffect, useState } from "react";
import { Icon } from "../icons";
import { duration } from "../../shared/numbers";
import { useCommands, useStore, useStudio } from "../store";
import { type Answers, type TestResult, type TestTable, type TestVersion, money, testApi, versionName } from "../tests";

/** Versions beside each other in the panel; the dialog compares any two. */
const MOST_COLUMNS = 3;

export function Tests(): ReactElement | null {
  const path = useStudio((state) => state.document?.path ?? "");
  const version = useStudio((state) => state.document?.version ?? 0);
  const changed = useStudio((state) => state.tests);
  const commands = useCommands();
  const [table, setTable] = useState<TestTable | null>(null);
  const [open, setOpen] = useState("");
  const [answers, setAnswers] = useState<Answers>("recorded");
  useEffect(() => {
    let gone = false;
    testApi.table(path).then((told) => gone || setTable(told)).catch((error: Error) => commands.say(error.message, "error"));
    return () => {
      gone = true;
    };
  }, [path, version, changed, commands]);
  const doing = useCallback((work: Promise<TestTable>): void => {
    work.then(setTable).catch((error: Error) => commands.say(error.message, "error"));
  }, [commands]);
  if (!table) return <p className="soft" aria-busy="true">Reading the tests…</p>;
  const { cases, versions, running } = table;
  if (!cases.length) {
    return (
      <div className="tests">
        {table.fault
          ? <p className="fault error">{table.fault}</p>
          : <p className="soft">There are no tests yet. A test is made of a run: run the workflow, then choose <em>Make a test</em> below its result.</p>}
        {!table.fault && <button type="button" onClick={() => commands.panel("run")}><Icon name="run" size={14} /> Go to the run</button>}
      </div>
    );
  }
  const start = (names: readonly string[] = []): void => doing(testApi.run(path, version, answers, names));
  const shown = versions.slice(0, MOST_COLUMNS);
  return (
    <div className="tests">
      <div className="actions wrap">
        <button type="button" className="main" disabled={running !== null} onClick={() => start()}><Icon name="run" size={14} /> Run all</button>
        <select aria-label="Answers" value={answers} onChange={(event) => setAnswers(event.target.value as Answers)}>
          <option value="recorded">recorded answers</option>
          <option value="model">the model</option>
        </select>
        {running && <button type="button" onClick={() => void testApi.cancel(path)}><Icon name="stop" size={14} /> Cancel</button>}
      </div>
      {running && <p className="soft" role="status">{running.done} of {running.total} done</p>}
      {table.error && <p className="fault error">{table.error}</p>}
      {!running && !versions.some((each) => each.current) && <p className="soft">This version of the workflow has not been tested yet.</p>}
      <div className="table" tabIndex={0} aria-label="Tests of this file">
        <table>
          <thead>
            <tr>
              <th scope="col">Test</th>
              {shown.map((each) => <th scope="col" key={each.key} title={`${each.title} · ${new Date(each.at * 1000).toLocaleString()}`}>{versionName(each)}<br /><span className="soft">{each.passed}/{each.runs}</span></th>)}
              <th scope="col"><span className="hidden">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {cases.map((each) => (
              <Fragment key={each.name}>
              <tr>
                <th scope="row" dir="auto"><span>{each.name}</span><span className="soft">{[...each.holds, ...(each.pinned ? [`with ${each.pinned} pinned`] : [])].join("; ")}</span></th>
                {shown.map((one) => {
                  const result = one.results[each.name];
                  const at = `${one.key} ${each.name}`;
                  return (
                    <td key={one.key}>
                      {result?.problems.length
                        ? <button type="button" className="link" aria-expanded={open === at} title="Why?" onClick={() => setOpen(open === at ? "" : at)}><Outcome result={result} /></button>
                        : <Outcome result={result} />}
                    </td>
                  );
                })}
                <td className="row-actions">
                  <button type="button" className="ghost small" disabled={running !== null} aria-label={`Run the test ${each.name}`} title="Run" onClick={() => start([each.name])}><Icon name="run" size={14} /></button>
                  <button type="button" className="ghost small" disabled={running !== null} aria-label={`Remove the test ${each.name}`} title="Remove" onClick={() => doing(testApi.remove(path, each.name))}><Icon name="bin" size={14} /></button>
                </td>
              </tr>
              {shown.filter((one) => open === `${one.key} ${each.name}`).map((one) => (
                <tr key={one.key}>
                  <td colSpan={shown.length + 2}>{one.results[each.name]?.problems.map((problem, at) => <p className="fault error" dir="auto" key={at}>{problem}</p>)}</td>
                </tr>
              ))}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
      {versions.length > 1 && <Choice key={versions.map((each) => each.key).join()} versions={versions} />}
      {shown[0] && <Operators versions={shown} />}
    </div>
  );
}

export function Outcome({ result }: { result: TestResult | null | undefined }): ReactElement {
  if (!result) return <span className="soft">–</span>;
  const scores = Object.values(result.scores).map((score) => String(Math.round(score * 100) / 100)).join(", ");
  return <span className={result.passed ? "passed" : "failed"}><Icon name={result.passed ? "check" : "close"} size={14} /> {result.passed ? "passed" : "failed"}{scores && ` (${scores})`}</span>;
}

function Choice({ versions }: { versions: readonly TestVersion[] }): ReactElement {
  const { dispatch } = useStore();
  const [before, setBefore] = useState(versions[1]?.key ?? "");
  const [after, setAfter] = useState(versions[0]?.key ?? "");
  const select = (label: string, value: string, change: (key: string) => void): ReactElement => (
    <select aria-label={label} value={value} onChange={(event) => change(event.target.value)}>
      {versions.map((each) => <option key={each.key} value={each.key}>{versionName(each)}</option>)}
    </select>
  );
  const [one, other] = [versions.find((each) => each.key === before), versions.find((each) => each.key === after)];
  return (
    <div className="compare-choice">
      {select("First version", before, setBefore)}
      {select("Second version", after, setAfter)}
      <button type="button" disabled={before === after} onClick={() => one && other && dispatch({ type: "dialog", dialog: { kind: "versions", versions: [one, other] } })}>Compare</button>
    </div>
  );
}

function Operators({ versions }: { versions: readonly TestVersion[] }): ReactElement {
  const document = useStudio((state) => state.document);
  const title = (id: string): string => document?.nodes.find((node) => node.id === id)?.name ?? id;
  const one = document?.kind === "workflow" ? "node" : "operator";
  const names = [...new Set(versions.flatMap((each) => each.operators.map((operator) => operator.name)))];
  return (
    <section className="block" aria-label={`By ${one}`}>
      <h3>By {one}</h3>
      <div className="table" tabIndex={0} aria-label={`Results by ${one}`}>
        <table>
          <thead><tr><th scope="col">{one === "node" ? "Node" : "Operator"}</th>{versions.map((each) => <th scope="col" key={each.key}>{versionName(each)}</th>)}</tr></thead>
          <tbody>
            {names.map((name) => (
              <tr key={name}>
                <th scope="row" dir="auto">{title(name)}</th>
                {versions.map((each) => {
                  const found = each.operators.find((operator) => operator.name === name);
                  return <td key={each.key}>{found ? operatorInWords(found) : <span className="soft">–</span>}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function operatorInWords({ blamed, blamed_in_rounds, seconds, usage }: TestVersion["operators"][number] | Omit<TestVersion["operators"][number], "name">): string {
  const times = blamed + blamed_in_rounds;
  return [times ? `blamed ${times}×` : "", usage.calls ? `${usage.tokens.toLocaleString()} tokens` : "", money(usage.cost), duration(seconds)].filter(Boolean).join(" · ");
}
