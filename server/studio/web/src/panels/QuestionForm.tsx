// A question of a run, answered where it stands.

import { type FormEvent, type ReactElement, useState } from "react";
import { titleOf } from "../schema";
import { useCommands, useStudio } from "../store";
import type { Fields, Json, Question, Schema } from "../types";
import { TextView } from "../values/ValueView";

export function QuestionForm({ question }: { question: Question }): ReactElement {
  const commands = useCommands();
  const [values, setValues] = useState<Fields>({});
  const title = useStudio((state) => state.document?.nodes.find((node) => node.id === question.node)?.title ?? question.node);
  const schema = question.schema ?? { type: "string" };
  const fields = schema.properties ? Object.entries(schema.properties) : null;
  const choices = !fields ? choicesOf(schema) : null;
  const answer = (value: Json): void => void commands.answer(question.id, value);
  const named = useStudio((state) => state.document?.nodes.find((node) => node.id === question.node)?.params["actions"]);
  const action = fields?.length === 1 ? worded(choicesOf(fields[0]?.[1] ?? {}), named) : null;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const read = (name: string, field: Schema): Json => {
      const value = values[name] ?? field.default ?? "";
      if (field.type === "integer" || field.type === "number") return Number(value);
      return field.type === "boolean" ? value === true : value;
    };
    answer(fields ? Object.fromEntries(fields.map(([name, field]) => [name, read(name, field)])) : read("answer", schema));
  };
  return (
    <form className="question" onSubmit={submit} aria-label={`Question of ${title}`}>
      <h3>{title} asks</h3>
      <div className="question-text"><TextView text={question.text} /></div>
      {choices ?? action
        ? (
          <div className="actions wrap">
            {(choices ?? action ?? []).map((choice) => (
              <button type="button" key={String(choice.value)} onClick={() => answer(fields?.[0] && action ? { [fields[0][0]]: choice.value } : choice.value)}>{choice.title}</button>
            ))}
          </div>
        )
        : (
          <>
            {(fields ?? [["answer", schema] as [string, Schema]]).map(([name, field]) => (
              <label className="part" key={name}>
                <span className="part-name">{titleOf(name, field)}</span>
                <Answer choices={worded(choicesOf(field), named)} schema={field} value={values[name] ?? field.default ?? ""} change={(value) => setValues((now) => ({ ...now, [name]: value }))} />
              </label>
            ))}
            <button type="submit" className="main">Answer</button>
          </>
        )}
    </form>
  );
}

function choicesOf(schema: Schema): Choice[] | null {
  if (schema.enum) return schema.enum.map((value) => ({ value, title: String(value) }));
  if (schema.type === "boolean") return [{ value: true, title: "Yes" }, { value: false, title: "No" }];
  const options = schema.anyOf ?? (schema as { oneOf?: Schema[] }).oneOf;
  return options?.length && options.every((each) => each.const !== undefined)
    ? options.map((each) => ({ value: each.const ?? null, title: each.title ?? String(each.const) }))
    : null;
}

interface Choice {
  value: Json;
  title: string;
}

/** Choices in the words that the node gives them: [[id, words], …]. */
function worded(choices: Choice[] | null, named: Json | undefined): Choice[] | null {
  const words = new Map(Array.isArray(named) ? named.flatMap((each) => (Array.isArray(each) ? [[each[0], each[1]] as const] : [])) : []);
  return choices?.map(({ value, title }) => ({ value, title: String(words.get(value) ?? title) })) ?? null;
}

interface AnswerProps {
  choices: Choice[] | null;
  schema: Schema;
  value: Json;
  change(value: Json): void;
}

function Answer({ choices, schema, value, change }: AnswerProps): ReactElement {
  if (choices) {
    return (
      <select required value={JSON.stringify(value)} onChange={(event) => change(JSON.parse(event.target.value) as Json)}>
        <option value={'""'}>Choose</option>
        {choices.map((choice) => <option key={choice.title} value={JSON.stringify(choice.value)}>{choice.title}</option>)}
      </select>
    );
  }
  if (schema.type === "integer" || schema.type === "number") {
    return <input type="number" required value={String(value ?? "")} onChange={(event) => change(event.target.value)} />;
  }
  return <textarea dir="auto" rows={2} value={String(value ?? "")} onChange={(event) => change(event.target.value)} />;
}
