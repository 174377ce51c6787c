// What the page does: each command asks the server and hands the answer to the store.

import { type ChangedPart, type Document, type Exported, type Fields, type Json, type Models, type Operation, type PinnedValues, type RunRow, type StickyNote } from "./types";
import { type Adding, type Copied, type NewPart, added, addedOperator, copied, pasting, readCopied, removing } from "./operations";
import { adding, canvasId, copiedNotes, freePlace, isNote, moving, noteId, removingNotes } from "./notes";
import { filling, resulting } from "./starting";
import { type Alignment, aligned } from "./align";
import { grouping, ungroupable } from "./group";
import { type Layout } from "./layout";
import { type Theme, setTheme } from "../shared/theme";
import type { ChatLine, ChatState, Panel, Positions } from "./state";
import { AROUND, GAP_X, type Point, WIDTH, besideOf, clearOf, overlapping, placed } from "./place";
import type { Store } from "./store";
import { Refused, api, chat, followChanges, followRun } from "./api";
import { started } from "./run";
import { rememberRun, rememberedRun, remembered, remember } from "./remember";
import { createTurns } from "./turns";
import { type Wanted, pathNamed } from "./address";
import { keep, keepUnsent, kept, takeUnsent } from "./unsent";
import { overlayOf } from "./changes";

/**
 * Milliseconds for which the first canvas waits for its layout; until it comes, nodes stand in simple columns. A worker that
 * runs answers in time; one that begins with the page needs some 300 ms, which nobody should wait for.
 */
const PATIENCE = 80;

const PROPOSED = "Proposed by the chat";

const addressOf = (path: string): string => `#file=${encodeURIComponent(path)}`;
/** States in which a run of the file waits for somebody: the newest is shown when the file is opened. */
const UNFINISHED = ["running", "asking", "interrupted"];

const after = (milliseconds: number): Promise<null> => new Promise((done) => setTimeout(() => done(null), milliseconds));

/** What a run was of, if it was not the whole workflow. */
export function whatRan(document: Document, only = "", from = ""): string {
  const title = (id: string): string => document.nodes.find((node) => node.id === id)?.name ?? id;
  return only ? `${title(only)} alone` : from ? `from ${title(from)}` : "";
}

export type Commands = ReturnType<typeof createCommands>;

