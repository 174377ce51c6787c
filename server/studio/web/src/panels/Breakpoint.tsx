// A breakpoint where the run waits: the values that the node is about to read, which can be changed, and how it goes on.

import type { ReactElement } from "react";
import type { Question } from "../types";
import { useReads } from "./useReads";

export function Breakpoint({ question, title, answer }: { question: Question; title: string; answer(json: string): void }): ReactElement {
  const { changed, fields } = useReads(question.node);
  const go = (how: "continue" | "step"): void => answer(JSON.stringify({ go: how, values: changed }));
  return (
    <section className="question" aria-label={`Breakpoint at ${title}`}>
      <h3>Paused before {title}</h3>
      {!question.text.startsWith("The run waits") && <p className="fault error" role="alert">{question.text}</p>}
      {fields}
      <div className="actions wrap">
        <button type="button" className="main" onClick={() => go("continue")}>Continue</button>
        <button type="button" title="Wait again before the next node" onClick={() => go("step")}>Step</button>
      </div>
    </section>
  );
}
