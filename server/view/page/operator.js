// The panel: all that is known of what is selected. An operator, an item of a map, or the run itself.

const FOLDED_AT_FIRST = new Set(["Task", "Model calls", "Notes"]);
const MOST_CAUSES = 20;
const MOST_FAULTS = 50;
const LONGEST_QUOTE = 2000;

class Panel {
  constructor(app) {
    this.app = app;
    this.pane = byId("panel");
    this.folds = new Map(); // a section's title → whether it is open, as the reader left it
    this.shown = "";
    this.answering = null; // the question whose form somebody has begun to fill in
  }

  /** Show what is selected; while it runs, again and again. */
  async draw() {
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
    let told = {};
    try {
      told = span ? await source.details(span.id) : {};
    } catch (error) {
      told = { [span.id]: { error: `the details cannot be loaded: ${error.message}` } };
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
    const place = selected.span !== null && this.pane.querySelector(`[data-span="${selected.span}"]`);
    if (place && !same) {
      for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      place.scrollIntoView({ block: "nearest" });
    }
  }

  /** Whether somebody writes in it, or an answer is begun that is not taken yet. */
  isEdited() {
    const { run } = this.app;
    const answers = this.answering !== null && !run.ended && isOpen(run.spans[this.answering], Infinity);
    return answers || (this.pane.contains(document.activeElement) && /INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName));
  }

  /** Whether it was drawn just now, or is edited. */
  isBusy() {
    const pause = this.app.source.live ? 500 : 100; // milliseconds: a server is asked each time
    const soon = performance.now() - this.drawnAt < pause;
    if (soon) this.later ??= setTimeout(() => {
      this.later = null;
      this.app.drawSoon();
    }, pause);
    return this.isEdited() || soon;
  }

  /** The span to show: that which was chosen, or the last that had begun. */
  spanOf({ path, span }) {
    const { run } = this.app;
    if (span !== null && run.spans[span]) return run.owner(run.spans[span]);
    if (!path.length) return run.root;
    const own = latest(run.byPath.get(keyOf(path)), this.app.time);
    return own ?? run.spans.find((each) => each.kind === "item" && each.key === keyOf(path)) ?? null;
  }

  content(selected, span, state, told) {
    const { run } = this.app;
    const path = span ? span.path : selected.path;
    const about = span ? told[span.id] ?? {} : {};
    const parts = [this.head(path, span, state)];
    const instruction = path.length ? run.instructionOf(path) : "";
    if (!span) {
      const { state: how } = run.at(path, this.app.time, new Set());
      parts.push(make("p.soft", {}, icon(how), ` ${STATES[how].label} at this time`), this.section("Instruction", instruction && rich(instruction)));
      return parts.filter(Boolean);
    }
    const own = run.own(span).filter((each) => each.start <= this.app.time);
    const over = this.isKnown(span);
    const of = (kind) => own.filter((each) => each.kind === kind);
    const message = (over && about.message) || {};
    const tasks = about.tasks ?? [];
    const items = run.children(span).filter((each) => each.kind === "item" && each.start <= this.app.time);
    const results = [message.outputs?.items, message.outputs?.output].find(Array.isArray) ?? [];
    const tools = of("tool").map((each) => this.tool(each, told[each.id] ?? {}));
    parts.push(
      this.facts(span),
      ...of("question").map((each) => this.question(each, told[each.id] ?? {})),
      this.section("Error", over && about.error && this.error(about.error), over && this.causes(span)),
      this.section("Skipped", about.reason && text(about.reason)),
      this.section("Goal", span.kind === "run" && run.goal && rich(run.goal)),
      this.section("Input", about.item !== undefined && cell(pretty(about.item))),
      this.section("Items", items.length && itemTable(this.app, items, told, results)),
      this.section("Output", this.output(message, items.length > 0)),
      this.section("Verdict", this.verdict(span, about, message)),
      this.section("Lesson it was given", tasks.length && tasks.at(-1).lesson && rich(tasks.at(-1).lesson)),
      this.section("Instruction", instruction && rich(instruction)),
      this.section("Task", tasks.length && tasks.map((task) => this.task(task))),
      this.section("Messages", this.conversation(of("model"), told, tools)),
      this.section("Tools", tools.length && toolTable(tools)),
      this.section("Model calls", this.calls(of("model"), told, tools)),
      this.section("Attempts", this.attempts(span, own, told)),
      this.section("Rounds", this.roundsInside(span)),
      this.section("Critical path", over && this.criticalPath(span)),
      this.section("Notes", about.notes?.map((note) => this.note(note))),
    );
    return parts.filter(Boolean);
  }

