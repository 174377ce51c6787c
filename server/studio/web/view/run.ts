// A run: its spans, and what they were like at any time. It knows nothing of the page.

import { concerns } from "../shared/faults";
import type { Usage } from "../shared/numbers";
import type { Graph, Path, Picture, Span } from "./data";

const APART = new Set(["round", "item", "operator"]);
export const NUMBER = /\[\d+\]$/;
export const keyOf = (path: Path): string => JSON.stringify(path);
export const placeOf = (path: Path): string[] => path.map((part) => part.replace(NUMBER, ""));

export class Run {
  id = "";
  workflow = "";
  goal = "";
  inputs = "";
  studio = "";
  version = 0;
  now = 0;
  ended = false;
  /** Whether its events end before it does. */
  cut = false;
  note = "";
  can: readonly string[] = [];
  heard = 0;
  graphs: Record<string, Graph> = {};
  critical = new Set<number>();
  titles: Record<string, string> = {};
  spans: Span[] = [];
  /** The spans right inside of a span, by its id. */
  inside = new Map<number | null, Span[]>();
  /** The spans of an operator, one per round, by the key of its path. */
  byPath = new Map<string, Span[]>();
  /** The rounds of a workflow, by the key of its path. */
  rounds = new Map<string, Span[]>();
  questions: Span[] = [];
  /** The calls of tools that failed inside of a span, however deep, by its id. */
  private failures = new Map<number, Span[]>();
  /** Grows when the graph has to be laid out anew. */
  shape = 0;
  private followed: Set<string> | null = null;

  private clear(): void {
    Object.assign(this, new Run(), { shape: this.shape });
  }

  /** Take in a picture, whole or of what has changed. */
  merge(picture: Picture): void {
    if (picture.reset && this.version) this.clear();
    Object.assign(this, {
      id: picture.run_id, workflow: picture.workflow, goal: picture.goal, inputs: picture.inputs,
      version: picture.version, now: picture.now, ended: picture.ended, critical: new Set(picture.critical),
      note: picture.note, can: picture.can, titles: picture.titles ?? {}, studio: picture.studio ?? "",
    });
    this.followed = null;
    this.heard = performance.now();
    if (picture.graphs) {
      this.graphs = picture.graphs;
      this.shape++;
    }
    for (const told of picture.spans) {
      const known = this.spans[told.id];
      if (known) Object.assign(known, told);
      else this.add(told);
      this.owner(known ?? told).changed = picture.version;
      if (told.kind === "tool" && told.state === "failed") this.noteFailure(known ?? told);
    }
  }

  private noteFailure(call: Span): void {
    for (let around = this.parent(call); around; around = this.parent(around)) {
      const failed = listed(this.failures, around.id);
      if (!failed.includes(call)) failed.push(call);
    }
  }

  /** The calls of tools inside of a span that had failed by then. */
  failedCalls(span: Span, time: number): Span[] {
    return (this.failures.get(span.id) ?? []).filter((call) => call.end !== null && call.end <= time);
  }

  private add(span: Span): void {
    span.key = keyOf(span.path);
    this.spans[span.id] = span;
    listed(this.inside, span.parent).push(span);
    if (span.kind === "operator") listed(this.byPath, span.key).push(span);
    if (span.kind === "round") listed(this.rounds, span.key).push(span);
    if (span.kind === "question") this.questions.push(span);
    if (span.kind === "item") this.shape++;
  }

  get root(): Span | undefined {
    return this.spans[0];
  }

  get start(): number {
    return this.root ? this.root.start : 0;
  }

  children(span: Span): readonly Span[] {
    return this.inside.get(span.id) ?? [];
  }

  /** What a span did itself: its attempts, pauses, calls and questions, those inside of these included. */
  own(span: Span): Span[] {
    return this.children(span).filter((each) => !APART.has(each.kind)).flatMap((each) => [each, ...this.own(each)]);
  }

  /** The operator, or the run, that a span belongs to. */
  owner(span: Span): Span {
    let owner = span;
    while (owner.parent !== null && !APART.has(owner.kind)) owner = this.spans[owner.parent] ?? this.spans[0]!;
    return owner;
  }

  graphAt(path: Path): Graph | undefined {
    const place = placeOf(path).join("/");
    return Object.hasOwn(this.graphs, place) ? this.graphs[place] : undefined;
  }

  /** The name under which an operator, or an item of a map, is shown: its title if it has one. */
  nameOf(id: string): string {
    const item = NUMBER.exec(id)?.[0] ?? "";
    const own = item ? id.slice(0, -item.length) : id;
    return Object.hasOwn(this.titles, own) ? `${this.titles[own]}${item}` : id;
  }

  namesOf(path: Path): string[] {
    return path.map((id) => this.nameOf(id));
  }

  instructionOf(path: Path): string {
    const instructions = this.graphAt(path.slice(0, -1))?.instructions ?? {};
    const id = path.at(-1) ?? "";
    return Object.hasOwn(instructions, id) ? instructions[id] ?? "" : "";
  }

