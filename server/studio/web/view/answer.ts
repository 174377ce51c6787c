// The form in which a person answers what a run asks.

import { type Child, make } from "../shared/dom";
import type { Schema } from "./data";

interface Field {
  input: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;
  /** The value as JSON; undefined where it is empty and not needed. */
  read(): string | undefined;
}

interface Asked {
  schema?: Schema | null | undefined;
  /** The arguments of a tool that is to be allowed, as JSON text. */
  arguments?: string | undefined;
}

/** Fields for what a JSON Schema asks; what cannot be asked in fields is asked as JSON. `answer` takes JSON text, because numbers of JavaScript round large ones. */
export function answerForm({ schema, arguments: given }: Asked, answer: (json: string) => void, say: (said: string) => void): HTMLElement {
  if (given !== undefined) return approvalForm(given, answer, say);
  const fields: (Field & { name: string })[] = [];
  const add = (name: string, of: Schema | null | undefined, needed: boolean): HTMLElement => {
    const label = of?.title ?? name;
    const field = fieldFor(of, needed);
    fields.push({ name, ...field });
    return make("label.field", {}, make("span", { textContent: needed ? label : `${label} (may be left out)`, dir: "auto" }), field.input, of?.description ? make("span.soft", { textContent: of.description, dir: "auto" }) : null);
  };
  const words = schema?.if?.type === "string" ? (schema.then?.enum ?? []).map(String) : []; // which may be given in place of an object
  const kind = words.length ? "object" : schema?.type;
  const properties = kind === "object" ? schema?.properties : undefined;
  const simple = properties && Object.values(properties).every((each) => ["string", "boolean", "integer", "number"].includes(String(each?.type)) || each?.enum);
  const rows = simple ? Object.entries(properties).map(([name, of]) => add(name, of, schema?.required?.includes(name) ?? false)) : [add("answer", schema, true)];
  if (kind === "boolean") {
    return make("div.answer", {}, make("button.main", { type: "button", textContent: "Yes", onclick: () => answer("true") }), make("button", { type: "button", textContent: "No", onclick: () => answer("false") }));
  }
  return make("form.answer", {
    onsubmit: (event) => {
      event.preventDefault();
      try {
        const values = fields.map(({ name, read }) => [name, read()]).filter(([, json]) => json !== undefined);
        answer(simple ? `{${values.map(([name, json]) => `${JSON.stringify(name)}:${json}`)}}` : values[0]?.[1] ?? "null");
      } catch (error) {
        say(`that is no JSON: ${(error as Error).message}`);
      }
    },
  }, rows, make("div", {}, make("button.main", { textContent: "Answer" }), words.map((word) => make("button", { type: "button", textContent: word, onclick: () => answer(JSON.stringify(word)) }))));
}

function fieldFor(of: Schema | null | undefined, needed: boolean): Field {
  const choices = of?.enum ?? (of?.type === "boolean" ? [true, false] : null);
  if (choices) {
    const said = (each: unknown): string => (of?.enum ? String(each) : each ? "yes" : "no");
    const input = make("select", { required: needed }, make("option", { value: "" }), choices.map((each) => make("option", { value: JSON.stringify(each), textContent: said(each) })));
    return { input, read: () => input.value || undefined };
  }
  const empty = (input: { value: string }): boolean => !needed && input.value === "";
  if (of?.type === "integer" || of?.type === "number") {
    const input = make("input", { type: "number", step: of.type === "integer" ? "1" : "any", required: needed });
    return { input, read: () => (empty(input) ? undefined : /^-?\d+$/.test(input.value) ? String(BigInt(input.value)) : String(Number(input.value))) };
  }
  const input = make("textarea", { rows: 2, dir: "auto" });
  const asText = !of?.type || of.type === "string";
  return { input, read: () => (empty(input) ? undefined : asText ? JSON.stringify(input.value) : checkedJson(input.value)) };
}

function checkedJson(text: string): string {
  JSON.parse(text);
  return text;
}

/** The form for the call of a tool: a person allows it, with these or other arguments, or refuses it, with a reason or without. */
function approvalForm(given: string, answer: (json: string) => void, say: (said: string) => void): HTMLElement {
  const field = (label: string, input: Child): HTMLElement => make("label.field", {}, make("span", { textContent: label }), input);
  const call = make("textarea", { rows: 4, dir: "auto", value: given });
  const shown = call.value;
  const reason = make("textarea", { rows: 2, dir: "auto" });
  const answerText = (text: string): void => answer(JSON.stringify(text));
  const allow = (): void => {
    if (call.value === shown) return answerText("yes");
    try {
      answer(checkedJson(call.value));
    } catch (error) {
      say(`the arguments are no JSON: ${(error as Error).message}`);
    }
  };
  const button = (textContent: string, onclick: () => void, kind: "button" | "button.main" = "button"): HTMLButtonElement => make(kind, { type: "button", textContent, onclick });
  const always = button("Always allow in this run", () => answerText("always"));
  const hint = make("p.soft", { textContent: "Edited arguments apply to this call only: use Allow.", hidden: true });
  call.oninput = () => {
    always.disabled = call.value !== shown;
    hint.hidden = !always.disabled;
  };
  return make("form.answer", {},
    field("Arguments", call),
    make("div", {}, button("Allow", allow, "button.main"), " ", always),
    hint,
    field("Reason (may be left out)", reason),
    button("Refuse", () => answerText(reason.value.trim() ? `no: ${reason.value.trim()}` : "no")));
}
