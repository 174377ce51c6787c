// A question of a run, answered where it stands. Answers are JSON text, because numbers of JavaScript round large ones.

import { type FormEvent, type ReactElement, useState } from "react";
import { numberOf } from "../../shared/exact";
import { titleOf } from "../schema";
import { useCommands, useStudio } from "../store";
import type { Json, Question, Schema } from "../types";
import { TextView } from "../values/ValueView";
import { Breakpoint } from "./Breakpoint";

/** Title of the schema of a question that is a breakpoint. */
const BREAKPOINT = "Breakpoint";

export const isBreakpoint = (question: Question): boolean => question.schema?.title === BREAKPOINT;

export function QuestionForm({ question }: { question: Question }): ReactElement {
  const commands = useCommands();
  const node = useStudio((state) => state.document?.nodes.find((each) => each.id === question.node));
  const title = node?.name ?? question.node;
  const answer = (json: string): void => void commands.answer(question.id, json);
  if (isBreakpoint(question)) return <Breakpoint key={question.id} question={question} title={title} answer={answer} />;
  return (
    <section className="question" aria-label={`Question of ${title}`}>
      <h3>{title} asks</h3>
      <div className="question-text"><TextView text={question.text} /></div>
      {question.arguments === null
        ? <Fields schema={question.schema ?? { type: "string" }} words={node?.params["actions"]} answer={answer} />
        : <Approval given={question.arguments} answer={answer} />}
    </section>
  );
}

interface FormProps {
  answer(json: string): void;
}

/** Fields for what a JSON Schema asks. The choices of the only field that has some are buttons, which send the answer. */
function Fields({ schema, words, answer }: FormProps & { schema: Schema; words: Json | undefined }): ReactElement {
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [fault, setFault] = useState("");
  const whole = !schema.properties;
  const fields = Object.entries(schema.properties ?? { answer: schema }).map(([name, of]) => ({
    name, of, needed: whole || (schema.required?.includes(name) ?? false), choices: worded(choicesOf(of), words),
  }));
  const chosen = fields.filter((field) => field.choices);
  const instead = schema.if?.type === "string" ? (schema.then?.enum ?? []) : []; // words in place of an object
  const buttons = chosen.length === 1 && chosen[0]?.needed ? chosen[0] : null;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const button = (event.nativeEvent as SubmitEvent).submitter as HTMLButtonElement | null;
    try {
      const members = fields.flatMap(({ name, of, needed, choices }): [string, string][] => {
        const text = buttons?.name === name ? (button?.value ?? "") : (typed[name] ?? initial(of));
        return text || needed ? [[name, choices ? text : jsonOf(of, text)]] : [];
      });
      answer(whole ? (members[0]?.[1] ?? "") : `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join()}}`);
    } catch (error) {
      setFault(`That is not JSON: ${(error as Error).message}`);
    }
  };
  return (
    <form onSubmit={submit}>
      {buttons && <button type="submit" disabled hidden /> /* Enter uses the first submit button: it must not choose */}
      {fields.filter((field) => field !== buttons).map(({ name, of, needed, choices }) => (
        <label className="part" key={name}>
          <span className="part-name">{titleOf(name, of)}{needed || <span className="soft"> optional</span>}</span>
          <Answer choices={choices} schema={of} needed={needed} value={typed[name] ?? initial(of)} change={(value) => setTyped((now) => ({ ...now, [name]: value }))} />
        </label>
      ))}
      {fault && <p className="fault error">{fault}</p>}
      {buttons
        ? (
          <div className="actions wrap">
            {buttons.choices?.map(({ value, title }) => <button type="submit" key={title} value={JSON.stringify(value)}>{title}</button>)}
          </div>
        )
        : <button type="submit" className="main">Answer</button>}
      {instead.map((word) => <button type="button" key={String(word)} onClick={() => answer(JSON.stringify(word))}>{String(word)}</button>)}
    </form>
  );
}