  /** Whether what came of a span is known at the time that is shown. */
  isKnown(span) {
    return this.app.view.time === null || !isOpen(span, this.app.time);
  }

  head(path, span, state) {
    const { app } = this;
    const runs = app.run.byPath.get(keyOf(path)) ?? [];
    const outer = path.slice(0, -1).map((part, at) => [
      make("button.link", { textContent: app.run.nameOf(part), dir: "auto", onclick: () => app.select(path.slice(0, at + 1)) }), " / ",
    ]);
    const close = make("button.close", { "aria-label": "Close the details", title: "Close  Esc", onclick: () => app.unselect() }, "×");
    const isRound = span?.kind === "round";
    const title = isRound ? `Round ${span.name}` : path.length ? app.run.nameOf(path.at(-1)) : app.run.workflow;
    const kind = isRound ? "round" : !path.length ? "run" : span?.kind === "item" ? "item" : this.kindOf(path);
    const rounds = runs.length > 1 ? make("div.chips", { role: "group", "aria-label": "Rounds in which it ran" }, runs.map((each) => make(
      `button.chip${each === span ? ".on" : ""}`,
      { "aria-pressed": String(each === span), onclick: () => app.select(path, each.id) },
      icon(app.run.stateOf(each, app.time, app.run.askingAt(app.time))), `Round ${each.round}`,
    ))) : null;
    return make("div.head", {}, close,
      make("div.where", {}, path.length ? [make("button.link", { textContent: "run", onclick: () => app.select([]) }), " / "] : "", outer, make("span", { textContent: kind })),
      make("h2", { dir: "auto" }, state ? icon(state) : "", " ", title), rounds);
  }

  kindOf(path) {
    const { run } = this.app;
    if (run.graphAt(path.slice(0, -1))?.judges.includes(path.at(-1))) return "evaluator";
    if (!run.graphAt(path)) return "operator";
    return run.items(path, Infinity).length ? "map" : "workflow";
  }

  facts(span) {
    const { run } = this.app;
    const time = this.app.time;
    const open = isOpen(span, time);
    const state = run.stateOf(span, time, run.askingAt(time));
    const usage = this.app.view.time === null ? span.usage : run.usageBy(time, span);
    const facts = [
      STATES[state].label,
      span.state === "skipped" ? "" : `${duration((open ? time : span.end ?? time) - span.start)}${open ? " so far" : ""}`,
      span.id ? `from ${clock(span.start - run.start)}` : "",
      span.kind === "operator" ? `round ${span.round}` : "",
      span.attempt > 1 ? plural(span.attempt, "attempt") : "",
      usage.calls ? plural(usage.calls, "model call") : "", tokens(usage), cost(usage),
      usage.calls ? `${duration(usage.seconds)} waiting for models` : "",
      run.critical.has(span.id) ? "on the critical path" : "",
    ];
    return make("ul.facts", {}, facts.filter(Boolean).map((fact) => make("li", { textContent: fact })));
  }

  section(title, ...content) {
    const inside = content.flat(2).filter(Boolean);
    if (!inside.length) return null;
    const open = this.folds.get(title) ?? !FOLDED_AT_FIRST.has(title);
    const fold = make("details.section", { open, ontoggle: () => this.folds.set(title, fold.open) }, make("summary", { textContent: title }), inside);
    return fold;
  }

  /** What happened on the first line, more of it on those below. */
  error(error) {
    const [what, ...why] = error.split("\n");
    return make("div.error", {}, text(what, "bad"), why.length ? make("div.cause", {}, text(why.join("\n"), "bad")) : null);
  }

