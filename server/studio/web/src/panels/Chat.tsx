// The chat: say what is needed; the stages of the answer as they come, then its changes on the canvas.

import { type ReactElement, useEffect, useRef, useState } from "react";
import { Icon } from "../icons";
import { Counts } from "../Counts";
import type { ChatPlan, Overlay } from "../state";
import { useCommands, useStudio } from "../store";

export function Chat(): ReactElement {
  const { lines, busy, plan } = useStudio((state) => state.chat);
  const overlay = useStudio((state) => state.overlay);
  const model = useStudio((state) => state.files?.model);
  const readonly = useStudio((state) => state.document?.readonly ?? null);
  const experts = useStudio((state) => state.document?.kind === "experts");
  const commands = useCommands();
  const [text, setText] = useState("");
  const [planFirst, setPlanFirst] = useState(false);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void end.current?.scrollIntoView({ block: "nearest" });
  }, [lines, overlay, plan]);
  const without = model?.configured === false;
  const draft = overlay?.kind === "draft" ? overlay : null;
  const send = (): void => {
    if (!text.trim() || busy) return;
    void commands.chat(text.trim(), { plan: planFirst });
    setText("");
  };
  return (
    <div className="chat">
      <div className="lines" role="log" aria-label="Chat" tabIndex={0}>
        {!lines.length && !experts && (
          <div className="chat-empty">
            <p><strong>Say what the workflow should do, or what to change.</strong></p>
            <p className="soft">The answer is drawn on the canvas first: you accept it, or undo it.</p>
            {!without && ["Summarise a document and translate the summary", "Ask a person before the answer is sent"].map((idea) => (
              <button type="button" key={idea} className="idea" onClick={() => setText(idea)}>{idea}</button>
            ))}
          </div>
        )}
        {lines.map((line, at) => (
          <p key={at} className={`line ${line.who} ${line.ok === false ? "bad" : ""}`} dir="auto">
            {line.who !== "person" && <Icon name={line.who === "error" || line.ok === false ? "issue" : line.who === "note" ? "text" : "check"} size={14} />}
            <span>{line.text}</span>
          </p>
        ))}
        {busy && <p className="line stage busy"><span className="spinner" aria-hidden="true" /><span>Working… <Elapsed /></span></p>}
        {draft && (
          <div className="draft">
            <p>
              <Counts changes={draft.changes} />
            </p>
            <Listed overlay={draft} />
            <div className="actions">
              <button type="button" className="main" onClick={() => void commands.acceptChat()}><Icon name="check" size={14} /> Accept</button>
              <button type="button" onClick={() => void commands.undoChat()}><Icon name="undo" size={14} /> Undo</button>
            </div>
          </div>
        )}
        {plan && !busy && <PlanForm key={plan.lines.join("\n")} plan={plan} />}
        <div ref={end} />
      </div>
      {experts && <p className="notice">Sentences change workflows of nodes. Change experts on the canvas and in their forms.</p>}
      {without && !experts && <p className="notice">{model.missing || "No model is set; set OPENAI_API_KEY and OPENAI_MODEL to use the chat."}</p>}
      {!experts && !without && (
        <label className="plan-first" title="Show the steps, questions and costs before anything is built">
          <input type="checkbox" className="switch" role="switch" checked={planFirst} onChange={(event) => setPlanFirst(event.target.checked)} /> Plan first
        </label>
      )}
      <form className="say" onSubmit={(event) => {
        event.preventDefault();
        send();
      }}>
        <textarea
          aria-label="What you need" placeholder={plan && planFirst ? "What should change in the plan?" : draft ? "What else? It changes the draft." : lines.length ? "What should change?" : "What should it do?"} rows={2} dir="auto" value={text} disabled={without || experts || readonly !== null}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey) {
              event.preventDefault();
              send();
            }
          }}
        />
        {busy
          ? <button type="button" className="main round" aria-label="Stop" onClick={() => commands.stopChat()}><Icon name="stop" /></button>
          : <button type="submit" className="main round" aria-label="Send" disabled={!text.trim()}><Icon name="send" /></button>}
      </form>
    </div>
  );
}

/** A plan in words, with a field for each of its questions: it is built with the answers, or dropped. */
function PlanForm({ plan }: { plan: ChatPlan }): ReactElement {
  const commands = useCommands();
  const [answers, setAnswers] = useState<readonly string[]>(plan.questions.map(() => ""));
  return (
    <form
      className="draft" aria-label="Plan" onSubmit={(event) => {
        event.preventDefault();
        void commands.chat("", { answers });
      }}
    >
      <ul className="plan-lines" dir="auto">{plan.lines.map((line, at) => <li key={at}>{line}</li>)}</ul>
      {plan.questions.map((question, at) => (
        <label className="part" key={at} dir="auto">
          <span className="part-name">{question.text}</span>
          <input value={answers[at]} placeholder={question.default || "as planned"} onChange={(event) => setAnswers(answers.map((answer, other) => (other === at ? event.target.value : answer)))} />
        </label>
      ))}
      <div className="actions">
        <button type="submit" className="main"><Icon name="check" size={14} /> Build</button>
        <button type="button" onClick={() => commands.dropPlan()}>Drop</button>
      </div>
    </form>
  );
}

/** Each change, with a way to its node. */
function Listed({ overlay }: { overlay: Overlay }): ReactElement {
  const commands = useCommands();
  const { changes, document } = overlay;
  const title = (id: string): string => document.nodes.find((node) => node.id === id)?.title ?? id;
  const rows = [
    ...changes.added.map((id) => ({ id, mark: "added", fields: "" })),
    ...changes.changed.map(({ node, fields }) => ({ id: node, mark: "changed", fields: fields.map(({ field }) => field).join(", ") })),
    ...changes.removed.map((id) => ({ id, mark: "removed", fields: "" })),
  ];
  return (
    <ul className="draft-list" aria-label="Changes">
      {rows.map(({ id, mark, fields }) => (
        <li key={id}>
          <span className={mark}>{mark}</span>
          <button
            type="button" className="link" dir="auto" title="Show this node" onClick={() => {
              commands.select([id]);
              commands.panel("inspector");
            }}
          >{title(id)} <span className="soft">{id}</span></button>
          {fields && <span className="soft">{fields}</span>}
        </li>
      ))}
    </ul>
  );
}

/** The seconds since it was first shown: a model may take a minute, and a person wants to know that it is at work. */
function Elapsed(): ReactElement {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((now) => now + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return <span className="soft" aria-hidden="true">{seconds > 1 ? `${seconds} s` : ""}</span>;
}
