"""Execution of operators by workers: requests are put into a queue, and outcomes awaited."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from operad.runtime.durable.codec import Codec
from operad.runtime.durable.dispatch import Dispatch
from operad.runtime.durable.shared_agents import Served
from operad.runtime.durable.shared_limits import name_in
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import Executor, StoredQuestion, question_of
from operad.runtime.durable.threads import in_thread
from operad.runtime.durable.work_table import Request
from operad.runtime.events import Scope, enter
from operad.runtime.events.interrupts import ask, in_tool_call
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.observe.tracing import carried
from operad.runtime.policies.limits import Place
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import new_id

_logger = logging.getLogger(__name__)


class RemoteExecutor:
    """Execution of a run's operators in workers that serve these operators.

    Args:
        dispatch: Requests of this process to workers.
        served: Agents that workers serve.
        executor: This process; workers with another version of the code do not take its requests.
    """

    def __init__(self, dispatch: Dispatch, served: Served, codec: Codec, store: Store, executor: Executor) -> None:
        self.queue = served.queue
        self._dispatch = dispatch
        self._served = served
        self._codec = codec
        self._store = store
        self._executor = executor
        self._scopes: dict[str, Scope] = {}
        self._relayed: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._warned = False

    def takes(self, node: Node, scope: Scope) -> bool:
        """Return True if workers execute this operator."""
        return self._served.address_of(scope, node) is not None

    async def outcome_of(self, step_id: str, node: Node, call: OperatorCall, scope: Scope) -> str:
        """Have workers execute an operator, and return its outcome as text."""
        given = {
            "address": self._served.address_of(scope, node),
            "queue": self.queue,
            "path": scope.path,
            "around": [outer.operator_id for outer in scope.outwards() if outer is not scope],
            "round": scope.round,
            "job": call.job,
            "messages": list(call.messages),
            "previous": list(call.previous),
            "lesson": call.lesson,
            "transcript": list(call.transcript),
            "judged": call.judged,
            "rejection": call.rejection,
            "repeats": scope.run.repeats,
            "used": scope.run.usage,
            "limits": self._limits_around(scope),
            "span": carried(),
        }
        text = await in_thread(self._codec.dump, given)
        place = Place(node.places) if node.places else None
        self._scopes[step_id] = scope
        try:
            if place:
                scope.place = place
                await place.take()
            run_id, _, key = step_id.partition(":")
            request = Request(new_id(), self.queue, run_id, key, text, self._executor.version, self._dispatch.channel)
            outcome = await self._dispatch.outcome_of(request)
        finally:
            if place:
                await place.give()
            self._scopes.pop(step_id, None)
            for (asking, question), task in list(self._relayed.items()):
                if asking == step_id:
                    task.cancel()
                    del self._relayed[asking, question]
        if outcome is None:
            raise InputError(
                f"{step_id!r} was cancelled before a worker had done it; resume the run to request it again"
            )
        return outcome

    def _limits_around(self, scope: Scope) -> list[tuple[str, int | None, int | None]]:
        """Return the rate limits of the workflows that contain the operator's workflow, the outermost first."""
        _, *around = scope.outwards()
        return [
            (name_in(self.queue, limiter), limiter.limits.requests_per_minute, limiter.limits.tokens_per_minute)
            for outer in reversed(around)
            for limiter in outer.run.calls
        ]

    async def forget(self, step_id: str) -> None:
        """Delete the outcome of an operator, so that it can be executed again."""
        run_id, _, key = step_id.partition(":")
        await in_thread(self._store.work.forget, run_id, [key])

    async def look_after(self, run_id: str) -> None:
        """Pass on questions that operators ask in workers, and warn if no worker serves the queue."""
        waits = dict(self._scopes)
        if not waits:
            return
        for question in await in_thread(self._store.questions, run_id):
            step_id = f"{run_id}:{question.step}"
            known = (step_id, question.id)
            if question.answer is None and step_id in waits and known not in self._relayed:
                self._relayed[known] = asyncio.ensure_future(_relay_question(waits[step_id], question))
        await self._check_workers()

    async def _check_workers(self) -> None:
        """Log a warning, once, if no living worker serves the queue with this version of the code."""
        executors = await in_thread(self._store.executors)
        alive = [each for each in executors if each.kind == "worker" and each.alive]
        if any(self.queue in each.queues and each.version == self._executor.version for each in alive):
            self._warned = False
        elif not self._warned:
            self._warned = True
            others = [f"{each.id} (version {each.version}) serves {', '.join(each.queues)}" for each in alive]
            _logger.warning(
                "no worker of version %s serves %r; start one from the same configuration: operad worker FILE --db …; %s",
                self._executor.version,
                self.queue,
                "; ".join(others) or "none is alive",
            )


async def _relay_question(scope: Scope, question: StoredQuestion) -> None:
    """Ask a question of an operator in a worker, in the operator's context in this process."""
    enter(scope)
    with in_tool_call(question.tool_call):
        await ask(scope, question_of(question))
