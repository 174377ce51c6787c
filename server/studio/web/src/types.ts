// The contract between this page and its server: each type is the JSON of a request or an answer.

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };
export type Fields = { [name: string]: Json };

export interface FileEntry {
  path: string;
  format: string;
  name: string;
  nodes: number;
  modified: number | string;
  error: string | null;
}

/** A file that was opened lately. */
export interface RecentFile {
  /** Its name in this folder; null for a file elsewhere. */
  name: string | null;
  place: string;
  at: number;
  missing: boolean;
  /** The command that opens a file elsewhere. */
  command: string | null;
}

export interface Files {
  recent: RecentFile[];
  folder: string;
  files: FileEntry[];
  examples: { name: string; title: string }[];
  model: { configured?: boolean; name?: string; missing?: string };
  /** Maximum sizes in bytes: of one file, and of all files of a request. */
  limits: { file: number; files: number };
}

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  title?: string;
  description?: string;
  default?: Json;
  enum?: Json[];
  const?: Json;
  type?: string | string[];
  anyOf?: Schema[];
  if?: Schema;
  then?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  items?: Schema;
  prefixItems?: Schema[];
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minimum?: number;
  maximum?: number;
  /** The editor of a field: "prompt", "template", "code" or "variable". */
  "x-editor"?: string;
  "x-advanced"?: boolean;
  /** Of a variable, the types that it may have. */
  "x-types"?: string[];
  /** A variable of a node inside the container. */
  "x-inside"?: boolean;
  /** Of a condition, the operators by the type of its variable. */
  "x-operators"?: Record<string, string[]>;
}

export interface NodeType {
  type: string;
  title: string;
  family: string;
  summary: string;
  schema: Schema;
  container: boolean;
  /** The type of the node that the inside of a container starts with. */
  body_start?: string | null;
  example?: Fields;
}

export interface Variable {
  name: string;
  type: string;
}

export interface NodeDocument {
  id: string;
  type: string;
  title: string;
  parent: string | null;
  params: Fields;
  ports: string[];
  outputs: Variable[];
  summary: string;
  position?: { x: number; y: number } | null;
}

export interface EdgeDocument {
  source: string;
  port: number;
  target: string;
}

export interface Issue {
  code: string;
  what: string;
  where?: string;
  node: string | null;
  field: string | null;
  severity: "error" | "warning";
}

export interface Step {
  number: number;
  title: string;
  at: number | string;
  kind: "edit" | "chat" | "outside" | "open";
  before?: number | null;
}

export interface Input {
  name: string;
  title?: string;
  type: string;
  required?: boolean;
  default?: Json;
}

export interface Document {
  path: string;
  format: string;
  kind: "workflow" | "experts";
  /** Whether it can run here; `readonly` says why not. */
  runs: boolean;
  /** Of experts, the forms of their parts, by type. */
  schemas?: Record<string, Schema>;
  version: number;
  name: string;
  nodes: NodeDocument[];
  edges: EdgeDocument[];
  issues: Issue[];
  undo: boolean;
  redo: boolean;
  steps: Step[];
  step: number;
  disk: "same" | "changed" | "gone";
  /** Why the file on disk is another. */
  fault?: string;
  notes?: string[];
  lossy: Loss[];
  readonly: string | null;
  inputs?: Input[];
}

type EdgeChange = [source: string, port: number, target: string];

export interface Changes {
  added: string[];
  removed: string[];
  removed_nodes: { id: string; type: string; title: string; parent: string | null }[];
  changed: { node: string; fields: { field: string; before: Json; after: Json }[] }[];
  edges_added: EdgeChange[];
  edges_removed: EdgeChange[];
}

export interface Candidate {
  reference: string;
  name: string;
  type: string;
  node?: string;
  title?: string;
}

export type Operation =
  | { op: "rename_variable"; node: string; old: string; new: string }
  | { op: "add_node"; id: string; type: string; params: Fields; inside: string }
  | { op: "remove_node"; node: string; edges?: "rewire" | "cut" }
  | { op: "set"; node: string; path: string; value: Json }
  | { op: "connect"; source: string; target: string; port: number }
  | { op: "disconnect"; source: string; target: string; port: number }
  | { op: "insert_between"; source: string; target: string; port: number; id: string; type: string; params: Fields };

export interface ChatMessage {
  kind: "stage" | "size" | "check" | "note" | "plan" | "draft" | "error" | "done";
  text?: string;
  ok?: boolean;
  document?: Document;
  changes?: Changes;
  lines?: string[];
  questions?: PlanQuestion[];
}

export interface PlanQuestion {
  text: string;
  default: string;
}

export interface Span {
  id: number;
  parent: number | null;
  kind: string;
  name: string;
  path: string[];
  round: number;
  start: number;
  end: number | null;
  state: string;
  error?: string;
  /** The error of the last attempt, whose fallback went on. */
  fell_back?: string;
  progress?: string;
}

export interface Question {
  id: string;
  node: string;
  text: string;
  schema: Schema | null;
  /** Arguments of the tool that is to be allowed, as JSON text; null for other questions. */
  arguments: string | null;
}

/** A round of an expert; its verdict once it was judged. */
export interface Round {
  operators: string[];
  status?: string;
  evaluation?: string;
  lesson?: string;
  blame?: string[];
  faults?: Fault[];
  /** The places of the operators that run again first, each with the reason where it is not blamed. */
  repairs?: Record<string, string>;
  /** The operators that kept their results, because their inputs had not changed. */
  kept?: string[];
}

/** What an evaluator found to be wrong in an operator's result. */
export interface Fault {
  operator: string;
  item: number | null;
  wrong: string;
  right: string;
  lesson: string;
  sure: boolean;
}

export interface RunPicture {
  run_id: string;
  now: number;
  ended: boolean;
  reset: boolean;
  spans: Span[];
  outputs?: Record<string, Fields>;
  /** Outputs of the round before the last, of the nodes that ran in several. */
  before?: Record<string, Fields>;
  rounds?: Round[];
  /** The evaluators. */
  judges?: string[];
  /** Nodes whose outputs of an earlier run are used again. */
  reused?: string[];
  /** Nodes that have changed since the run began, in the first picture of a run. */
  changed?: string[];
  questions?: Question[];
  /** Texts that models are writing, by node. */
  writing?: Record<string, string>;
  result?: Fields | null;
  error?: string | null;
  state?: string;
  note?: string;
  row?: RunRow;
}

/** A run in the list of a file's runs. */
export interface RunRow {
  id: string;
  file: string;
  state: string;
  /** The node that ran alone, or at which the run began; empty for the whole workflow. */
  only: string;
  from: string;
  inputs: string;
  started: number;
  seconds: number;
  usage: { calls: number; prompt_tokens: number; completion_tokens: number; cost: number | null };
}

export interface LastRun {
  ran: boolean;
  /** Whether the node is as it was then. */
  current?: boolean;
  inputs: Fields | null;
  outputs: Fields | null;
  error: string | null;
}

/** What a format cannot hold of a workflow. */
export interface Loss {
  /** The titles of the node, or of both ends of the edge; empty for the workflow itself. */
  where: string;
  what: string;
  /** A setting that only the platform has which the workflow comes from. */
  foreign: boolean;
}

export interface Exported {
  losses: Loss[];
  name: string;
  text?: string;
  base64?: string;
}

export interface FileValue {
  file: { name: string; type: string; size: number; url: string | null };
}
