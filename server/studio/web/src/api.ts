// Requests to the server; all addresses are relative to the page's own.

import { parsed } from "../shared/exact";
import type {
  Candidate, ChangedPart, Changes, ChatMessage, Document, Exported, Fields, Files, Issue, Json, LastRun, Models, NodeType, Operation, PinnedValues, ReadVariable, RunPicture, RunRow,
} from "./types";

/** A refusal by the server, with a sentence for people. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly issues: Issue[] = [],
    readonly document: Document | null = null,
    /** The runs in progress, where they are too many for another. */
    readonly busy: RunRow[] = [],
  ) {
    super(message);
  }
}

export async function answered<Answer>(address: string, options?: RequestInit): Promise<Answer> {
  const response = await sent(address, options);
  return parsed<Answer>(await response.text());
}

async function sent(address: string, options?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Refused("the server cannot be reached; your last change was not saved", 0);
  }
  if (response.ok) return response;
  const told = (await response.json().catch(() => ({}))) as { error?: string; issues?: Issue[]; document?: Document; busy?: RunRow[] };
  throw new Refused(told.error ?? `the server answered ${response.status}`, response.status, told.issues, told.document, told.busy);
}

/** Browsers finish small requests even when the page is left. */
const MOST_KEPT_ALIVE = 60_000;

function posting(text: string): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: text, keepalive: text.length < MOST_KEPT_ALIVE };
}

export const post = <Answer>(address: string, body: unknown): Promise<Answer> => answered<Answer>(address, posting(JSON.stringify(body)));

export const api = {
  /** The page itself, to learn whether this studio still serves it. */
  page: () => sent(""),
  files: () => answered<Files>("data/files"),
  make: (body: Record<string, Json>) => post<{ path: string }>("data/files", body),
  catalogue: () => answered<NodeType[]>("data/catalogue"),
  models: () => answered<Models>("data/models"),
  open: (path: string) => post<Document>("data/open", { path }),
  apply: (path: string, version: number, operations: Operation[]) =>
    post<Document>("data/apply", { path, version, operations }),
  undo: (path: string, version: number) => post<Document>("data/undo", { path, version }),
  redo: (path: string, version: number) => post<Document>("data/redo", { path, version }),
  goto: (path: string, version: number, step: number) => post<Document>("data/goto", { path, version, step }),
  name: (path: string, step: number, name: string) => post<Document>("data/name", { path, step, name }),
  restore: (path: string) => post<Document>("data/restore", { path }),
  compare: (path: string, from: number, to: number) => post<Changes>("data/compare", { path, from, to }),
  candidates: (path: string, node: string) =>
    post<{ variables: Candidate[] }>("data/candidates", { path, node }).then((told) => told.variables),
  connectable: (path: string, source: string, port: number) =>
    post<{ targets: Record<string, string | null> }>("data/connectable", { path, source, port }).then((told) => told.targets),
  fixes: (path: string) =>
    answered<{ version: number; fixes: (string | null)[] }>(`data/fixes?path=${encodeURIComponent(path)}`),
  fix: (path: string, version: number, issue: number) => post<Document>("data/fix", { path, version, issue }),
  draft: (path: string) => answered<Partial<ChatMessage>>(`data/chat?path=${encodeURIComponent(path)}`),
  acceptChat: (path: string) => post<Document>("data/chat/accept", { path }),
  chatPart: (path: string, accept: boolean, part: ChangedPart) =>
    post<{ document: Document; draft: ChatMessage | null }>("data/chat/part", { path, accept, ...part }),
  undoChat: (path: string) => post<Document>("data/chat/undo", { path }),
  run: (body: Record<string, Json>) => post<{ run: string }>("data/run", body),
  runs: (path: string) => answered<{ runs: RunRow[]; note: string }>(`data/runs?path=${encodeURIComponent(path)}`),
  picture: (run: string) => answered<RunPicture>(`data/runs/${encodeURIComponent(run)}`),
  resume: (run: string) => post<Json>(`data/runs/${encodeURIComponent(run)}/resume`, {}),
  deleteRun: (run: string) => post<Json>(`data/runs/${encodeURIComponent(run)}/delete`, {}),
  answer: (run: string, question: string, json: string) =>
    answered<Json>(`data/runs/${encodeURIComponent(run)}/answer`, posting(`{"interrupt_id":${JSON.stringify(question)},"value":${json}}`)),
  cancel: (run: string) => post<Json>(`data/runs/${encodeURIComponent(run)}/cancel`, {}),
  last: (path: string, node: string, run: string, item: string) =>
    answered<LastRun>(`data/last/${encodeURIComponent(node)}?path=${encodeURIComponent(path)}&run=${encodeURIComponent(run)}&item=${encodeURIComponent(item)}`),
  pins: (path: string) => answered<PinnedValues>(`data/pins?path=${encodeURIComponent(path)}`),
  pin: (body: { path: string; node: string; run?: string; outputs?: Fields; unpin?: boolean }) => post<PinnedValues>("data/pins", body),
  reads: (path: string, node: string, run: string) =>
    answered<{ variables: ReadVariable[] }>(`data/reads/${encodeURIComponent(node)}?path=${encodeURIComponent(path)}&run=${encodeURIComponent(run)}`),
  formats: (path: string) =>
    answered<{ formats: { name: string; title: string }[] }>(`data/export?path=${encodeURIComponent(path)}`).then((told) => told.formats),
  exported: (path: string, format: string) =>
    answered<Exported>(`data/export?path=${encodeURIComponent(path)}&format=${encodeURIComponent(format)}`),
};

/** Say something in the chat, and hear the stages of the answer. */
export async function chat(
  body: { path: string; version: number; text: string; draft: boolean; seen: boolean; plan: boolean; answers?: readonly string[] }, heard: (message: ChatMessage) => void, signal: AbortSignal,
): Promise<void> {
  const response = await sent("data/chat", { ...posting(JSON.stringify(body)), signal });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split(/\r?\n\r?\n/);
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data) heard(parsed<ChatMessage>(data));
    }
  }
}

type Connected = (yes: boolean, refused: boolean) => void;

/** Follow a stream of the server; the browser reconnects by itself unless the server refuses it. Returns a function that ends it. */
function followed<Message>(address: string, heard: (message: Message) => void, connected: Connected): () => void {
  const source = new EventSource(address);
  source.onopen = () => connected(true, false);
  source.onerror = () => connected(false, source.readyState === EventSource.CLOSED);
  source.onmessage = (event: MessageEvent<string>) => {
    if (event.data) heard(parsed<Message>(event.data));
  };
  return () => source.close();
}

export const followRun = (run: string, heard: (picture: RunPicture) => void, connected: Connected): (() => void) =>
  followed(`data/runs/${encodeURIComponent(run)}/changes`, heard, connected);

export type OutsideChange = { path: string; version?: number; disk?: "same" | "changed" | "gone"; runs?: true; tests?: true };

export const followChanges = (heard: (change: OutsideChange) => void, connected: Connected): (() => void) =>
  followed("data/changes", heard, connected);
