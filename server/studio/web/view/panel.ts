// The panel: all that is known of what is selected. An operator, an item of a map, or the run itself.

import { type Child, byId, icon, make } from "../shared/dom";
import { clock, cost, duration, plural, tokens } from "../shared/numbers";
import { rich, text } from "../shared/said";
import { lookOf } from "../shared/states";
import { answerForm } from "./answer";
import type { App, Selected } from "./app";
import type { About, Call, Message, Path, Span, Task, Told, Turn } from "./data";
import { restartForm } from "./restart";
import { NUMBER, isOpen, keyOf, latest, verdictState } from "./run";
import { type ToolCall, cell, itemTable, pretty, toolTable } from "./tools";
import { verdictOf, verdictWord } from "./verdict";

const FOLDED_AT_FIRST = new Set(["Task", "Model calls", "Notes", "Restart from here"]);
const MOST_CAUSES = 20;

export class Panel {
  /** Whether to move the focus to the panel. */
  wanted = false;
  private readonly pane = byId("panel");
  /** Whether a section is open, as the reader left it, by its title or the id of its span. */
  private readonly folds = new Map<string | number, boolean>();
  private shown: string | null = "";
  private of = "";
  private drawnAt = 0;
  private asked = {};
  private later: ReturnType<typeof setTimeout> | null = null;
  /** The question whose form somebody has begun to fill in. */
  private answering: number | null = null;

  constructor(private readonly app: App) {}

