"""Map: an operator over a list, which runs a workflow for each item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, cast

from operad.runtime.events import Progress, current_scope, emit
from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.edges import Function, check_step, is_executable
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import causes, check_positive
from operad.runtime.values.concurrently import concurrently
from operad.runtime.values.errors import (
    BudgetError,
    InputError,
    InvalidError,
    Issue,
    OperadError,
    OperatorError,
    describe,
    did_you_mean,
)
from operad.runtime.values.message import Job, Value, WorkflowMessage, WorkflowStatus
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.within import contains, run_inside
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

OnError = Literal["fail", "skip", "keep"]


class ItemError(Value):
    """What stands in the place of an item that failed.

    Attributes:
        index: The item's place in the list, counted from 0.
        error: What went wrong, in words.
        kind: The name of the type of the error that it began with.
    """

    index: int
    error: str
    kind: str


class Map(BaseOperator[list[Any]]):
    """An operator that runs a workflow for each item of a list.

        @operator
        def split(job: Job) -> dict[str, list[str]]:
            return {"words": job.goal.split()}

        def shout(word: str) -> str:
            return word.upper()

        print(Workflow(split >> Map("each", shout, over="words")).run("one two").output)  # ['ONE', 'TWO']

    The first operators of the body get one message: its text is the item (as JSON, where it is not
    text), its outputs are ``item`` and ``index``, counted from 0. The map's message has the output ``items``: for each item what the body made of it, in the order of the list, which
    is the body's output named ``output``, all its outputs if it has others, or its text. The bodies'
    messages are its parts, and the worst of their statuses is its own.

    Args:
        id: Its identity in a workflow.
        body: What is run for each item: a workflow, a single operator, or a function, which takes the item.
        over: The name of the output of an operator before it, or of an input of the job, that holds
            the list; None for the only list among the outputs of the operators before it.
        concurrency: How many items at once.
        on_error: What a failing item does: ``fail`` ends the map with its error; ``skip`` leaves the
            item out; ``keep`` puts an `ItemError` in its place.

    Raises:
        InvalidError: `concurrency` is below 1, or `on_error` none of these.
    """

    def __init__(
        self,
        id: str,
        body: Workflow | Executable | Function,
        *,
        over: str | None = None,
        concurrency: int = 8,
        on_error: OnError = "fail",
    ) -> None:
        check_positive("Map", ("concurrency",), concurrency=concurrency)
        if on_error not in ("fail", "skip", "keep"):
            hint = did_you_mean(on_error, ("fail", "skip", "keep"))
            issue = Issue("on-error", f"{on_error!r} is not fail, skip or keep{hint}", "Map.on_error")
            raise InvalidError(f"map {id!r}", [issue])
        self._id = id
        self.body: Workflow[Any] = cast("Workflow[Any]", body) if isinstance(body, Workflow) else _alone(body)
        self._over = over
        self._concurrency = concurrency
        self._on_error: OnError = on_error

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """Its body."""
        return (self.body,)

    def get_id(self) -> str:
        """Its identity."""
        return self._id

    @property
    def settings(self) -> Mapping[str, str | None]:
        """What it does besides its body."""
        return {"over": self._over, "on_error": self._on_error}

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """What is wrong with it, and with its body, after these operators."""
        if contains(self.body, self):
            return [Issue("nested-in-itself", f"its body {self.body.name!r} contains it", self._id)]
        issues = [
            Issue(i.code, i.message, f"{self._id}/{i.where}" if i.where else self._id)
            for i in self.body.graph().check()
        ]
        properties = {
            name: cast("Mapping[str, Any]", schema)
            for operator in reversed(list(before.values()))
            for name, schema in _declared(operator).items()
        }
        kind = properties.get(self._over, {}).get("type") if self._over else None
        if kind not in (None, "array"):
            issues.append(
                Issue("not-a-list", f"{self._over!r} is declared as {kind}, and a map needs a list", self._id)
            )
        return issues

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the body for each item.

        Returns:
            The message with the output ``items``.

        Raises:
            InputError: There is no list of that name, or it is not a list.
            OperadError: The body failed for an item, and `on_error` is ``fail``; by then the bodies
                of the other items have been cancelled and have ended.
        """
        items = self._items(call.job, call.messages)
        calls = [
            OperatorCall(call.reasoner, call.job, (self._message(call.job, item, index),), call.previous, call.lesson)
            for index, item in enumerate(items)
        ]
        said = await for_each(self.body, calls, self._id, concurrency=self._concurrency, on_error=self._on_error)
        kept = [outcome for outcome in said if outcome is not None]
        messages = [outcome for outcome in kept if isinstance(outcome, WorkflowMessage)]
        worst = min(messages, key=lambda message: message.status.priority, default=WorkflowMessage())
        return WorkflowMessage(
            scratchpad="\n\n".join(message.scratchpad for message in messages),
            status=worst.status,
            evaluation=worst.evaluation,
            lesson=worst.lesson,
            outputs={"items": [o if isinstance(o, ItemError) else _value(o) for o in kept]},
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
        text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
        return WorkflowMessage(
            scratchpad=text, outputs={"item": item, "index": index}, job_id=job.id, operator_id=self._id
        )

    def _items(self, job: Job, messages: Sequence[WorkflowMessage]) -> list[Any]:
        before = messages[: _earlier(messages)]
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
        if self._over not in known:
            hint = did_you_mean(self._over, known)
            raise InputError(
                f"map {self._id!r}: no operator before it has an output {self._over!r}, and the job no such input"
                f"{hint}; there are: {', '.join(known) or 'none'}"
            )
        found = known[self._over]
        if not isinstance(found, list | tuple):
            raise InputError(
                f"map {self._id!r}: {self._over!r} is no list but {type(found).__name__}, and a map needs a list"
            )
        return list(cast("list[Any]", found))


async def for_each(
    body: Workflow, calls: Sequence[OperatorCall], name: str, *, concurrency: int, on_error: OnError
) -> list[WorkflowMessage | ItemError | None]:
    """Run a workflow once per call, inside the operator that the current code is.

    Args:
        body: The workflow.
        calls: What each run of it is given.
        name: What the operator is called in errors and paths.
        concurrency: How many runs at once.
        on_error: What a failing run does, as for a `Map`.

    Returns:
        What came of each call: a message, or for one that failed an `ItemError` or None, as `on_error` says.

    Raises:
        OperadError: A run failed, and `on_error` is ``fail``; by then the others have been cancelled and have ended.
    """
    said: list[WorkflowMessage | ItemError | None] = [None] * len(calls)
    turns = iter(range(len(calls)))
    done = 0

    async def work() -> None:
        nonlocal done
        for index in turns:
            try:
                said[index] = await run_inside(body, calls[index], f"{name}[{index}]")
            except BudgetError:
                raise
            except Exception as error:
                if on_error == "fail":
                    failed = OperadError(f"item {index} of map {name!r}: {describe(error)}")
                    done_items = ((place, each) for place, each in enumerate(said) if isinstance(each, WorkflowMessage))
                    failed.finished = {f"{name}[{place}]": each for place, each in done_items}
                    raise failed from error
                if on_error == "keep":
                    first = next(link for link in causes(error) if not isinstance(link, OperatorError))
                    said[index] = ItemError(index=index, error=describe(error), kind=type(first).__name__)
            done += 1
            emit(Progress(done=done, total=len(calls)))

    await concurrently(work() for _ in range(min(concurrency, len(calls))))
    return said


def _earlier(messages: Sequence[WorkflowMessage]) -> int:
    """Where, after the messages of the operators before it, earlier ones of its own begin, each with its verdict.

    A blamed operator finds those there; so do the first operators of a blamed workflow.
    """
    scope = current_scope()
    around = {outer.operator_id for outer in scope.outwards()} if scope else set[str]()
    for place, (message, verdict) in enumerate(pairwise(messages)):
        if message.operator_id in around and verdict.status is WorkflowStatus.EXECUTION_ERROR:
            return place
    return len(messages)


def _alone(body: Executable | Function) -> Workflow:
    check_step(body)
    operator: Executable = cast("Executable", body) if is_executable(body) else FunctionOperator(cast("Function", body))
    workflow = BuiltinWorkflow(name=operator.get_id())
    workflow.add_operator(operator)
    return workflow


def _declared(operator: BaseOperator) -> Mapping[str, Any]:
    """The outputs that an operator's schema declares."""
    schema = getattr(operator.added, "schema", None)
    return cast("Mapping[str, Any]", schema).get("properties", {}) if isinstance(schema, Mapping) else {}


def _value(message: WorkflowMessage) -> Any:
    if list(message.outputs) == ["output"]:
        return message.outputs["output"]
    return message.outputs or message.scratchpad