  /** Which operators inside failed, and why: the innermost ones. */
  causes(span) {
    if (span.state !== "failed") return [];
    const { app } = this;
    const { run } = app;
    const failed = (each) => each.state === "failed" && each.kind === "operator";
    const inside = (each) => run.children(each).flatMap((child) => [child, ...inside(child)]);
    const innermost = inside(span).filter((each) => failed(each) && !inside(each).some(failed));
    return innermost.slice(0, MOST_CAUSES).map((each) => make("div.cause", {},
      make("button.link", { dir: "auto", textContent: run.namesOf(each.path).join(" / "), onclick: () => app.select(each.path, each.id) }), text(each.error ?? "", "bad")));
  }

  /** The operators of the run that made it last as long as it did. */
  criticalPath(span) {
    const { app } = this;
    const { run } = app;
    if (span.kind !== "run") return [];
    const spans = [...run.critical].map((id) => run.spans[id]).filter((each) => each.path.length === 1).sort((a, b) => a.start - b.start);
    return spans.length ? make("ol.critical-path", {}, spans.map((each) => make("li", {},
      make("button.link", { dir: "auto", textContent: run.nameOf(each.name), onclick: () => app.select(each.path, each.id) }),
      make("span.soft", { textContent: duration(each.end - each.start) })))) : [];
  }

  /** What a message says; of a map without its items, which have a table. */
  output(message, ofMap = false) {
    const { scratchpad, outputs = {}, ports } = message;
    const empty = (value) => value && typeof value === "object" && !Object.keys(value).length;
    const shown = Object.entries(outputs).filter(([name, value]) => !empty(value) && !(ofMap && (name === "items" || name === "output")));
    return [
      scratchpad && !ofMap ? rich(scratchpad) : null,
      ...shown.map(([name, value]) => make("div.field", {}, make("h4", { dir: "auto", textContent: name }), rich(value))),
      ports ? make("p", { textContent: `takes: ${ports.join(", ") || "no port"}`, dir: "auto" }) : null,
    ];
  }

  verdict(span, about, message) {
    if (!this.isKnown(span)) return [];
    const judge = this.kindOf(span.path) === "evaluator";
    const { status, evaluation, lesson, blame = [], score, faults = [], unsure = [], repairs = {} } = span.kind === "round" ? about : message;
    if (!evaluation && !lesson && !blame.length && !unsure.length && !judge && (!status || status === "SUCCESS")) return [];
    return verdictOf({ status, evaluation, lesson, blame, score, faults, unsure, repairs });
  }

  task(task) {
    const left = Object.entries(task).filter(([name]) => name !== "instruction");
    return left.map(([name, value]) => make("div.field", {}, make("h4", { textContent: name.replaceAll("_", " ") }), this.said(value)));
  }

  /** A value of a task: what others said as texts, all else as it is. */
  said(value) {
    if (!Array.isArray(value)) return rich(value);
    return value.map((each) => {
      if (typeof each !== "object" || each === null) return rich(each);
      const { operator_id, source, name, text: said, description, ...rest } = each;
      const who = operator_id ?? source ?? name;
      return make("div.said", {},
        who ? make("div.who", { dir: "auto", textContent: who }) : null, said ?? description ? rich(said ?? description) : null,
        Object.keys(rest).length ? text(rest, "code") : null);
    });
  }

  /** The last conversation, with what came of it. */
  conversation(models, told, tools) {
    const last = models.at(-1);
    return last ? this.call(last, told[last.id] ?? {}, [], tools) : [];
  }

