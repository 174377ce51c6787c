// A run as the canvas shows it: the spans that the server streams, folded to one state for each node.

import { type Fault, concerns, placeOf } from "../shared/faults";
import type { Usage } from "../shared/numbers";
import type { Fields, Question, Round, RunPicture, RunRow, Span } from "./types";

export interface RunState {
  id: string;
  what: string;
  spans: readonly Span[];
  nodes: Readonly<Record<string, NodeRun>>;
  outputs: Readonly<Record<string, Fields>>;
  /** Outputs of the round before the last. */
  before: Readonly<Record<string, Fields>>;
  rounds: readonly Round[];
  questions: readonly Question[];
  /** Texts that models are writing, by node. */
  writing: Readonly<Record<string, string>>;
  reused: readonly string[];
  answered: readonly string[];
  result: Fields | null;
  error: string | null;
  /** A remark, such as that no process drives the run. */
  note: string;
  row: RunRow | null;
  state: string;
  ended: boolean;
  connected: boolean;
}

export interface NodeRun {
  state: string;
  /** Whether it ran in this run, or only gave its value of an earlier run; empty if neither. */
  passed: "ran" | "gave" | "";
  seconds: number | null;
  times: number;
  error: string;
  /** How many calls of tools failed in it, also in nodes inside of it. */
  failedCalls: number;
  progress: string;
  /** The number of the round that blamed it, and what it was told; 0 for none. */
  blamed: number;
  faults: readonly Fault[];
  lesson: string;
  /** Why it ran again although it was not blamed; empty otherwise. */
  again: string;
  /** The model that it asked last, and what all its calls took. */
  model: string;
  usage: Usage | null;
  /** Of an evaluator, the verdict on the last round that was judged. */
  verdict: { accepted: boolean; score: number | null; why: string } | null;
}

export const started = (id: string, what: string): RunState => ({
  id, what, spans: [], nodes: {}, outputs: {}, before: {}, rounds: [], questions: [], writing: {}, reused: [], answered: [], result: null, error: null, note: "", row: null,
  state: "running", ended: false, connected: true,
});

export function merged(run: RunState, picture: RunPicture): RunState {
  const spans = picture.reset ? [] : [...run.spans];
  for (const span of picture.spans) spans[span.id] = span;
  const questions = picture.questions ?? run.questions;
  const reused = picture.reused ?? run.reused;
  const rounds = picture.rounds ?? run.rounds;
  return {
    ...run,
    spans,
    questions,
    writing: picture.writing ?? {},
    reused,
    answered: run.answered.filter((id) => questions.some((question) => question.id === id)),
    rounds,
    before: picture.before ?? run.before,
    nodes: nodeRuns(spans, questions, reused, picture.ended, rounds, picture.judges ?? [], run.nodes),
    outputs: picture.outputs ? { ...run.outputs, ...picture.outputs } : run.outputs,
    result: picture.result ?? run.result,
    error: picture.error ?? run.error,
    note: picture.note ?? "",
    row: picture.row ?? run.row,
    ended: picture.ended,
    state: picture.state ?? run.state,
  };
}

export const answered = (run: RunState, question: string): RunState => ({ ...run, answered: [...run.answered, question] });

/** The latest state of each node; nodes whose state has not changed keep their object. */
function nodeRuns(
  spans: readonly Span[], questions: readonly Question[], reused: readonly string[], ended: boolean,
  rounds: readonly Round[], judges: readonly string[],
  before: Readonly<Record<string, NodeRun>>,
): Record<string, NodeRun> {
  const found: Record<string, NodeRun> = Object.fromEntries(
    reused.map((id) => [id, { state: "reused", passed: "", seconds: null, times: 1, error: "", failedCalls: 0, progress: "", model: "", usage: null, ...NO_LESSON }]),
  );
  const models = new Map(spans.flatMap((span) => (span?.kind === "model" ? [[span.path.at(-1), span.name] as const] : [])));
  const judged = rounds.findLast((round) => round.status);
  const verdict = judged ? { accepted: judged.status === "SUCCESS", score: judged.score ?? null, why: judged.evaluation ?? "" } : null;
  const broke = new Map<number, number>(); // the failed calls of tools inside of a span
  for (const span of spans) {
    if (span?.kind !== "tool" || span.state !== "failed") continue;
    for (let at = span.parent; at !== null; at = spans[at]?.parent ?? null) broke.set(at, (broke.get(at) ?? 0) + 1);
  }
  const last = new Map<string, number>(); // the round in which a node of the workflow itself ran last
  for (const span of spans) {
    if (span?.kind !== "operator") continue;
    if (reused.includes(span.name) && span.round < 2) {
      found[span.name]!.passed = span.state === "kept" ? "gave" : "";
      continue;
    }
    const asking = questions.some((question) => question.node === span.name);
    const open = span.end === null;
    found[span.name] = {
      state: open ? (ended ? "stopped" : asking ? "asking" : "running") : span.fell_back ? "fell" : span.state,
      passed: span.state === "skipped" ? "" : "ran",
      seconds: span.end === null ? null : span.end - span.start,
      times: (found[span.name]?.times ?? 0) + 1,
      error: span.error ?? span.fell_back ?? "",
      failedCalls: broke.get(span.id) ?? 0,
      progress: span.progress ?? "",
      model: models.get(span.path.at(-1)) ?? "",
      usage: sum(found[span.name]?.usage, span.usage),
      ...NO_LESSON,
      verdict: judges.includes(span.name) ? verdict : null,
    };
    if (span.path.length === 1) last.set(span.name, span.round);
  }
  for (const [id, round] of last) found[id] = inRounds(found[id]!, id, round, rounds, judges.includes(id));
  for (const [id, now] of Object.entries(found)) {
    const was = before[id];
    if (was && JSON.stringify(was) === JSON.stringify(now)) found[id] = was;
  }
  return found;
}

const NO_LESSON = { blamed: 0, faults: [], lesson: "", again: "", verdict: null };

/** What two spans took together; null for no calls. */
function sum(one: Usage | null | undefined, other: Usage | undefined): Usage | null {
  if (!one || !other?.calls) return other?.calls ? other : one ?? null;
  return {
    calls: one.calls + other.calls,
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    cost: one.cost === null && other.cost === null ? null : (one.cost ?? 0) + (other.cost ?? 0),
    unpriced: (one.unpriced ?? 0) + (other.unpriced ?? 0),
  };
}

/** What the rounds of an expert say of a node: who was blamed runs again, and all that depends on it; others are reused. */
function inRounds(run: NodeRun, id: string, ran: number, rounds: readonly Round[], judges: boolean): NodeRun {
  const round = rounds.length;
  const now = rounds[round - 1];
  if (!now || round < 2 || judges) return run;
  const due = now.operators.includes(id) && !now.kept?.includes(id);
  const blamed = rounds.findLastIndex((each) => each.blame?.some((place) => concerns(place, id))) + 1;
  const repairs = rounds[round - 2]?.repairs ?? {};
  const reason = Object.keys(repairs).find((place) => concerns(place, id) && repairs[place]);
  return {
    ...run,
    state: !due ? "reused" : ran < round ? "waiting" : run.state,
    seconds: !due || ran < round ? null : run.seconds,
    blamed,
    faults: rounds[blamed - 1]?.faults?.filter((fault) => concerns(placeOf(fault), id)) ?? [],
    lesson: rounds[blamed - 1]?.lesson ?? "",
    again: !due || blamed ? "" : reason ? repairs[reason]! : "a node before it was blamed",
  };
}
