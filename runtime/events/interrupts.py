"""Questions to a person in the middle of a run, and the tool calls to which questions belong.

`interrupt` waits inside the operator that asks, so the operator continues after the call and repeats no work. Meanwhile
its time limits are paused, its place among the concurrent operators is free for others, and all operators that do not
depend on it go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeVar, overload

from operad.runtime import events
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.form_text import TYPE_WORDS
from operad.runtime.values.json_schema import ANSWER_BY, check_schema
from operad.runtime.values.output import Output, is_type
from operad.runtime.values.questions import Question
from operad.runtime.values.schema import AnswerSchema

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


class Asking(Coroutine[Any, Any, T]):
    """Coroutine of a question, which cannot be mistaken for the answer: without ``await``, it would count as true."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        """Resume the coroutine with a value."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error inside the coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()

    def __bool__(self) -> bool:
        raise self._not_awaited()

    def __str__(self) -> str:
        raise self._not_awaited()

    def _not_awaited(self) -> InputError:
        self.close()
        return InputError(
            "a question is used without its answer: write `await context.ask(…)` or `await interrupt(…)`, in a function "
            "that is `async def`"
        )


@overload
def interrupt(question: str, schema: type[T], *, answer_by: Sequence[str] = ()) -> Coroutine[Any, Any, T]: ...
@overload
def interrupt(
    question: str, schema: str | Mapping[str, Any] | None = None, *, answer_by: Sequence[str] = ()
) -> Coroutine[Any, Any, Any]: ...
@overload
def interrupt(question: str, schema: TypeForm[T], *, answer_by: Sequence[str] = ()) -> Coroutine[Any, Any, T]: ...
def interrupt(question: str, schema: Any = None, *, answer_by: Sequence[str] = ()) -> Coroutine[Any, Any, Any]:
    """Ask a person and wait for the answer, from an operator or a tool.

        @tool
        async def book(hotel: str) -> str:
            "Book a hotel."
            return "booked" if await interrupt(f"Book {hotel}?", "boolean") else "refused"

    The run's stream yields `events.Interrupted`; ``workflow.resume(run_id, {interrupt_id: answer})`` answers the
    question. A run without a consumer of its stream raises `PausedError` when no other operator can proceed.

    Args:
        question: The question.
        schema: Form of the answer: a type such as a pydantic model, a JSON Schema, a word such as ``boolean``, or a text
            as for an `output_schema`; None for any answer.
        answer_by: Names of the people who may answer, which `operad serve` compares with the name of the key; empty for
            anyone.

    Returns:
        The answer, which fits the schema; an instance of the type, if one is given.

    Raises:
        InputError: No run is in progress, or the answer fits the JSON Schema of the type, but not the type itself.
        InvalidError: The schema cannot be used.
    """
    if isinstance(answer_by, str):
        raise InputError(f"answer_by: expected a list of names, such as [{answer_by!r}], got {answer_by!r}")
    return Asking(_interrupt(question, schema, answer_by))


async def _interrupt(question: str, schema: Any, answer_by: Sequence[str]) -> Any:
    scope = events.current_scope()
    if scope is None:
        raise InputError("interrupt(…) asks on behalf of a run, and no run is in progress here; call it in an operator")
    output = Output.of(schema) if is_type(schema) else None
    asked: Any = schema if output is None else output.schema.schema or {"type": "string"}
    form = _form(asked)
    if answer_by:
        form = {**(form or {}), ANSWER_BY: list(answer_by)}
    answer = await ask(scope, await _identified(scope, Question(id="/".join(scope.path), text=question, schema_=form)))
    if output is None:
        return answer
    try:
        return output.read_json(answer)
    except ValueError as error:
        raise InputError(f"the answer to {question!r} is not a valid {output.called}: {error}") from error


def content_of(question: Question) -> tuple[str, str, str]:
    """Return what the answer to a question refers to: its text, the form of the answer, and the current tool call."""
    form = json.dumps(question.schema_) if question.schema_ is not None else ""
    return question.text, form, current_tool_call()


async def _identified(scope: events.Scope, question: Question) -> Question:
    """Return a question with an id of its own.

    A question that was asked before a restart, with the same content, has the id that it had: tools that run side by
    side may ask in another order. Other questions are numbered in the order of asking.
    """
    path, open_ids, content = question.id, scope.run.questions.asked, content_of(question)
    before = await asked_before(scope)
    same = (each for each, its_content in before if its_content == content)
    of_other_calls = {each for each, (_, _, call) in before if call != content[-1]}
    numbered = (path if number == 1 else f"{path}#{number}" for number in count(1))
    candidates = chain(same, (each for each in numbered if each not in of_other_calls))
    question_id = next(each for each in candidates if each not in scope.asked and each not in open_ids)
    scope.asked |= {question_id}
    return question if question_id == path else question.model_copy(update={"id": question_id})


