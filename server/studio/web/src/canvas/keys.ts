// Keys: which command each one gives. Letters count only where nobody is typing.

import type { Commands } from "../commands";
import { absolute, sizes } from "../place";
import { copiedNotes, isNote, notePlaces } from "../notes";
import { copied } from "../operations";
import { type Panel, type State, inspected, shownDocument } from "../state";
import type { Store } from "../store";

export const KEYS: readonly (readonly [string, string])[] = [
  ["Tab, arrows", "Go from node to node"],
  ["Shift + arrows", "Select more nodes"],
  ["Alt + arrows", "Move the selected nodes"],
  ["Enter", "Open the inspector; Escape goes back to the canvas"],
  ["/", "Add a node, after the selected one or in the selected edge"],
  ["Ctrl + F", "Find a node by its name, or by what it says; the outline"],
  ["c", "Connect the selected node"],
  ["F2, double click", "Rename the node"],
  ["n", "Add a note to the canvas"],
  ["b", "Let runs wait before the selected node, or no longer"],
  ["Delete", "Remove what is selected"],
  ["Ctrl + Z, Shift + Ctrl + Z", "Undo, redo"],
  ["Ctrl + C, X, V, D", "Copy, cut, paste, duplicate"],
  ["Ctrl + A", "Select everything"],
  ["Ctrl + Enter", "Open the run form; run it"],
  ["f, t", "Fit the graph; tidy it up"],
  ["+, −", "Zoom"],
  ["i, h, m", "Issues, history, chat"],
  ["?", "These keys"],
];

export interface View {
  fit(): void;
  zoomIn(): void;
  zoomOut(): void;
  reveal(id: string): void;
}

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.closest("input, textarea, select, dialog, [data-typing]") !== null);

/** Handle a key of the whole page; true if it was one. */
export function pageKey(event: KeyboardEvent, store: Store, commands: Commands, view: View): boolean {
  const state = store.get();
  if (!state.document || state.dialog) return false;
  const inside = event.composedPath()[0] ?? null;
  const busy = typing(event.target) || typing(inside);
  const control = event.ctrlKey || event.metaKey;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (control && key === "Enter") {
    const form = event.target instanceof Element ? event.target.closest<HTMLFormElement>(".run form") : null;
    if (form) form.requestSubmit();
    else if (!state.document.runs) commands.say(`Cannot run: ${state.document.readonly}`, "error");
    else openPanel("run", ".run form", commands);
    return true;
  }
  if (control && key === "f") {
    store.dispatch({ type: "dialog", dialog: { kind: "find" } });
    return true;
  }
  if (event.key === "Escape" && busy) {
    focusNode(inspected(state));
    return true;
  }
  if (busy) return false;
  if (control) {
    if (key === "z") void (event.shiftKey ? commands.redo() : commands.undo());
    else if (key === "y") void commands.redo();
    else if (key === "a") commands.selectAll();
    else if (key === "d") commands.duplicate();
    else return false;
    return true;
  }
  if (event.altKey && event.key.startsWith("Arrow")) return nudge(event.key, state, commands);
  if (event.altKey) return false;
  switch (key) {
    case "/":
      if (state.document.readonly ?? state.overlay) return false;
      store.dispatch({ type: "dialog", dialog: adding(state) });
      return true;
    case "?":
      store.dispatch({ type: "dialog", dialog: { kind: "help" } });
      return true;
    case "c": {
      const source = inspected(state);
      if (source && !state.document.readonly && !state.overlay) store.dispatch({ type: "dialog", dialog: { kind: "connect", source } });
      else if (!source) commands.say("Select one node to connect it.");
      return true;
    }
    case "n":
      if (state.document.readonly ?? state.overlay) return false;
      void commands.addNote();
      return true;
    case "b": {
      const node = inspected(state);
      if (!node || state.document.kind !== "workflow") return false;
      commands.breakpoint(node);
      return true;
    }
    case "F2": {
      const node = inspected(state);
      if (!node || !renamable(state, node)) return false;
      store.dispatch({ type: "dialog", dialog: { kind: "rename", node } });
      return true;
    }
    case "f":
      view.fit();
      return true;
    case "t":
      void commands.tidy().then(() => view.fit());
      return true;
    case "+":
    case "=":
      view.zoomIn();
      return true;
    case "-":
      view.zoomOut();
      return true;
    case "i":
      openPanel("issues", ".issues", commands);
      return true;
    case "h":
      openPanel("history", ".history", commands);
      return true;
    case "m":
      openPanel("chat", ".say", commands);
      return true;
    case "Delete":
    case "Backspace":
      if (onCanvas(event)) {
        commands.remove();
        return true;
      }
      return false;
    case "Escape":
      if (state.overlay?.kind === "compare") commands.closeOverlay();
      else commands.select([]);
      return true;
    default:
      return onCanvas(event) && canvasKey(event, state, commands, view);
  }
}

/** Whether a person can give a node another name: experts and the leader are named in their forms. */
export const renamable = (state: State, id: string): boolean => {
  const node = state.document?.nodes.find((each) => each.id === id);
  return !!node && node.type !== "expert" && node.type !== "leader" && !state.document?.readonly && !state.overlay;
};

/** Open a panel, and focus its first field. */
export function openPanel(panel: Panel, within: string, commands: Commands): void {
  commands.panel(panel);
  focusIn(within);
}

