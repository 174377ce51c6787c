"""Map: an operator over a list, which runs a workflow for each item, and the runs for the items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, Literal, cast, overload

from pydantic import BaseModel, JsonValue
from typing_extensions import TypedDict, TypeVar, Unpack

from operad.runtime.events import Progress, Scope, emit
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.graph.call import OperatorCall, refusing_jobs
from operad.runtime.graph.chat2graph import Executable
from operad.runtime.graph.edges import (
    AnswerPath,
    Awaited,
    Body,
    Chain,
    Function,
    Plain,
    Streaming,
    check_step,
    is_executable,
)
from operad.runtime.graph.engine import LONGEST_TURN
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import causes, check_positive
from operad.runtime.values.arguments import known_arguments, short_repr
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
    shorten,
)
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.model_text import as_text, plain
from operad.runtime.values.own import own as own_value
from operad.runtime.values.value import Value
from operad.runtime.workflow.base_workflow import (
    BaseWorkflow,
    contains,
    inner_call,
    inside,
    inside_issues,
    run_within,
)
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.parameters import is_item

OnError = Literal["fail", "skip", "keep"]


class ItemError(Value):
    """Value in the place of the result of an item that failed.

        each = Map("each", check, over="facts.claims", on_error="keep")  # an item that fails becomes an ItemError
        print(ItemError(index=2, error="timed out", kind="TimeoutError"))

    Attributes:
        index: The item's index in the list, counted from 0.
        error: Text of the error.
        kind: Name of the type of the original error, such as ``TimeoutError``.
    """

    index: int
    error: str
    kind: str


Outcome = WorkflowMessage | ItemError

Keep = Callable[[OperatorCall, WorkflowMessage], WorkflowMessage]
"""Function that returns the message to store for a call and its message."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of a workflow for several calls.

    Attributes:
        said: The stored messages and `ItemError`s, in the order of the calls.
        worst: The message with the worst status; if that is not SUCCESS, its evaluation names the call.
    """

    said: list[Outcome]
    worst: WorkflowMessage
    count: int


class Calls:
    """Queue of the calls for items. A call is created when a worker takes it.

    Args:
        call_for: Function that returns the call for an item and its index.
        name: Name of the map in errors.
    """

    def __init__(
        self, items: Iterable[Any] | AsyncIterable[Any], call_for: Callable[[Any, int], OperatorCall], name: str
    ) -> None:
        self.total = len(items) if isinstance(items, Sequence) else None
        self.count = 0
        self._call_for = call_for
        self._turn = asyncio.Lock()
        self._items: Iterator[Any] = iter(())
        self._later: AsyncIterator[Any] | None = None
        if isinstance(items, AsyncIterable):
            self._later = aiter(items)
        elif _is_whole(items):
            told = f"over: the function returned {short_repr(items)}; it must return a list, or generate the items"
            raise InputError(f"map {name!r}: {told}")
        else:
            self._items = iter(items)

    def take(self) -> tuple[int, OperatorCall] | None:
        """Return the next call and its index; None if no item is left, or if the items come later."""
        return self._taken(next(self._items, _NO_ITEM))

    async def take_later(self, scope: Scope) -> tuple[int, OperatorCall] | None:
        """Wait for the next item of an asynchronous iterable, and return its call and index; None if none is left."""
        if self._later is None:
            return None
        with scope.at_work():
            async with self._turn:
                return self._taken(await anext(self._later, _NO_ITEM))

    def _taken(self, item: Any) -> tuple[int, OperatorCall] | None:
        if item is _NO_ITEM:
            return None
        index, self.count = self.count, self.count + 1
        return index, self._call_for(item, index)

    async def close(self) -> None:
        """Close the generator of the items, if there is one."""
        for generator in (self._items, self._later):
            if (close := getattr(generator, "aclose", None) or getattr(generator, "close", None)) is not None:
                closing = close()
                if closing is not None:
                    await closing


_NO_ITEM = object()


async def for_each(
    body: BaseWorkflow,
    calls: Sequence[OperatorCall] | Calls,
    name: str,
    *,
    concurrency: int,
    on_error: OnError,
    keep: Keep | None = lambda _, message: message,
) -> Outcomes:
    """Run a workflow once per call, inside the current operator.

    Args:
        name: Name of the operator in errors and paths.
        concurrency: Maximum number of runs at once.
        on_error: Effect of a failing run, as for a `Map`.
        keep: Function that returns the message to store for a run; by default, the message of the run. With None,
            nothing is stored for a run that has ended.

    Raises:
        OperadError: A run failed, and `on_error` is ``fail``; the other runs were cancelled and have ended.
    """
    scope = inside()
    source = calls if isinstance(calls, Calls) else Calls(calls, lambda call, _: call, name)
    said: dict[int, Outcome] = {}
    worst = _Worst()
    done = 0
    turn_ends = perf_counter() + LONGEST_TURN

    async def work() -> None:
        nonlocal done, turn_ends
        while (taken := source.take() or await source.take_later(scope)) is not None:
            index, call = taken
            try:
                run = run_within(body, scope, inner_call(body, call), MapItem(name, index))
                if keep is None:  # what is kept of the run around it would grow with each item
                    run.repeats = run.is_traced = False
                    run.finished = None if run.finished is None else {}
                message = await run.execute()
                worst.add(index, message)
                outcome = keep(call, message) if keep else None
            except BudgetError:
                raise
            except Exception as error:
                if on_error == "fail" or lacks_deps(error):
                    raise _failure(error, index, name, said) from error
                outcome = _item_error(error, index) if on_error == "keep" else None
            if outcome is not None:
                said[index] = outcome
            done += 1
            if scope.heard:
                emit(Progress(done=done, total=source.count if source.total is None else source.total))
            if perf_counter() > turn_ends:  # runs that never suspend would block the event loop
                with scope.at_work():
                    await asyncio.sleep(0)
                turn_ends = perf_counter() + LONGEST_TURN

    workers = concurrency if source.total is None else min(concurrency, source.total)
    try:
        await concurrently(work() for _ in range(workers))
    finally:
        await source.close()
    return Outcomes([said[index] for index in sorted(said)], worst.told(name, source.count), source.count)


class _Worst:
    """The message with the worst status of those added, the first one where several have it."""

    __slots__ = ("_index", "_message", "_unsuccessful")

    def __init__(self) -> None:
        self._message, self._index, self._unsuccessful = WorkflowMessage(), -1, 0

    def add(self, index: int, message: WorkflowMessage) -> None:
        """Take the message of an item into account."""
        status, worst = message.status, self._message.status
        self._unsuccessful += status is not WorkflowStatus.SUCCESS
        is_earlier = status is worst and index < self._index
        if self._index < 0 or is_earlier or status.priority < worst.priority:
            self._message, self._index = message, index

    def told(self, name: str, count: int) -> WorkflowMessage:
        """Return the message; if its status is not SUCCESS, its evaluation tells how many of the items have another."""
        if not self._unsuccessful:
            return self._message
        said = f"{MapItem(name, self._index)}: {self._message.evaluation or self._message.status.value}"
        return self._message.changed(evaluation=f"{self._unsuccessful} of {count} items did not succeed. {said}")


def _item_error(error: Exception, index: int) -> ItemError:
    links = causes(error)  # an OperadError itself is that of an item of a map inside: see `_failure`
    first = next(
        (each for each in links if type(each) is not OperadError and not isinstance(each, OperatorError)), links[-1]
    )
    return ItemError(index=index, error=describe(error), kind=type(first).__name__)


def _failure(error: Exception, index: int, name: str, said: Mapping[int, Outcome]) -> OperadError:
    """Return the error of a map, with the messages of the items that have finished."""
    failed = OperadError(f"item {MapItem(name, index)}: {describe(error)}")
    done = {index: outcome for index, outcome in said.items() if isinstance(outcome, WorkflowMessage)}
    failed.finished = {str(MapItem(name, index)): done[index] for index in sorted(done)}
    return failed


def _is_whole(value: object) -> bool:
    """Return True for a value that a user's function returned by mistake: a text, a mapping, a model or a single value."""
    is_model = getattr(type(value), "__iter__", None) is BaseModel.__iter__  # which yields the fields
    is_single = isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not isinstance(value, Iterable)
    return is_model or is_single


