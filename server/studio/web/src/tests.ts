// Tests of a file: the requests, and the JSON of their answers.

import { answered, post } from "./api";
import type { Fields, Json, Operation } from "./types";

export interface TestOffer {
  name: string;
  /** The file that the test is written to. */
  file: string;
  /** How many answers of the model it holds. */
  answers: number;
  /** The names of the nodes that gave pinned values, which the test keeps. */
  pinned: string[];
  /** The outputs that it may check: that of the run, then those of nodes. */
  places: { of: string; title: string; value: Json }[];
  /** Whether evaluators judge the result, and what they said in this run. */
  judged: boolean;
  accepted: boolean;
  holds: Holds;
}

export type Holds = "equals" | "contains" | "accepted";
export type Answers = "recorded" | "model";

interface Used {
  tokens: number;
  cost: number | null;
  calls: number;
}

export interface TestResult {
  passed: boolean;
  problems: string[];
  scores: Record<string, number>;
  rounds: number;
  seconds: number;
  usage: Used;
  output?: string;
}

export interface OperatorResult {
  runs: number;
  blamed: number;
  blamed_in_rounds: number;
  seconds: number;
  usage: Used;
}

export interface TestVersion {
  key: string;
  answers: Answers;
  at: number;
  step: number;
  title: string;
  current: boolean;
  passed: number;
  runs: number;
  usage: Used;
  results: Record<string, TestResult>;
  operators: (OperatorResult & { name: string })[];
}

export interface TestTable {
  file: string;
  fault: string;
  cases: { name: string; inputs: string; holds: string[]; answers: number; pinned: number; tags: string[] }[];
  versions: TestVersion[];
  running: { done: number; total: number; answers: Answers } | null;
  error: string;
}

export interface ComparedVersions {
  better: string[];
  worse: string[];
  differences: { measure: string; before: number; after: number; change: number; is_clear: boolean }[];
  cases: { name: string; results: (TestResult | null)[] }[];
  operators: { name: string; results: (OperatorResult | null)[] }[];
}

const within = (path: string, more: Record<string, string> = {}): string => new URLSearchParams({ path, ...more }).toString();

export const testApi = {
  offer: (run: string) => answered<TestOffer>(`data/runs/${encodeURIComponent(run)}/test`),
  make: (run: string, body: { name: string; holds: Holds; of: string; text: string }) =>
    post<{ file: string }>(`data/runs/${encodeURIComponent(run)}/test`, body),
  table: (path: string) => answered<TestTable>(`data/tests?${within(path)}`),
  run: (path: string, version: number, answers: Answers, names: readonly string[]) =>
    post<TestTable>("data/tests/run", { path, version, answers, names }),
  cancel: (path: string) => post<Json>("data/tests/cancel", { path }),
  remove: (path: string, name: string) => post<TestTable>("data/tests/remove", { path, name }),
  compare: (path: string, before: string, after: string) =>
    answered<ComparedVersions>(`data/tests/compare?${within(path, { before, after })}`),
};

/** The version of a file that was tested, in words. */
export const versionName = ({ step, title, answers, current }: TestVersion): string =>
  `${current ? "now" : step ? `step ${step}` : title}${answers === "model" ? ", with the model" : ""}`;

export const money = (cost: number | null): string => (cost ? `$${cost.toPrecision(2)}` : "");

/** What the playground shows of one model. */
export interface Tried {
  model: string;
  output: Fields | null;
  error: string;
  seconds: number;
  usage: Used;
}

/** A node that can be tried: its prompts, and what it read. */
export interface Trial {
  fields: { name: string; value: string }[];
  read: Fields;
  /** The job of an expert. */
  job: string;
  /** Whether there was a run whose values it can read. */
  ran: boolean;
}

export const trialApi = {
  trial: (path: string, node: string) => answered<Trial>(`data/try?${within(path, { node })}`),
  run: (path: string, node: string, values: Record<string, string>, models: readonly string[]) =>
    post<{ tried: Tried[] }>("data/try", { path, node, values, models }),
  /** The operations that put prompts into a file. */
  kept: (node: string, values: Record<string, string>): Operation[] =>
    Object.entries(values).map(([path, value]) => ({ op: "set", node, path, value })),
};
