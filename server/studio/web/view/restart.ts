// The form that continues a copy of a run from an operator on, also with another output of it, or other inputs of the job.

import { make } from "../shared/dom";
import { parsed } from "../shared/exact";
import type { Message } from "./data";

/** What a message says, as a person edits it: JSON for values, else text. */
function valueOf({ answer, outputs = {}, scratchpad = "" }: Message): { text: string; isJson: boolean } {
  if (!Object.keys(outputs).length) return { text: scratchpad, isJson: false };
  return { text: JSON.stringify(answer ? outputs[answer] : outputs, null, 2), isJson: true };
}

/** The inputs that were changed, as JSON; null if none was. */
function changed(given: Record<string, unknown>, text: string): string | null {
  const now = parsed<Record<string, unknown>>(text);
  if (!now || typeof now !== "object" || Array.isArray(now)) throw new Error("the inputs are no JSON object");
  const removed = Object.keys(given).filter((name) => !(name in now));
  if (removed.length) throw new Error(`inputs cannot be removed: ${removed.join(", ")}`);
  const names = Object.keys(now).filter((name) => JSON.stringify(now[name]) !== JSON.stringify(given[name]));
  return names.length ? JSON.stringify(Object.fromEntries(names.map((name) => [name, now[name]]))) : null;
}

/** `restart` takes the changes as fields of JSON. */
export function restartForm(message: Message, inputs: Record<string, unknown>, restart: (fields: string[]) => void, say: (said: string) => void): HTMLElement {
  const { text, isJson } = valueOf(message);
  const field = (label: string, value: string): [HTMLElement, HTMLTextAreaElement] => {
    const input = make("textarea", { rows: 4, dir: "auto", value });
    return [make("label.field", {}, make("span", { textContent: label }), input), input];
  };
  const [outputLabel, output] = field("Output; unchanged, the operator runs again", text);
  const [inputsLabel, job] = field("Inputs of the operators that run again, as JSON", JSON.stringify(inputs, null, 2));
  const shownOutput = output.value;
  const json = (input: HTMLTextAreaElement): string => {
    JSON.parse(input.value);
    return input.value;
  };
  return make("form.answer", {
    onsubmit: (event) => {
      event.preventDefault();
      try {
        const others = changed(inputs, job.value);
        restart([
          ...(output.value === shownOutput ? [] : [`"output":${isJson ? json(output) : JSON.stringify(output.value)}`]),
          ...(others === null ? [] : [`"inputs":${others}`]),
        ]);
      } catch (error) {
        say(error instanceof SyntaxError ? `that is no JSON: ${error.message}` : (error as Error).message);
      }
    },
  }, outputLabel, inputsLabel, make("div", {}, make("button.main", { textContent: "Continue a copy of the run" })));
}