T = TypeVar("T", default=Any)
U = TypeVar("U")

Items = Callable[[Job], "Iterable[Any] | AsyncIterable[Any]"]
"""Function that takes a job and returns or generates the items."""


class _Options(TypedDict, total=False):
    over: str | AnswerPath | Executable | Items | None
    concurrency: int
    collect: bool


class _Fail(_Options, total=False):
    on_error: Literal["fail", "skip"]


class _Keep(_Options):
    on_error: OnError


class _Any(_Options, total=False):
    on_error: OnError


class Map(BaseOperator[list[T]], Generic[T]):
    """Operator that runs a workflow for each item of a list.

        @operator
        def split(job: Job) -> dict[str, list[str]]:
            return {"words": job.goal.split()}

        def shout(word: str) -> str:
            return word.upper()

        print(Workflow(split >> Map(over="split.words", each=shout)).run("one two").output)  # ['ONE', 'TWO']

    The class is generic in the type of the results: with the body `shout`, it is a `Map[str]`, whose answer is a
    ``list[str]``.

    The first operators of the body get a message with the item, followed by the messages that the map itself gets. The
    message's text is the item (as JSON if it is not text); its outputs are ``item`` and ``index``, counted from 0.

    The message of the map has the output ``items``, with the result of each item in the order of the list. A result is
    the body's output named ``output``, all outputs if there are others, or the text; of a body with several last
    operators, a dict of their results by id. The messages of the body are the
    parts of the map's message, and the worst of their statuses is its status. A model after the map is shown each item
    with its result.

    Args:
        id: The id of the map in a workflow; by default the id of its body.
        body: Body to run for each item: a workflow, a chain such as ``a >> b``, a single operator, or a function, which
            takes the item.
        each: The same as `body`.
        over: The list. A text names an output of a predecessor, an input of the job, an operator and one of its
            outputs, such as ``facts.claims`` (in Python also ``facts.output.claims``), or an operator whose whole
            answer is the list. A function, which may be a sync or async generator, takes the job and returns the items;
            the next item is requested when it can be started. None is the only list among the predecessors' outputs.
        concurrency: Maximum number of items at once.
        on_error: Effect of a failing item: ``fail`` ends the map with the error; ``skip`` leaves the item out; ``keep``
            puts an `ItemError` in its place.
        collect: False to drop the result of each item at once, so that memory use does not grow with the number of
            items. The output ``items`` then holds only `ItemError`s, and the output ``count`` is the number of items.
            The results are in the events, or wherever the body writes them.

    Raises:
        InvalidError: `concurrency` is below 1, or `on_error` has another value.
        InputError: There is no body, or two; or `over` has another type.
    """

    @overload
    def __init__(
        self: Map[U],
        id: str = "",
        body: Awaited[U] | None = None,
        *,
        each: Awaited[U] | None = None,
        **options: Unpack[_Fail],
    ) -> None: ...
    @overload
    def __init__(
        self: Map[U | ItemError],
        id: str = "",
        body: Awaited[U] | None = None,
        *,
        each: Awaited[U] | None = None,
        **options: Unpack[_Keep],
    ) -> None: ...
    @overload
    def __init__(
        self: Map[Any],
        id: str = "",
        body: Streaming | Executable | None = None,
        *,
        each: Streaming | Executable | None = None,
        **options: Unpack[_Any],
    ) -> None: ...
    @overload
    def __init__(
        self: Map[U],
        id: str = "",
        body: Plain[U] | None = None,
        *,
        each: Plain[U] | None = None,
        **options: Unpack[_Fail],
    ) -> None: ...
    @overload
    def __init__(
        self: Map[U | ItemError],
        id: str = "",
        body: Plain[U] | None = None,
        *,
        each: Plain[U] | None = None,
        **options: Unpack[_Keep],
    ) -> None: ...

    gives_items = True

    @known_arguments
    def __init__(
        self,
        id: str = "",
        body: Body[Any] | None = None,
        *,
        each: Body[Any] | None = None,
        over: str | AnswerPath | Executable | Items | None = None,
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
            raise InputError(f"Map(…): id: expected a text, got {short_repr(id)}; the body is given as each=…")
        if (body is None) == (each is None):
            raise InputError(
                "Map(…): expected exactly one operator for the items: Map(over='facts.claims', each=check)"
            )
        if not (isinstance(over, str | AnswerPath | None) or callable(over)):
            raise InputError(
                "Map(…): over: expected the name of a list, such as 'facts.claims', facts.output.claims, or a function, "
                f"such as lambda job: [1, 2]; got {short_repr(over)}"
            )
        if is_executable(over):  # such as a decorated function, which can be called, too
            over = AnswerPath(over)
        runs = body if each is None else each
        self.body: BaseWorkflow[Any] = (
            cast("BaseWorkflow[Any]", runs) if isinstance(runs, BaseWorkflow) else _as_workflow(runs)
        )
        self._id = id or self.body.get_id()
        self._settled = bool(id)
        self._source = None if isinstance(over, str | AnswerPath | None) else over
        self._over_path = over if isinstance(over, str | AnswerPath) else None
        self._collect = collect
        self._concurrency = concurrency
        self._on_error: OnError = on_error

    @property
    def runs_workflows(self) -> Sequence[BaseWorkflow]:
        """The body."""
        return (self.body,)

    @property
    def stops(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True unless the body goes on with a rejected result."""
        return self.body.on_reject != "continue"

    @property
    def instruction(self) -> str:
        """Instruction of the body, or a list of its operators, if there are several."""
        operators = self.body.graph().operators
        alone = next(iter(operators.values())).instruction if len(operators) == 1 else ""
        text = alone if len(operators) == 1 else f"a workflow of {shorten([*operators])}."
        return f"For each item: {text}" if text else ""

    def __repr__(self) -> str:
        return f"<Map {self._id!r}>"

    def get_id(self) -> str:
        """Return the id of the map."""
        return self._id

    @property
    def _over(self) -> str | None:
        """Name of the list, as text; None if `over` is None or a function."""
        return repr(self._over_path) if isinstance(self._over_path, AnswerPath) else self._over_path

    @property
    def reads(self) -> Sequence[str]:
        """Id of the operator whose answer holds the list, if `over` names an operator and its output."""
        if isinstance(self._over_path, AnswerPath):
            return (self._over_path._operator.get_id(),)  # pyright: ignore[reportPrivateUsage]
        operator, dot, _ = (self._over_path or "").partition(".")
        return (operator,) if dot else ()

    @property
    def settings(self) -> Mapping[str, str | None]:
        """Parameters of the map other than its body."""
        over = getattr(self._source, "__qualname__", None) if self._source else self._over
        return {"over": over, "on_error": self._on_error}

    def inputs_read(self, is_first: bool) -> Collection[str] | None:
        """Return the names of the list and of the inputs of the job that the body reads."""
        if self._source or (is_first and self._over is None):  # without a list, the map's own error says more
            return None
        read = self.body.built().inputs_read(is_first=False)
        return read if read is None or self._over is None or self.reads else [*read, self._over]

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the map and its body, given the predecessors by id."""
        if contains(self.body, self):
            return [Issue("nested-in-itself", f"its body {self.body.name!r} contains it", self._id)]
        issues = [
            Issue(i.code, i.message, f"{self._id}/{i.where}" if i.where else self._id)
            for i in self.body.graph().check()
        ]
        if before:  # without predecessors, the map may be in the body of another one, whose names are unknown here
            issues += inside_issues(self.body, self._id, before, of_map=True)
        owner, _, path = (self._over or "").partition(".")
        names = path.split(".") if path else []
        source = before.get(owner) if names else None
        for operator in reversed([*before.values()]) if owner and not names else ():
            if owner in declared(operator).get("properties", {}):
                source, names = operator, [owner]
        if source is not None and (fault := _fault_in_list(declared(source), source.get_id(), names)):
            code, message = fault
            issues.append(Issue(code, message, self._id))
        return issues

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of names in the instructions of the body, which may name the item and its index."""
        found = self.body.built().check_inputs(inputs, [*before, "item", "index"])
        return [Issue(i.code, i.message, f"{self._id}/{i.where}") for i in found]

    @refusing_jobs
    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the body for each item, and return the message with the output ``items``.

        Raises:
            InputError: `over` names nothing, or a value that is not a list.
            OperadError: The body failed for an item, and `on_error` is ``fail``. The runs of the other items were
                cancelled and have ended.
        """
        before = call.messages
        over: tuple[str, ...] = ()
        if self._source:
            items = self._source(call.job)
        else:
            listed = self._items(call.job, before)
            items, over = list(listed), _place_of(listed, call.job, before)

        def call_for(item: Any, index: int) -> OperatorCall:
            messages = (self._message(call.job, item, index, over), *before)
            return OperatorCall(call.reasoner, call.job, messages, call.previous, call.lesson)

        outcomes = await for_each(
            self.body,
            Calls(items, call_for, self._id),
            self._id,
            concurrency=self._concurrency,
            on_error=self._on_error,
            keep=_with_item if self._collect else None,
        )
        worst, said = outcomes.worst, outcomes.said
        messages = [outcome for outcome in said if isinstance(outcome, WorkflowMessage)]
        text, outputs = f"{outcomes.count:,} items", {"items": said, "count": outcomes.count}
        if self._collect:
            text = "\n\n".join(message.scratchpad for message in messages)
            outputs = {"items": [outcome if isinstance(outcome, ItemError) else outcome.value for outcome in said]}
        return WorkflowMessage(
            scratchpad=text,
            status=worst.status,
            evaluation=worst.evaluation,
            lesson=worst.lesson,
            outputs=outputs,
            answer="items",
            parts=tuple(messages),
            job_id=call.job.id,
            operator_id=self._id,
        )

    def read_output(self, message: WorkflowMessage) -> list[T]:
        """Return the body's answer for each item, as an instance of its type; for a failed item, its `ItemError`.

        For a message of the map's fallback, return its value.
        """
        value = message.value
        items = cast("list[Any]", own_value(value))
        if value is not message.outputs.get("items") or not isinstance(value, list):
            return items
        if len(message.parts) != sum(not isinstance(item, ItemError) for item in items):
            return items
        parts = iter(message.parts)
        read: list[Any] = [
            item if isinstance(item, ItemError) else self.body.read_output(next(parts)) for item in items
        ]
        return read

    def _message(self, job: Job, item: Any, index: int, over: tuple[str, ...]) -> WorkflowMessage:
        return WorkflowMessage.of_text(
            as_text(item), self._id, job.id, outputs={"item": item, "index": index}, answer="item", over=over
        )

    def _items(self, job: Job, before: Sequence[WorkflowMessage]) -> Sequence[Any]:
        """Return the list that `over` names, given the messages of the predecessors."""
        found, hint = self._found(job, before)
        if not isinstance(found, list | tuple):
            kind = type(found).__name__
            raise InputError(f"map {self._id!r}: {self._over!r} is not a list but {kind}; a map needs a list{hint}")
        return cast("Sequence[Any]", found)

    def _found(self, job: Job, before: Sequence[WorkflowMessage]) -> tuple[Any, str]:
        """Return the value that `over` names, and a hint for the error if it is not a list."""
        if self.reads:
            return self._part_of(self.reads[0], before), ""
        outer_item = next((message for message in before if is_item(message)), None)  # if this map is inside a map
        if self._over is None and outer_item is not None and isinstance(outer_item.outputs["item"], list | tuple):
            before = (outer_item,)
        values = {name: value for message in reversed(before) for name, value in message.outputs.items()}
        if self._over is None:
            lists = [name for name, value in values.items() if isinstance(value, list | tuple)]
            if len(lists) != 1:
                found = f"there are {len(lists)}: {', '.join(lists)}" if lists else "there is none"
                raise InputError(
                    f"map {self._id!r} needs one list among the outputs before it, and {found}; say over=…"
                )
            return values[lists[0]], ""
        known = {**job.inputs, **values}
        ids = [message.operator_id for message in before]
        if self._over not in known and self._over in ids:
            return self._part_of(self._over, before), ""
        if self._over not in known:
            hint = did_you_mean(self._over, [*known, *ids])
            raise InputError(
                f"map {self._id!r}: no operator before it has an output {self._over!r}, and the job no such input"
                f"{hint}; there are: {', '.join(known) or 'none'}"
            )
        hint = "" if self._over in values else f'; for operad run: --input {self._over}=\'["a", "b"]\''
        return known[self._over], hint

    def _part_of(self, operator_id: str, messages: Sequence[WorkflowMessage]) -> Any:
        """Return the part that `over` names in the answer of an operator."""
        path = tuple((self._over or "").split(".")[1:])
        message = next((message for message in messages if message.operator_id == operator_id), None)
        if message is None:
            raise InputError(
                f"map {self._id!r}: {operator_id!r} has no answer: it did not run, or is not before the map"
            )
        value = message.value
        if path and path[0] in message.outputs:
            value = message.outputs
        for depth, name in enumerate(path):
            known: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
            if name not in known:
                at = ".".join((operator_id, *path[:depth]))
                raise InputError(
                    f"map {self._id!r}: {at!r} has no {name!r}{did_you_mean(name, known)}; "
                    f"there are: {', '.join(known) or 'none'}"
                )
            value = known[name]
        return value


def _place_of(items: Sequence[Any], job: Job, before: Sequence[WorkflowMessage]) -> tuple[str, ...]:
    """Return the place of a map's list: operator and output, or input of the job; empty if it is a part of these."""
    outputs = (
        (message.operator_id, name) for message in before for name in message.outputs if message.outputs[name] is items
    )
    inputs = ((name,) for name, value in job.inputs.items() if value is items)
    return next(outputs, None) or next(inputs, ())


def _as_workflow(body: Any) -> BaseWorkflow:
    """Return a workflow that consists of a chain, or of a single operator or function."""
    if isinstance(body, Chain):
        workflow = BaseWorkflow(cast("Chain[Any]", body), engine="builtin")
        workflow.name = [*workflow.graph().operators][-1]
        return workflow
    check_step(body)
    operator: Executable = cast("Executable", body) if is_executable(body) else FunctionOperator(cast("Function", body))
    workflow = BaseWorkflow(name=operator.get_id(), engine="builtin")
    workflow.add_operator(operator)
    return workflow


def _with_item(call: OperatorCall, message: WorkflowMessage) -> WorkflowMessage:
    """Return the message of the body for an item, with the item as JSON."""
    return message.changed(item=plain(call.messages[0].outputs["item"]))


def declared(operator: BaseOperator) -> Mapping[str, Any]:
    """Return the JSON Schema of an operator's answers; empty if it declares none."""
    schema = getattr(operator.added, "schema", None)
    return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}


def _fault_in_list(schema: Mapping[str, Any], operator_id: str, path: Sequence[str]) -> tuple[str, str] | None:
    """Return the code and the message of an issue if a declared answer lacks a list; None if it may have the list.

    Args:
        schema: The JSON Schema of the answer.
        path: The names of the fields that lead to the list; empty for the whole answer.
    """
    at, part, missing = _at_path(schema, operator_id, path)
    if missing:
        return fault_in_path(schema, operator_id, path)
    kind = _type(part)
    return None if kind in ("", "array") else ("not-a-list", f"{at!r} is declared as {kind}, and a map needs a list")


def fault_in_path(schema: Mapping[str, Any], operator_id: str, path: Sequence[str]) -> tuple[str, str] | None:
    """Return the code and the message of an issue if a declared answer lacks a part; None if it may have the part.

    Args:
        schema: The JSON Schema of the answer.
        path: The names of the fields that lead to the part; empty for the whole answer.
    """
    at, part, missing = _at_path(schema, operator_id, path)
    properties: Mapping[str, Any] = part.get("properties", {})
    if not missing or (part.get("additionalProperties") is not False and _type(part) in ("", "object")):
        return None
    known = f"; it has: {shorten(list(properties))}" if properties else ""
    return "unknown-output", f"{at!r} has no {missing!r}{did_you_mean(missing, properties)}{known}"


def _at_path(schema: Mapping[str, Any], operator_id: str, path: Sequence[str]) -> tuple[str, Mapping[str, Any], str]:
    """Return the place and schema of the last part on a path that is declared, and the name that it lacks, if any."""
    part = _resolved(schema, schema)
    if path and path[0] == "output" and "output" not in part.get("properties", {}):
        path = path[1:]  # an answer that is not an object is named ``output``
    at = operator_id
    for name in path:
        properties: Mapping[str, Any] = part.get("properties", {})
        if name not in properties:
            return at, part, name
        at, part = f"{at}.{name}", _resolved(schema, properties[name])
    return at, part, ""


def _resolved(schema: Mapping[str, Any], part: Any) -> Mapping[str, Any]:
    """Return a part of a schema, with its reference resolved; empty if the part allows several alternatives."""
    for _ in range(10):
        ref = _mapping(part).get("$ref")
        if not isinstance(ref, str):
            break
        part = schema
        for name in ref.removeprefix("#/").split("/"):
            part = _mapping(part).get(name)
    found = _mapping(part)
    return {} if {"$ref", "anyOf", "oneOf", "allOf"} & found.keys() else found


def _mapping(part: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}


def _type(part: Mapping[str, Any]) -> str:
    """Return the declared type; empty if there is none, or several."""
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""