export function createCommands(store: Store, layout: Layout) {
  const { dispatch } = store;
  let stopRun: (() => void) | null = null;
  let chatting: AbortController | null = null;
  let models: Promise<Models | undefined> | null = null;
  const { say, refused, inTurn, quietly, tooLate } = createTurns(store);

  const current = () => {
    const { document } = store.get();
    if (!document) throw new Refused("no file is open", 0);
    return document;
  };

  /** Have the server change the document, and show what it answers. */
  const changing = (work: (document: Document) => Promise<Document> | null): Promise<boolean | undefined> =>
    inTurn(async () => {
      const document = await work(current());
      if (document) dispatch({ type: "document", document });
      return document !== null;
    });

  const keepPositions = (): void => {
    const { document, positions } = store.get();
    if (document) remember(document, positions);
  };

  const tell = (line: ChatLine): void => dispatch({ type: "chat", line });

  let keptChat: ChatState | null = null;
  store.listen(() => {
    const { chat: now, document } = store.get();
    if (!document || now === keptChat) return;
    keptChat = now;
    keep("chat", document.path, now);
  });
  /** Show the pinned values of the file; what was dropped is said. */
  const heard = (pinned: PinnedValues): void => {
    dispatch({ type: "pinned", pinned });
    if (pinned.dropped.length) say(`Unpinned, as the node is gone: ${pinned.dropped.join(", ")}.`);
  };

  /** Show a run on the canvas, and follow it to its end. */
  const showRun = (id: string, what: string): void => {
    stopRun?.();
    dispatch({ type: "run", run: started(id, what) });
    dispatch({ type: "panel", panel: "run" });
    rememberRun(current().path, id);
    const stop = followRun(
      id,
      (picture) => {
        dispatch({ type: "picture", run: id, picture });
        if (picture.ended) stop();
      },
      (connected) => dispatch({ type: "running", run: id, connected }),
    );
    stopRun = stop;
  };

  const commands = {
    say,

    // Files

    files: () =>
      quietly(async () => {
        dispatch({ type: "files", files: await api.files() });
      }),

    catalogue: () =>
      quietly(async () => {
        dispatch({ type: "catalogue", types: await api.catalogue() });
      }),

    async open(path: string, asked?: Promise<Document>): Promise<void> {
      dispatch({ type: "opening", path });
      layout.warm();
      const document = await quietly(() => asked ?? api.open(path));
      if (!document) {
        dispatch({ type: "opening", path: null });
        const shown = store.get().document;
        history.replaceState(null, "", shown ? addressOf(shown.path) : location.pathname);
        void commands.files();
        return;
      }
      const known = remembered(document);
      const drawn = !overlapping(document); // where the file says it
      const strange = document.nodes.filter((node) => !known[node.id] && !(drawn && node.position)).length;
      const laying = strange > document.nodes.length / 2 ? layout(document).catch(() => null) : null;
      const inTime = laying && (await Promise.race([laying, after(PATIENCE)]));
      const positions = inTime ?? placed(document, known);
      const said = kept<ChatState>("chat", path);
      dispatch({ type: "opened", document, positions, chat: said && { ...said, busy: false } });
      dispatch({ type: "panel", panel: null });
      dispatch({ type: "folded", folded: new Set(kept<string[]>("folded", path) ?? []) });
      if (said?.busy) tell({ who: "error", text: "The page was left before the answer came. Say it again." });
      if (said) void commands.restoreDraft();
      if (pathNamed() !== path) history.pushState(null, "", addressOf(path));
      void commands.pins();
      dispatch({ type: "breakpoints", breakpoints: kept<string[]>("breakpoints", path) ?? [] });
      const unsent = takeUnsent(path);
      if (unsent.length) void commands.edit(unsent);
      void commands.runs().then((rows) => {
        const goes = rows?.find((row) => UNFINISHED.includes(row.state));
        const shown = rows?.find((row) => row.id === rememberedRun(path)) ?? (goes && goes === rows?.[0] ? goes : undefined);
        if (!shown || store.get().document?.path !== path || store.get().run) return;
        const { panel, selection } = store.get();
        commands.showRun(shown);
        if (selection.nodes.length) commands.panel(panel); // that of a node which was selected meanwhile
      });
      if (!laying || inTime) return;
      dispatch({ type: "laying" });
      const laid = await laying;
      const untouched = store.get().positions === positions && store.get().document === document;
      dispatch({ type: "laid", positions: untouched ? laid : null });
    },

    async make(body: Record<string, Json>): Promise<string | undefined> {
      const made = await quietly(() => api.make(body));
      if (made) await commands.open(made.path);
      const { document } = store.get();
      const only = document?.path === made?.path && document?.nodes.length === 1 ? document?.nodes[0] : undefined;
      if (only) {
        commands.select([only.id]);
        commands.panel("inspector");
      }
      return made?.path;
    },

    close(): void {
      chatting?.abort();
      stopRun?.();
      dispatch({ type: "closed" });
      if (pathNamed() !== null) history.pushState(null, "", location.pathname);
      void commands.files();
    },

    /** Show the node that a link of the run page names, with the run panel to run from there again. */
    arrive({ node, then }: Wanted): void {
      const { document } = store.get();
      if (!document) return;
      history.replaceState(null, "", addressOf(document.path));
      if (!node) return;
      if (!document.nodes.some((each) => each.id === node)) return say(`The file has no node "${node}" any more.`, "error");
      commands.select([node]);
      commands.panel(then === "rerun" ? "run" : "inspector");
    },

    /** Show what the address names, after the browser went back or forth. */
    visit(): void {
      const path = pathNamed();
      const shown = store.get().document?.path ?? null;
      if (path === shown) return;
      if (path === null) commands.close();
      else void commands.open(path);
    },

    // Edits

    /** Apply operations; a function gets the document as it is when their turn comes. */
    edit: (given: Operation[] | ((document: Document) => Operation[]), at: (document: Document) => Positions = () => ({})) => {
      const open = store.get().document;
      if (open && tooLate()) {
        keepUnsent(open.path, typeof given === "function" ? given(open) : given);
        return Promise.resolve(undefined);
      }
      return inTurn(async () => {
        const operationsFor = (document: Document): Operation[] => (typeof given === "function" ? given(document) : given);
        const before = current();
        const operations = operationsFor(before);
        if (!operations.length) return undefined;
        let document;
        try {
          document = await api.apply(before.path, before.version, operations);
        } catch (error) {
          if (!(error instanceof Refused && error.status === 409 && error.document)) throw error;
          dispatch({ type: "document", document: error.document });
          const again = operationsFor(error.document);
          if (!again.length) return undefined;
          document = await api.apply(before.path, error.document.version, again);
          say("The workflow was changed elsewhere; your change was applied to the newest version.");
        }
        dispatch({ type: "document", document, at: at(document) });
        keepPositions();
        return document;
      });
    },

    undo: () => changing(({ path, version, undo }) => (undo ? api.undo(path, version) : null)),
    redo: () => changing(({ path, version, redo }) => (redo ? api.redo(path, version) : null)),
    goto: (step: number) => changing(({ path, version }) => api.goto(path, version, step)),
    nameStep: (step: number, name: string) => changing(({ path }) => api.name(path, step, name)),
    restore: () => changing(({ path }) => api.restore(path)),
    fix: (issue: number) => changing(({ path, version }) => api.fix(path, version, issue)),

    compare: (from: number, to: number) => inTurn(async () => {
      const document = current();
      const changes = await api.compare(document.path, from, to);
      const title = `Step ${from} compared with step ${to}`;
      dispatch({ type: "overlay", overlay: overlayOf("compare", title, changes, document, document) });
    }),

    async add(type: string, options: Adding = {}): Promise<string | undefined> {
      let made = "";
      const at: Record<string, Point> = {};
      const done = await commands.edit((document) => {
        const { catalogue, positions } = store.get();
        const { id, operations, place } = added(document, catalogue, positions, type, options);
        made = id;
        if (place) at[id] = place;
        return operations;
      }, () => at);
      if (!done?.nodes.some((node) => node.id === made)) return undefined;
      commands.select([made]);
      void commands.edit((document) => resulting(document, made));
      return made;
    },

    /** Add an operator or an evaluator to an expert (after another one, into an edge, or as the beginning of a chain), an expert, or the leader. */
    async addOperator(said: NewPart): Promise<string | undefined> {
      const before = new Set(store.get().document?.nodes.map((node) => node.id));
      const done = await commands.edit((document) => addedOperator(document, said));
      const made = done?.nodes.find((node) => !before.has(node.id))?.id;
      if (made) commands.select([made]);
      return made;
    },

    /** Give a node another title, or an operator of an expert another name; the id that it has then. */
    async rename(node: string, name: string): Promise<string | undefined> {
      const { document, positions } = store.get();
      if (document?.kind === "workflow") {
        const done = await commands.edit([{ op: "rename_node", node, title: name }]);
        const kept = done?.nodes.find((each) => each.id === node)?.given_title === name;
        if (done && !kept) say("This file has no place for a name of this node.", "error");
        return kept ? node : undefined;
      }
      const before = new Set(document?.nodes.map((each) => each.id));
      const fresh = node.includes("/") ? node.replace(/[^/]*$/, name) : name;
      const at = positions[node];
      const done = await commands.edit([{ op: "set", node, path: "name", value: name }], () => (at ? { [fresh]: at } : {}));
      const made = done?.nodes.find((each) => !before.has(each.id))?.id;
      if (made) commands.select([made]);
      return made;
    },

    remove(): void {
      const { document, selection } = store.get();
      if (!document || document.readonly) return;
      void commands.edit((now) => [...removing(now, selection.nodes, selection.edges), ...removingNotes(selection.nodes)]);
    },

    // Sticky notes

    /** Add a note above everything, and begin to write it. */
    async addNote(): Promise<void> {
      const { document } = store.get();
      if (!document || document.readonly || document.kind !== "workflow") return;
      let made: string | undefined;
      const done = await commands.edit((now) => {
        const { x, y } = freePlace(now, store.get().positions);
        const { ids, operations } = adding(now, [{ text: "", color: "yellow", at: [x, y], size: [240, 120] }]);
        [made] = ids;
        return operations;
      });
      if (!done || !made) return;
      if (!done.sticky_notes.some((note) => canvasId(note) === made)) say("This file has no place for notes.", "error");
      else {
        commands.select([made]);
        commands.writeNote(made);
      }
    },

    setNote: (id: string, fields: Partial<Omit<StickyNote, "id">>) => commands.edit([{ op: "set_note", id: noteId(id), ...fields }]),

    writeNote: (note: string | null) => dispatch({ type: "write-note", note }),

    connect: (source: string, port: number, target: string) =>
      commands.edit((document) => {
        const type = store.get().catalogue.get(document.nodes.find((node) => node.id === target)?.type ?? "");
        return [{ op: "connect", source, target, port }, ...filling(document, type, source, port, target)];
      }),

    paste(text: string): void {
      const from = readCopied(text);
      if (from) void commands.pasted(from);
    },

    async pasted(from: Copied): Promise<void> {
      const at: Record<string, Point> = {};
      let made: string[] = [];
      const copiedIds = new Set(from.nodes.map((node) => node.id));
      const done = await commands.edit((document) => {
        const { ids, operations } = pasting(document, from);
        const { positions } = store.get();
        for (const [old, id] of ids) {
          const known = positions[old];
          if (known) at[id] = copiedIds.has(from.nodes.find((node) => node.id === old)?.parent ?? "") ? known : { x: known.x + 40, y: known.y + 60 };
        }
        const notes = adding(document, from.notes ?? []);
        made = [...ids.values(), ...notes.ids];
        return [...operations, ...notes.operations];
      }, (now) => clearOf(now, store.get().positions, at));
      if (done) commands.select(made);
    },

    duplicate(): void {
      const { document, selection } = store.get();
      if (document && selection.nodes.length) void commands.pasted({ ...copied(document, selection.nodes), notes: copiedNotes(document, store.get().positions, selection.nodes) });
    },

    /** Put the selected nodes into a new container, which comes where they stood. */
    async group(type: string): Promise<void> {
      const { document, selection, catalogue } = store.get();
      const kind = catalogue.get(type);
      if (!document || !kind || document.readonly) return;
      const fault = ungroupable(document.nodes.filter((node) => selection.nodes.includes(node.id)));
      if (fault) {
        say(fault, "error");
        return;
      }
      let made = "";
      const at: Record<string, Point> = {};
      const done = await commands.edit((now) => {
        const { id, ids, operations } = grouping(now, kind, selection.nodes);
        const { positions } = store.get();
        const places = selection.nodes.flatMap((each) => positions[each] ?? []);
        const [left, top] = [Math.min(...places.map((each) => each.x)), Math.min(...places.map((each) => each.y))];
        made = id;
        at[id] = { x: left, y: top };
        at[`${id}-1`] = { x: AROUND.left, y: AROUND.top };
        for (const [old, fresh] of ids) {
          const known = positions[old];
          const moved = selection.nodes.includes(old); // what is inside of a moved container stays in its place there
          if (known) at[fresh] = moved ? { x: known.x - left + AROUND.left + WIDTH + GAP_X, y: known.y - top + AROUND.top } : known;
        }
        return operations;
      }, () => at);
      if (!done) return;
      const { positions } = store.get();
      const moved = besideOf(done, positions, made);
      if (Object.keys(moved).length) {
        dispatch({ type: "laid", positions: { ...positions, ...moved } });
        keepPositions();
      }
      commands.select([made]);
    },

    // The canvas

    select: (nodes: readonly string[], edges: readonly string[] = []) => dispatch({ type: "select", selection: { nodes, edges } }),

    /** Hide what is inside of a container, or show it again. */
    fold(id: string): void {
      const folded = new Set(store.get().folded);
      if (!folded.delete(id)) folded.add(id);
      dispatch({ type: "folded", folded });
      keep("folded", current().path, [...folded]);
    },

    selectAll(): void {
      const { document } = store.get();
      commands.select(document ? [...document.nodes.map((node) => node.id), ...document.sticky_notes.map(canvasId)] : []);
    },

    move(places: Positions): void {
      const [notes, nodes] = [true, false].map((which) => Object.fromEntries(Object.entries(places).filter(([id]) => isNote(id) === which)));
      if (notes && Object.keys(notes).length) void commands.edit(moving(notes));
      dispatch({ type: "move", positions: nodes ?? {} });
      keepPositions();
    },

    async tidy(): Promise<void> {
      const { document } = store.get();
      if (!document) return;
      const positions = await quietly(() => layout(document));
      if (positions) commands.move(positions);
    },

    align(how: Alignment): void {
      const { document, positions, selection } = store.get();
      if (!document) return;
      commands.move(aligned(document, positions, selection.nodes, how));
    },

    // Chat

    /** Say something in the chat; or build the plan that it shows, with answers to its questions. */
    async chat(text: string, { plan = false, answers }: { plan?: boolean; answers?: readonly string[] } = {}): Promise<void> {
      const { path, version } = current();
      if (text) tell({ who: "person", text });
      dispatch({ type: "chatting", busy: true });
      chatting = new AbortController();
      try {
        const draft = store.get().overlay?.kind === "draft"; // what is said next is about what the canvas shows
        const seen = store.get().chat.plan !== null;
        await chat({ path, version, text, draft, seen, plan, answers }, (message) => {
          const { document } = store.get();
          if (message.kind === "plan") {
            dispatch({ type: "planned", plan: { lines: message.lines ?? [], questions: message.questions ?? [] } });
          } else if (message.kind === "draft" && message.document && message.changes && document) {
            dispatch({ type: "planned", plan: null });
            dispatch({ type: "overlay", overlay: overlayOf("draft", PROPOSED, message.changes, document, message.document) });
          } else if (message.kind !== "done" && message.kind !== "draft") {
            tell({ who: message.kind, text: message.text ?? "", ok: message.ok });
          }
        }, chatting.signal);
      } catch (error) {
        const stage = store.get().chat.lines.findLast((line) => line.who === "stage" || line.who === "person");
        if (error instanceof Refused) tell({ who: "error", text: error.message });
        else if (chatting.signal.aborted) tell({ who: "note", text: `Stopped${stage?.who === "stage" ? ` at: ${stage.text}` : ""}. The file is as it was.` });
        else refused(error);
      } finally {
        dispatch({ type: "chatting", busy: false });
        const { overlay, positions } = store.get();
        if (overlay?.kind === "draft" && overlay.changes.added.length > 3) {
          const laid = await layout(overlay.document).catch(() => positions);
          dispatch({ type: "laid", positions: { ...store.get().positions, ...laid } });
        }
      }
    },

    /** Draw the draft that was shown before the page was reloaded. */
    restoreDraft: () =>
      quietly(async () => {
        const document = current();
        const draft = await api.draft(document.path);
        if (!draft.document || !draft.changes || store.get().document?.version !== document.version) return;
        dispatch({ type: "overlay", overlay: overlayOf("draft", PROPOSED, draft.changes, document, draft.document) });
        dispatch({ type: "panel", panel: "chat" });
      }),

    stopChat: () => chatting?.abort(),

    dropPlan: () => dispatch({ type: "planned", plan: null }),

    async acceptChat(): Promise<void> {
      if (!(await changing(({ path }) => api.acceptChat(path)))) return;
      dispatch({ type: "planned", plan: null });
      tell({ who: "answer", text: "Changes accepted." });
      keepPositions();
    },

    /** Take over one change of the draft, or drop it; the others wait on. */
    decide: (accept: boolean, part: ChangedPart, title: string) =>
      inTurn(async () => {
        const { path } = current();
        const { document, draft } = await api.chatPart(path, accept, part);
        dispatch({ type: "document", document });
        if (draft?.document && draft.changes) {
          dispatch({ type: "overlay", overlay: overlayOf("draft", PROPOSED, draft.changes, document, draft.document) });
        }
        tell({ who: "answer", text: `${accept ? "Accepted" : "Refused"}: ${title}.` });
        keepPositions();
      }),

    async undoChat(): Promise<void> {
      if (!(await changing(({ path }) => api.undoChat(path)))) return;
      dispatch({ type: "planned", plan: null });
      tell({ who: "answer", text: "Changes undone." });
    },

    closeOverlay: () => dispatch({ type: "overlay", overlay: null }),

    // Runs

    /** Let runs wait before a node, or no longer. */
    breakpoint(node: string): void {
      const { breakpoints } = store.get();
      const now = breakpoints.includes(node) ? breakpoints.filter((each) => each !== node) : [...breakpoints, node];
      keep("breakpoints", current().path, now);
      dispatch({ type: "breakpoints", breakpoints: now });
    },

    /** Ask for the pinned values of the file. */
    pins: async (): Promise<void> => {
      const { document } = store.get(); // it may have been closed
      const pinned = document?.kind === "workflow" ? await quietly(() => api.pins(document.path)) : undefined;
      if (pinned && store.get().document?.path === document?.path) heard(pinned);
    },

    /** Let a node give a value in place of running: given outputs over those that it has, or those of the run that is shown. */
    async pin(node: string, outputs?: Fields): Promise<boolean> {
      const pinned = await quietly(() => api.pin({ path: current().path, node, run: store.get().run?.id ?? "", ...(outputs && { outputs }) }));
      if (pinned) heard(pinned);
      return pinned !== undefined;
    },

    unpin: (node: string) => quietly(async () => heard(await api.pin({ path: current().path, node, unpin: true }))),

    reads: (node: string) => quietly(() => api.reads(current().path, node, store.get().run?.id ?? "").then((told) => told.variables)),

    async run(inputs: Record<string, Json>, part: { only?: string; from?: string; given?: Fields; step?: boolean } = {}): Promise<void> {
      const document = current();
      const asked = await quietly(() =>
        api.run({ path: document.path, inputs, model: store.get().model, breakpoints: [...store.get().breakpoints], ...part }).catch((error: unknown) => {
          if (error instanceof Refused && document.issues.some(({ severity, what }) => severity === "error" && error.message.includes(what))) {
            commands.panel("issues");
            return void say("The run did not start: correct the issues first.", "error");
          }
          if (!(error instanceof Refused && error.busy.length)) throw error;
          dispatch({ type: "busy", busy: error.busy });
          return undefined;
        }),
      );
      if (!asked) return;
      dispatch({ type: "busy", busy: [] });
      showRun(asked.run, whatRan(document, part.only, part.from));
    },

    /** Ask for the runs of the file. */
    runs: async (): Promise<readonly RunRow[] | undefined> => {
      const { path } = current();
      const told = await quietly(() => api.runs(path));
      if (told && store.get().document?.path === path) dispatch({ type: "runs", rows: told.runs, note: told.note });
      return told?.runs;
    },

    showRun: (row: RunRow): void => showRun(row.id, whatRan(current(), row.only, row.from)),

    /** Continue a run that no process drives. */
    resumeRun: (row: RunRow) =>
      quietly(async () => {
        await api.resume(row.id);
        commands.showRun(row);
      }),

    cancelRun: (row: RunRow) =>
      quietly(async () => {
        await api.cancel(row.id);
        dispatch({ type: "busy", busy: store.get().busy.filter((each) => each.id !== row.id) });
        await commands.runs();
      }),

    deleteRun: (row: RunRow) =>
      quietly(async () => {
        await api.deleteRun(row.id);
        if (store.get().run?.id === row.id) commands.clearRun();
        await commands.runs();
      }),

    /** Answer a question of the run with JSON text. */
    answer: (question: string, json: string) =>
      quietly(async () => {
        const { run } = store.get();
        if (!run) return;
        await api.answer(run.id, question, json);
        dispatch({ type: "answered", question });
      }),

    cancel: () =>
      quietly(async () => {
        const { run } = store.get();
        if (run) await api.cancel(run.id);
      }),

    clearRun(): void {
      stopRun?.();
      rememberRun(current().path, null);
      dispatch({ type: "run", run: null });
    },

    // Reading

    /** What "fix" would do about each issue, in their order. */
    fixes: () => api.fixes(current().path).catch(() => null),

    last: (node: string, item = "") => quietly(() => api.last(current().path, node, store.get().run?.id ?? "", item)),
    /** The models that can be chosen, asked for once. */
    models: () => (models ??= quietly(() => api.models())),

    model(name: string): void {
      dispatch({ type: "model", name });
      localStorage.setItem("operad-model", name);
    },

    candidates: (node: string) => api.candidates(current().path, node).catch(() => []),
    connectable: (source: string, port: number) =>
      api.connectable(current().path, source, port).catch(() => ({}) as Record<string, string | null>),
    formats: () => quietly(() => api.formats(current().path)),
    exported: (format: string): Promise<Exported | undefined> => quietly(() => api.exported(current().path, format)),

    // The page

    panel: (panel: Panel | null) => dispatch({ type: "panel", panel }),

    theme(theme: Theme): void {
      dispatch({ type: "theme", theme });
      setTheme(theme);
    },

    /** Follow what other tabs and other programs do to the file. */
    follow: (): (() => void) =>
      followChanges(
        (change) => {
          const { document, saving } = store.get();
          if (!document || change.path !== document.path) return;
          if (change.runs) void commands.runs().then(() => commands.pins());
          if (change.tests) dispatch({ type: "tests" });
          if (change.disk && change.disk !== document.disk) dispatch({ type: "disk", disk: change.disk });
          if (change.version !== undefined && change.version > document.version && !saving) {
            void inTurn(async () => {
              if (store.get().document?.version === change.version) return;
              dispatch({ type: "document", document: await api.open(document.path) });
            });
          }
        },
        (connected, refused) => {
          dispatch({ type: "connected", connected });
          if (refused) api.page().catch((error: Refused) => dispatch({ type: "gone", reason: error.message }));
        },
      ),
  };

  return commands;
}

