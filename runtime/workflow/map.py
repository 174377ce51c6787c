"""Map: an operator over a list, which runs a workflow for each item."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from operad.runtime.events import current_scope
from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.edges import AnswerPath, Function, check_step, is_executable
from operad.runtime.graph.operator import BaseOperator, refusing_jobs
from operad.runtime.policies.policy import check_positive
from operad.runtime.values.arguments import known_arguments
from operad.runtime.values.errors import (
    InputError,
    InvalidError,
    Issue,
    did_you_mean,
)
from operad.runtime.values.ids import settled_id
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.output import plain_value, shown
from operad.runtime.workflow.declared import declared, fault_in_list
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.items import Calls, ItemError, OnError, for_each
from operad.runtime.workflow.parameters import is_item
from operad.runtime.workflow.within import contains
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

_as_json = json.JSONEncoder(ensure_ascii=False, default=str).encode

Items = Callable[[Job], "Iterable[Any] | AsyncIterable[Any]"]
"""Function that returns the items for a job, such as a generator function."""


class Map(BaseOperator[list[Any]]):
    """An operator that runs a workflow for each item of a list.

        @operator
        def split(job: Job) -> dict[str, list[str]]:
            return {"words": job.goal.split()}

        def shout(word: str) -> str:
            return word.upper()

        print(Workflow(split >> Map(over="split.words", each=shout)).run("one two").output)  # ['ONE', 'TWO']

    The first operators of the body get a message with the item, and after it the messages that the map itself gets. The
    text of the first is the item (as JSON, where it is not text), its outputs are ``item`` and ``index``, counted from
    0. The map's message has the output ``items``: for each item what the body made of it, in the order of the list, which
    is the body's output named ``output``, all its outputs if it has others, or its text. The bodies'
    messages are its parts, and the worst of their statuses is its own. A model that follows is shown each item with its
    result.

    Args:
        id: Its identity in a workflow; by default that of its body.
        body: Body to run for each item: a workflow, a single operator, or a function, which takes the item.
        each: The same, by another name.
        over: The list: the name of an output of an operator before it, or of an input of the job; an operator with the
            name of its output, as ``facts.claims`` or as ``facts.output.claims`` in Python; an operator whose whole
            answer is the list; None for the only list among the outputs of the operators before it. Or a function that
            takes the job and returns the items, as a generator function does, sync or async: the next item is asked for
            when there is room for it.
        concurrency: Maximum number of items at once.
        on_error: Effect of a failing item: ``fail`` ends the map with its error; ``skip`` leaves the
            item out; ``keep`` puts an `ItemError` in its place.
        collect: False to forget what the body made of an item as soon as it is done, so that any number of items needs
            as much memory as a few: the output ``items`` holds no more than the `ItemError`s, ``count`` is the number of
            the items. The results are in the events, or wherever the body writes them.

    Raises:
        InvalidError: `concurrency` is below 1, or `on_error` none of these.
        InputError: There is no body, or two; or `over` is not a name.
    """

    @known_arguments
    def __init__(
        self,
        id: str = "",
        body: Workflow | Executable | Function | None = None,
        *,
        each: Workflow | Executable | Function | None = None,
        over: str | AnswerPath | Items | None = None,
        concurrency: int = 8,
        on_error: OnError = "fail",
        collect: bool = True,
    ) -> None:
        check_positive("Map", ("concurrency",), concurrency=concurrency)
        if on_error not in ("fail", "skip", "keep"):
            hint = did_you_mean(on_error, ("fail", "skip", "keep"))
            issue = Issue("on-error", f"{on_error!r} is not fail, skip or keep{hint}", "Map.on_error")
            raise InvalidError(f"map {id!r}", [issue])
        if not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Map(…): id: expected a text, got {shown(id)}; the body is given as each=…")
        if (body is None) == (each is None):
            raise InputError("Map(…): expected what runs for each item, once: Map(over='facts.claims', each=check)")
        if not (isinstance(over, str | AnswerPath | None) or callable(over)):
            raise InputError(
                f"Map(…): over: expected the name of a list, such as 'facts.claims', or facts.output.claims; got {shown(over)}"
            )
        runs = body if each is None else each
        self.body: Workflow[Any] = cast("Workflow[Any]", runs) if isinstance(runs, Workflow) else _alone(runs)
        self._id = id or self.body.get_id()
        self._settled = bool(id)
        self._source = None if isinstance(over, str | AnswerPath | None) else over
        self._over_path = over if isinstance(over, str | AnswerPath) else None
        self._collect = collect
        self._concurrency = concurrency
        self._on_error: OnError = on_error

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """Its body."""
        return (self.body,)

    def get_id(self) -> str:
        """Its identity."""
        return self._id

    def settle_id(self, taken: Collection[str]) -> None:
        """Make the id unique among those that are taken, unless it was chosen or is settled."""
        if not self._settled:
            self._id, self._settled = settled_id(self._id, taken), True

    @property
    def _over(self) -> str | None:
        """The list, as text."""
        return repr(self._over_path) if isinstance(self._over_path, AnswerPath) else self._over_path

    @property
    def reads(self) -> Sequence[str]:
        """The operator whose answer holds the list, where that is named."""
        if isinstance(self._over_path, AnswerPath):
            return (self._over_path._operator.get_id(),)  # pyright: ignore[reportPrivateUsage]
        operator, dot, _ = (self._over_path or "").partition(".")
        return (operator,) if dot else ()

    @property
    def settings(self) -> Mapping[str, str | None]:
        """Settings besides its body."""
        over = getattr(self._source, "__qualname__", None) if self._source else self._over
        return {"over": over, "on_error": self._on_error}

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the map and its body after these operators."""
        if contains(self.body, self):
            return [Issue("nested-in-itself", f"its body {self.body.name!r} contains it", self._id)]
        issues = [
            Issue(i.code, i.message, f"{self._id}/{i.where}" if i.where else self._id)
            for i in self.body.graph().check()
        ]
        owner, _, path = (self._over or "").partition(".")
        names = path.split(".") if path else []
        source = before.get(owner) if names else None
        for operator in reversed([*before.values()]) if owner and not names else ():
            if owner in declared(operator).get("properties", {}):
                source, names = operator, [owner]
        if source is not None and (fault := fault_in_list(declared(source), source.get_id(), names)):
            code, message = fault
            issues.append(Issue(code, message, self._id))
        return issues

    @refusing_jobs
    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the body for each item.

        Returns:
            The message with the output ``items``.

        Raises:
            InputError: There is no list of that name, or it is not a list.
            OperadError: The body failed for an item, and `on_error` is ``fail``; by then the bodies
                of the other items have been cancelled and have ended.
        """
        items = self._source(call.job) if self._source else self._items(call.job, call.messages)
        before = tuple(call.messages[: _earlier(call.messages)])

        def call_for(item: Any, index: int) -> OperatorCall:
            message = self._message(call.job, item, index)
            return OperatorCall(call.reasoner, call.job, (message, *before), call.previous, call.lesson)

        outcomes = await for_each(
            self.body,
            Calls(items, call_for, self._id),
            self._id,
            concurrency=self._concurrency,
            on_error=self._on_error,
            keep=_with_item if self._collect else _nothing,
        )
        worst = outcomes.worst
        if not self._collect:
            return WorkflowMessage(
                scratchpad=f"{outcomes.count:,} items",
                status=worst.status,
                evaluation=worst.evaluation,
                lesson=worst.lesson,
                outputs={"items": outcomes.said, "count": outcomes.count},
                job_id=call.job.id,
                operator_id=self._id,
            )
        messages = [outcome for outcome in outcomes.said if isinstance(outcome, WorkflowMessage)]
        return WorkflowMessage(
            scratchpad="\n\n".join(message.scratchpad for message in messages),
            status=worst.status,
            evaluation=worst.evaluation,
            lesson=worst.lesson,
            outputs={"items": [o if isinstance(o, ItemError) else _value(o) for o in outcomes.said]},
            parts=tuple(messages),
            job_id=call.job.id,
            operator_id=self._id,
        )

    def read_output(self, message: WorkflowMessage) -> list[Any]:
        """Return what the body made of each item, as instances of its type; of one that failed, its `ItemError`."""
        parts = iter(message.parts)
        items: list[Any] = message.outputs["items"]
        return [item if isinstance(item, ItemError) else self.body.read_output(next(parts)) for item in items]

    def _message(self, job: Job, item: Any, index: int) -> WorkflowMessage:
        text = item if isinstance(item, str) else _as_json(item)
        return WorkflowMessage.of_text(text, self._id, job.id, outputs={"item": item, "index": index})

    def _items(self, job: Job, messages: Sequence[WorkflowMessage]) -> list[Any]:
        before = messages[: _earlier(messages)]
        if self.reads:
            return self._items_of(self.reads[0], before)
        around = next((message for message in before if is_item(message)), None)  # of a map around this one
        if self._over is None and around is not None and isinstance(around.outputs["item"], list | tuple):
            before = (around,)
        values = {name: value for message in reversed(before) for name, value in message.outputs.items()}
        if self._over is None:
            lists = [name for name, value in values.items() if isinstance(value, list | tuple)]
            if len(lists) != 1:
                found = f"there are {len(lists)}: {', '.join(lists)}" if lists else "there is none"
                raise InputError(
                    f"map {self._id!r} needs one list among the outputs before it, and {found}; say over=…"
                )
            return list(values[lists[0]])
        known = {**job.inputs, **values}
        ids = [message.operator_id for message in before]
        if self._over not in known and self._over in ids:
            return self._items_of(self._over, before)
        if self._over not in known:
            hint = did_you_mean(self._over, [*known, *ids])
            raise InputError(
                f"map {self._id!r}: no operator before it has an output {self._over!r}, and the job no such input"
                f"{hint}; there are: {', '.join(known) or 'none'}"
            )
        found = known[self._over]
        if not isinstance(found, list | tuple):
            raise InputError(
                f"map {self._id!r}: {self._over!r} is not a list but {type(found).__name__}; a map needs a list"
            )
        return list(cast("list[Any]", found))

    def _items_of(self, operator_id: str, messages: Sequence[WorkflowMessage]) -> list[Any]:
        """The list in the answer of an operator that is named."""
        path = tuple((self._over or "").split(".")[1:])
        message = next((each for each in messages if each.operator_id == operator_id), None)
        if message is None:
            raise InputError(
                f"map {self._id!r}: {operator_id!r} has no answer: it did not run, or is not before the map"
            )
        value: Any = plain_value(message)
        if path and path[0] in message.outputs:
            value = message.outputs
        for place, name in enumerate(path):
            known: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
            if name not in known:
                at = ".".join((operator_id, *path[:place]))
                raise InputError(
                    f"map {self._id!r}: {at!r} has no {name!r}{did_you_mean(name, known)}; "
                    f"there are: {', '.join(known) or 'none'}"
                )
            value = known[name]
        if not isinstance(value, list | tuple):
            kind: str = type(cast("object", value)).__name__
            raise InputError(f"map {self._id!r}: {self._over!r} is not a list but {kind}; a map needs a list")
        return list(cast("list[Any]", value))


def _earlier(messages: Sequence[WorkflowMessage]) -> int:
    """Return the index, after the messages of the operators before it, of its own earlier messages with verdicts.

    A blamed operator finds those there; so do the first operators of a blamed workflow.
    """
    scope = current_scope()
    around = {outer.operator_id for outer in scope.outwards()} if scope else set[str]()
    for place, (message, verdict) in enumerate(pairwise(messages)):
        if message.operator_id in around and verdict.status is WorkflowStatus.EXECUTION_ERROR:
            return place
    return len(messages)


def _alone(body: Any) -> Workflow:
    check_step(body)
    operator: Executable = cast("Executable", body) if is_executable(body) else FunctionOperator(cast("Function", body))
    workflow = BuiltinWorkflow(name=operator.get_id())
    workflow.add_operator(operator)
    return workflow


def _with_item(call: OperatorCall, message: WorkflowMessage) -> WorkflowMessage:
    """Return the message of a body with the item that it is about; its call is the map's."""
    return message.changed(item=call.messages[0].outputs["item"])


def _nothing(call: OperatorCall, message: WorkflowMessage) -> None:
    """Keep nothing of the message of a body."""


def _value(message: WorkflowMessage) -> Any:
    if list(message.outputs) == ["output"]:
        return message.outputs["output"]
    return message.outputs or message.scratchpad