/** The call of a tool: a person allows it, with these or other arguments, or refuses it, with a reason or without. */
function Approval({ given, answer }: FormProps & { given: string }): ReactElement {
  const [call, setCall] = useState(given);
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState("");
  const edited = call !== given;
  const say = (text: string): void => answer(JSON.stringify(text));
  const allow = (event: FormEvent): void => {
    event.preventDefault();
    if (!edited) return say("yes");
    try {
      answer(checked(call));
    } catch (error) {
      setFault(`The arguments are not JSON: ${(error as Error).message}`);
    }
  };
  return (
    <form onSubmit={allow}>
      <label className="part">
        <span className="part-name">Arguments</span>
        <textarea dir="auto" rows={Math.min(call.split("\n").length, 12)} value={call} onChange={(event) => setCall(event.target.value)} />
      </label>
      {fault && <p className="fault error">{fault}</p>}
      {edited && <p className="soft">Edited arguments apply to this call only: use Allow.</p>}
      <div className="actions wrap">
        <button type="submit" className="main">Allow</button>
        <button type="button" disabled={edited} onClick={() => say("always")}>Always allow in this run</button>
      </div>
      <label className="part">
        <span className="part-name">Reason<span className="soft"> optional</span></span>
        <textarea dir="auto" rows={2} value={reason} onChange={(event) => setReason(event.target.value)} />
      </label>
      <div className="actions"><button type="button" onClick={() => say(reason.trim() ? `no: ${reason.trim()}` : "no")}>Refuse</button></div>
    </form>
  );
}

interface Choice {
  value: Json;
  title: string;
}

function choicesOf(schema: Schema): Choice[] | null {
  if (schema.enum) return schema.enum.map((value) => ({ value, title: String(value) }));
  if (schema.type === "boolean") return [{ value: true, title: "Yes" }, { value: false, title: "No" }];
  const options = schema.anyOf ?? (schema as { oneOf?: Schema[] }).oneOf;
  return options?.length && options.every((each) => each.const !== undefined)
    ? options.map((each) => ({ value: each.const ?? null, title: each.title ?? String(each.const) }))
    : null;
}

/** Choices in the words that the node gives them: [[id, words], …]. */
function worded(choices: Choice[] | null, named: Json | undefined): Choice[] | null {
  const words = new Map(Array.isArray(named) ? named.flatMap((each) => (Array.isArray(each) ? [[each[0], each[1]] as const] : [])) : []);
  return choices?.map(({ value, title }) => ({ value, title: String(words.get(value) ?? title) })) ?? null;
}

const isNumber = (schema: Schema): boolean => schema.type === "integer" || schema.type === "number";

const isText = (schema: Schema): boolean =>
  schema.anyOf ? schema.anyOf.some(isText) : !schema.$ref && [schema.type ?? "string"].flat().includes("string");

const initial = (schema: Schema): string =>
  schema.default === undefined ? "" : !choicesOf(schema) && isText(schema) ? String(schema.default) : JSON.stringify(schema.default);

/** What was typed, as JSON; throws where it is none. */
function jsonOf(schema: Schema, text: string): string {
  if (isNumber(schema)) return JSON.stringify(numberOf(text));
  return isText(schema) ? JSON.stringify(text) : checked(text);
}

function checked(json: string): string {
  JSON.parse(json);
  return json;
}

interface AnswerProps {
  choices: Choice[] | null;
  schema: Schema;
  needed: boolean;
  value: string;
  change(value: string): void;
}

function Answer({ choices, schema, needed, value, change }: AnswerProps): ReactElement {
  if (choices) {
    return (
      <select required={needed} value={value} onChange={(event) => change(event.target.value)}>
        <option value="">Choose</option>
        {choices.map((choice) => <option key={choice.title} value={JSON.stringify(choice.value)}>{choice.title}</option>)}
      </select>
    );
  }
  if (isNumber(schema)) {
    return <input type="number" step={schema.type === "integer" ? 1 : "any"} required={needed} value={value} onChange={(event) => change(event.target.value)} />;
  }
  return <textarea dir="auto" rows={2} placeholder={isText(schema) ? undefined : "JSON"} value={value} onChange={(event) => change(event.target.value)} />;
}
