// What a node did in the run that is shown, in one line that leads to the whole.

import type { ReactElement } from "react";
import { stateInWords } from "../../shared/states";
import { useStudio } from "../store";
import { textOf } from "../values/Difference";

export function Gist({ node, label, title, show, always = false }: { node: string; label: string; title: string; show(): void; always?: boolean }): ReactElement | null {
  const run = useStudio((state) => (state.overlay ? undefined : state.run?.nodes[node]));
  const [output] = Object.values(useStudio((state) => state.run?.outputs[node]) ?? {});
  if (!run && !always) return null;
  const did = !run ? "" : run.error || (run.blamed ? `blamed in round ${run.blamed}` : output === undefined ? stateInWords(run.state) : textOf(output).slice(0, 200));
  return <button type="button" className="gist" dir="auto" title={title} onClick={show}><span className="soft">{did ? `${label}:` : label}</span> {did}</button>;
}
