"""What happens around an operator's attempts: cache, places, time limits, retries, fallback."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from operad.runtime.events import CacheHit, FellBack, OperatorRetried, Scope
from operad.runtime.models.model import Model
from operad.runtime.policies.cache import cache_key
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.limits import Limiter, Place
from operad.runtime.policies.policy import Completes, Executes, Policy, Timeout
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import BudgetError, InputError, OperadError, OperatorTimeoutError, describe
from operad.runtime.values.message import NO_USAGE, Contribution, Job, WorkflowMessage, WorkflowStatus

if TYPE_CHECKING:
    from operad.runtime.graph.graph import Executable


class Call(Struct, frozen=True):
    """What an operator, or a workflow, is given.

    Attributes:
        reasoner: Who thinks.
        job: What is to be done.
        messages: What the operators before it said.
        previous: What earlier experts produced.
        lesson: What to do better than last time.
        trail: For who judges: what the operators of the run have said.
    """

    reasoner: Reasoner
    job: Job
    messages: list[WorkflowMessage]
    previous: list[WorkflowMessage]
    lesson: str | None = None
    trail: tuple[Contribution, ...] = ()

    async def of(self, executable: Executable) -> WorkflowMessage | str:
        """Have it executed."""
        return await executable.execute(
            self.reasoner,
            self.job,
            workflow_messages=self.messages,
            previous_expert_outputs=list(self.previous),
            lesson=self.lesson,
        )

    def key(self, executable: Executable) -> str | None:
        """The same for calls that are answered alike, whichever run they are made in; files are read for it.

        Returns:
            None where what it is given has no JSON form.

        Raises:
            InputError: Nothing tells the operator, or the reasoner, from others.
        """
        who = cache_key(executable, self.reasoner)
        try:
            return cache_key(who, self.job, self.messages, self.previous, self.lesson, *self.trail)
        except InputError:
            return None


async def guarded(
    executable: Executable, call: Call, policy: Policy, scope: Scope, places: Limiter | None
) -> WorkflowMessage | str:
    """Have an operator executed as its policy says.

    Args:
        executable: The operator.
        call: What it is given.
        policy: The operator's own, completed by the workflow's.
        scope: Where it runs.
        places: What limits how many operators of the workflow run at once.

    Raises:
        BaseException: What the last attempt raised, where there is no fallback.
    """
    key = await asyncio.to_thread(call.key, executable) if policy.cache else None
    if policy.cache and key:
        kept = await policy.cache.get(key)
        if kept is not None:
            scope.write(CacheHit())
            return kept.model_copy(update={"usage": NO_USAGE})
    try:
        said = await _attempts(executable, call, policy, scope, places)
    except BudgetError:
        raise
    except Exception as error:
        fallback = policy.fallback
        if fallback is None or fallback is False:
            raise
        scope.write(FellBack(error=describe(error), to=_name(fallback)))
        try:
            return await _fall_back(fallback, executable, call, policy.timeout or Timeout(), scope, places)
        except BudgetError:
            raise
        except Exception as second:
            raise OperadError(
                f"{describe(error)}; and {_name(fallback)}, to which it falls back, failed: {describe(second)}"
            ) from second
    if policy.cache and key and (isinstance(said, str) or said.status is WorkflowStatus.SUCCESS):
        await policy.cache.put(key, WorkflowMessage(scratchpad=said) if isinstance(said, str) else said)
    return said


async def _attempts(
    executable: Executable, call: Call, policy: Policy, scope: Scope, places: Limiter | None
) -> WorkflowMessage | str:
    retry, timeout = policy.retry, policy.timeout or Timeout()
    while True:
        try:
            return await _attempt(executable, call, timeout, scope, places)
        except BudgetError:
            raise
        except Exception as error:
            if not retry or scope.attempt >= retry.attempts or not retry.wants(error):
                raise
            delay = retry.delay(scope.attempt, error)
            scope.sign_of_life()
            scope.write(OperatorRetried(error=describe(error), delay=delay))
        await asyncio.sleep(delay)
        scope.attempt += 1


async def _attempt(
    executable: Executable, call: Call, timeout: Timeout, scope: Scope, places: Limiter | None
) -> WorkflowMessage | str:
    around = (outer.place for outer in scope.outwards() if outer is not scope)
    if places is None or any(place is not None and place.limiter is places for place in around):
        # Where the workflow runs inside one of its own operators, it has that one's place: to wait would be for ever.
        return await _timed(executable, call, timeout, scope)
    place = scope.place = Place(places)
    try:
        await place.take()
        return await _timed(executable, call, timeout, scope)
    finally:
        await place.give()


async def _timed(executable: Executable, call: Call, timeout: Timeout, scope: Scope) -> WorkflowMessage | str:
    if timeout == Timeout():
        return await call.of(executable)
    said = await within(timeout, call.of(executable), scope.deadlines)
    if isinstance(said, Deadline):
        raise OperatorTimeoutError(
            f"operator {scope.operator_id!r} {said.expired} and was stopped; allow more, or ask for less",
            operator_id=scope.operator_id,
            attempt=scope.attempt,
        )
    return said


async def _fall_back(
    fallback: Executes | Completes | WorkflowMessage | str,
    executable: Executable,
    call: Call,
    timeout: Timeout,
    scope: Scope,
    places: Limiter | None,
) -> WorkflowMessage | str:
    """What takes the operator's place, within the time and the limits of an attempt."""
    if isinstance(fallback, WorkflowMessage | str):
        return fallback
    if not isinstance(fallback, Model):
        return await _attempt(cast("Executable", fallback), call, timeout, scope, places)
    executable = getattr(executable, "without_model", lambda: executable)()
    with_model: Any = getattr(call.reasoner, "with_model", None)
    if with_model is None:
        raise InputError(
            f"the fallback is a model, but a {type(call.reasoner).__name__} cannot think with another one: "
            "give it a method with_model(model)"
        )
    return await _attempt(executable, replace(call, reasoner=with_model(fallback)), timeout, scope, places)


def _name(fallback: Executes | Completes | WorkflowMessage | str) -> str:
    if isinstance(fallback, WorkflowMessage | str):
        return "a constant"
    return fallback.describe() if isinstance(fallback, Model) else f"operator {cast('Executable', fallback).get_id()!r}"
