// Try other prompts and models on the last input of a node; nothing is written until a prompt is used.

import { type ReactElement, useEffect, useState } from "react";
import { ModelField } from "../form/ModelField";
import { Icon } from "../icons";
import { duration } from "../../shared/numbers";
import { useCommands, useStore, useStudio } from "../store";
import { type Trial, type Tried, money, trialApi } from "../tests";
import { ValuesView } from "../values/ValueView";
import { Dialog } from "./Dialog";

export function Try({ node }: { node: string }): ReactElement {
  const path = useStudio((state) => state.document?.path ?? "");
  const title = useStudio((state) => state.document?.nodes.find((each) => each.id === node)?.title ?? node);
  const commands = useCommands();
  const { dispatch } = useStore();
  const [trial, setTrial] = useState<Trial | null>(null);
  const [values, setValues] = useState<Record<string, string>>({});
  const [models, setModels] = useState<readonly [string, string]>(["", ""]);
  const [second, setSecond] = useState(false);
  const [tried, setTried] = useState<readonly Tried[]>([]);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState("");
  useEffect(() => {
    let gone = false;
    trialApi.trial(path, node).then((told) => gone || setTrial(told)).catch((error: Error) => gone || setFault(error.message));
    return () => {
      gone = true;
    };
  }, [path, node]);
  const changed = Object.fromEntries(Object.entries(values).filter(([name, value]) => trial?.fields.find((field) => field.name === name)?.value !== value));
  const run = async (): Promise<void> => {
    setBusy(true);
    setFault("");
    try {
      setTried((await trialApi.run(path, node, changed, second ? models : [models[0]])).tried);
    } catch (error) {
      setFault((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const use = async (): Promise<void> => {
    if (!(await commands.edit(trialApi.kept(node, changed)))) return;
    dispatch({ type: "dialog", dialog: null });
    commands.say("The prompt was changed.");
  };
  const setModel = (at: 0 | 1, name: string): void => setModels(at === 0 ? [name, models[1]] : [models[0], name]);
  return (
    <Dialog title={`Try ${title}`} className="trial-dialog">
      <div className="compare-body trial" tabIndex={0}>
        {trial && (
          <>
            {trial.fields.map(({ name, value }) => (
              <label className="part" key={name}><span className="part-name">{name}</span>
                <textarea dir="auto" rows={4} spellCheck={false} value={values[name] ?? value} onChange={(event) => setValues({ ...values, [name]: event.target.value })} />
              </label>
            ))}
            {!trial.ran && <p className="notice">There was no run yet, so there is nothing to try this on. Run the workflow once.</p>}
            {(trial.job || Object.keys(trial.read).length > 0) && (
              <details>
                <summary>What it reads: the values of the last run</summary>
                {trial.job && <p dir="auto">{trial.job}</p>}
                {Object.keys(trial.read).length > 0 && <ValuesView values={trial.read} />}
              </details>
            )}
            <div className="columns">
              {([0, 1] as const).slice(0, second ? 2 : 1).map((at) => (
                <section className="column" key={at} aria-label={at ? "Second model" : "First model"}>
                  <ModelField label={at ? "Second model" : "Model"} value={models[at]} change={(name) => setModel(at, name)} />
                  {busy ? <span className="spinner" role="status" aria-label="Asking the model" /> : <Result tried={tried[at]} />}
                </section>
              ))}
            </div>
          </>
        )}
        {fault && <p className="fault error" role="alert">{fault}</p>}
        <div className="actions wrap">
          <button type="button" className="main" disabled={busy || !trial?.ran} onClick={() => void run()}><Icon name="run" size={14} /> Try</button>
          {!second && <button type="button" disabled={busy || !trial} onClick={() => setSecond(true)}><Icon name="plus" size={14} /> Another model beside it</button>}
          <button type="button" disabled={!Object.keys(changed).length} title="Write the prompt into the file" onClick={() => void use()}><Icon name="check" size={14} /> Use this prompt</button>
        </div>
      </div>
    </Dialog>
  );
}

function Result({ tried }: { tried: Tried | undefined }): ReactElement | null {
  if (!tried) return null;
  const { usage, seconds } = tried;
  const took = [usage.calls ? `${usage.tokens.toLocaleString()} tokens` : "", usage.calls ? (money(usage.cost) || "price not known") : "", duration(seconds)];
  return (
    <>
      <p className="soft">{tried.model}: {took.filter(Boolean).join(" · ")}</p>
      {tried.error && <p className="fault error">{tried.error}</p>}
      {tried.output && <ValuesView values={tried.output} />}
    </>
  );
}
