"""Runs of a server: start, answers, cancellation, and limits."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pydantic import JsonValue, ValidationError

from operad.runtime import events
from operad.runtime.durable.tables import Origins, question_of
from operad.runtime.values.errors import InputError, InvalidError, OperadError, describe, did_you_mean, internal_cause
from operad.runtime.values.message import NO_USAGE, Job, Usage, new_id
from operad.runtime.values.questions import Question
from operad.runtime.values.valid_json import to_json
from operad.server.api.event_log import EventLog
from operad.server.api.experts import Offer
from operad.server.api.redaction import Redaction
from operad.server.api.served_run import ServedRun
from operad.server.http.bounds import Bounds
from operad.server.http.keys import may_answer
from operad.server.http.problems import RefusedError

if TYPE_CHECKING:
    from operad.runtime.durable.health import DurableHealth
    from operad.runtime.durable.ledger import Ledger
    from operad.runtime.durable.restart import Restart
    from operad.runtime.durable.tables import StoredRun


# Requests with the id of a run that exists: they have to ask for the same.


def check_same_request(run: ServedRun, offer: Offer, job: Job) -> None:
    """Check that a request with the id of a run asks for the same.

    Raises:
        RefusedError: The expert or the job differs.
    """
    same = {"expert": run.offer.name == offer.name} | {
        name: getattr(run.job, name) == getattr(job, name) for name in ("goal", "context", "inputs")
    }
    if differing := [name for name, equal in same.items() if not equal]:
        raise RefusedError(
            409,
            f"the run {run.id!r} was begun with another {', '.join(differing)}; give this one an id of its own",
            param="id",
        )


def check_same_answers(run: ServedRun, answers: Mapping[str, JsonValue]) -> None:
    """Check that a request with the id of a run gives the same answers in advance.

    Raises:
        RefusedError: The run was begun without one of them.
    """
    if run.answers is None and (run.task is None or run.ended is not None):  # the run may have these answers
        return
    known, why = run.answers or {}, "was begun without these answers"
    if run.answers is None:
        why = "was resumed after a restart, without answers given in advance"
    if other := [each for each, answer in answers.items() if each not in known or known[each] != answer]:
        raise RefusedError(
            409,
            f"the run {run.id!r} {why}: {', '.join(map(repr, other))}; answer its questions as it asks them: "
            "POST /runs/{id}/answers/{question}",
            param="answers",
        )


TIMED_OUT = "took longer than the {:g} s that a run may take here"
_RETRY_AFTER = 5
_CANCEL_CHECKS, _CANCEL_INTERVAL = 25, 0.2
"""Number of checks for the end of a run that another process cancels, and the seconds between two checks."""
_UNFINISHED = {"running", "asks"}
_TAKE_OVER_INTERVAL = 2.0
"""Seconds between two looks for runs that no process drives."""

_FOLLOW_INTERVAL = 0.5
"""Seconds between two reads of a run that another process drives."""

MOST_RESUMED = 1_000
"""Maximum number of unfinished runs that are looked at for one that no process drives."""

_logger = logging.getLogger(__name__)


class Runs:
    """The runs of a server.

    Args:
        offers: Experts by name.
        redacts: True if clients do not get the texts of internal errors; see `Redaction`.

    Attributes:
        offers: Experts by name.
        ending: True if no more runs are started.
        on_end: Function that is called with each run that has ended here.
    """

    def __init__(self, offers: Mapping[str, Offer], bounds: Bounds, *, redacts: bool = False) -> None:
        self.offers = offers
        self.bounds = bounds
        self._redacts = redacts
        self.ending = False
        self.on_end: Callable[[ServedRun], None] = lambda run: None
        self._followers = 0
        self._runs: dict[str, ServedRun] = {}
        self._id_locks = WeakValueDictionary[str, asyncio.Lock]()  # of ids that are being started
        self._health: DurableHealth | None = None
        self._taking_over: asyncio.Task[None] | None = None
        self._following = set[asyncio.Task[None]]()
        if ledger := self.ledger:  # what is observed of other processes holds for the runs of all experts
            for offer in offers.values():
                if offer.ledger:
                    offer.ledger.watch = ledger.watch

    @property
    def ledger(self) -> Ledger | None:
        """The database of the runs; None without one."""
        return next((offer.ledger for offer in self.offers.values() if offer.ledger), None)

    async def stuck(self) -> tuple[str, ...]:
        """Return the names of the parts of this server that are stuck, within some seconds; see `DurableHealth`."""
        if (ledger := self.ledger) is None:
            return ()
        if self._health is None:
            from operad.runtime.durable.health import DurableHealth

            self._health = DurableHealth(ledger)
        return tuple(await self._health.stuck())

    @property
    def open(self) -> list[ServedRun]:
        """Runs that this server drives and that have not ended."""
        return [run for run in self._runs.values() if run.ended is None and run.task]

    @contextmanager
    def following(self) -> Generator[None, None, None]:
        """Count a connection that follows a run, for the block.

        Raises:
            RefusedError: There are too many.
        """
        if self._followers >= self.bounds.followers:
            raise RefusedError(
                429, f"{self._followers} connections follow runs, the maximum of this server", retry_after=_RETRY_AFTER
            )
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1

    def progress(self) -> str:
        """Return how many runs are in progress, and how many have finished but wait for the database to record it."""
        finished = sum(run.message is not None for run in self.open)
        working = len(self.open) - finished
        rest = f", {finished} finished but not yet recorded" if finished else ""
        return f"{working} run{'s' if working != 1 else ''} in progress{rest}"

    def listed(self) -> list[ServedRun]:
        """Return the runs in memory, the newest first."""
        self._drop_old()
        return sorted(self._runs.values(), key=lambda run: -run.began)

    async def stored(self, most: int, states: Collection[str] = ()) -> Sequence[StoredRun]:
        """Return the newest runs of the experts in the database, in these states, without their long columns."""
        ledger = self.ledger
        return await asyncio.to_thread(ledger.store.runs, most, "", states, self._origins) if ledger else ()

    async def asking(self, most: int) -> Sequence[str]:
        """Return the ids of the newest runs of the experts in the database that have open questions."""
        ledger = self.ledger
        return await asyncio.to_thread(ledger.store.asking, most, self._origins) if ledger else ()

    @property
    def _origins(self) -> Origins:
        """The origins of the experts' runs in the database."""
        ledgers = [(offer.ledger, offer.agent.workflow.name) for offer in self.offers.values() if offer.ledger]
        sources = {
            json.dumps(_expert_of(ledger.source)).removesuffix("}")
            for ledger, _ in ledgers
            if ledger.source is not None
        }
        return Origins(sources, {name for ledger, name in ledgers if ledger.source is None})

    async def look(self, run_id: str) -> ServedRun | None:
        """Return a run in its present state, which is not followed if another process drives it; None if there is none.

        Raises:
            RefusedError: The stored run cannot be read.
        """
        self._drop_old()
        return self._runs.get(run_id) or await self._read(run_id)

    async def alive(self) -> Collection[str]:
        """Return the ids of the processes that drive runs in the database."""
        return await asyncio.to_thread(self.ledger.alive) if self.ledger else ()

    async def begin(
        self,
        offer: Offer,
        job: Job,
        run_id: str | None = None,
        answers: Mapping[str, JsonValue] | None = None,
        previous: ServedRun | None = None,
        sees: Callable[[ServedRun], bool] = lambda run: True,
        by: str = "",
    ) -> tuple[ServedRun, bool]:
        """Start a run, or return the existing run with the id.

        Args:
            offer: The expert.
            run_id: Id of the run; by default a new one.
            answers: Answers known beforehand, by question ids.
            previous: The run whose conversation the new run continues. The expert's memory then summarizes older turns
                of the job before the run starts.
            sees: Function that returns True for runs that the caller may see.
            by: Name of the user who gives the answers; empty if the server knows no names.

        Returns:
            The run, and True if it was started by this call.

        Raises:
            RefusedError: A run with the id has another job or other answers; the job cannot start, such as one with an
                input that no operator reads; there are too many runs; or the server is shutting down.
        """
        answers = answers or {}
        if run_id is None:
            offer.check_start(job)
            return self._start_new(offer, job, new_id(), answers, previous, by), True
        async with self._id_locks.setdefault(run_id, asyncio.Lock()):
            known = await self._find_known(run_id)
            if known is None:
                offer.check_start(job)
            elif not sees(known):
                raise RefusedError(409, f"the id {run_id!r} is taken; give another, or none", param="id")
            else:
                check_same_request(known, offer, job)
                job = known.job
                is_abandoned = await self._is_abandoned(known)
                if current := self._driven_here(run_id):  # taken up meanwhile
                    known, is_abandoned = current, False
                if not is_abandoned:
                    check_same_answers(known, answers)
                    return known, False
            return self._start_new(offer, job, run_id, answers, previous, by), True

    async def fire(self, offer: Offer, job: Job, claim: Callable[[str], Awaitable[bool]]) -> ServedRun | None:
        """Start a run that a schedule fires; return None if another server was first.

        Args:
            claim: Function that takes the id of the run, stores the run, and returns True if this server was first.

        Raises:
            RefusedError: There are too many runs, or the server is shutting down. Nothing is claimed then.
        """
        if self.ending:
            raise ending_error()
        self._check_room()
        run_id = new_id()
        return self._start(offer, job, run_id, {}) if await claim(run_id) else None

    async def is_working(self, run_id: str) -> bool:
        """Return True if a run is in progress, here or in another process, and does not wait for a person."""
        if run := self._runs.get(run_id):
            return run.ended is None and run.shown_state == "running"
        if (ledger := self.ledger) is None:
            return False
        kept = await asyncio.to_thread(ledger.store.run, run_id)
        return kept is not None and kept.state == "running" and await asyncio.to_thread(ledger.is_driven, kept)

    async def find(self, run_id: str) -> ServedRun:
        """Return the run with an id.

        Raises:
            RefusedError: No run has the id.
        """
        run = await self._find_known(run_id)
        if run is None:
            raise unknown_run(run_id, self._runs, self.retention)
        return run

    @property
    def retention(self) -> str:
        """Sentence that says how long a finished run can be requested."""
        if any(offer.ledger for offer in self.offers.values()):
            return "A finished run is available until it is deleted from the database"
        bounds = self.bounds
        return (
            f"Without --db, a finished run is deleted after {bounds.kept_seconds:g} s, or when {bounds.kept} other runs "
            f"have finished since, or when these hold {bounds.kept_bytes:,} bytes"
        )

    async def _open_question(self, run: ServedRun, question_id: str) -> Question:
        """Return an open question of a run.

        Raises:
            RefusedError: The run has no such open question.
        """
        open_questions = {question.id: question for question in run.questions}
        if question_id not in open_questions and run.ended is None and (ledger := run.offer.ledger) is not None:
            with suppress(InputError):  # a resumed run may not have asked again yet
                open_questions |= {each.id: each for each in await asyncio.to_thread(ledger.open_questions, run.id)}
        if question_id not in open_questions:
            hint = did_you_mean(question_id[:200], open_questions)
            ids = ", ".join(open_questions) or "none"
            if run.ended is not None:
                raise RefusedError(409, f"run {run.id!r} has ended and asks nothing; its state is {run.state}")
            raise RefusedError(404, f"run {run.id!r} does not ask {question_id[:200]!r}{hint}; open questions: {ids}")
        return open_questions[question_id]

    async def answer(self, run: ServedRun, question_id: str, answer: JsonValue, by: str) -> None:
        """Answer an open question of a run. A stored run that no process drives continues here.

        Args:
            by: Name of the user who answers, who has to be one of those whom the question names; empty if the server
                knows no names.

        Raises:
            RefusedError: The run has no such open question, only other people may answer it, the answer does not fit, or
                there is no room for the run to continue.
        """
        question = await self._open_question(run, question_id)
        if not may_answer(by, question.answer_by):
            raise RefusedError(
                403,
                f"the question {question_id!r} of run {run.id!r} may be answered by {', '.join(question.answer_by)}, and the "
                f"request is one of {by}",
                param="question_id",
            )
        try:
            if is_abandoned := await self._is_abandoned(run):
                self._check_room()
            await run.offer.agent.workflow.answer(run.id, {question_id: answer}, by=by)
            if is_abandoned and not self._driven_here(run.id):
                self._start(run.offer, run.job, run.id, None, run.began)
        except InvalidError as error:
            raise RefusedError(
                400, f"{error}\n  it was asked: {question.text}; answer again", param="answer"
            ) from error
        except InputError as error:
            raise RefusedError(409, str(error)) from error

    async def restart(self, run: ServedRun, restart: Restart) -> ServedRun:
        """Continue a copy of a run in the database from an operator on.

        Raises:
            RefusedError: The run is not in a database, the copy cannot be made, or there are too many runs. Or the values
                of a run are changed that named the people who may answer it, and the user is not one of them: a changed
                output would replace their answer, and changed inputs what they agreed to.
        """
        ledger, workflow = run.offer.ledger, run.offer.agent.workflow
        if ledger is None:
            raise RefusedError(409, f"run {run.id!r} is not in a database, so no copy of it can continue")
        self._check_room()
        changes: dict[str, Any] = {
            "round": restart.round,
            "outputs": restart.outputs,
            "inputs": restart.inputs,
            "by": restart.by,
        }
        kept_inputs = run.job.inputs
        run.offer.refuse_files({k: v for k, v in restart.inputs.items() if k not in kept_inputs or v != kept_inputs[k]})
        try:
            if restart.outputs or restart.inputs:
                for asked in map(question_of, await asyncio.to_thread(ledger.store.questions, run.id)):
                    if not may_answer(restart.by, asked.answer_by):
                        raise RefusedError(
                            403,
                            f"the question {asked.id!r} of run {run.id!r} may be answered by {', '.join(asked.answer_by)}; "
                            f"only they may change outputs and inputs, and the request is one of {restart.by}",
                        )
            copy = await asyncio.to_thread(ledger.restart_from, run.id, restart.operator, workflow, **changes)
            return self._start(run.offer, await asyncio.to_thread(ledger.job, copy), copy, None)
        except RefusedError:
            raise
        except OperadError as error:
            raise RefusedError(409, str(error)) from error

    async def cancel(self, run: ServedRun, why: str = "was cancelled") -> None:
        """Cancel a run, and wait for its end; nothing happens if it has ended already.

        A run that another process drives is cancelled there; if it does not end within some seconds, it still has the
        state ``running`` afterwards.
        """
        if run.ended is not None:
            return
        if run.task is None:
            await self._cancel_elsewhere(run, why)
            return
        self._stop(run, why)
        await asyncio.gather(run.task, return_exceptions=True)
        ledger = run.offer.ledger
        if ledger is not None and run.state == "cancelled":
            with suppress(OperadError):  # it had ended already
                await asyncio.to_thread(ledger.cancel, run.id)

    async def forget(self, run: ServedRun) -> None:
        """Cancel a run, and delete it from this server and from the database.

        Raises:
            RefusedError: Another process drives the run, and has not ended it yet.
        """
        await self.cancel(run)
        self._runs.pop(run.id, None)
        if (ledger := run.offer.ledger) is not None:
            try:
                if await asyncio.to_thread(ledger.store.run, run.id) is not None:
                    await asyncio.to_thread(ledger.delete, run.id)
            except InputError as error:
                raise RefusedError(409, str(error)) from error

    async def take_up(self, *, waiting: bool = True) -> list[str]:
        """Resume the runs of these experts that no process drives, such as those of a server that has ended.

        Args:
            waiting: False to leave those alone that wait in the database until they are answered.

        Returns:
            The ids of the resumed runs.
        """
        resumed: list[str] = []
        ledger = self.ledger
        if ledger is None:
            return resumed
        for kept in await self.stored(MOST_RESUMED, _UNFINISHED):
            if not waiting and kept.state == "asks" and not kept.driver:
                continue
            if self._driven_here(kept.run_id) or await asyncio.to_thread(ledger.is_driven, kept):
                continue
            try:
                offer = self._offer_of(await asyncio.to_thread(ledger.run, kept.run_id))
                job = await asyncio.to_thread(ledger.job, kept.run_id)
            except InputError as error:  # deleted meanwhile, or unreadable
                _logger.warning("%s", error)
                continue
            if self.ending:
                break
            if offer is not None and not self._driven_here(kept.run_id):  # a request may have taken it up meanwhile
                self._start(offer, job, kept.run_id, None, kept.created)
                resumed.append(kept.run_id)
        return resumed

    def start(self) -> None:
        """Start to take over the runs of servers that end; until `end`."""
        if self.ledger is not None and not self.ending:
            self._taking_over = asyncio.ensure_future(self._take_over())

    async def _take_over(self) -> None:
        is_failing = False
        while True:
            await asyncio.sleep(_TAKE_OVER_INTERVAL)
            try:
                await self.take_up(waiting=False)
            except Exception as error:  # noqa: BLE001 - the database may answer again later
                if not is_failing:
                    _logger.warning("runs of other servers are not taken over at the moment: %s", describe(error))
                is_failing = True
            else:
                if is_failing:
                    _logger.warning("runs of other servers are taken over again")
                is_failing = False

    async def end(self, grace: float) -> None:
        """Start no more runs, wait `grace` seconds for running ones, and stop the rest; durable ones resume later."""
        self.ending = True
        if self._taking_over is not None:
            self._taking_over.cancel()
        if working := [run.task for run in self.open if run.task and not run.questions]:
            await asyncio.wait(working, timeout=grace)
        self.stop_all()
        await asyncio.gather(*(run.task for run in self.open if run.task), return_exceptions=True)

    def stop_all(self) -> None:
        """Stop all runs without waiting for their ends."""
        for run in self.open:
            self._stop(run, "was stopped, because the server shut down")

    # Driving runs

    def _check_room(self) -> None:
        if len(self.open) >= self.bounds.runs:
            raise RefusedError(
                429,
                f"{len(self.open)} runs have not ended, the maximum of this server; wait for one, or end one: "
                "POST /runs/{id}/cancel",
                retry_after=_RETRY_AFTER,
            )

    def _start_new(
        self,
        offer: Offer,
        job: Job,
        run_id: str,
        answers: Mapping[str, JsonValue],
        previous: ServedRun | None,
        by: str,
    ) -> ServedRun:
        """Start a run, if there is room for it; without an await, so that requests at once cannot exceed the limit.

        Raises:
            RefusedError: There are too many runs, or the server is shutting down.
        """
        if self.ending:
            raise ending_error()
        self._check_room()
        run = self._start(offer, job, run_id, answers)
        run.answers_by = by
        if previous is not None:
            run.memory, run.previous = offer.memory(), previous.id
        return run

    def _start(
        self, offer: Offer, job: Job, run_id: str, answers: Mapping[str, JsonValue] | None, began: float | None = None
    ) -> ServedRun:
        run = self._runs[run_id] = self._served(run_id, offer, job, answers, time.time() if began is None else began)
        limit = asyncio.get_running_loop().call_later(self.bounds.seconds, self._time_out, run)
        run.task = asyncio.ensure_future(self._stream_events(run))
        # A callback, because the task may be cancelled before it has begun.
        run.task.add_done_callback(partial(self._record_end, run, limit))
        return run

    def _served(
        self, run_id: str, offer: Offer, job: Job, answers: Mapping[str, JsonValue] | None, began: float
    ) -> ServedRun:
        log = EventLog(self.bounds.events, self.bounds.event_bytes)
        return ServedRun(run_id, offer, job, answers, Redaction(run_id, redacts=self._redacts), log, began)

    def _driven_here(self, run_id: str) -> ServedRun | None:
        """Return a run that this server drives or has driven to its end; None for others."""
        run = self._runs.get(run_id)
        return run if run is not None and run.task is not None else None

    def _record_end(self, run: ServedRun, limit: asyncio.TimerHandle, task: asyncio.Task[None]) -> None:
        limit.cancel()
        run.log.close()
        if task.cancelled():
            run.state = "running" if run.lost else "cancelled"
        elif error := task.exception():
            run.state, run.error = ("cancelled", run.error) if run.error else ("failed", run.redaction.error(error))
            if run.state == "failed" and not run.lost:
                cause, name = internal_cause(error), run.offer.name
                text = "its error follows" if cause else describe(error)
                _logger.log(
                    logging.ERROR if cause else logging.WARNING,
                    "run %s of %r failed: %s",
                    run.id,
                    name,
                    text,
                    exc_info=cause,
                )
        else:
            run.state = "finished"
        if run.lost:  # the next request finds it in the database
            self._runs.pop(run.id, None)
            return
        run.ended, run.seconds = asyncio.get_running_loop().time(), max(0.0, time.time() - run.began)
        # An event is kept both as an object and as JSON; the last event contains the result.
        job = run.job
        turns_length = sum(len(turn.text) for turn in job.turns)
        run.size = len(job.goal) + len(job.context) + turns_length + len(to_json(job.inputs)) + 2 * run.log.size
        self._drop_old()
        if run.state != "cancelled" or not self.ending:  # a run that the end of the server stops may resume
            self.on_end(run)

    async def _stream_events(self, run: ServedRun) -> None:
        memory_usage = NO_USAGE
        if run.memory is not None:
            recalled = await run.memory.recall(run.job.turns, run.job.goal)
            run.job, memory_usage = run.job.model_copy(update={"turns": recalled.turns}), recalled.usage
            run.usage = memory_usage
        try:
            await self._drive_here(run, memory_usage)
        except OperadError:
            run.lost = await self._is_elsewhere(run)
            raise

    async def _is_elsewhere(self, run: ServedRun) -> bool:
        """Return True if another process drives, or has finished, a run that could not be driven here."""
        ledger = run.offer.ledger
        if ledger is None:
            return False
        kept = await asyncio.to_thread(ledger.store.run, run.id)
        return kept is not None and (kept.state == "finished" or (kept.state in _UNFINISHED and bool(kept.driver)))

    async def _drive_here(self, run: ServedRun, memory_usage: Usage) -> None:
        async with aclosing(run.offer.agent.stream(run.job, run_id=run.id)) as stream:
            async for event in stream:
                internal = getattr(event, "internal", "")
                if run.redaction.learn(internal):
                    _logger.warning("run %s: %s: %s", run.id, "/".join(event.path), internal)
                run.log.add(run.redaction.event(event), event)
                if isinstance(event, events.Interrupted):
                    if not may_answer(run.answers_by, event.answer_by):
                        continue  # an answer in advance counts only if its sender may answer
                    run.asked.add(event.interrupt_id)
                    if run.answers and event.interrupt_id in run.answers:
                        await self._give_known_answer(run, event, run.answers[event.interrupt_id])
                elif isinstance(event, events.ModelAnswered):
                    run.usage += event.usage
                elif isinstance(event, events.RunFailed):
                    run.usage = event.usage + memory_usage
                elif isinstance(event, events.RunFinished):
                    run.message, run.usage = run.redaction.of(event.message), event.message.usage + memory_usage

    async def _give_known_answer(self, run: ServedRun, event: events.Interrupted, answer: JsonValue) -> None:
        try:
            await run.offer.agent.workflow.answer(run.id, {event.interrupt_id: answer}, by=run.answers_by)
        except InvalidError as error:
            raise InputError(f"answers.{event.interrupt_id}: {error}; it was asked: {event.question}") from error

    def _stop(self, run: ServedRun, why: str) -> None:
        if run.task is not None and run.ended is None:
            run.error = run.error or why
            run.task.cancel()

    async def _cancel_elsewhere(self, run: ServedRun, why: str) -> None:
        """Cancel a run of the database that this server does not drive, and wait some seconds for its end."""
        ledger = run.offer.ledger
        if ledger is None:
            return
        with suppress(InputError):  # it has ended meanwhile, or was deleted
            await asyncio.to_thread(ledger.cancel, run.id)
        with suppress(InputError):  # it was deleted
            for _ in range(_CANCEL_CHECKS):
                kept = await asyncio.to_thread(ledger.run, run.id)
                if run.record_end(kept):
                    run.message = await asyncio.to_thread(ledger.result, run.id)
                    run.error = kept.error or (why if run.state == "cancelled" else "")
                    return
                await asyncio.sleep(_CANCEL_INTERVAL)

    def _time_out(self, run: ServedRun) -> None:
        if run.offer.ledger is not None and run.task is not None and run.questions:
            run.lost = True
            run.task.cancel()
            return
        run.timed_out = True
        self._stop(run, TIMED_OUT.format(self.bounds.seconds))

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        ended = sorted((run.ended, run.id, run.size) for run in self._runs.values() if run.ended is not None)
        total = 0
        for number, (ended_at, run_id, size) in enumerate(reversed(ended)):
            total += size
            too_much = total > self.bounds.kept_bytes and number > 0
            if number >= self.bounds.kept or too_much or now - ended_at > self.bounds.kept_seconds:
                del self._runs[run_id]

    async def _find_known(self, run_id: str) -> ServedRun | None:
        """Return a run of this server, or of its database, which is followed until its end; None if there is none."""
        run = await self.look(run_id)
        if run is None or run.ended is not None or run.task is not None or (ledger := run.offer.ledger) is None:
            return run
        is_followed = run_id in self._runs
        run = self._runs.setdefault(run_id, run)
        await self._read_elsewhere(run, ledger)  # also if it is followed: another server may have told of its end
        if is_followed:
            return self._runs.get(run_id, run)
        following = asyncio.ensure_future(self._follow_elsewhere(run, ledger))
        self._following.add(following)
        following.add_done_callback(self._following.discard)
        return self._runs.get(run_id, run)

    async def _read(self, run_id: str) -> ServedRun | None:
        """Return a run of the database in its stored state; None if these experts have none with the id."""
        ledger = self.ledger
        if ledger is None:
            return None
        kept = await asyncio.to_thread(ledger.store.run, run_id)
        offer = kept and self._offer_of(kept)
        if kept is None or offer is None:
            return None
        try:
            run = self._served(run_id, offer, await asyncio.to_thread(ledger.job, run_id), None, kept.created)
            if kept.state not in _UNFINISHED:
                for event in (await asyncio.to_thread(ledger.events_after, run_id, 0))[0] if self._redacts else ():
                    run.redaction.learn(getattr(event, "internal", ""))
                run.message = run.redaction.of(await asyncio.to_thread(ledger.result, run_id))
        except InputError as error:
            raise RefusedError(409, str(error)) from error
        run.error = run.redaction.of(kept.error)
        with suppress(ValidationError):
            run.usage = Usage.model_validate_json(kept.usage)
        if run.record_end(kept):
            run.log.close()
        else:
            with suppress(InputError):  # it was deleted meanwhile, or another program wrote the question
                run.elsewhere = await asyncio.to_thread(ledger.open_questions, run_id)
        return run

    async def _follow_elsewhere(self, run: ServedRun, ledger: Ledger) -> None:
        """Follow a run that another process drives, until it has ended, or this server drives it."""
        while self._runs.get(run.id) is run and run.ended is None:
            with suppress(OperadError):  # the database may answer again later; a run that was deleted is forgotten
                await self._read_elsewhere(run, ledger)
            await asyncio.sleep(_FOLLOW_INTERVAL)
        run.log.close()

    async def _read_elsewhere(self, run: ServedRun, ledger: Ledger) -> None:
        """Read the new events, the questions and the end of a run that another process drives."""
        kept = await asyncio.to_thread(
            ledger.store.run, run.id
        )  # before the events, which are complete if it has ended
        happened, run.read_part = await asyncio.to_thread(ledger.events_after, run.id, run.read_part)
        for event in happened:
            if event.seq > run.log.last:
                run.log.add(run.redaction.event(event), event)
        run.elsewhere = await asyncio.to_thread(ledger.open_questions, run.id)
        if kept is None:  # it was deleted
            self._runs.pop(run.id, None)
        elif kept.state not in _UNFINISHED:
            run.message = run.redaction.of(await asyncio.to_thread(ledger.result, run.id))
            run.error = run.redaction.of(kept.error)
            with suppress(ValidationError):
                run.usage = Usage.model_validate_json(kept.usage)
            run.record_end(kept)
            run.log.close()
        else:
            run.log.notify()

    @staticmethod
    async def _is_abandoned(run: ServedRun) -> bool:
        """Return True if a run has not ended and no process drives it."""
        ledger = run.offer.ledger
        if run.ended is not None or run.task is not None or ledger is None:
            return False
        return not await asyncio.to_thread(lambda: ledger.is_driven(ledger.run(run.id)))

    def _offer_of(self, kept: StoredRun) -> Offer | None:
        with suppress(ValueError):
            source: JsonValue = json.loads(kept.source)
            mine = [o for o in self.offers.values() if o.ledger and _expert_of(o.ledger.source) == _expert_of(source)]
            if source is None:  # of programs, whose ledgers have no source
                mine = [o for o in mine if o.agent.workflow.name == kept.workflow]
            return next(iter(mine), None)
        return None


def _expert_of(source: JsonValue) -> JsonValue:
    """Return the expert in the source of a run: the same for other options of the command, such as another model."""
    if not isinstance(source, dict):
        return source
    return {key: source[key] for key in ("file", "expert") if key in source}


def unknown_run(run_id: str, known: Iterable[str], retention: str) -> RefusedError:
    """Return the error of a request for a run that is not known."""
    text = f"no run has the id {run_id[:200]!r}{did_you_mean(run_id[:200], known)}; GET /runs lists runs. {retention}"
    return RefusedError(404, text, param="run_id")


def ending_error() -> RefusedError:
    """Return the error of a request that arrives while the server shuts down."""
    return RefusedError(503, "the server is shutting down and starts no more runs; retry later", retry_after=30)
