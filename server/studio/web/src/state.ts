// The state of the page, and how it changes. Documents come from the server whole; nothing here edits one.

import { type Point, aroundOf, placed } from "./place";
import type { Theme } from "../shared/theme";
import { canvasId, isNote } from "./notes";
import { type RunState, answered, merged } from "./run";
import type { TestVersion } from "./tests";
import type { Changes, Document, Fields, Files, Json, NodeType, PinnedValues, PlanQuestion, RunPicture, RunRow } from "./types";

export type Panel = "inspector" | "issues" | "run" | "chat" | "history" | "tests";
export type Positions = Readonly<Record<string, Point>>;

export interface Selection {
  nodes: readonly string[];
  edges: readonly string[];
}

export type Dialog =
  | { kind: "palette"; at?: Point; source?: string; port?: number; edge?: string; part?: "evaluator" }
  | { kind: "connect"; source: string }
  | { kind: "rename"; node: string }
  | { kind: "edit-value"; node: string; outputs: Fields }
  | { kind: "run-node"; node: string }
  | { kind: "export" }
  | { kind: "runs"; runs: readonly [RunRow, RunRow] }
  | { kind: "find" }
  | { kind: "test"; run: string }
  | { kind: "versions"; versions: readonly [TestVersion, TestVersion] }
  | { kind: "try"; node: string }
  | { kind: "help" };

/** What is drawn over the document: a draft of the chat, or two steps compared. */
export interface Overlay {
  kind: "draft" | "compare";
  title: string;
  changes: Changes;
  document: Document;
}

export interface ChatLine {
  who: "person" | "stage" | "size" | "check" | "note" | "error" | "answer";
  text: string;
  ok?: boolean;
}

/** A plan that the chat shows before anything is built. */
export interface ChatPlan {
  lines: readonly string[];
  questions: readonly PlanQuestion[];
}

export interface ChatState {
  lines: readonly ChatLine[];
  busy: boolean;
  plan: ChatPlan | null;
  /** What is being written, and not sent yet. */
  text: string;
}

const SILENT: ChatState = { lines: [], busy: false, plan: null, text: "" };

export interface Toast {
  kind: "info" | "error";
  text: string;
}

export interface State {
  files: Files | null;
  catalogue: ReadonlyMap<string, NodeType>;
  document: Document | null;
  positions: Positions;
  /** Layouts of the whole graph so far: after each, all of it is shown. */
  layouts: number;
  /** Nodes stand in simple columns until the layout comes. */
  laying: boolean;
  selection: Selection;
  /** The sticky note that is being written, as the canvas names it. */
  writingNote: string | null;
  panel: Panel | null;
  palette: boolean;
  /** The containers whose inside is hidden. */
  folded: ReadonlySet<string>;
  dialog: Dialog | null;
  overlay: Overlay | null;
  chat: ChatState;
  run: RunState | null;
  /** What the nodes were when the run began. */
  ran: Contents;
  /** The nodes that were changed since. */
  stale: ReadonlySet<string>;
  /** The runs of the file, those in progress first, and why they are not kept; empty if they are. */
  runs: { rows: readonly RunRow[]; note: string };
  /** Changes of the tests of the file so far: after each, they are read again. */
  tests: number;
  /** The runs in progress that kept another one from starting. */
  busy: readonly RunRow[];
  /** Nodes before which a run waits. */
  breakpoints: readonly string[];
  /** Values of nodes that do not run. */
  pinned: PinnedValues;
  /** What the run form holds. */
  inputs: Fields;
  /** The model of runs; empty for that of the environment. */
  model: string;
  toast: Toast | null;
  opening: string | null;
  saving: boolean;
  connected: boolean;
  /** Why this page is served no longer; empty while it is. */
  gone: string;
  theme: Theme;
}

/** What a run depends on, by node. */
export type Contents = Readonly<Record<string, string>>;

const contentsOf = (document: Document | null): Contents => {
  const before: Record<string, string[]> = {};
  for (const edge of document?.edges ?? []) (before[edge.target] ??= []).push(`${edge.source}:${edge.port}`);
  return Object.fromEntries((document?.nodes ?? []).map((node) => [node.id, JSON.stringify([node.type, node.params, node.parent, before[node.id]])]));
};

const staleIn = (document: Document, ran: Contents): ReadonlySet<string> =>
  new Set(Object.entries(contentsOf(document)).filter(([id, content]) => ran[id] !== content).map(([id]) => id));

