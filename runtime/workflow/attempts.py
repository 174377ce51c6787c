"""Attempts of an operator: cache, places, time limits, retries, fallback."""

from __future__ import annotations

import asyncio
from dataclasses import replace as changed
from typing import Any, cast

from msgspec.structs import replace

from operad.runtime.events import CacheHit, FellBack, OperatorRetried, Scope
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.operator import Answer, BaseOperator, as_operator, started
from operad.runtime.models.model import Model
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.limits import Place
from operad.runtime.policies.policy import NO_POLICY, ErrorValues, Fallback, Policy, Timeout, causes
from operad.runtime.values.errors import BudgetError, InputError, OperadError, OperatorTimeoutError, describe
from operad.runtime.values.message import NO_USAGE, WorkflowMessage, WorkflowStatus


async def run_with_policy(node: Node, call: OperatorCall, scope: Scope) -> Answer:
    """Run an operator with its policy.

    Args:
        node: The operator, its policy, and the limiter of concurrent operators.
        call: The operator's input.
        scope: The operator's context in the run.

    Raises:
        BaseException: The error of the last attempt, if there is no fallback.
    """
    policy = node.policy
    key = await asyncio.to_thread(call.key, node.operator) if policy.cache else None
    if policy.cache and key:
        kept = await policy.cache.get(key)
        if kept is not None:
            scope.write(CacheHit())
            return kept.model_copy(update={"usage": NO_USAGE})
    try:
        said = await _attempts(node, call, scope)
    except Exception as error:
        fallback = policy.fallback
        if fallback is None or fallback is False or _ends_run(error):
            raise
        scope.write(FellBack(error=describe(error), to=_name(fallback)))
        try:
            return await _fall_back(fallback, error, node, call, scope)
        except Exception as second:
            if _ends_run(second):
                raise
            raise OperadError(
                f"{describe(error)}; and {_name(fallback)}, to which it falls back, failed: {describe(second)}"
            ) from second
    if policy.cache and key and (isinstance(said, str) or said.status is WorkflowStatus.SUCCESS):
        await policy.cache.put(key, WorkflowMessage(scratchpad=said) if isinstance(said, str) else said)
    return said


async def _attempts(node: Node, call: OperatorCall, scope: Scope) -> Answer:
    """Run an operator until an attempt succeeds or its policy allows no further attempt."""
    retry, earlier = node.policy.retry, scope.attempt - 1  # a fallback begins after the attempts of its operator
    while True:
        try:
            return await _attempt(node, call, scope)
        except Exception as error:
            attempt = scope.attempt - earlier
            if not retry or attempt >= retry.attempts or _ends_run(error) or not retry.wants(error):
                raise
            delay = retry.delay(attempt, error)
            scope.sign_of_life()
            scope.write(OperatorRetried(error=describe(error), delay=delay))
        await asyncio.sleep(delay)
        scope.attempt += 1


def _ends_run(error: BaseException) -> bool:
    """Return True for an error that another attempt or a fallback would not mend: a used-up budget, or lacking deps."""
    return lacks_deps(error) or any(isinstance(link, BudgetError) for link in causes(error))


async def _attempt(node: Node, call: OperatorCall, scope: Scope) -> Answer:
    """Run the node's operator once, with the time limit and the concurrency limit of the node."""
    places, timeout = node.places, node.policy.timeout or Timeout()
    outer_places = (outer.place for outer in scope.outwards() if outer is not scope)
    if places is None or any(place is not None and place.limiter is places for place in outer_places):
        # A workflow inside one of its own operators shares the place of that operator; waiting for another place
        # could last forever.
        return await _timed(node.operator, call, timeout, scope)
    place = scope.place = Place(places)
    try:
        await place.take()
        return await _timed(node.operator, call, timeout, scope)
    finally:
        await place.give()


async def _timed(operator: BaseOperator, call: OperatorCall, timeout: Timeout, scope: Scope) -> Answer:
    """Run an operator once, or raise OperatorTimeoutError after its time limit."""
    if timeout == Timeout():
        return await started(operator, call)
    said = await within(timeout, started(operator, call), scope.deadlines)
    if isinstance(said, Deadline):
        raise OperatorTimeoutError(
            f"operator {scope.operator_id!r} {said.expired} and was stopped; increase the limit, or request less",
            operator_id=scope.operator_id,
            attempt=scope.attempt,
        )
    return said


async def _fall_back(fallback: Fallback, error: Exception, node: Node, call: OperatorCall, scope: Scope) -> Answer:
    """Return a constant fallback, or run the fallback operator with its own policy, or the model for one attempt."""
    if isinstance(fallback, WorkflowMessage | str):
        return fallback
    if isinstance(fallback, ErrorValues):
        return fallback.message(error)
    if not isinstance(fallback, Model):
        operator = as_operator(fallback)
        policy = NO_POLICY.or_else(operator.policy).or_else(Policy(timeout=node.policy.timeout))
        return await run_with_policy(changed(node, operator=operator, policy=policy), call, scope)
    with_model: Any = getattr(call.reasoner, "with_model", None)
    if with_model is None:
        raise InputError(
            f"the fallback is a model, but a {type(call.reasoner).__name__} cannot think with another one: "
            "give it a method with_model(model)"
        )
    thinking = changed(node, operator=node.operator.without_model())
    return await _attempt(thinking, replace(call, reasoner=with_model(fallback)), scope)


def _name(fallback: Fallback) -> str:
    """Return a description of a fallback for events and errors."""
    if isinstance(fallback, ErrorValues):
        return "its values" if fallback.port is None else f"its {fallback.port} port"
    if isinstance(fallback, WorkflowMessage | str):
        return "a constant"
    return fallback.describe() if isinstance(fallback, Model) else f"operator {cast('Executable', fallback).get_id()!r}"