async def asked_before(scope: events.Scope) -> Sequence[tuple[str, tuple[str, str, str]]]:
    """Return the ids and contents (see `content_of`) of the operator's questions of earlier processes, read once.

    All callers wait for one task, so that they go on in the order in which they asked.
    """
    journal = scope.run.root.journal
    if journal is None:
        return ()
    if scope.asked_before is None:
        scope.asked_before = asyncio.ensure_future(journal.asked_before(scope))
    with scope.at_work():  # not waiting for a person yet
        return await asyncio.shield(scope.asked_before)


async def ask(scope: events.Scope, question: Question) -> Any:
    """Ask a person on behalf of an operator and wait for the answer; see `interrupt`.

    Args:
        question: The question; no other open question of the run may have its id.
    """
    questions, root = scope.run.questions, scope.run.root
    journal = root.journal
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with AsyncExitStack() as stack:
        answer = questions.ask(question)
        stack.callback(questions.withdraw, question.id)
        if journal is not None and (kept_answer := await journal.answer_to(question, scope)) is not None:
            return kept_answer[0]
        for outer in scope.outwards():
            await stack.enter_async_context(outer.run.waiting(outer))
        scope.write(events.Interrupted(interrupt_id=question.id, question=question.text, schema=question.schema_))
        scope.begin_waiting()
        try:
            loop.call_soon(root.check_paused)  # later, so that operators about to start are counted
            value = await answer
            if (
                journal is not None
            ):  # before a pause for a further question is reported, after which the process may end
                value = await journal.keep_answer(question, value, scope, questions.by.get(question.id, ""))
        finally:
            scope.end_waiting()
            questions.withdraw(question.id)
    root.check_paused()  # concurrent code of the operator may have asked further questions
    by = questions.by.pop(question.id, "")
    scope.write(events.Resumed(interrupt_id=question.id, seconds=loop.time() - began, by=by))
    return value


def _form(schema: Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    """Return the JSON Schema of an answer, from a schema or a text as for `interrupt`; None for any answer."""
    if schema is None:
        return None
    if not isinstance(schema, str | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            "the schema of a question: expected a type, a JSON Schema, or a word such as 'boolean' or 'integer'; "
            f"got {schema!r:.100}"
        )
    try:
        if not isinstance(schema, str):
            check_schema(dict(schema))
            return dict(schema)
        word = schema.strip()
        form = dict(TYPE_WORDS[word]) if word in TYPE_WORDS else AnswerSchema.parse(schema).schema
    except InvalidError as error:
        raise InvalidError("the schema of a question", error.issues) from error
    if form is None:  # a form that would not be checked is refused, unless it is declared as `any`
        hint = did_you_mean(word, TYPE_WORDS)
        issue = Issue(
            "no-form",
            f"{word!r} is not a form of an answer{hint}; use {', '.join(TYPE_WORDS)}, a choice such as 'yes | no', or a "
            "JSON Schema",
        )
        raise InvalidError("the schema of a question", [issue])
    return form


_current_call: ContextVar[str] = ContextVar("operad_tool_call", default="")
_model: ContextVar[object] = ContextVar("operad_tool_call_model", default=None)


def current_tool_call() -> str:
    """Return the tool call for which the current code runs, as `tool_call_of` names it; empty outside of one."""
    return _current_call.get()


def tool_call_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the name of a call: the tool, and a digest of the arguments and of the call around it.

    Code that is repeated after a restart may order its calls otherwise, and endpoints give them other ids; so a call is
    known by its content.
    """
    text = json.dumps([_current_call.get(), tool, dict(arguments)], sort_keys=True, default=str)
    return f"{tool}:{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"


def model_of_tool_call() -> object:
    """Return the model that makes the tool call for which the current code runs; None if no model makes it."""
    return _model.get()


def is_cancelled() -> bool:
    """Return True if the current task is being cancelled; False if only a task that a tool awaits was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def in_tool_call(call: str, model: object = None) -> Generator[None, None, None]:
    """Run the block for a tool call of a model, to which the questions that it asks belong."""
    tokens = _current_call.set(call), _model.set(model)
    try:
        yield
    finally:
        _current_call.reset(tokens[0])
        _model.reset(tokens[1])
