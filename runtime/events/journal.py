"""Keys of durable steps: one for the execution of each operator, and one for each one-time action inside it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError

from operad.runtime.events import Scope, current_scope
from operad.runtime.events.interrupts import current_tool_call
from operad.runtime.events.log import Repeat, repeating
from operad.runtime.values.message import WorkflowMessage

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_QUOTED = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "%/@~\0"})
"""Characters with a meaning in keys, escaped where they are part of an id."""


def key_of(scope: Scope, part: str = "") -> str:
    """Return the key of an operator's work, or of a part of it, in its run; it stays the same when the run resumes.

    The key consists of the ids of the enclosing operators and its own id, separated by slashes: ``each[2]/check@2``.
    ``@2`` is the round, if it is not the first. ``~2`` is the attempt, if it is not the first, of enclosing operators
    and of an operator with parts. The name of a part follows two slashes, so that no operator has the same key.
    """
    steps = [step.translate(_QUOTED) for step in scope.path]
    for outer in scope.outwards():
        place = len(outer.path) - 1
        if outer.key:
            steps[: place + 1] = [outer.key]
            break
        if outer.round > 1:
            steps[place] += f"@{outer.round}"
        if (part or outer is not scope) and outer.attempt > 1:
            steps[place] += f"~{outer.attempt}"
    return "/".join([*steps, "", part.translate(_QUOTED)] if part else steps)


def key_at(path: Sequence[str], places: Sequence[tuple[int, int] | None]) -> str:
    """Return the key of an operator's work from the rounds and attempts in which it took place; see `key_of`.

    Args:
        places: Round and attempt of the operator at each step of the path; None for the other steps.
    """
    steps = [step.translate(_QUOTED) for step in path]
    for number, place in enumerate(places):
        round_number, attempt = place or (1, 1)
        is_around = number < len(path) - 1
        steps[number] += f"@{round_number}" * (round_number > 1) + f"~{attempt}" * (is_around and attempt > 1)
    return "/".join(steps)


def bare(key: str) -> tuple[list[str], list[int]]:
    """Return the path that a key stands for, and the round of each of its steps."""
    steps = [step.partition("~")[0].partition("@") for step in key.split("/")]
    return [unquote(name) for name, _, _ in steps], [int(number or 1) for _, _, number in steps]


def idempotency_key() -> str:
    """Return a globally unique key of the current operator's work: the run's id and the operator's key in it.

        @operator
        async def send(answer: str) -> str:
            return await post(answer, key=idempotency_key())

        Workflow(answer >> send).run("hello")

    An operator or a tool passes it to external services, so that side effects happen once although the operator may run
    twice. In a tool, the key also names the call, by the tool and the arguments; a second call with the same arguments
    has another key. Outside of runs, the key is empty.
    """
    scope = current_scope()
    if scope is None:
        return ""
    call = current_tool_call()
    return f"{scope.run.root.log.run_id}:{key_of(scope)}{f'//{call}' if call else ''}"


def numbered(name: str) -> str:
    """Return the name of a part of the current operator's attempt, with a number if it had a part of that name before."""
    scope = current_scope()
    if scope is None:
        return name
    count = scope.parts[scope.attempt, name] = scope.parts.get((scope.attempt, name), 0) + 1
    return name if count == 1 else f"{name}#{count}"


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """Part of an operator's work, such as a turn of its model, which a process that continues the run does not repeat.

    Attributes:
        value: The value that an ended process kept; None if the part is still to be done.
    """

    _kind: TypeAdapter[T]
    _scope: Scope | None = None
    _name: str = ""
    value: T | None = None

    def told(self) -> AbstractContextManager[None]:
        """Return the context in which events tell of the part: as repeated ones, if an ended process did it."""
        return nullcontext() if self.value is None else repeating(Repeat(traced=True))

    async def keep(self, value: T) -> None:
        """Keep the value of the part, after it was done, until the operator has an outcome."""
        if self._scope is not None and self._scope.run.journal is not None:
            try:
                text = self._kind.dump_json(value).decode()
            except ValueError as error:  # such as text with half a character
                _logger.warning("%s: %s would be done again: %s", key_of(self._scope), self._name, error)
            else:
                await self._scope.run.journal.keep_part(self._scope, self._name, text)


async def part_of_work(name: Callable[[], str], kind: TypeAdapter[T]) -> Part[T]:
    """Return a part of the current operator's work.

    Args:
        name: Returns what the part is about, such as a digest of a request: an equal part of a process that continues
            the run has the same name. It is only called in durable runs.
        kind: Type of its value.
    """
    scope = current_scope()
    if scope is None or scope.run.journal is None:
        return Part(kind)
    own = f"{scope.attempt} {name()}"
    kept = (await scope.run.journal.parts(scope)).get(own)
    try:
        return Part(kind, scope, own, None if kept is None else kind.validate_json(kept))
    except ValidationError as error:
        _logger.warning("%s: %s is done again, because it cannot be read: %s", key_of(scope), own, error)
        return Part(kind, scope, own)


async def once(name: str, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
    """Do a part of the current operator's work, or return its kept message.

    Args:
        name: Name of the part, unique in the operator.
    """
    scope = current_scope()
    if scope is None or scope.run.journal is None:
        return await work()
    return await scope.run.journal.once(name, scope, work)
