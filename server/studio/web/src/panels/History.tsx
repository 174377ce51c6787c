// The history: every step, with a way back to it, and two of them compared.

import { type ReactElement, useState } from "react";
import { Icon, type IconName } from "../icons";
import { useCommands, useStudio } from "../store";
import type { Step } from "../types";

const ICONS: Record<Step["kind"], IconName> = { edit: "node", chat: "chat", outside: "file", open: "start" };

export function History(): ReactElement | null {
  const document = useStudio((state) => state.document);
  const commands = useCommands();
  const [from, setFrom] = useState<number | null>(null);
  const [naming, setNaming] = useState<number | null>(null);
  if (!document) return null;
  const steps = [...document.steps].reverse();
  return (
    <div className="history">
      <p className="soft">{from === null ? "Go back to a step, or compare two of them." : `Compare step ${from} with…`}{" "}
        {from !== null && <button type="button" className="link" onClick={() => setFrom(null)}>Cancel</button>}
      </p>
      <ol>
        {steps.map((step) => (
          <li key={step.number} className={step.number === document.step ? "here" : ""} aria-current={step.number === document.step ? "step" : undefined}>
            <Icon name={ICONS[step.kind] ?? "node"} size={14} />
            {naming === step.number
              ? (
                <form className="step" onSubmit={(event) => {
                  event.preventDefault();
                  void commands.nameStep(step.number, String(new FormData(event.currentTarget).get("name") ?? ""));
                  setNaming(null);
                }}>
                  <input name="name" aria-label={`Name of step ${step.number}`} placeholder="Name of this version" defaultValue={step.name} maxLength={80} autoFocus onKeyDown={(event) => {
                    if (event.key === "Escape") setNaming(null);
                  }} />
                  <button type="submit" className="small">Name</button>
                </form>
              )
              : <button type="button" className="step" dir="auto" onClick={() => void commands.goto(step.number)} title={`Go to step ${step.number}: ${step.title}`}>
              <span className="words">{step.name && <strong>{step.name}: </strong>}{step.title}</span> <span className="soft">{time(step.at)}</span>
            </button>}
            {naming !== step.number && <button type="button" className="ghost small" aria-label={`Name step ${step.number}`} title="Name this version" onClick={() => setNaming(step.number)}><Icon name="text" size={14} /></button>}
            <button
              type="button" className="ghost small" aria-label={from === null ? `Compare step ${step.number} with another` : `Compare step ${from} with step ${step.number}`}
              onClick={() => {
                if (from === null) setFrom(step.number);
                else {
                  void commands.compare(Math.min(from, step.number), Math.max(from, step.number));
                  setFrom(null);
                }
              }}
            >{from === null ? "Compare" : from === step.number ? "…" : "with this"}</button>
          </li>
        ))}
      </ol>
    </div>
  );
}

function time(at: number | string): string {
  const when = new Date(typeof at === "number" ? at * 1000 : at);
  return Number.isNaN(when.getTime()) ? "" : when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
