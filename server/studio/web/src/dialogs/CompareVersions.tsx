// Two tested versions side by side: what differs on the whole, by test with its outputs, and by operator.

import { type ReactElement, useEffect, useState } from "react";
import { Outcome, operatorInWords } from "../panels/Tests";
import { useCommands, useStore, useStudio } from "../store";
import { type ComparedVersions, type TestVersion, testApi, versionName } from "../tests";
import { Dialog } from "./Dialog";

const figure = (value: number): string => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString() : String(Math.round(value * 1000) / 1000));

export function CompareVersions({ versions }: { versions: readonly [TestVersion, TestVersion] }): ReactElement {
  const path = useStudio((state) => state.document?.path ?? "");
  const document = useStudio((state) => state.document);
  const title = (id: string): string => document?.nodes.find((node) => node.id === id)?.title ?? id;
  const { dispatch } = useStore();
  const commands = useCommands();
  const [found, setFound] = useState<ComparedVersions | null>(null);
  useEffect(() => {
    let gone = false;
    testApi.compare(path, versions[0].key, versions[1].key)
      .then((told) => gone || setFound(told)).catch((error: Error) => commands.say(error.message, "error"));
    return () => {
      gone = true;
    };
  }, [path, versions, commands]);
  const [before, after] = versions;
  const show = (): void => {
    dispatch({ type: "dialog", dialog: null });
    void commands.compare(before.step, after.step);
  };
  return (
    <Dialog title="Two versions compared" className="compare-runs">
      <div className="compare-body" tabIndex={0}>
        {before.step > 0 && after.step > 0 && before.step !== after.step && <p className="between"><button type="button" onClick={show}>Show what was changed on the canvas</button></p>}
        <table aria-busy={!found}>
          <thead><tr><th scope="col">Test</th>{versions.map((each) => <th scope="col" key={each.key}>{versionName(each)}<br /><span className="soft">{each.passed} of {each.runs} passed</span></th>)}</tr></thead>
          <tbody>
            {found?.cases.map(({ name, results }) => {
              const [one, other] = results;
              const same = one && other && one.output === other.output;
              const mark = found.better.includes(name) ? "better" : found.worse.includes(name) ? "worse" : same === false ? "differs" : "";
              return (
                <tr key={name} className={mark ? "differs" : ""}>
                  <th scope="row" dir="auto">{name} {mark && <span className="chip">{mark}</span>}</th>
                  {results.map((result, at) => (
                    <td key={at}>
                      <Outcome result={result} />
                      {result?.problems.map((problem, each) => <p className="fault error" dir="auto" key={each}>{problem}</p>)}
                      {result?.output && (same ? <details><summary>Same output</summary><pre className="plain" dir="auto">{result.output}</pre></details> : <pre className="plain" dir="auto">{result.output}</pre>)}
                    </td>
                  ))}
                </tr>
              );
            })}
            {found?.operators.map(({ name, results }) => (
              <tr key={`operator ${name}`}>
                <th scope="row" dir="auto">{title(name)} <span className="soft">#{name}</span></th>
                {results.map((result, at) => <td key={at}>{result ? operatorInWords(result) : <span className="soft">–</span>}</td>)}
              </tr>
            ))}
            {found?.differences.map((each) => (
              <tr key={`measure ${each.measure}`}>
                <th scope="row">{each.measure} <span className="soft">mean of a test</span></th>
                <td>{figure(each.before)}</td>
                <td>{figure(each.after)}{each.change !== 0 && <span className="soft"> ({each.change > 0 ? "+" : ""}{figure(each.change)}{each.is_clear ? "" : ", may be chance"})</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Dialog>
  );
}