  /** A call of a model; calls of tools that have a table are named alone. */
  call(span, about, known, tools) {
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

  calls(models, told, tools) {
    let known = [];
    return models.map((span, at) => {
      const about = told[span.id] ?? {};
      const messages = about.messages ?? [];
      const same = known.length && known.length <= messages.length && JSON.stringify(messages.slice(0, known.length)) === JSON.stringify(known);
      const content = this.call(span, about, same ? known : [], tools);
      known = messages;
      return this.step(span, `${at + 1}. ${span.name}`, [tokens(span.usage), cost(span.usage)], content);
    });
  }

  /** A call of a tool, as a row of the table. */
  tool(span, about) {
    const state = this.app.run.stateOf(span, this.app.time, new Set());
    return {
      span: span.id, name: span.name, state, took: duration((span.end ?? this.app.time) - span.start),
      arguments: about.arguments, result: this.isKnown(span) ? about.result : undefined, failed: span.state === "failed",
    };
  }

  step(span, name, facts, content) {
    const state = this.app.run.stateOf(span, this.app.time, new Set());
    const took = duration((span.end ?? this.app.time) - span.start);
    const step = make("details.step", {}, make("summary", {}, icon(state), " ", make("span.name", { dir: "auto", textContent: name }), make("span.soft", { textContent: [took, ...facts].filter(Boolean).join(" · ") })), content.flat().filter(Boolean));
    step.dataset.span = span.id;
    step.open = this.folds.get(span.id) ?? false;
    step.addEventListener("toggle", () => this.folds.set(span.id, step.open));
    return step;
  }

  attempts(span, own, told) {
    const made = own.filter((each) => ["attempt", "pause"].includes(each.kind));
    return made.map((each) => make("div.attempt", {},
      make("p", {}, icon(each.kind === "pause" ? "retrying" : each.state), ` ${each.kind === "pause" ? "pause" : `attempt ${each.name}`} · ${duration(each.end - each.start)}`),
      told[each.id]?.error ? this.error(told[each.id].error) : null));
  }

  roundsInside(span) {
    const { run } = this.app;
    const rounds = run.children(span).filter((each) => each.kind === "round" && each.start <= this.app.time);
    if (!rounds.some((each) => each.status) || (rounds.length === 1 && rounds[0].status === "SUCCESS")) return [];
    return make("ul.plain", {}, rounds.map((round) => make("li", {}, icon(this.isKnown(round) ? verdictState(round) : "running"), ` Round ${round.name}: ${this.isKnown(round) ? verdictWord(round) : "going on"}`)));
  }

  note({ time, event, ...rest }) {
    return make("div.said", {}, make("div.who", { textContent: `${event} · ${clock(time - this.app.run.start)}` }), text(rest, "code"));
  }

  // Questions

  question(span, about) {
    const { app } = this;
    const open = isOpen(span, Infinity) && !app.run.ended;
    const form = about.schema ? make("details.step", {}, make("summary", { textContent: "form of the answer" }), text(about.schema, "code")) : null;
    const told = make("p.bad", { role: "alert" });
    const box = make("div.question", {}, make("h3", {}, icon("asking"), open ? " Asks you" : " Asked"), rich(about.question ?? ""), form);
    box.dataset.span = span.id;
    if (!this.isKnown(span)) box.append(make("p.soft", { textContent: "not answered at this time" }));
    else if (!open) box.append(make("p.soft", { textContent: span.state === "done" ? `answered after ${duration(span.end - span.start)}` : "never answered" }));
    else if (!app.may("answer")) box.append(make("p.soft", { textContent: "It cannot be answered here, but where the run goes on." }));
    else {
      const begin = () => (this.answering = span.id);
      const answer = async (json) => {
        begin();
        told.textContent = "sending …";
        try {
          await app.source.answer(span.name, json);
          told.textContent = "sent";
          box.querySelectorAll("button, input, textarea, select").forEach((each) => (each.disabled = true));
          document.activeElement.blur();
          this.answering = null;
        } catch (error) {
          told.textContent = error.message;
        }
      };
      box.append(answerForm(about, answer, (said) => (told.textContent = said)), told);
      box.oninput = begin;
    }
    return box;
  }
}

/** A turn of a conversation. */
function turn({ role, content, tool_calls: calls, name }, tools = []) {
  const parts = Array.isArray(content) ? content : [content];
  const said = parts.map((part) => (typeof part === "string" ? part : part?.text ?? (part ? JSON.stringify(part, null, 2) : ""))).filter(Boolean);
  const tool = role === "tool" && tools.find((each) => each.result !== undefined && said.join("\n") === shownAs(each.result));
  if (tool) return make("p.who", { dir: "auto", textContent: `result of ${tool.name}, see Tools` });
  return make("div.said", {}, said.length || !calls ? make("div.who", { dir: "auto", textContent: [role, name].filter(Boolean).join(" · ") }) : null,
    said.map((each) => rich(each)), asksFor(calls, tools));
}

const shownAs = (result) => (typeof result === "string" ? result : JSON.stringify(result));

/** What a model calls: the names, where the calls have a table of their own; else the table. */
function asksFor(calls, tools) {
  if (!calls?.length) return null;
  const rows = calls.map((each) => ({ name: each.name ?? each.function?.name ?? "", arguments: each.arguments ?? each.function?.arguments }));
  const names = rows.map((each) => each.name);
  if (names.every((name) => tools.some((tool) => tool.name === name))) return make("p.who", { dir: "auto", textContent: `calls ${names.join(", ")}, see Tools` });
  return toolTable(rows);
}

// Verdicts

const verdictState = (round) => (round.status ? (round.status === "SUCCESS" ? "done" : "failed") : round.end === null ? "running" : "stopped");

function verdictWord(round) {
  if (!round.status) return round.end === null ? "going on" : "no verdict";
  return `${statusWord(round.status)}${round.by_error ? ", by an error" : ""}`;
}

/** Accepted; or rejected, with the design's name of the status. */
const statusWord = (status) => (status === "SUCCESS" ? "accepted" : `rejected (${status.toLowerCase().replaceAll("_", " ")})`);

function verdictOf({ status, evaluation, lesson, blame = [], score, faults = [], unsure = [], repairs = {} }) {
  const good = status === "SUCCESS";
  const field = (title, content) => (content ? make("div.field", {}, make("h4", { textContent: title }), content) : null);
  return [
    status ? make("p.status", {}, icon(good ? "done" : "failed"), ` ${statusWord(status)}`, score === null || score === undefined ? "" : ` · score ${score}`) : null,
    evaluation ? field("evaluation", rich(evaluation)) : null,
    field("at fault", faultsOf(faults, blame)),
    lesson && !faults.length ? field("lesson", rich(lesson)) : null,
    field("not verified", unsureOf(unsure)),
    field("runs again, too", repairsOf(repairs)),
  ].filter(Boolean);
}

/** What is wrong, with the right text beside it, and where; blamed operators without a fault alone. */
function faultsOf(faults, blame) {
  const known = faults.flatMap(({ operator, item }) => [operator, placeOfFault({ operator, item })]);
  const others = blame.filter((place) => !known.includes(place));
  if (!faults.length && !others.length) return null;
  const shown = faults.slice(0, MOST_FAULTS).map((fault) => make("li.fault", {},
    make("span.fault-place", { dir: "auto", textContent: placeOfFault(fault) }), fault.sure === false ? make("span.soft", { textContent: " suspected" }) : null,
    fault.wrong ? make("div", {}, make("span.soft", { textContent: "wrong: " }), make("del", { dir: "auto", textContent: quoted(fault.wrong) })) : null,
    fault.right ? make("div", {}, make("span.soft", { textContent: "right: " }), make("ins", { dir: "auto", textContent: quoted(fault.right) })) : null,
    fault.lesson ? rich(fault.lesson) : null));
  const more = faults.length - shown.length;
  return make("ul.plain.faults", {}, shown, more > 0 ? make("li.soft", { textContent: `and ${count(more)} more` }) : null,
    others.map((place) => make("li", {}, make("span.fault-place", { dir: "auto", textContent: place }))));
}

const quoted = (said) => (said.length > LONGEST_QUOTE ? `${said.slice(0, LONGEST_QUOTE)}…` : said);

const placeOfFault = ({ operator, item }) => (item === null || item === undefined ? operator : `${operator}[${item}]`);

const unsureOf = (unsure) => (unsure.length ? make("ul.plain", {}, unsure.slice(0, MOST_FAULTS).map((said) => make("li", { dir: "auto", textContent: quoted(said) }))) : null);

/** The operators that run again although they are not blamed, each with the reason. */
function repairsOf(repairs) {
  const told = Object.entries(repairs).filter(([, reason]) => reason);
  return told.length ? make("ul.plain", {}, told.slice(0, MOST_FAULTS).map(([place, reason]) => make("li", { dir: "auto", textContent: `${place}, because ${reason}` }))) : null;
}
