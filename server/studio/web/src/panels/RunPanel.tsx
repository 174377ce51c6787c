// The run form, the questions of a run, and what came of it.

import { type FormEvent, type ReactElement, useEffect, useRef } from "react";
import { Icon } from "../icons";
import { stateInWords } from "../../shared/states";
import { inspected } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import type { Fields, Input, Json } from "../types";
import { ModelField } from "../form/ModelField";
import { ValuesView, Writing } from "../values/ValueView";
import { Gist } from "./Gist";
import { InputField } from "./InputField";
import { QuestionForm, isBreakpoint } from "./QuestionForm";
import { Busy, Runs } from "./Runs";

/** Characters above which a value of a run, which may be cut, is not put into the form again. */
const MOST_REPEATED = 100_000;

export function RunPanel(): ReactElement | null {
  const document = useStudio((state) => state.document);
  const run = useStudio((state) => state.run);
  const selected = useStudio(inspected);
  const model = useStudio((state) => state.files?.model);
  const commands = useCommands();
  const values = useStudio((state) => state.inputs);
  const chosen = useStudio((state) => state.model);
  const asks = useStudio((state) => state.document?.kind === "experts" || state.document?.nodes.some((node) => "model_name" in (state.catalogue.get(node.type)?.schema.properties ?? {})));
  const { dispatch } = useStore();
  const result = useRef<HTMLElement>(null);
  const [id, ended] = [run?.id, run?.ended];
  useEffect(() => {
    if (id) result.current?.scrollIntoView({ block: ended ? "start" : "nearest" }); // a long form leaves no room for it
  }, [id, ended]);
  if (!document) return null;
  const inputs = document.inputs ?? [];
  const errors = document.issues.filter((issue) => issue.severity === "error").length;
  const verdict = run?.rounds.at(-1);
  const going = run !== null && !run.ended;
  const start = run?.outputs[document.nodes.find((node) => node.type === "start" && !node.parent)?.id ?? ""] ?? {};
  /** What the form holds for an input: at first, the value in the run that is shown, unless that is a file or too long. */
  const valueOf = ({ name, type, default: standard = null }: Input): Json => {
    const ran = type.includes("file") || String(start[name]).length >= MOST_REPEATED ? null : start[name];
    return (name in values ? values[name] : ran) ?? standard;
  };
  const given = (): Fields => Object.fromEntries(
    inputs.flatMap((input): [string, Json][] => {
      const value = valueOf(input);
      return value === null || value === "" ? (input.type === "string" && input.required ? [[input.name, ""]] : []) : [[input.name, value]];
    }),
  );
  const kinds = document.nodes.find((node) => node.id === selected)?.type ?? "";
  const parts = document.kind === "workflow" || (/^(operator|evaluator)$/.test(kinds) && !document.nodes.some((node) => node.type === "leader"));
  const title = (id: string | null): string => document.nodes.find((node) => node.id === id)?.name ?? id ?? "";
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void commands.run(given());
  };
  return (
    <div className="run">
      <form onSubmit={submit} aria-label="Run">
        {inputs.map((input: Input) => (
          <InputField key={input.name} input={input} value={valueOf(input)} change={(value) => dispatch({ type: "input", name: input.name, value })} />
        ))}
        {!inputs.length && <p className="soft">This workflow has no inputs.</p>}
        {errors > 0 && (
          <p className="notice">
            <button type="button" className="link" onClick={() => commands.panel("issues")}>{errors} {errors === 1 ? "issue" : "issues"}</button> may stop the run.
          </p>
        )}
        {asks && (
          <details className="more" open={chosen !== "" || undefined}>
            <summary>Model</summary>
            <ModelField label="Model of the run" value={chosen} change={commands.model} />
          </details>
        )}
        {model?.configured === false && !chosen && <p className="notice">{model.missing || "No model is set: nodes that ask one will fail."}</p>}
        <div className="actions wrap">
          <button type="submit" className="main" disabled={going}><Icon name="run" size={14} /> Run</button>
          {document.kind === "workflow" && <button type="button" disabled={going} title="Wait before each node" onClick={() => void commands.run(given(), { step: true })}>Step</button>}
          {selected && parts && (
            <>
              <button type="button" disabled={going} title="With the values that it read in the last run" onClick={() => void commands.run(given(), { only: selected })}>Run “{title(selected)}” alone</button>
              <button type="button" disabled={going} title="With values that you give; nothing else runs" onClick={() => dispatch({ type: "dialog", dialog: { kind: "run-node", node: selected } })}>Run with values…</button>
              <button type="button" disabled={going} title="What comes before is reused from the last run" onClick={() => void commands.run(given(), { from: selected })}>Run from here</button>
            </>
          )}
          {run?.row && run.ended && run.state === "interrupted" && <button type="button" onClick={() => run.row && void commands.resumeRun(run.row)}><Icon name="redo" size={14} /> Continue</button>}
          {going && <button type="button" onClick={() => void commands.cancel()}><Icon name="stop" size={14} /> Cancel</button>}
        </div>
      </form>
      <Busy />
      {selected && <Gist always node={selected} label={title(selected)} title="Open the inspector" show={() => commands.panel("inspector")} />}
      {run && (
        <section className="result" ref={result} aria-label="Result" aria-live="polite">
          <header>
            <span className={`run-mark is-${run.state}`}><span className="run-dot" aria-hidden="true" />{run.state === "asking" && run.questions.some(isBreakpoint) ? "paused" : stateInWords(run.state)}</span>
            <span className="soft">{run.what}</span>
            <span className="room" />
            <a href={`runs/${encodeURIComponent(run.id)}/`} target="_blank" rel="noopener">Timeline</a>
            {run.ended && <button type="button" className="ghost small" aria-label="Clear this run" title="Clear" onClick={() => commands.clearRun()}><Icon name="close" size={14} /></button>}
          </header>
          {!run.connected && !run.ended && <p className="notice">The connection was lost; trying again…</p>}
          {run.questions.filter((question) => !run.answered.includes(question.id)).map((question) => <QuestionForm key={question.id} question={question} />)}
          {!run.ended && Object.entries(run.writing).map(([node, text]) => (
            <section key={node} aria-label={`Text of ${title(node)}`}><h3>{title(node)} writes</h3><Writing text={text} /></section>
          ))}
          {run.note && <p className="notice">{run.state === "asking" ? "The studio that ran it has ended; your answer continues it." : "The studio that ran it has ended before the run. What had finished is kept: Continue runs the rest."}</p>}
          {run.error && <p className="fault error">{run.error}</p>}
          {run.ended && verdict?.status && verdict.status !== "SUCCESS" && <p className="fault error">The evaluator rejected this result: {verdict.evaluation}</p>}
          {run.result && <ValuesView values={run.result} />}
          {run.result && run.ended && run.row && !run.row.only && !run.row.from && (
            <button type="button" className="make" onClick={() => dispatch({ type: "dialog", dialog: { kind: "test", run: run.id } })}><Icon name="test" size={14} /> Make a test of this run</button>
          )}
        </section>
      )}
      <Runs />
    </div>
  );
}