/** The marks of a run that is shown again, with the nodes that were changed since it began. */
const since = (state: State, changed: readonly string[] = []): Pick<State, "ran" | "stale"> => {
  const ran = Object.fromEntries(Object.entries(state.ran).filter(([id]) => !changed.includes(id)));
  return { ran, stale: new Set([...state.stale, ...changed]) };
};

export const NOTHING: Selection = { nodes: [], edges: [] };

const NO_PINS: PinnedValues = { pins: {}, faults: {}, dropped: [] };

const NO_RUNS = { rows: [], note: "" };

export const initialState = (theme: Theme, model: string): State => ({
  files: null,
  catalogue: new Map(),
  document: null,
  positions: {},
  layouts: 0,
  laying: false,
  selection: NOTHING,
  writingNote: null,
  panel: "inspector",
  palette: true,
  folded: new Set(),
  dialog: null,
  overlay: null,
  chat: SILENT,
  run: null,
  ran: {},
  stale: new Set(),
  runs: NO_RUNS,
  busy: [],
  breakpoints: [],
  pinned: NO_PINS,
  tests: 0,
  inputs: {},
  model,
  toast: null,
  opening: null,
  saving: false,
  connected: true,
  gone: "",
  theme,
});

export type Action =
  | { type: "files"; files: Files }
  | { type: "catalogue"; types: NodeType[] }
  | { type: "opening"; path: string | null }
  | { type: "opened"; document: Document; positions: Positions; chat: ChatState | null }
  | { type: "closed" }
  | { type: "document"; document: Document; at?: Positions }
  | { type: "disk"; disk: Document["disk"] }
  | { type: "move"; positions: Positions }
  | { type: "laying" }
  | { type: "laid"; positions: Positions | null }
  | { type: "select"; selection: Selection }
  | { type: "write-note"; note: string | null }
  | { type: "folded"; folded: ReadonlySet<string> }
  | { type: "panel"; panel: Panel | null }
  | { type: "palette"; open: boolean }
  | { type: "dialog"; dialog: Dialog | null }
  | { type: "overlay"; overlay: Overlay | null }
  | { type: "chat"; line: ChatLine }
  | { type: "chatting"; busy: boolean }
  | { type: "writing"; text: string }
  | { type: "planned"; plan: ChatPlan | null }
  | { type: "input"; name: string; value: Json }
  | { type: "model"; name: string }
  | { type: "run"; run: RunState | null }
  | { type: "runs"; rows: readonly RunRow[]; note: string }
  | { type: "breakpoints"; breakpoints: readonly string[] }
  | { type: "pinned"; pinned: PinnedValues }
  | { type: "busy"; busy: readonly RunRow[] }
  | { type: "tests" }
  | { type: "picture"; run: string; picture: RunPicture }
  | { type: "running"; run: string; connected: boolean }
  | { type: "answered"; question: string }
  | { type: "toast"; toast: Toast | null }
  | { type: "saving"; saving: boolean }
  | { type: "connected"; connected: boolean }
  | { type: "gone"; reason: string }
  | { type: "theme"; theme: Theme };

