"""A run of a server: its job, events, questions and result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from operad.configs.flow import result_text
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.values.questions import Question
from operad.runtime.workflow.base_workflow import live_questions
from operad.server.api.event_log import EventLog
from operad.server.api.experts import Offer
from operad.server.api.redaction import Redaction

if TYPE_CHECKING:
    from operad.runtime.durable.tables import StoredRun
    from operad.runtime.workflow.memory import Memory

State = Literal["running", "asks", "finished", "failed", "cancelled"]


@dataclass
class ServedRun:
    """A run of a server.

    Attributes:
        offer: Its expert.
        answers: Answers known beforehand, by question ids; None if they were given to another process.
        redaction: Redaction of its texts for clients; `log`, `message` and `error` hold redacted texts.
        answers_by: Name of the user who gave them; empty if the server knows no names.
        began: Start, in seconds since 1970.
        task: Task that drives it; None if it is driven elsewhere.
        state: Last known state, never ``asks``: see `shown_state`.
        message: Its result.
        usage: Its usage and cost so far.
        error: Reason for the missing result.
        lost: True if it goes on elsewhere: in another process, which was faster or took it over; or in the database,
            until a question is answered, because it reached the time limit while waiting for a person.
        timed_out: True if it was ended by its time limit.
        ended: End, on the event loop's clock.
        seconds: Duration of an ended run.
        size: Approximate size in bytes, once the run has ended.
        memory: Memory that shortens the turns of the job before the run starts; None to use all turns.
        previous: Id of the run whose conversation this one continues; empty for none.
        asked: Ids of the questions that it has asked here.
        streamed: Number of the last event before a question that a stream of the answer ended with.
        elsewhere: Its questions, while it is not driven here.
        read_part: Last part of its stored events that was read, while it is not driven here.
    """

    id: str
    offer: Offer
    job: Job
    answers: Mapping[str, JsonValue] | None
    redaction: Redaction
    log: EventLog
    began: float
    answers_by: str = ""
    task: asyncio.Task[None] | None = None
    state: State = "running"
    message: WorkflowMessage | None = None
    usage: Usage = NO_USAGE
    error: str = ""
    lost: bool = False
    timed_out: bool = False
    ended: float | None = None
    seconds: float = 0.0
    size: int = 0
    memory: Memory | None = None
    previous: str = ""
    streamed: int = 0
    asked: set[str] = field(default_factory=set[str])
    elsewhere: Sequence[Question] = ()
    read_part: int = 0

    @property
    def questions(self) -> Sequence[Question]:
        """Questions without an answer; they are not read from the database, which would block the event loop."""
        if self.ended is None and self.task is not None:
            return live_questions(self.offer.agent.workflow, self.id)
        return self.elsewhere if self.ended is None else ()

    @property
    def text(self) -> str:
        """Result for people: outputs of a workflow of typed nodes, text of others, or whichever exists."""
        if self.message is None:
            return ""
        outputs, text = result_text(self.message.outputs), self.message.scratchpad
        return (outputs or text) if self.offer.start is not None else (text or outputs)

    @property
    def shown_state(self) -> State:
        """State of the run, as displayed."""
        return "asks" if self.questions else self.state

    @property
    def unused_answers(self) -> list[str]:
        """Ids of answers given beforehand that no question of the ended run used; empty before its end."""
        return [] if self.ended is None else [each for each in self.answers or () if each not in self.asked]

    def record_end(self, kept: StoredRun) -> bool:
        """Take over the state and the end of the run from the database; return True if it has ended."""
        for state in ("finished", "failed", "cancelled"):
            if kept.state == state:
                self.state, self.ended = state, asyncio.get_running_loop().time()
        return self.ended is not None

    async def stored(self) -> None:
        """Wait until the database, if there is one, has the run, so that it outlives this process; or it has ended."""
        if self.task is None:  # the run of another process, found in the database
            return
        async with aclosing(self.log.follow()) as entries:
            async for _ in entries:  # the first event comes after the record
                return

    async def pause_or_end(self) -> None:
        """Wait until the run asks a question or has ended."""
        async with aclosing(self.log.follow()) as entries:
            if self.questions:
                return
            async for _ in entries:
                if self.questions:
                    return
