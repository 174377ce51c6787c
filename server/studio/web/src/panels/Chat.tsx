// The chat: say what is needed; the stages of the answer as they come, then its changes on the canvas.

import { type ReactElement, useEffect, useRef, useState } from "react";
import { Icon } from "../icons";
import { Counts } from "../Counts";
import { nodeMark } from "../changes";
import type { ChatPlan, Overlay } from "../state";
import { useCommands, useStore, useStudio } from "../store";
import type { ChangedPart, Changes, EdgeChange } from "../types";

export function Chat(): ReactElement {
  const { lines, busy, plan, text } = useStudio((state) => state.chat);
  const overlay = useStudio((state) => state.overlay);
  const model = useStudio((state) => state.files?.model);
  const readonly = useStudio((state) => state.document?.readonly ?? null);
  const experts = useStudio((state) => state.document?.kind === "experts");
  const team = useStudio((state) => (state.document?.nodes.filter((node) => node.type === "expert").length ?? 0) > 1 && state.document?.kind === "experts");
  const commands = useCommands();
  const { dispatch } = useStore();
  const setText = (said: string): void => dispatch({ type: "writing", text: said });
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
        {!lines.length && (
          <div className="chat-empty">
            <p><strong>Say what the {experts ? "expert" : "workflow"} should do, or what to change.</strong></p>
            <p className="soft">The answer is drawn on the canvas first: you accept it, or undo it.</p>
            {!without && !experts && ["Summarise a document and translate the summary", "Ask a person before the answer is sent"].map((idea) => (
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
            <Listed overlay={draft} alone={!experts} />
            <div className="actions">
              <button type="button" className="main" onClick={() => void commands.acceptChat()}><Icon name="check" size={14} /> Accept</button>
              <button type="button" onClick={() => void commands.undoChat()}><Icon name="undo" size={14} /> Undo</button>
            </div>
          </div>
        )}
        {plan && !busy && <PlanForm key={plan.lines.join("\n")} plan={plan} />}
        <div ref={end} />
      </div>
      {team && <p className="notice">Sentences make and change files with one expert. Change this team on the canvas and in its forms.</p>}
      {without && !team && <p className="notice">{model.missing || "No model is set; set OPENAI_API_KEY and OPENAI_MODEL to use the chat."}</p>}
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
          aria-label="What you need" placeholder={plan && planFirst ? "What should change in the plan?" : draft ? "What else? It changes the draft." : lines.length ? "What should change?" : "What should it do?"} rows={text.includes("\n") ? 8 : 2} dir="auto" value={text} disabled={without || team || readonly !== null}
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

/** Each change, with a way to its node; of a workflow it is accepted or refused alone, with its edges. */
function Listed({ overlay, alone }: { overlay: Overlay; alone: boolean }): ReactElement {
  const commands = useCommands();
  const { changes, document } = overlay;
  const title = (id: string): string => document.nodes.find((node) => node.id === id)?.name ?? id;
  const edges = (list: Changes["edges_added"], mark: string) => {
    const settled = ([source, , target]: EdgeChange): boolean => ![source, target].some((id) => nodeMark(overlay, id) === "added" || nodeMark(overlay, id) === "removed");
    return list.filter(settled).map((edge) => ({ part: { edge } as ChangedPart, id: edge[0], title: `${title(edge[0])} → ${title(edge[2])}`, mark, fields: "edge" }));
  };
  const row = (id: string, mark: string, fields = "") => ({ part: { node: id } as ChangedPart, id, title: title(id), mark, fields });
  const rows = [
    ...changes.added.map((id) => row(id, "added")),
    ...changes.changed.map(({ node, fields }) => row(node, "changed", fields.map(({ field }) => field).join(", "))),
    ...changes.removed.map((id) => row(id, "removed")),
    ...edges(changes.edges_added, "added"),
    ...edges(changes.edges_removed, "removed"),
  ];
  return (
    <ul className="draft-list" aria-label="Changes">
      {rows.map(({ part, id, title: name, mark, fields }) => (
        <li key={`${mark} ${JSON.stringify(part)}`}>
          <span className={mark}>{mark}</span>
          <button
            type="button" className="link" dir="auto" title="Show this node" onClick={() => {
              commands.select([id]);
              commands.panel("inspector");
            }}
          >{name} {"node" in part && !name.endsWith(`#${id}`) && name !== id && <span className="soft">{id}</span>}</button>
          {fields && <span className="soft">{fields}</span>}
          <span className="room" />
          {alone && <button type="button" className="ghost small" aria-label={`Accept: ${mark} ${name}`} title="Accept this change alone" onClick={() => void commands.decide(true, part, `${mark} ${name}`)}><Icon name="check" size={14} /></button>}
          {alone && <button type="button" className="ghost small" aria-label={`Refuse: ${mark} ${name}`} title="Refuse this change" onClick={() => void commands.decide(false, part, `${mark} ${name}`)}><Icon name="close" size={14} /></button>}
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
