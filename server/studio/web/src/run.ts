// A run as the canvas shows it: the spans that the server streams, folded to one state for each node.

import type { Fault, Fields, Question, Round, RunPicture, RunRow, Span } from "./types";

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
  seconds: number | null;
  times: number;
  error: string;
  progress: string;
  /** The number of the round that blamed it, and what it was told; 0 for none. */
  blamed: number;
  faults: readonly Fault[];
  lesson: string;
  /** Why it ran again although it was not blamed; empty otherwise. */
  again: string;
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
    reused.map((id) => [id, { state: "reused", seconds: null, times: 1, error: "", progress: "", ...NO_LESSON }]),
  );
  const last = new Map<string, number>(); // the round in which a node of the workflow itself ran last
  for (const span of spans) {
    if (span?.kind !== "operator" || reused.includes(span.name)) continue;
    const asking = questions.some((question) => question.node === span.name);
    const open = span.end === null;
    found[span.name] = {
      state: open ? (ended ? "stopped" : asking ? "asking" : "running") : span.fell_back ? "fell" : span.state,
      seconds: span.end === null ? null : span.end - span.start,
      times: (found[span.name]?.times ?? 0) + 1,
      error: span.error ?? span.fell_back ?? "",
      progress: span.progress ?? "",
      ...NO_LESSON,
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

const NO_LESSON = { blamed: 0, faults: [], lesson: "", again: "" };

/** The place of a fault: the operator with the index of the item. */
export const placeOf = (fault: Fault): string => (fault.item === null || fault.item === undefined ? fault.operator : `${fault.operator}[${fault.item}]`);

/** Whether a place, such as sums[3] or draft/body, is that of a node or of a part of it. */
const concerns = (place: string, id: string): boolean => place === id || place.startsWith(`${id}/`) || place.startsWith(`${id}[`);

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

export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

const WORDS: Record<string, string> = {
  done: "done", running: "running", failed: "failed", asking: "waits for an answer", skipped: "skipped", waiting: "waiting",
  retrying: "retries", stopped: "stopped", cached: "from the cache", kept: "reused", reused: "reused", cancelled: "cancelled", interrupted: "interrupted",
  fell: "failed, went on", stale: "changed since",
};

export const stateInWords = (state: string): string => WORDS[state] ?? state;