  items(path: Path, time: number): Span[] {
    const span = latest(this.byPath.get(keyOf(path)), time);
    return span ? this.children(span).filter((each) => each.kind === "item" && each.start <= time) : [];
  }

  /** The edges on the critical path, as two keys of paths: in each round, from an operator to the next that waited for it. */
  get criticalEdges(): ReadonlySet<string> {
    if (this.followed) return this.followed;
    const followed = (this.followed = new Set<string>());
    const chains = new Map<number | null, Span[]>(); // a round's id → its operators on the path
    for (const id of this.critical) {
      const span = this.spans[id];
      if (span?.kind === "operator") listed(chains, span.parent).push(span);
    }
    for (const chain of chains.values()) {
      chain.sort((a, b) => (a.end ?? Infinity) - (b.end ?? Infinity) || a.id - b.id);
      chain.slice(1).forEach((span, at) => followed.add(`${chain[at]?.key} ${span.key}`));
    }
    return followed;
  }

  /** The ids of all spans in which somebody is asked at that time. */
  askingAt(time: number): Set<number> {
    const asking = new Set<number>();
    for (const question of this.questions) {
      if (!isOpen(question, time)) continue;
      for (let span: Span | undefined = question; span; span = this.parent(span)) asking.add(span.id);
    }
    return asking;
  }

  parent(span: Span): Span | undefined {
    return span.parent === null ? undefined : this.spans[span.parent];
  }

  stateOf(span: Span, time: number, asking: ReadonlySet<number>): string {
    if (time < span.start) return "waiting";
    if (!isOpen(span, time)) return span.kind === "round" ? verdictState(span) : span.fell_back && span.state === "done" ? "fell" : span.state;
    if (span.kind === "run" && !span.end && this.cut) return "cut";
    if (asking.has(span.id)) return "asking";
    if (this.children(span).some((each) => each.kind === "pause" && isOpen(each, time))) return "retrying";
    return span.kind === "question" ? "asking" : span.kind === "pause" ? "retrying" : "running";
  }

  /** An operator at a time: its state, and the span that shows it, if it ran by then. */
  at(path: Path, time: number, asking: ReadonlySet<number>): { state: string; span: Span | null } {
    const around = path.slice(0, -1);
    const id = path.at(-1) ?? "";
    const round = latest(this.rounds.get(keyOf(around)), time);
    const span = latest(this.byPath.get(keyOf(path)), time);
    if (!round) return { state: this.over(time) ? "idle" : "waiting", span: null };
    if (span?.parent === round.id) return { state: this.stateOf(span, time, asking), span };
    const judge = this.graphAt(around)?.judges.includes(id);
    const due = judge || !span || ((round.operators ?? []).includes(id) && !(round.kept ?? []).includes(id));
    if (span && !due) return { state: span.state === "skipped" ? "skipped" : "reused", span };
    return { state: isOpen(round, time) && !this.over(time) ? "waiting" : "idle", span: span ?? null };
  }

  /** Whether the last verdict that blamed anybody, by then, blamed this operator: that of its workflow, or of one around it. */
  wasBlamed(path: Path, time: number): boolean {
    return path.some((_, at) => {
      const judged = (this.rounds.get(keyOf(path.slice(0, at))) ?? []).filter((round) => round.end !== null && round.end <= time && round.blame?.length);
      return judged.at(-1)?.blame?.some((place) => concerns(place, path.slice(at).join("/"))) ?? false;
    });
  }

  over(time: number): boolean {
    return Boolean(this.root && this.root.end !== null && time >= this.root.end);
  }

  /** Usage of the model calls inside of a span that had ended by then. */
  usageBy(time: number, span: Span): Usage {
    const sum: Record<string, number> = { calls: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 };
    const open = [span];
    for (let next = open.pop(); next; next = open.pop()) {
      const { id, kind, end, usage } = next;
      open.push(...(this.inside.get(id) ?? []));
      if (kind !== "model" || end === null || end > time) continue;
      for (const [name, amount] of Object.entries(usage)) sum[name] = (sum[name] ?? 0) + amount;
    }
    return sum as unknown as Usage;
  }

  /** The times at which something began or ended, in order. */
  changes(): Float64Array {
    const times = new Set<number>();
    for (const span of this.spans) {
      if (span.kind === "attempt" || span.kind === "model") continue;
      times.add(span.start);
      if (span.end !== null) times.add(span.end);
    }
    return Float64Array.from(times).sort();
  }
}

/** The state that a round's verdict is. */
export const verdictState = (round: Span): string => (round.status ? (round.status === "SUCCESS" ? "done" : "failed") : round.end === null ? "running" : "stopped");

export const isOpen = (span: Pick<Span, "start" | "end">, time: number): boolean => span.start <= time && (span.end === null || time < span.end);

export function listed<Key, Value>(map: Map<Key, Value[]>, key: Key): Value[] {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

/** Of spans in order of their beginning, the last that had begun. */
export function latest(spans: readonly Span[] | undefined, time: number): Span | undefined {
  if (!spans) return undefined;
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle]!.start <= time) low = middle + 1;
    else high = middle;
  }
  return spans[low - 1];
}
