// The contract between this page and its server: each type is the JSON of a request or an answer.

import type { Fault } from "../shared/faults";
import type { Usage } from "../shared/numbers";

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

export interface ModelEntry {
  name: string;
  /** US dollars per million tokens. */
  price: { prompt: number; completion: number } | null;
}

export interface Models {
  /** The model of runs. */
  selected: ModelEntry | null;
  /** Those of the vendors whose keys the environment has. */
  listed: ModelEntry[];
  /** Those of the services, by the names that nodes use. */
  named: ModelEntry[];
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
  /** Its own title, or that of its type; other nodes may have it, too. */
  title: string;
  /** The title that a person gave to it; empty for none. */
  given_title: string;
  /** Its title, with its id where others have the same. */
  name: string;
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

/** A note on the canvas, in Markdown. */
export interface StickyNote {
  id: string;
  text: string;
  color: string;
  at: [number, number] | null;
  size: [number, number];
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
  /** The name of this version; empty for none. */
  name: string;
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
  sticky_notes: StickyNote[];
  lossy: Loss[];
  readonly: string | null;
  inputs?: Input[];
}

export type EdgeChange = [source: string, port: number, target: string];

export interface Changes {
  added: string[];
  removed: string[];
  removed_nodes: { id: string; type: string; title: string; parent: string | null }[];
  changed: { node: string; fields: { field: string; before: Json; after: Json }[] }[];
  edges_added: EdgeChange[];
  edges_removed: EdgeChange[];
}

/** One change of a draft. */
export type ChangedPart = { node: string } | { edge: EdgeChange };

export interface Candidate {
  reference: string;
  name: string;
  type: string;
  node?: string;
  title?: string;
}

export type Operation =
  | { op: "rename_variable"; node: string; old: string; new: string }
  | { op: "add_node"; id: string; type: string; params: Fields; inside: string; title?: string }
  | { op: "rename_node"; node: string; title: string }
  | { op: "remove_node"; node: string; edges?: "rewire" | "cut" }
  | { op: "set"; node: string; path: string; value: Json }
  | { op: "connect"; source: string; target: string; port: number }
  | { op: "disconnect"; source: string; target: string; port: number }
  | ({ op: "set_note" } & Pick<StickyNote, "id"> & Partial<StickyNote>)
  | { op: "remove_note"; id: string }
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
  usage?: Usage;
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
  score?: number | null;
  evaluation?: string;
  lesson?: string;
  blame?: string[];
  faults?: Fault[];
  /** The places of the operators that run again first, each with the reason where it is not blamed. */
  repairs?: Record<string, string>;
  /** The operators that kept their results, because their inputs had not changed. */
  kept?: string[];
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
  usage: Usage;
}

/** The pinned values of a file by node, why others are not used, and the names of removed nodes whose values were dropped. */
export interface PinnedValues {
  pins: Record<string, Fields>;
  faults: Record<string, string>;
  dropped: string[];
}

/** A variable that a node reads, with its pinned or last value. */
export interface ReadVariable {
  reference: string;
  name: string;
  title: string;
  type: string;
  value: Json;
  /** Its value is a file, which is used unless another is chosen. */
  has_file: boolean;
}

export interface LastRun {
  ran: boolean;
  /** Whether the node is as it was then. */
  current?: boolean;
  inputs: Fields | null;
  outputs: Fields | null;
  error: string | null;
  /** The items in which it ran inside of a container. */
  items?: string[];
  /** Whether it may have run for more items, which are not kept. */
  more_items?: boolean;
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
  /** The models that the file names for nodes that name none. */
  models?: Omit<Loss, "foreign">[];
  name: string;
  text?: string;
  base64?: string;
}

export interface FileValue {
  file: { name: string; type: string; size: number; url: string | null };
}
