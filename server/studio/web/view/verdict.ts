// Verdicts of evaluators, their faults, and what changed from one round to the next.

import { type Child, icon, make } from "../shared/dom";
import { difference } from "../shared/difference";
import { type Fault, MOST_FAULTS, placeOf, quoted } from "../shared/faults";
import { count } from "../shared/numbers";
import { rich, text } from "../shared/said";
import { verdict } from "../shared/states";
import type { Span, Verdict } from "./data";

export function verdictWord(round: Span): string {
  if (!round.status) return round.end === null ? "going on" : "no verdict";
  return `${verdict(round.status)}${round.by_error ? ", by an error" : ""}`;
}

export function verdictOf({ status, evaluation, lesson, blame = [], score, faults = [], unsure = [], repairs = {} }: Verdict): Child[] {
  const field = (title: string, content: Child): Child => (content ? make("div.field", {}, make("h4", { textContent: title }), content) : null);
  return [
    status ? make("p.status", {}, icon(status === "SUCCESS" ? "done" : "failed"), ` ${verdict(status)}`, score === null || score === undefined ? "" : ` · score ${score}`) : null,
    evaluation ? field("evaluation", rich(evaluation)) : null,
    field("at fault", faultsOf(faults, blame)),
    lesson && !faults.length ? field("lesson", rich(lesson)) : null,
    field("not verified", unsureOf(unsure)),
    field("runs again, too", repairsOf(repairs)),
  ];
}

/** What is wrong, with the right text beside it, and where; blamed operators without a fault alone. */
export function faultsOf(faults: readonly Fault[], blame: readonly string[]): HTMLElement | null {
  const known = faults.flatMap((fault) => [fault.operator, placeOf(fault)]);
  const others = blame.filter((place) => !known.includes(place));
  if (!faults.length && !others.length) return null;
  const shown = faults.slice(0, MOST_FAULTS).map((fault) => make("li.fault", {},
    make("span.fault-place", { dir: "auto", textContent: placeOf(fault) }), fault.sure === false ? make("span.soft", { textContent: " suspected" }) : null,
    fault.wrong ? make("div", {}, make("span.soft", { textContent: "wrong: " }), make("del", { dir: "auto", textContent: quoted(fault.wrong) })) : null,
    fault.right ? make("div", {}, make("span.soft", { textContent: "right: " }), make("ins", { dir: "auto", textContent: quoted(fault.right) })) : null,
    fault.lesson ? rich(fault.lesson) : null));
  const more = faults.length - shown.length;
  return make("ul.plain.faults", {}, shown, more > 0 ? make("li.soft", { textContent: `and ${count(more)} more` }) : null,
    others.map((place) => make("li", {}, make("span.fault-place", { dir: "auto", textContent: place }))));
}

const listOf = (texts: readonly string[]): HTMLElement | null =>
  texts.length ? make("ul.plain", {}, texts.slice(0, MOST_FAULTS).map((each) => make("li", { dir: "auto", textContent: quoted(each) }))) : null;

export const unsureOf = listOf;

/** The operators that run again although they are not blamed, each with the reason. */
export const repairsOf = (repairs: Readonly<Record<string, string>>): HTMLElement | null =>
  listOf(Object.entries(repairs).filter(([, reason]) => reason).map(([place, reason]) => `${place}, because ${reason}`));

const MARKS = { same: "span", gone: "del", new: "ins" } as const;

/** Both texts as one, what is gone struck out and what is new underlined. */
export function changes(before: string, after: string): HTMLElement {
  if (before === after) return make("p.soft", { textContent: "It said the same." });
  const pieces = difference(before, after);
  if (!pieces) return make("div.both", {}, make("h4", { textContent: "before" }), text(before), make("h4", { textContent: "after" }), text(after));
  return make("pre.text.diff", { dir: "auto" }, pieces.map((piece) => make(MARKS[piece.kind], { textContent: piece.text })));
}
