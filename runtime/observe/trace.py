"""A run as a tree of spans, made from its events: the page, reports, notebooks and traces all show this.

A span is something that takes time: the run, a round, an operator in a round, an item of a map, an attempt, the pause
before the next, a call of a model or a tool, a question to a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.message import NO_USAGE, Usage, WorkflowStatus

Kind = Literal["run", "round", "operator", "item", "attempt", "pause", "model", "tool", "question"]
State = Literal["running", "done", "failed", "stopped", "skipped", "cached", "kept"]

MOST_STREAMED = 100_000
"""Characters that are kept of what a model writes, until its whole answer is known."""

_INDEX = re.compile(r"\[\d+\]$")
_STAMP = frozenset(Event.__struct_fields__)
_VERDICT = frozenset(events.RoundFinished.__struct_fields__) - _STAMP


@dataclass(slots=True, eq=False)
class Span:
    """Something that takes time.

    Attributes:
        id: Its place in the trace, from 0.
        parent: The span around it; None for the run itself.
        kind: What it is.
        name: What it is called: an operator's id, a model's or a tool's name, a round's number.
        path: Where in the run it is: as in events, but empty for what concerns the whole run.
        round: The round of the workflow it is in; 0 for the run.
        attempt: The operator's attempt it is in; 0 where there is none.
        start: When it began, in seconds since the epoch.
        end: When it ended; None while it goes on.
        state: How it is, or how it ended.
        usage: What models cost in it, as far as known.
        details: What else is known of it, as plain values.
        version: Which change of the trace was the last of this span.
    """

    id: int
    parent: int | None
    kind: Kind
    name: str
    path: tuple[str, ...]
    round: int
    attempt: int
    start: float
    end: float | None = None
    state: State = "running"
    usage: Usage = NO_USAGE
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    version: int = 0

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it goes on."""
        return 0.0 if self.end is None else max(0.0, self.end - self.start)


@dataclass(slots=True, frozen=True)
class Graph:
    """What a workflow consists of.

    Attributes:
        workflow: Its name.
        before: Per operator, those before it.
        judges: The ids of its evaluators.
        instructions: What operators and evaluators are there for, of those that say so.
    """

    workflow: str
    before: Mapping[str, tuple[str, ...]]
    judges: tuple[str, ...] = ()
    instructions: Mapping[str, str] = field(default_factory=dict[str, str])

    def joined(self, other: Graph) -> Graph:
        """Both: a leader's workflow has other operators each time."""
        return Graph(
            other.workflow,
            {**self.before, **other.before},
            tuple(dict.fromkeys((*self.judges, *other.judges))),
            {**self.instructions, **other.instructions},
        )