  /** Show what is selected; while it runs, again and again. */
  async draw(): Promise<void> {
    const { run, view, source } = this.app;
    const { selected } = view;
    if (!selected || !run.root) return;
    const span = this.spanOf(selected);
    const time = this.app.time;
    const state = span ? run.stateOf(span, time, run.askingAt(time)) : null;
    const ticks = view.time !== null ? Math.floor((time - run.start) * 10) : state === "running" || state === "asking" ? Math.floor(time - run.start) : 0;
    const looks = JSON.stringify([selected, span?.id, state, span?.changed, ticks]);
    if (looks === this.shown) return;
    const of = keyOf(selected.path) + span?.id + selected.span;
    const same = this.of === of;
    if (same && this.isBusy()) return;
    const before = this.pane.scrollTop;
    Object.assign(this, { shown: looks, of, drawnAt: performance.now(), answering: null });
    const asked = (this.asked = {});
    let told: Told = {};
    try {
      told = span ? await source.details(span.id) : {};
      if (span && this.canRestart(span)) told = { ...await source.details(run.root.id), ...told }; // the inputs of the run
    } catch (error) {
      if (span) told = { [span.id]: { error: `the details cannot be loaded: ${(error as Error).message}` } };
    }
    if (asked !== this.asked) return; // something else has been selected meanwhile
    if (same && this.isEdited()) { // somebody began to write meanwhile
      this.shown = null;
      return;
    }
    this.pane.replaceChildren(...this.content(selected, span, state, told));
    this.pane.scrollTop = same ? before : 0;
    if (this.wanted) this.pane.focus({ preventScroll: true });
    this.wanted = false;
    const place = selected.span !== null && this.pane.querySelector<HTMLElement>(`[data-span="${selected.span}"]`);
    if (place && !same) {
      for (let fold = place.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
      place.scrollIntoView({ block: "nearest" });
    }
  }

  /** Whether somebody writes in it, or an answer is begun that is not taken yet. */
  private isEdited(): boolean {
    const { run } = this.app;
    const question = this.answering === null ? undefined : run.spans[this.answering];
    if (question && !run.ended && isOpen(question, Infinity)) return true;
    return this.pane.contains(document.activeElement) && /INPUT|TEXTAREA|SELECT/.test(document.activeElement?.tagName ?? "");
  }

  /** Whether it was drawn just now, or is edited. */
  private isBusy(): boolean {
    const pause = this.app.source.live ? 500 : 100; // milliseconds: a server is asked each time
    const soon = performance.now() - this.drawnAt < pause;
    if (soon) {
      this.later ??= setTimeout(() => {
        this.later = null;
        this.app.drawSoon();
      }, pause);
    }
    return this.isEdited() || soon;
  }

  /** The span to show: that which was chosen, or the last that had begun. */
  private spanOf({ path, span }: Selected): Span | null {
    const { run } = this.app;
    const chosen = span === null ? undefined : run.spans[span];
    if (chosen) return run.owner(chosen);
    if (!path.length) return run.root ?? null;
    const own = latest(run.byPath.get(keyOf(path)), this.app.time);
    return own ?? run.spans.find((each) => each.kind === "item" && each.key === keyOf(path)) ?? null;
  }

  private content(selected: Selected, span: Span | null, state: string | null, told: Told): HTMLElement[] {
    const { run } = this.app;
    const path = span ? span.path : selected.path;
    const about: About = span ? told[span.id] ?? {} : {};
    const parts: (HTMLElement | null)[] = [this.head(path, span, state)];
    const instruction = path.length ? run.instructionOf(path) : "";
    if (!span) {
      const { state: how } = run.at(path, this.app.time, new Set());
      parts.push(make("p.soft", {}, icon(how), ` ${lookOf(how).label} at this time`), this.section("Instruction", instruction && rich(instruction)));
      return parts.filter((each) => each !== null);
    }
    const own = run.own(span).filter((each) => each.start <= this.app.time);
    const over = this.isKnown(span);
    const of = (kind: string): Span[] => own.filter((each) => each.kind === kind);
    const message: Message = (over && about.message) || {};
    const tasks = about.tasks ?? [];
    const items = run.children(span).filter((each) => each.kind === "item" && each.start <= this.app.time);
    const results = ([message.outputs?.["items"], message.outputs?.["output"]].find(Array.isArray) ?? []) as unknown[];
    const tools = of("tool").map((each) => this.tool(each, told[each.id] ?? {}));
    parts.push(
      this.facts(span),
      ...of("question").map((each) => this.question(each, told[each.id] ?? {})),
      this.section("Error", over && about.error && this.error(about.error), over && this.causes(span)),
      this.section("Skipped", about.reason && text(about.reason)),
      this.section("Started by", about.started_by && text(about.started_by)),
      this.section("Goal", span.kind === "run" && run.goal && rich(run.goal)),
      this.section("Inputs", span.kind === "run" && about.inputs && cell(about.inputs)),
      this.section("Input", about.item !== undefined && cell(pretty(about.item))),
      this.section("Items", items.length > 0 && itemTable(this.app, items, told, results)),
      this.section("Output", this.output(message, items.length > 0)),
      this.section("Restart from here", this.canRestart(span) && this.restart(span, message, told[run.root?.id ?? 0]?.inputs ?? {})),
      this.section("Verdict", this.verdict(span, about, message)),
      this.section("Lesson it was given", tasks.at(-1)?.lesson && rich(tasks.at(-1)?.lesson)),
      this.section("Instruction", instruction && rich(instruction)),
      this.section("Task", tasks.length > 0 && tasks.map((task) => this.task(task))),
      this.section("Messages", this.conversation(of("model"), told, tools)),
      this.section("Tools", tools.length > 0 && toolTable(tools)),
      this.section("Model calls", this.calls(of("model"), told, tools)),
      this.section("Attempts", this.attempts(own, told)),
      this.section("Rounds", this.roundsInside(span)),
      this.section("Critical path", over && this.criticalPath(span)),
      this.section("Notes", about.notes?.map((note) => this.note(note))),
    );
    return parts.filter((each) => each !== null);
  }

  /** Whether what came of a span is known at the time that is shown. */
  private isKnown(span: Span): boolean {
    return this.app.view.time === null || !isOpen(span, this.app.time);
  }

  private head(path: Path, span: Span | null, state: string | null): HTMLElement {
    const { app } = this;
    const runs = app.run.byPath.get(keyOf(path)) ?? [];
    const outer = path.slice(0, -1).map((part, at) => [
      make("button.link", { textContent: app.run.nameOf(part), dir: "auto", onclick: () => app.select(path.slice(0, at + 1)) }), " / ",
    ]);
    const close = make("button.close", { "aria-label": "Close the details", title: "Close  Esc", onclick: () => app.unselect() }, "×");
    const isRound = span?.kind === "round";
    const title = isRound ? `Round ${span.name}` : path.length ? app.run.nameOf(path.at(-1) ?? "") : app.run.workflow;
    const kind = isRound ? "round" : !path.length ? "run" : span?.kind === "item" ? "item" : this.kindOf(path);
    const rounds = runs.length > 1 ? make("div.chips", { role: "group", "aria-label": "Rounds in which it ran" }, runs.map((each) => make(
      `button.chip${each === span ? ".on" : ""}`,
      { "aria-pressed": String(each === span), onclick: () => app.select(path, each.id) },
      icon(app.run.stateOf(each, app.time, app.run.askingAt(app.time))), `Round ${each.round}`,
    ))) : null;
    return make("div.head", {}, close,
      make("div.where", {}, path.length ? [make("button.link", { textContent: "run", onclick: () => app.select([]) }), " / "] : "", outer, make("span", { textContent: kind })),
      make("h2", { dir: "auto" }, state ? icon(state) : "", " ", title), this.links(path), rounds);
  }

  /** What the studio does with the run, or with a node of it, where the studio serves the page. */
  private links(path: Path): HTMLElement | null {
    const { run } = this.app;
    if (!run.studio) return null;
    const id = path.at(-1)?.replace(NUMBER, "");
    const link = (textContent: string, asked: Record<string, string>): HTMLElement =>
      make("a.action", { textContent, href: `${run.studio}&${new URLSearchParams(asked)}` });
    return make("div.actions", {},
      id ? link("Open this node", { node: id }) : link("Open in the studio", {}),
      run.ended && id && this.kindOf(path) !== "evaluator" && link("Re-run from here…", { node: id, then: "rerun" }),
      run.ended && !id && link("Make a test…", { then: "test" }));
  }

  private kindOf(path: Path): string {
    const { run } = this.app;
    if (run.graphAt(path.slice(0, -1))?.judges.includes(path.at(-1) ?? "")) return "evaluator";
    if (!run.graphAt(path)) return "operator";
    return run.items(path, Infinity).length ? "map" : "workflow";
  }

  private facts(span: Span): HTMLElement {
    const { run } = this.app;
    const time = this.app.time;
    const open = isOpen(span, time);
    const state = run.stateOf(span, time, run.askingAt(time));
    const usage = this.app.view.time === null ? span.usage : run.usageBy(time, span);
    const facts = [
      lookOf(state).label,
      span.state === "skipped" ? "" : `${duration((open ? time : span.end ?? time) - span.start)}${open ? " so far" : ""}`,
      span.id ? `from ${clock(span.start - run.start)}` : "",
      span.kind === "operator" ? `round ${span.round}` : "",
      span.attempt > 1 ? plural(span.attempt, "attempt") : "",
      usage.calls ? plural(usage.calls, "model call") : "", tokens(usage), cost(usage),
      usage.calls ? `${duration(usage.seconds ?? 0)} waiting for models` : "",
      run.critical.has(span.id) ? "on the critical path" : "",
    ];
    return make("ul.facts", {}, facts.filter(Boolean).map((fact) => make("li", { textContent: fact })));
  }

  private section(title: string, ...content: Child[]): HTMLElement | null {
    const inside = (content.flat(Infinity as 1) as Child[]).filter(Boolean);
    if (!inside.length) return null;
    const open = this.folds.get(title) ?? !FOLDED_AT_FIRST.has(title);
    const fold: HTMLDetailsElement = make("details.section", { open, ontoggle: () => this.folds.set(title, fold.open) }, make("summary", { textContent: title }), inside);
    return fold;
  }

  /** What happened on the first line, more of it on those below. */
  private error(error: string): HTMLElement {
    const [what = "", ...why] = error.split("\n");
    return make("div.error", {}, text(what, "bad"), why.length ? make("div.cause", {}, text(why.join("\n"), "bad")) : null);
  }

  /** Which operators inside failed, and why: the innermost ones. */
  private causes(span: Span): HTMLElement[] {
    if (span.state !== "failed") return [];
    const { app } = this;
    const { run } = app;
    const failed = (each: Span): boolean => each.state === "failed" && each.kind === "operator";
    const inside = (each: Span): Span[] => run.children(each).flatMap((child) => [child, ...inside(child)]);
    const innermost = inside(span).filter((each) => failed(each) && !inside(each).some(failed));
    return innermost.slice(0, MOST_CAUSES).map((each) => make("div.cause", {},
      make("button.link", { dir: "auto", textContent: run.namesOf(each.path).join(" / "), onclick: () => app.select(each.path, each.id) }), text(each.error ?? "", "bad")));
  }

  /** The operators of the run that made it last as long as it did. */
  private criticalPath(span: Span): Child {
    const { app } = this;
    const { run } = app;
    if (span.kind !== "run") return null;
    const spans = [...run.critical].map((id) => run.spans[id]).filter((each) => each !== undefined).filter((each) => each.path.length === 1).sort((a, b) => a.start - b.start);
    return spans.length ? make("ol.critical-path", {}, spans.map((each) => make("li", {},
      make("button.link", { dir: "auto", textContent: run.nameOf(each.name), onclick: () => app.select(each.path, each.id) }),
      make("span.soft", { textContent: duration((each.end ?? each.start) - each.start) })))) : null;
  }

  /** What a message says; of a map without its items, which have a table. */
  private output(message: Message, ofMap: boolean): Child[] {
    const { scratchpad, outputs = {}, ports } = message;
    const empty = (value: unknown): boolean => value !== null && typeof value === "object" && !Object.keys(value).length;
    const shown = Object.entries(outputs).filter(([name, value]) => !empty(value) && !(ofMap && (name === "items" || name === "output")));
    return [
      scratchpad && !ofMap ? rich(scratchpad) : null,
      ...shown.map(([name, value]) => make("div.field", {}, make("h4", { dir: "auto", textContent: name }), rich(value))),
      ports ? make("p", { textContent: `takes: ${ports.join(", ") || "no port"}`, dir: "auto" }) : null,
    ];
  }

  /** Whether a copy of the run can continue from it: the server has the workflow, and the operator has ended. */
  private canRestart(span: Span): boolean {
    const { run, source } = this.app;
    return span.kind === "operator" && !isOpen(span, Infinity) && source.live && run.can.includes("restart") && this.kindOf(span.path) === "operator";
  }

  private restart(span: Span, message: Message, inputs: Record<string, unknown>): Child {
    const { source } = this.app;
    const told = make("p.bad", { role: "alert" });
    const say = (said: string): void => void (told.textContent = said);
    const send = async (fields: string[]): Promise<void> => {
      try {
        location.assign(`../${encodeURIComponent(await source.restart(span.path.join("/"), span.round, fields))}/`);
      } catch (error) {
        say((error as Error).message);
      }
    };
    return make("div", {}, restartForm(message, inputs, (fields) => void send(fields), say), told);
  }

  private verdict(span: Span, about: About, message: Message): Child[] {
    if (!this.isKnown(span)) return [];
    const judge = this.kindOf(span.path) === "evaluator";
    const { status, evaluation, lesson, blame = [], score, faults = [], unsure = [], repairs = {} } = span.kind === "round" ? about : message;
    if (!evaluation && !lesson && !blame.length && !unsure.length && !judge && (!status || status === "SUCCESS")) return [];
    return verdictOf({ status, evaluation, lesson, blame, score, faults, unsure, repairs });
  }

  private task(task: Task): HTMLElement[] {
    const left = Object.entries(task).filter(([name]) => name !== "instruction");
    return left.map(([name, value]) => make("div.field", {}, make("h4", { textContent: name.replaceAll("_", " ") }), this.said(value)));
  }

  /** A value of a task: what others said as texts, all else as it is. */
  private said(value: unknown): Child {
    if (!Array.isArray(value)) return rich(value);
    return value.map((each: unknown) => {
      if (typeof each !== "object" || each === null) return rich(each);
      const { operator_id, source, name, text: said, description, ...rest } = each as Record<string, unknown>;
      const who = operator_id ?? source ?? name;
      return make("div.said", {},
        who ? make("div.who", { dir: "auto", textContent: who }) : null, said ?? description ? rich(said ?? description) : null,
        Object.keys(rest).length ? text(rest, "code") : null);
    });
  }

  /** The last conversation, with what came of it. */
  private conversation(models: readonly Span[], told: Told, tools: readonly ToolCall[]): Child[] {
    const last = models.at(-1);
    return last ? this.call(last, told[last.id] ?? {}, [], tools) : [];
  }

  /** A call of a model; calls of tools that have a table are named alone. */
  private call(span: Span, about: About, known: readonly Turn[], tools: readonly ToolCall[]): Child[] {
    const messages = about.messages ?? [];
    const turns = messages.slice(known.length).map((message) => turn(message, tools));
    const asked = asksFor(about.tool_calls, tools);
    return [
      known.length ? make("p.soft", { textContent: `after the ${plural(known.length, "message")} of the call before` }) : null,
      ...turns,
      ...(this.isKnown(span) ? [
        about.error ? this.error(about.error) : null,
        about.text ? turn({ role: isOpen(span, this.app.time) ? "writing …" : "answer", content: about.text }) : null,
        asked,
        about.finish_reason === "length" ? make("p.soft", { textContent: "cut off at the most tokens an answer may have (max_tokens)" }) : null,
      ] : [make("p.soft", { textContent: "no answer at this time" })]),
    ].filter(Boolean);
  }

  private calls(models: readonly Span[], told: Told, tools: readonly ToolCall[]): Child[] {
    let known: readonly Turn[] = [];
    return models.map((span, at) => {
      const about = told[span.id] ?? {};
      const messages = about.messages ?? [];
      const same = known.length > 0 && known.length <= messages.length && JSON.stringify(messages.slice(0, known.length)) === JSON.stringify(known);
      const content = this.call(span, about, same ? known : [], tools);
      known = messages;
      return this.step(span, `${at + 1}. ${span.name}`, [tokens(span.usage), cost(span.usage)], content);
    });
  }

  /** A call of a tool, as a row of the table. */
  private tool(span: Span, about: About): ToolCall {
    const state = this.app.run.stateOf(span, this.app.time, new Set());
    return {
      span: span.id, name: span.name, state, took: duration((span.end ?? this.app.time) - span.start),
      arguments: about.arguments, result: this.isKnown(span) ? about.result : undefined, failed: span.state === "failed",
    };
  }

  private step(span: Span, name: string, facts: readonly string[], content: Child[]): HTMLElement {
    const state = this.app.run.stateOf(span, this.app.time, new Set());
    const took = duration((span.end ?? this.app.time) - span.start);
    const step = make("details.step", {}, make("summary", {}, icon(state), " ", make("span.name", { dir: "auto", textContent: name }), make("span.soft", { textContent: [took, ...facts].filter(Boolean).join(" · ") })), content);
    step.dataset["span"] = String(span.id);
    step.open = this.folds.get(span.id) ?? false;
    step.addEventListener("toggle", () => this.folds.set(span.id, step.open));
    return step;
  }

  private attempts(own: readonly Span[], told: Told): Child[] {
    const made = own.filter((each) => ["attempt", "pause"].includes(each.kind));
    return made.map((each) => make("div.attempt", {},
      make("p", {}, icon(each.kind === "pause" ? "retrying" : each.state), ` ${each.kind === "pause" ? "pause" : `attempt ${each.name}`} · ${duration((each.end ?? this.app.time) - each.start)}`),
      told[each.id]?.error ? this.error(told[each.id]?.error ?? "") : null));
  }

  private roundsInside(span: Span): Child {
    const { run } = this.app;
    const rounds = run.children(span).filter((each) => each.kind === "round" && each.start <= this.app.time);
    if (!rounds.some((each) => each.status) || (rounds.length === 1 && rounds[0]?.status === "SUCCESS")) return null;
    return make("ul.plain", {}, rounds.map((round) => make("li", {}, icon(this.isKnown(round) ? verdictState(round) : "running"), ` Round ${round.name}: ${this.isKnown(round) ? verdictWord(round) : "going on"}`)));
  }

  private note({ time, event, ...rest }: { time: number; event: string }): HTMLElement {
    return make("div.said", {}, make("div.who", { textContent: `${event} · ${clock(time - this.app.run.start)}` }), text(rest, "code"));
  }

  // Questions

  private question(span: Span, about: About): HTMLElement {
    const { app } = this;
    const open = isOpen(span, Infinity) && !app.run.ended;
    const form = about.schema ? make("details.step", {}, make("summary", { textContent: "form of the answer" }), text(about.schema, "code")) : null;
    const told = make("p.bad", { role: "alert" });
    const box = make("div.question", {}, make("h3", {}, icon("asking"), open ? (app.may("answer") ? " Asks you" : " Asks a person") : " Asked"), rich(about.question ?? ""), form);
    box.dataset["span"] = String(span.id);
    if (!this.isKnown(span)) box.append(make("p.soft", { textContent: "not answered at this time" }));
    else if (!open) box.append(make("p.soft", { textContent: span.state === "done" ? `answered after ${duration((span.end ?? span.start) - span.start)}${about.by ? ` by ${about.by}` : ""}` : "never answered" }));
    else if (!app.may("answer")) box.append(make("p.soft", { textContent: "It cannot be answered here, but where the run goes on." }));
    else {
      const begin = (): void => {
        this.answering = span.id;
      };
      const answer = async (json: string): Promise<void> => {
        begin();
        told.textContent = "sending …";
        try {
          await app.source.answer(span.name, json);
          told.textContent = "sent";
          box.querySelectorAll<HTMLButtonElement>("button, input, textarea, select").forEach((each) => (each.disabled = true));
          (document.activeElement as HTMLElement | null)?.blur();
          this.answering = null;
        } catch (error) {
          told.textContent = (error as Error).message;
        }
      };
      box.append(answerForm({ schema: about.schema, arguments: about.arguments as string | undefined }, (json) => void answer(json), (said) => (told.textContent = said)), told);
      box.oninput = begin;
    }
    return box;
  }
}

/** A turn of a conversation. */
function turn({ role, content, tool_calls: calls, name }: Turn, tools: readonly ToolCall[] = []): HTMLElement {
  const parts = (Array.isArray(content) ? content : [content]) as (string | { text?: string } | null | undefined)[];
  const said = parts.map((part) => (typeof part === "string" ? part : part?.text ?? (part ? JSON.stringify(part, null, 2) : ""))).filter(Boolean);
  const tool = role !== "tool" ? undefined : tools.find((each) => each.result !== undefined && said.join("\n") === shownAs(each.result));
  if (tool) return make("p.who", { dir: "auto", textContent: `result of ${tool.name}, see Tools` });
  return make("div.said", {}, said.length || !calls ? make("div.who", { dir: "auto", textContent: [role, name].filter(Boolean).join(" · ") }) : null,
    said.map((each) => rich(each)), asksFor(calls, tools));
}

const shownAs = (result: unknown): string => (typeof result === "string" ? result : JSON.stringify(result));

/** What a model calls: the names, where the calls have a table of their own; else the table. */
function asksFor(calls: readonly Call[] | undefined, tools: readonly ToolCall[]): HTMLElement | null {
  if (!calls?.length) return null;
  const rows = calls.map((each) => ({ name: each.name ?? each.function?.name ?? "", arguments: each.arguments ?? each.function?.arguments }));
  const names = rows.map((each) => each.name);
  if (names.every((name) => tools.some((tool) => tool.name === name))) return make("p.who", { dir: "auto", textContent: `calls ${names.join(", ")}, see Tools` });
  return toolTable(rows);
}
