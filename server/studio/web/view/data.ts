// What the server tells of a run: its outline, and details of its spans on demand.

import type { Fault } from "../shared/faults";
import type { Usage } from "../shared/numbers";

export type Path = readonly string[];

/** A part of a run: the run, a round, an operator, an item, an attempt, a pause, a call, a question. */
export interface Span {
  id: number;
  parent: number | null;
  kind: string;
  name: string;
  path: Path;
  round: number;
  attempt: number;
  start: number;
  end: number | null;
  state: string;
  usage: Usage & Record<string, number>;
  progress?: [number, number];
  error?: string;
  question?: string;
  fell_back?: string;
  status?: string;
  score?: number | null;
  blame?: string[];
  by_error?: boolean;
  kept?: string[];
  operators?: string[];
  /** The path as a key, and the version of the picture in which it changed last; both set here. */
  key: string;
  changed: number;
}

export interface Graph {
  workflow: string;
  before: Record<string, string[]>;
  judges: string[];
  instructions: Record<string, string>;
  ports: Record<string, Record<string, string[]>>;
}

export interface Picture {
  run_id: string;
  workflow: string;
  goal: string;
  version: number;
  now: number;
  ended: boolean;
  reset: boolean;
  graphs: Record<string, Graph> | null;
  spans: Span[];
  critical: number[];
  note: string;
  can: string[];
  inputs: string;
  titles?: Record<string, string>;
  /** The address at which the studio shows the run; empty for none. */
  studio?: string;
}

export interface Verdict {
  status?: string;
  evaluation?: string;
  lesson?: string;
  blame?: string[];
  score?: number | null;
  faults?: Fault[];
  unsure?: string[];
  repairs?: Record<string, string>;
}

export interface Message extends Verdict {
  scratchpad?: string;
  answer?: string | null;
  outputs?: Record<string, unknown>;
  ports?: string[];
}

export interface Call {
  name?: string;
  arguments?: unknown;
  function?: { name?: string; arguments?: unknown };
}

/** A message of a conversation with a model. */
export interface Turn {
  role?: string;
  name?: string;
  content?: unknown;
  tool_calls?: Call[];
}

export interface Task {
  lesson?: string;
  [field: string]: unknown;
}

/** Details of a span. */
export interface About extends Verdict {
  inputs?: Record<string, unknown>;
  error?: string;
  reason?: string;
  started_by?: string;
  item?: unknown;
  message?: Message;
  tasks?: Task[];
  notes?: { time: number; event: string; [field: string]: unknown }[];
  messages?: Turn[];
  text?: string;
  tool_calls?: Call[];
  finish_reason?: string;
  arguments?: unknown;
  result?: unknown;
  question?: string;
  schema?: Schema | null;
  by?: string;
}

export type Told = Record<string, About>;

/** A JSON Schema, as far as a form is made from it. */
export interface Schema {
  type?: unknown;
  title?: string;
  description?: string;
  enum?: unknown[];
  if?: Schema;
  then?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}