class Trace:
    """The spans of a run, kept up to date by its events. Feed it with `apply`, in the order of the events.

    Attributes:
        run_id: The run's identity.
        workflow: The workflow's name.
        goal: What the job was.
        spans: All spans, by their id; first the run's own.
        graphs: The workflows in the run, by the path of the operator that runs them, without the numbers of
            items; that of the run itself under ``()``.
        version: How many events it has taken in.
        began: The version of the run's first event: what was known before was of another run.
        graphs_version: The version of the last event that told of a workflow.
        now: The time of the last event, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.version = 0
        self._clear()

    def _clear(self) -> None:
        self.run_id = ""
        self.workflow = ""
        self.goal = ""
        self.spans: list[Span] = []
        self.graphs: dict[tuple[str, ...], Graph] = {}
        self.began = self.graphs_version = self.version
        self.now = 0.0
        self._open: dict[tuple[object, ...], Span] = {}
        self._open_in: dict[int | None, dict[tuple[object, ...], Span]] = {}

    @classmethod
    def of(cls, happened: Iterable[Event]) -> Trace:
        """The trace of these events."""
        trace = cls()
        for event in happened:
            trace.apply(event)
        return trace

    @property
    def root(self) -> Span | None:
        """The run's own span; None before its first event."""
        return self.spans[0] if self.spans else None

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return bool(self.spans) and self.spans[0].end is not None

    def changed_since(self, version: int) -> list[Span]:
        """The spans that changed after that many events."""
        return [span for span in self.spans if span.version > version]

    def within(self, span: Span, *kinds: Kind) -> list[Span]:
        """The spans right inside another, of these kinds or of all, in order of their beginning."""
        return [each for each in self.spans if each.parent == span.id and (not kinds or each.kind in kinds)]

    def apply(self, event: Event) -> Sequence[Span]:
        """Take in an event.

        Returns:
            The spans that it began, changed or ended, those around others first.
        """
        self.version += 1
        if isinstance(event, events.RunStarted):  # what follows is another run, or the same one once more
            self._clear()
        self.now = max(self.now, event.time)
        changed = self._changed_by(event)
        for span in changed:
            span.version = self.version
        return changed

    def _changed_by(self, event: Event) -> Sequence[Span]:
        match event:
            case events.RunStarted():
                return self._run_started(event)
            case events.RunFinished():
                return self._run_ended(event, "done", event.message.usage, message=event.as_dict()["message"])
            case events.RunFailed():
                return self._run_ended(event, "failed", event.usage, error=event.error)
            case events.WorkflowEntered():
                return self._entered(event)
            case events.RoundStarted():
                return self._round_started(event)
            case events.RoundFinished():
                return self._round_ended(event)
            case events.OperatorStarted():
                return [self._begin(("operator", event.path), self._around(event), "operator", event)]
            case events.OperatorSkipped():
                span = self._begin(("operator", event.path), self._around(event), "operator", event)
                return self._end_operator(event, span, "skipped", reason=event.reason)
            case _:
                return self._changed_in_operator(event)

    def _changed_in_operator(self, event: Event) -> Sequence[Span]:
        span = self._operator(event.path)
        if span is None:
            return self._noted(event, self._open.get(("round", event.path)) or self.root)
        match event:
            case events.OperatorFinished():
                state = span.state if span.state in ("cached", "kept") else "done"
                span.usage = event.message.usage
                return self._end_operator(event, span, state, message=event.as_dict()["message"])
            case events.OperatorFailed() | events.OperatorCancelled():
                span.usage = event.usage
                error = {"error": event.error} if isinstance(event, events.OperatorFailed) else {}
                return self._end_operator(event, span, "failed" if error else "stopped", **error)
            case events.OperatorRetried():
                return self._retried(event, span)
            case events.CacheHit() | events.MessageKept():
                span.state = "cached" if isinstance(event, events.CacheHit) else "kept"
                return [span]
            case events.TaskBuilt():
                span.details.setdefault("tasks", []).append(event.as_dict()["task"])
                return [span]
            case events.Progress():
                span.details["progress"] = [event.done, event.total]
                return [span]
            case _:
                return self._called(event, span)

    def _called(self, event: Event, span: Span) -> Sequence[Span]:
        """What models and tools are asked in an operator, and persons, and what they say."""
        match event:
            case events.ModelAsked():
                told = event.as_dict()
                asked = self._begin(("model", event.call_id), span, "model", event, event.model)
                asked.details.update(messages=told["messages"], tools=told["tools"])
                return [asked]
            case events.TokenStreamed():
                return self._streamed(event, span)
            case events.ModelAnswered():
                return self._answered(event, span)
            case events.ModelFailed():
                return self._end(("model", event.call_id), event, "failed", error=event.error)
            case events.ToolCalled():
                called = self._begin(("tool", event.path, event.call_id), span, "tool", event, event.tool)
                called.details["arguments"] = event.as_dict()["arguments"]
                return [called]
            case events.ToolReturned():
                state = "failed" if event.failed else "done"
                return self._end(("tool", event.path, event.call_id), event, state, result=event.result)
            case events.Interrupted():
                told = event.as_dict()
                asked = self._begin(("question", event.interrupt_id), span, "question", event, event.interrupt_id)
                asked.details.update(question=event.question, schema=told["schema"])
                return [asked]
            case events.Resumed():
                return self._end(("question", event.interrupt_id), event, "done")
            case _:
                return self._noted(event, span)

    # The run and its rounds

    def _run_started(self, event: events.RunStarted) -> Sequence[Span]:
        self.run_id, self.workflow, self.goal = event.run_id, event.workflow, event.goal
        self.graphs[()] = _graph_of(event)
        return [self._begin(("run",), None, "run", event, event.workflow)]

    def _run_ended(self, event: Event, state: State, usage: Usage, **details: object) -> Sequence[Span]:
        if self.root:
            self.root.usage = usage
        left = [self._end(key, event, "stopped") for key in [*reversed(self._open)] if key != ("run",)]
        return [*self._end(("run",), event, state, **details), *(span for spans in left for span in spans)]

    def _entered(self, event: events.WorkflowEntered) -> Sequence[Span]:
        place, graph = structural(event.path), _graph_of(event)
        known = self.graphs.get(place)
        joined = known.joined(graph) if known else graph
        if joined != known:  # each item of a map says the same
            self.graphs[place], self.graphs_version = joined, self.version
        operator = self._operator(event.path)
        if operator is None or not _is_item(event):
            return [operator] if operator else []
        return [operator, self._begin(("item", event.path), operator, "item", event, event.path[-1])]

    def _round_started(self, event: events.RoundStarted) -> Sequence[Span]:
        closed = self._end(("round", event.path), event, "stopped")  # one that failed before it was judged
        item = self._open.get(("item", event.path))
        if item:
            item.end, item.state = None, "running"
        span = self._begin(
            ("round", event.path),
            item or self._operator(event.path) or self.root,
            "round",
            event,
            str(event.round),
        )
        span.details["operators"] = list(event.operators)
        return [*([item] if item else []), *closed, span]

    def _round_ended(self, event: events.RoundFinished) -> Sequence[Span]:
        verdict = {name: value for name, value in event.as_dict().items() if name in _VERDICT}
        ended = self._end(("round", event.path), event, "done", **verdict)
        if item := self._open.get(("item", event.path)):  # unless another round follows
            item.end, item.state = event.time, "done" if event.status is WorkflowStatus.SUCCESS else "failed"
            return [item, *ended]
        return ended

    def _around(self, event: Event) -> Span | None:
        return self._open.get(("round", event.path[:-1])) or self._operator(event.path[:-1]) or self.root

    def _operator(self, path: tuple[str, ...]) -> Span | None:
        """The operator that is at work there; for an item of a map, the map."""
        span = self._open.get(("operator", path))
        if span is None and path and _INDEX.search(path[-1]):
            span = self._open.get(("operator", (*path[:-1], _INDEX.sub("", path[-1]))))
        return span

    # Operators and their attempts

    def _retried(self, event: events.OperatorRetried, span: Span) -> Sequence[Span]:
        attempt = self._attempt(span, event.attempt, event.time, "failed", error=event.error)
        pause = self._add(span, "pause", event, str(event.attempt))
        pause.end, pause.state = event.time + event.delay, "done"
        span.attempt = event.attempt + 1
        span.details["next_attempt_at"] = pause.end
        return [span, *self._left_open(span, event), attempt, pause]

    def _attempt(self, span: Span, number: int, end: float, state: State, **details: object) -> Span:
        attempt = Span(
            len(self.spans),
            span.id,
            "attempt",
            str(number),
            span.path,
            span.round,
            number,
            span.details.pop("next_attempt_at", span.start),
            end,
            state,
            details=dict(details),
        )
        self.spans.append(attempt)
        return attempt

    def _end_operator(self, event: Event, span: Span, state: State, **details: object) -> Sequence[Span]:
        left = self._left_open(span, event)
        last = [self._attempt(span, span.attempt, event.time, state)] if "next_attempt_at" in span.details else []
        return [*self._end(("operator", span.path), event, state, **details), *left, *last]

    def _left_open(self, around: Span, event: Event) -> list[Span]:
        """End what an operator leaves open: what it was doing when it ended or failed."""
        ended: list[Span] = []
        while inside := self._open_in.get(around.id):
            key, _ = inside.popitem()
            ended += self._end(key, event, "stopped")
        return ended

    # Models

    def _streamed(self, event: events.TokenStreamed, span: Span) -> Sequence[Span]:
        inside = self._open_in.get(span.id, {})
        writing = next((each for each in reversed(inside.values()) if each.kind == "model"), span)
        text = writing.details.get("text", "")
        if len(text) < MOST_STREAMED:
            writing.details["text"] = (text + event.text)[:MOST_STREAMED]
        return [writing]

    def _answered(self, event: events.ModelAnswered, span: Span) -> Sequence[Span]:
        if ("model", event.call_id) not in self._open:  # nobody said when it began
            asked = self._begin(("model", event.call_id), span, "model", event, event.model)
            asked.start -= event.usage.seconds
        told = event.as_dict()
        ended = self._end(("model", event.call_id), event, "done", text=event.text, tool_calls=told["tool_calls"])
        if event.finish_reason:
            for each in ended:
                each.details["finish_reason"] = event.finish_reason
        for each in ended:
            each.usage = event.usage
        around: list[Span] = []
        while span.parent is not None:
            around.append(span)
            span = self.spans[span.parent]
        for each in (span, *around):
            each.usage = each.usage + event.usage
        return [span, *reversed(around), *ended]

    # Spans

    def _noted(self, event: Event, span: Span | None) -> Sequence[Span]:
        """Write down an event that changes nothing but is worth to be told."""
        if span is None:
            return []
        said = {name: value for name, value in event.as_dict().items() if name not in _STAMP}
        span.details.setdefault("notes", []).append({"time": event.time, **said})
        return [span]

    def _begin(self, key: tuple[object, ...], around: Span | None, kind: Kind, event: Event, name: str = "") -> Span:
        self._end(key, event, "stopped")  # one of which nobody said that it ended
        span = self._add(around, kind, event, name or event.operator_id)
        self._open[key] = span
        self._open_in.setdefault(span.parent, {})[key] = span
        return span

    def _add(self, around: Span | None, kind: Kind, event: Event, name: str) -> Span:
        parent = around.id if around else None
        span = Span(len(self.spans), parent, kind, name, event.path, event.round, event.attempt, event.time)
        self.spans.append(span)
        return span

    def _end(self, key: tuple[object, ...], event: Event, state: State, **details: object) -> Sequence[Span]:
        span = self._open.pop(key, None)
        if span is None:
            return []
        around = self._open_in.setdefault(span.parent, {})
        around.pop(key, None)
        around.update(self._open_in.pop(span.id, {}))  # what it leaves open is now inside what is around it
        if span.end is not None:
            return []
        span.end, span.state, span.version = max(span.start, event.time), state, self.version
        span.details.update(details)
        return [span]


