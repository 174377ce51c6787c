// Texts that models and people wrote: formatted where they are Markdown, long ones folded, each to be had as text.

import { type Child, make } from "./dom";
import { markdown } from "./markdown";
import { isMarkdown } from "./markup";
import { count } from "./numbers";
import { visible } from "./visible";

const MOST_AT_ONCE = 20_000;
const MOST_AT_FIRST = 1600;
const MOST_LINES = 24;

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

const all = (text: string): string => `Show ${text.length > MOST_AT_ONCE ? "more" : "all"} (${count(text.length)} characters)`;

/** A value as the text that it is. */
export function text(value: unknown, kind = ""): HTMLElement {
  const said = asText(value);
  const shown = beginning(said);
  const block = make(`pre.text${kind && "." + kind}`, { dir: "auto", textContent: shown });
  if (shown.length === said.length) return block;
  let end = shown.length;
  const more = make("button.more", {
    textContent: all(said),
    onclick: () => {
      end = end < MOST_AT_ONCE ? Math.min(MOST_AT_ONCE, said.length) : said.length;
      block.textContent = visible(said.slice(0, end));
      more.textContent = `Show all (${count(said.length)} characters)`;
      more.hidden = end >= said.length;
    },
  });
  return make("div", {}, block, more);
}

function beginning(said: string): string {
  let end = Math.min(said.length, said.length > MOST_AT_FIRST * 1.2 ? MOST_AT_FIRST : said.length);
  for (let at = -1, lines = 0; (at = said.indexOf("\n", at + 1)) >= 0 && at < end; ) {
    if (++lines === MOST_LINES && said.length - at > 200) end = at;
  }
  return said.slice(0, end);
}

/** A text, formatted where it is Markdown; the reader can have it as text. */
export function rich(value: unknown): HTMLElement {
  if (typeof value !== "string" || !isMarkdown(value)) return text(value, typeof value === "string" ? "" : "code");
  const shown = beginning(value);
  const formatted = make("div.markdown", { dir: "auto" }, markdown(shown));
  const plain = text(value);
  plain.hidden = true;
  let whole = shown.length === value.length;
  const more: HTMLElement = make("button.more", {
    textContent: all(value),
    onclick: () => {
      formatted.replaceChildren(...markdown(value.slice(0, MOST_AT_ONCE)));
      more.hidden = whole = true;
    },
  });
  more.hidden = whole;
  const turn: HTMLElement = make("button.more", {
    textContent: "As text",
    onclick: () => {
      formatted.hidden = !formatted.hidden;
      plain.hidden = !plain.hidden;
      turn.textContent = formatted.hidden ? "Formatted" : "As text";
      more.hidden = formatted.hidden || whole;
    },
  });
  return make("div.said-text", {}, formatted, plain, more, turn);
}

/** A region that can be scrolled sideways. */
export const wide = (label: string, ...children: Child[]): HTMLElement => make("div.wide", { tabIndex: 0, role: "region", "aria-label": label }, children);
