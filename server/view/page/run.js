// A run: its spans, and what they were like at any time. It knows nothing of the page.

const APART = new Set(["round", "item", "operator"]);
const NUMBER = /\[\d+\]$/;
const keyOf = (path) => JSON.stringify(path);
const placeOf = (path) => path.map((part) => part.replace(NUMBER, ""));

class Run {
  constructor() {
    this.clear();
  }

  clear() {
    Object.assign(this, { id: "", workflow: "", goal: "", version: 0, now: 0, ended: false, graphs: {}, critical: new Set(), followed: null, titles: {} });
    this.spans = [];
    this.inside = new Map(); // a span's id → the spans right inside it
    this.byPath = new Map(); // a path's key → its operators' spans, one per round
    this.rounds = new Map(); // a path's key → the rounds of the workflow there
    this.questions = [];
    this.shape = 0; // grows when the graph has to be laid out anew
  }

  /** Take in a picture, whole or of what has changed. */
  merge(picture) {
    if (picture.reset && this.version) this.clear();
    Object.assign(this, {
      id: picture.run_id, workflow: picture.workflow, goal: picture.goal,
      version: picture.version, now: picture.now, ended: picture.ended, critical: new Set(picture.critical),
      note: picture.note, can: picture.can, titles: picture.titles ?? {},
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
      this.owner(this.spans[told.id]).changed = picture.version;
    }
  }

  add(span) {
    span.key = keyOf(span.path);
    this.spans[span.id] = span;
    listed(this.inside, span.parent).push(span);
    if (span.kind === "operator") listed(this.byPath, span.key).push(span);
    if (span.kind === "round") listed(this.rounds, span.key).push(span);
    if (span.kind === "question") this.questions.push(span);
    if (span.kind === "item") this.shape++;
  }

  get root() {
    return this.spans[0];
  }

  get start() {
    return this.root ? this.root.start : 0;
  }

  children(span) {
    return this.inside.get(span.id) ?? [];
  }

  /** What a span did itself: its attempts, pauses, calls and questions, those inside of these included. */
  own(span) {
    return this.children(span).filter((each) => !APART.has(each.kind)).flatMap((each) => [each, ...this.own(each)]);
  }

  /** The operator, or the run, that a span belongs to. */
  owner(span) {
    while (span.parent !== null && !APART.has(span.kind)) span = this.spans[span.parent];
    return span;
  }

  graphAt(path) {
    const place = placeOf(path).join("/");
    return Object.hasOwn(this.graphs, place) ? this.graphs[place] : undefined;
  }

  /** The name under which an operator, or an item of a map, is shown: its title if it has one. */
  nameOf(id) {
    const item = NUMBER.exec(id)?.[0] ?? "";
    const own = item ? id.slice(0, -item.length) : id;
    return Object.hasOwn(this.titles, own) ? `${this.titles[own]}${item}` : id;
  }

  namesOf(path) {
    return path.map((id) => this.nameOf(id));
  }

  instructionOf(path) {
    const instructions = this.graphAt(path.slice(0, -1))?.instructions ?? {};
    return Object.hasOwn(instructions, path.at(-1)) ? instructions[path.at(-1)] : "";
  }

  items(path, time) {
    const span = latest(this.byPath.get(keyOf(path)), time);
    return span ? this.children(span).filter((each) => each.kind === "item" && each.start <= time) : [];
  }

  /** The edges on the critical path, as two keys of paths: in each round, from an operator to the next that waited for it. */
  get criticalEdges() {
    if (this.followed) return this.followed;
    this.followed = new Set();
    const chains = new Map(); // a round's id → its operators on the path
    for (const id of this.critical) if (this.spans[id]?.kind === "operator") listed(chains, this.spans[id].parent).push(this.spans[id]);
    for (const chain of chains.values()) {
      chain.sort((a, b) => a.end - b.end || a.id - b.id);
      chain.slice(1).forEach((span, at) => this.followed.add(`${chain[at].key} ${span.key}`));
    }
    return this.followed;
  }

  /** The ids of all spans in which somebody is asked at that time. */
  askingAt(time) {
    const asking = new Set();
    for (const question of this.questions) {
      if (!isOpen(question, time)) continue;
      for (let span = question; span; span = this.spans[span.parent]) asking.add(span.id);
    }
    return asking;
  }

  stateOf(span, time, asking) {
    if (time < span.start) return "waiting";
    if (!isOpen(span, time)) return span.kind === "round" ? verdictState(span) : span.fell_back && span.state === "done" ? "fell" : span.state;
    if (span.kind === "run" && !span.end && this.cut) return "cut";
    if (asking.has(span.id)) return "asking";
    if (this.children(span).some((each) => each.kind === "pause" && isOpen(each, time))) return "retrying";
    return span.kind === "question" ? "asking" : span.kind === "pause" ? "retrying" : "running";
  }

  /** An operator at a time: its state, and the span that shows it, if it ran by then. */
  at(path, time, asking) {
    const around = path.slice(0, -1);
    const id = path[path.length - 1];
    const round = latest(this.rounds.get(keyOf(around)), time);
    const span = latest(this.byPath.get(keyOf(path)), time);
    if (!round) return { state: this.over(time) ? "idle" : "waiting", span: null };
    if (span && span.parent === round.id) return { state: this.stateOf(span, time, asking), span };
    const judge = this.graphAt(around)?.judges.includes(id);
    const due = judge || !span || ((round.operators ?? []).includes(id) && !(round.kept ?? []).includes(id));
    if (!due) return { state: span.state === "skipped" ? "skipped" : "reused", span };
    return { state: isOpen(round, time) && !this.over(time) ? "waiting" : "idle", span };
  }

  /** Whether the last verdict that blamed anybody, by then, blamed this operator: that of its workflow, or of one around it. */
  wasBlamed(path, time) {
    return path.some((_, at) => {
      const judged = (this.rounds.get(keyOf(path.slice(0, at))) ?? []).filter((round) => round.end !== null && round.end <= time && round.blame?.length);
      return judged.length > 0 && judged.at(-1).blame.some((place) => concerns(place, path.slice(at).join("/")));
    });
  }

  over(time) {
    return this.root && this.root.end !== null && time >= this.root.end;
  }

  /** Usage of the model calls inside of a span that had ended by then. */
  usageBy(time, span = this.root) {
    const sum = {};
    const open = [span];
    while (open.length) {
      const { id, kind, end, usage } = open.pop();
      open.push(...(this.inside.get(id) ?? []));
      if (kind !== "model" || end === null || end > time) continue;
      for (const [name, amount] of Object.entries(usage)) sum[name] = (sum[name] ?? 0) + amount;
    }
    return sum;
  }

  /** The times at which something began or ended, in order. */
  changes() {
    const times = new Set();
    for (const span of this.spans) {
      if (span.kind === "attempt" || span.kind === "model") continue;
      times.add(span.start);
      if (span.end !== null) times.add(span.end);
    }
    return Float64Array.from(times).sort();
  }
}

/** Whether the place of a fault, such as sums[3] or draft/body, is that of an operator or of a part of it. */
const concerns = (place, operator) => place === operator || place.startsWith(`${operator}/`) || place.startsWith(`${operator}[`);

const isOpen = (span, time) => span.start <= time && (span.end === null || time < span.end);

function listed(map, key) {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

/** Of spans in order of their beginning, the last that had begun. */
function latest(spans, time) {
  if (!spans) return undefined;
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].start <= time) low = middle + 1;
    else high = middle;
  }
  return spans[low - 1];
}