def structural(path: Sequence[str]) -> tuple[str, ...]:
    """A path without the numbers of items: the same for what is in the same place of a workflow."""
    return tuple(_INDEX.sub("", part) for part in path)


def critical_path(trace: Trace) -> frozenset[int]:
    """The ids of the operators' spans that made the run last as long as it did, those of workflows inside included.

    From the end of each round back: the operator that ended last, of those that it waited for the one that ended
    last, and so on.
    """
    critical: list[int] = []
    inside: dict[int | None, list[Span]] = {}
    for span in trace.spans:
        inside.setdefault(span.parent, []).append(span)
    todo = [*inside.get(None, ())]
    while todo:
        span = todo.pop()
        children = inside.get(span.id, [])
        if span.kind == "round":
            operators = _chain([each for each in children if each.kind == "operator"], _waits_in(trace, span))
            critical += [each.id for each in operators if each.state != "skipped"]
            todo += operators
        else:
            todo += [each for each in children if each.kind == "round"]
            todo += _chain([each for each in children if each.kind == "item"], _began_after)
    return frozenset(critical)


def _chain(spans: Sequence[Span], waited: Callable[[Span, Span], bool]) -> list[Span]:
    """From the span that ended last back: of those that it `waited` for, the one that ended last, and so on."""
    ended, chain = [span for span in spans if span.end is not None], list[Span]()
    candidates = [span for span in ended if span.state != "stopped"] or ended  # who was stopped, by another's error
    for span in sorted(candidates, key=_end_of, reverse=True):
        if not chain or waited(chain[-1], span):
            chain.append(span)
    return chain


def _waits_in(trace: Trace, round_: Span) -> Callable[[Span, Span], bool]:
    """Whether an operator of a round waits for another one: that is before it, or that it judges."""
    graph = trace.graphs.get(structural(round_.path)) or Graph("", {})

    def waited(span: Span, earlier: Span) -> bool:
        if span.name in graph.judges:
            return earlier.name not in graph.judges
        return earlier.name in graph.before.get(span.name, ())

    return waited


def _began_after(span: Span, earlier: Span) -> bool:
    return _end_of(earlier) <= span.start


def _end_of(span: Span) -> float:
    return span.start if span.end is None else span.end


def _graph_of(event: events.RunStarted | events.WorkflowEntered) -> Graph:
    return Graph(event.workflow, event.operators, event.judges, event.instructions)


def _is_item(event: Event) -> bool:
    """Whether it concerns an item of a map: its path ends with the map's id and the item's number."""
    return bool(event.path) and event.path[-1] != event.operator_id
