"""Attempts of an operator: cache, places, time limits, retries, fallback; and the message of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace as changed
from typing import Any, cast

from msgspec.structs import replace

from operad.runtime.events import CacheHit, FellBack, OperatorRetried, Scope
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.chat2graph import Answer, Executable
from operad.runtime.graph.operator import BaseOperator, as_operator, started
from operad.runtime.models.model import Model
from operad.runtime.policies.deadline import Deadline, within
from operad.runtime.policies.limits import Place
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, ErrorValues, Fallback, Policy, Timeout, causes
from operad.runtime.values.errors import (
    BudgetError,
    InputError,
    OperadError,
    OperatorTimeoutError,
    PortError,
    describe,
    did_you_mean,
    internal_text,
)
from operad.runtime.values.message import NO_USAGE, WorkflowMessage, WorkflowStatus


async def perform(node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
    """Run an operator with its policy, and return its message.

    Args:
        scope: The operator's context in the run.

    Raises:
        BaseException: The error of the last attempt, if there is no fallback.
    """
    return completed(await run_with_policy(node, call, scope), node, call, scope)


def completed(said: Answer, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
    """Return an operator's answer as a message that has the operator's id and usage.

    Args:
        scope: The operator's context in the run.

    Raises:
        TypeError: The answer is neither a message nor text, or the answer of an evaluator is text.
        PortError: The message takes a port that the operator does not have.
        BudgetError: The run has used more than its budget.
    """
    budget = scope.run.budget
    if isinstance(said, str):
        if node.is_evaluator:
            raise TypeError("an evaluator returns a message with a status, not text")
        if budget is not NO_BUDGET:
            scope.run.check_budget()
        return WorkflowMessage.of_text(said, scope.operator_id, call.job.id, scope.usage)
    if not isinstance(said, WorkflowMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"execute returned {type(said).__name__}, not a WorkflowMessage or text")
    passed_on = bool(said.operator_id) and any(_is_copy(said, message) for message in call.messages)
    if scope.usage is NO_USAGE and said.usage is not NO_USAGE and not passed_on:
        scope.charge(said.usage)  # the operator called a model itself and reports the usage in its message
    if budget is not NO_BUDGET:
        scope.run.check_budget()  # the operator may have ignored an earlier BudgetError
    if call.judged is not None:
        said = _with_judged(said, call.judged)
    elif passed_on and said.operator_id != scope.operator_id:
        said = said.model_copy(update={"ports": None})
    elif said.ports is not None:
        _check_ports(node, said.ports)
    return _own(said, node.operator).stamped(scope.operator_id, call.job.id, scope.usage)


def _own(said: WorkflowMessage, operator: BaseOperator) -> WorkflowMessage:
    """Return a message that shares no value with its operator, with the list as the answer of a map."""
    if not said.holds_values:
        return said
    if operator.gives_items and said.answer is None and "items" in said.outputs:  # a fallback of named outputs
        said = said.changed(answer="items")
    return said.own() if operator.is_foreign else said


def _is_copy(said: WorkflowMessage, message: WorkflowMessage) -> bool:
    """Return True if an operator returned a message that it got: itself, or a copy, which shares the usage."""
    return said.usage is message.usage and said.operator_id == message.operator_id and said.ports == message.ports


def _with_judged(verdict: WorkflowMessage, judged: WorkflowMessage) -> WorkflowMessage:
    """Return a verdict with the text, outputs and parts of the message that it judges."""
    return verdict.model_copy(
        update={
            "scratchpad": verdict.scratchpad or judged.scratchpad,
            "outputs": {**judged.outputs, **verdict.outputs},
            "answer": judged.answer,
            "parts": judged.parts,
        }
    )


def _check_ports(node: Node, taken: Sequence[str]) -> None:
    known: Collection[str] = node.operator.ports or node.used_ports
    unknown = [port for port in taken if port not in known] if known else []
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise PortError(f"it chose port {unknown[0]!r}, which it does not have{hint}: {', '.join(sorted(known))}")


async def run_with_policy(node: Node, call: OperatorCall, scope: Scope) -> Answer:
    """Run an operator with its policy.

    Args:
        node: The operator, its policy, and the limiter of concurrent operators.
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
        scope.write(FellBack(error=describe(error), to=_name(fallback), internal=internal_text(error)))
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
            scope.write(OperatorRetried(error=describe(error), delay=delay, internal=internal_text(error)))
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
        return fallback if isinstance(fallback, str) else fallback.own()
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
