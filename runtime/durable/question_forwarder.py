"""Questions of an operator in a worker, which the driver of the run asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

from pydantic import JsonValue

from operad.runtime.durable.replay import asked_before, kept_question
from operad.runtime.durable.store import Store
from operad.runtime.durable.threads import in_thread
from operad.runtime.events import Scope
from operad.runtime.graph.build import Node
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.workflow.attempts import perform
from operad.runtime.workflow.run import Run

POLL = 0.5
"""Seconds between two reads of an answer from the database."""


class QuestionForwarder:
    """Journal of an operator in a worker, which forwards its questions to the driver of the run; see `StepJournal`.

    Args:
        store: The tables of runs.
        run: The run of the operator in this process.
    """

    def __init__(self, store: Store, run: Run, run_id: str, key: str) -> None:
        self._store = store
        self._run = run
        self._run_id = run_id
        self._key = key
        self._polls: set[asyncio.Task[None]] = set()

    async def perform(self, node: Node, call: OperatorCall, scope: Scope) -> WorkflowMessage:
        """Do the operator's work, whose outcome the worker stores."""
        return await perform(node, call, scope)

    async def once(self, name: str, scope: Scope, work: Callable[[], Awaitable[WorkflowMessage]]) -> WorkflowMessage:
        """Do a part of the operator's work, which is not stored."""
        return await work()

    async def asked_before(self, scope: Scope) -> Sequence[tuple[str, tuple[str, str, str]]]:
        """See `StepJournal.asked_before`."""
        return await asked_before(self._store, self._run_id, self._key)

    async def answer_to(self, question: Question, scope: Scope) -> tuple[JsonValue] | None:
        """Store a question, and return its answer if there is one; otherwise, wait for it in the background."""
        answer = await in_thread(self._store.ask, kept_question(self._run_id, self._key, question))
        if answer is not None:
            return (json.loads(answer),)
        poll = asyncio.ensure_future(self._wait_for(question.id))
        self._polls.add(poll)
        poll.add_done_callback(self._polls.discard)
        return None

    async def _answer(self, question_id: str) -> str | None:
        """Return the stored answer to a question; None if there is none yet."""
        kept = await in_thread(self._store.questions, self._run_id)
        return next((each.answer for each in kept if each.step == self._key and each.id == question_id), None)

    async def _wait_for(self, question_id: str) -> None:
        """Poll the database for the answer to a question, and give it to the operator."""
        while question_id in self._run.questions.asked:
            await asyncio.sleep(POLL)
            if (answer := await self._answer(question_id)) is not None and question_id in self._run.questions.asked:
                self._run.questions.answer({question_id: json.loads(answer)})
                return

    async def keep_answer(self, question_id: str, value: JsonValue, scope: Scope) -> None:
        """Do nothing, because the answer came from the database."""