export function reduce(state: State, action: Action): State {
  switch (action.type) {
    case "files":
      return { ...state, files: action.files };
    case "catalogue":
      return { ...state, catalogue: new Map(action.types.map((each) => [each.type, each])) };
    case "opening":
      return { ...state, opening: action.path };
    case "opened":
      return {
        ...state, opening: null, laying: false, document: action.document, positions: action.positions, selection: NOTHING,
        overlay: null, run: null, runs: NO_RUNS, busy: [], breakpoints: [], pinned: NO_PINS, inputs: {}, chat: { ...SILENT, ...action.chat }, dialog: null, toast: null,
      };
    case "closed":
      return { ...state, document: null, overlay: null, run: null, selection: NOTHING, dialog: null, opening: null, toast: null };
    case "document":
      return withDocument(state, action.document, action.at ?? {});
    case "disk":
      return state.document ? { ...state, document: { ...state.document, disk: action.disk } } : state;
    case "move":
      return { ...state, positions: { ...state.positions, ...action.positions } };
    case "laid":
      return action.positions
        ? { ...state, laying: false, positions: action.positions, layouts: state.layouts + 1 }
        : { ...state, laying: false };
    case "laying":
      return { ...state, laying: true };
    case "select":
      return same(state.selection, action.selection) ? state : { ...state, selection: action.selection, folded: seeing(state, action.selection) };
    case "write-note":
      return { ...state, writingNote: action.note };
    case "folded":
      return { ...state, folded: action.folded };
    case "panel":
      return state.panel === action.panel ? state : { ...state, panel: action.panel };
    case "palette":
      return { ...state, palette: action.open };
    case "dialog":
      return { ...state, dialog: action.dialog };
    case "overlay": {
      if (!action.overlay) return { ...state, overlay: null };
      const positions = placed(action.overlay.document, state.positions);
      return { ...state, overlay: action.overlay, positions, selection: NOTHING };
    }
    case "chat":
      return { ...state, chat: { ...state.chat, lines: [...state.chat.lines, action.line] } };
    case "chatting":
      return { ...state, chat: { ...state.chat, busy: action.busy } };
    case "writing":
      return { ...state, chat: { ...state.chat, text: action.text } };
    case "planned":
      return { ...state, chat: { ...state.chat, plan: action.plan } };
    case "input":
      return { ...state, inputs: { ...state.inputs, [action.name]: action.value } };
    case "model":
      return { ...state, model: action.name };
    case "run":
      return { ...state, run: action.run, ran: contentsOf(state.document), stale: new Set() };
    case "runs":
      return { ...state, runs: { rows: action.rows, note: action.note } };
    case "breakpoints":
      return { ...state, breakpoints: action.breakpoints };
    case "pinned":
      return { ...state, pinned: action.pinned };
    case "busy":
      return { ...state, busy: action.busy };
    case "tests":
      return { ...state, tests: state.tests + 1 };
    case "picture":
      return state.run?.id === action.run ? { ...state, ...since(state, action.picture.changed), run: merged(state.run, action.picture) } : state;
    case "running":
      return state.run?.id === action.run ? { ...state, run: { ...state.run, connected: action.connected } } : state;
    case "answered":
      return state.run ? { ...state, run: answered(state.run, action.question) } : state;
    case "toast":
      return { ...state, toast: action.toast };
    case "saving":
      return state.saving === action.saving ? state : { ...state, saving: action.saving };
    case "connected":
      return state.connected === action.connected ? state : { ...state, connected: action.connected };
    case "gone":
      return { ...state, gone: action.reason };
    case "theme":
      return { ...state, theme: action.theme };
  }
}

/** The folded containers without those that hide a selected node. */
function seeing(state: State, { nodes }: Selection): ReadonlySet<string> {
  const document = state.folded.size ? shownDocument(state) : null;
  const around = new Set(document && nodes.flatMap((id) => aroundOf(document, id)));
  return [...state.folded].some((id) => around.has(id)) ? new Set([...state.folded].filter((id) => !around.has(id))) : state.folded;
}

/** A newer document: unchanged nodes stay the same objects, so that only the others are drawn anew. */
function withDocument(state: State, document: Document, at: Positions): State {
  const known = new Map(state.document?.nodes.map((node) => [node.id, [node, JSON.stringify(node)] as const]));
  const nodes = document.nodes.map((node) => {
    const before = known.get(node.id);
    return before && before[1] === JSON.stringify(node) ? before[0] : node;
  });
  const now = { ...document, nodes };
  const ids = new Set([...nodes.map((node) => node.id), ...document.sticky_notes.map(canvasId)]);
  const edges = new Set(document.edges.map(edgeId));
  return {
    ...state,
    document: now,
    stale: state.run ? staleIn(now, state.ran) : state.stale,
    overlay: null,
    positions: placed(now, { ...state.positions, ...at }),
    selection: {
      nodes: state.selection.nodes.filter((id) => ids.has(id)),
      edges: state.selection.edges.filter((id) => edges.has(id)),
    },
  };
}

export const edgeId = (edge: { source: string; port: number; target: string }): string =>
  `${edge.source}:${edge.port}>${edge.target}`;

const same = (one: Selection, other: Selection): boolean =>
  one.nodes.join("\n") === other.nodes.join("\n") && one.edges.join("\n") === other.edges.join("\n");

/** The document that is drawn: that of the overlay, where there is one. */
export const shownDocument = (state: State): Document | null => state.overlay?.document ?? state.document;

/** The node that the inspector shows: the only one selected. */
export const inspected = (state: State): string | null => {
  const [id, ...others] = state.selection.nodes;
  return id === undefined || others.length || isNote(id) ? null : id;
};