/** Focus the first field of a part of the page, once it is drawn; again where an editor takes the place of a plain field. */
function focusIn(within: string, from: Element | null = document.activeElement, frames = 40): void {
  requestAnimationFrame(() => {
    const fields = ["input", "textarea", "select", "button", ".code-field"].map((each) => `${within} ${each}:not(:disabled, details:not([open]) *)`);
    const here = document.activeElement;
    const field = document.querySelector<HTMLElement>(fields.join(", "));
    // In an editor the text, not the box around it that scrolls.
    if (here === from || here === document.body) (field?.shadowRoot?.querySelector<HTMLElement>(".cm-content") ?? field)?.focus();
    else if (!here?.closest(within)) return; // a person has gone elsewhere
    const there = document.activeElement?.closest(within) !== null; // from now on only what was lost is taken back
    if (frames > 0) focusIn(within, there ? null : from, frames - 1);
  });
}

/** Where a new node comes: into the selected edge, after the selected node, or anywhere. */
export const adding = (state: State): { kind: "palette"; source?: string; edge?: string } => {
  const [edge] = state.selection.edges;
  const source = inspected(state);
  return edge ? { kind: "palette", edge } : source ? { kind: "palette", source } : { kind: "palette" };
};

const onCanvas = (event: KeyboardEvent): boolean =>
  event.target === document.body || (event.target instanceof Element && event.target.closest(".canvas") !== null && !event.target.closest("button"));

function canvasKey(event: KeyboardEvent, state: State, commands: Commands, view: View): boolean {
  const [note] = state.selection.nodes;
  if (event.key === "Enter" && note && isNote(note) && !state.document?.readonly && !state.overlay) {
    commands.writeNote(note);
    return true;
  }
  if (event.key === "Enter" && inspected(state)) {
    commands.panel("inspector");
    focusIn(".inspector [data-first]");
    return true;
  }
  if (!event.key.startsWith("Arrow")) return false;
  const here = state.selection.nodes.at(-1) ?? null;
  const next = neighbour(state, here, event.key);
  if (next) {
    commands.select(event.shiftKey ? [...new Set([...state.selection.nodes, next])] : [next]);
    focusNode(next);
    view.reveal(next);
  }
  return true;
}

const STEPS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function nudge(key: string, state: State, commands: Commands): boolean {
  const [x, y] = STEPS[key] ?? [0, 0];
  const notes = state.document ? notePlaces(state.document, state.positions) : {};
  commands.move(Object.fromEntries(state.selection.nodes.flatMap((id) => {
    const at = state.positions[id] ?? notes[id];
    return at ? [[id, { x: at.x + x * 16, y: at.y + y * 16 }]] : [];
  })));
  return true;
}

/** The node that is nearest in a direction; the leftmost one from nowhere. */
function neighbour(state: State, from: string | null, key: string): string | null {
  const document = shownDocument(state);
  if (!document?.nodes.length) return null;
  const measured = sizes(document, state.positions);
  const centres = document.nodes.map((node) => {
    const at = absolute(document, state.positions, node.id);
    const size = measured.get(node.id) ?? { width: 0, height: 0 };
    return { id: node.id, x: at.x + size.width / 2, y: at.y + Math.min(size.height, 90) / 2 };
  });
  const here = centres.find((centre) => centre.id === from);
  if (!here) return centres.reduce((one, other) => (other.x < one.x ? other : one)).id;
  const [x, y] = STEPS[key] ?? [0, 0];
  const inside = centres.filter((centre) => document.nodes.find((node) => node.id === centre.id)?.parent === from);
  if (inside.length && (x > 0 || y > 0)) return inside.reduce((one, other) => (other.x < one.x ? other : one)).id;
  const around = document.nodes.find((node) => node.id === from)?.parent ?? null; // gone to where nothing else is
  let best: { id: string; cost: number } | null = null;
  for (const centre of centres) {
    const along = (centre.x - here.x) * x + (centre.y - here.y) * y;
    const across = Math.abs((centre.x - here.x) * y) + Math.abs((centre.y - here.y) * x);
    if (centre.id === from || centre.id === around || along < 8) continue;
    const cost = along + across * 2.5;
    if (!best || cost < best.cost) best = { id: centre.id, cost };
  }
  return best?.id ?? around;
}

export function focusNode(id: string | null): void {
  const found = id ? document.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(id)}"]`) : null;
  (found ?? document.querySelector<HTMLElement>(".canvas"))?.focus({ preventScroll: true });
}

/** Focus a node that is about to be drawn: hidden until it is measured, it takes no focus. */
export function focusDrawn(id: string, frames = 40): void {
  focusNode(id);
  if (frames > 0 && !document.activeElement?.matches(`.react-flow__node[data-id="${CSS.escape(id)}"]`)) {
    requestAnimationFrame(() => focusDrawn(id, frames - 1));
  }
}

/** Copy, cut and paste of nodes, through the clipboard events of the browser. */
export function clipboard(event: ClipboardEvent, store: Store, commands: Commands): void {
  const state = store.get();
  if (!state.document || state.dialog || typing(event.target) || typing(event.composedPath()[0] ?? null)) return;
  if (event.type === "paste") {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (state.document.readonly || !text.includes('"operad"')) return;
    commands.paste(text);
  } else {
    if (!state.selection.nodes.length || String(getSelection() ?? "")) return;
    event.clipboardData?.setData("text/plain", JSON.stringify({ ...copied(state.document, state.selection.nodes), notes: copiedNotes(state.document, state.positions, state.selection.nodes) }));
    if (event.type === "cut") commands.remove();
  }
  event.preventDefault();
}
