"""Runs of a server: start, answers, cancellation, and limits."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from pydantic import JsonValue, ValidationError

from operad.runtime import events
from operad.runtime.values.errors import InputError, InvalidError, OperadError, describe, did_you_mean
from operad.runtime.values.message import NO_USAGE, Job, Usage, new_id
from operad.runtime.values.valid_json import to_json
from operad.server.api.event_log import EventLog
from operad.server.api.experts import Offer
from operad.server.api.served_run import ServedRun
from operad.server.bounds import Bounds
from operad.server.problems import RefusedError

if TYPE_CHECKING:
    from operad.runtime.durable.health import DurableHealth
    from operad.runtime.durable.ledger import Ledger
    from operad.runtime.durable.rows import StoredRun


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
_UNFINISHED = {"running", "paused"}

_logger = logging.getLogger(__name__)


class Runs:
    """The runs of a server.

    Args:
        offers: Experts by name.

    Attributes:
        offers: Experts by name.
        ending: True if no more runs are started.
    """

    def __init__(self, offers: Mapping[str, Offer], bounds: Bounds) -> None:
        self.offers = offers
        self.bounds = bounds
        self.ending = False
        self._runs: dict[str, ServedRun] = {}
        self._id_locks = WeakValueDictionary[str, asyncio.Lock]()  # of ids that are being started
        self._health: DurableHealth | None = None

    @property
    def _ledger(self) -> Ledger | None:
        """The database of the runs; None without one."""
        return next((offer.ledger for offer in self.offers.values() if offer.ledger), None)

    async def stuck(self) -> tuple[str, ...]:
        """Return the names of the parts of this server that are stuck, within some seconds; see `DurableHealth`."""
        if (ledger := self._ledger) is None:
            return ()
        if self._health is None:
            from operad.runtime.durable.health import DurableHealth

            self._health = DurableHealth(ledger)
        return tuple(await self._health.stuck())

    @property
    def open(self) -> list[ServedRun]:
        """Runs that have not ended and are not set aside."""
        return [run for run in self._runs.values() if run.ended is None and not run.set_aside]

    def progress(self) -> str:
        """Return how many runs are in progress, and how many have finished but wait for the database to record it."""
        finished = sum(run.message is not None for run in self.open)
        working = len(self.open) - finished
        rest = f", {finished} finished but not yet recorded" if finished else ""
        return f"{working} run{'s' if working != 1 else ''} in progress{rest}"

    def listed(self) -> list[ServedRun]:
        """Return all known runs, the newest first."""
        self._drop_old()
        return sorted(self._runs.values(), key=lambda run: -run.began)

    async def begin(
        self,
        offer: Offer,
        job: Job,
        run_id: str | None = None,
        answers: Mapping[str, JsonValue] | None = None,
        previous: ServedRun | None = None,
        sees: Callable[[ServedRun], bool] = lambda run: True,
    ) -> tuple[ServedRun, bool]:
        """Start a run, or return the existing run with the id.

        Args:
            offer: The expert.
            run_id: Id of the run; by default a new one.
            answers: Answers known beforehand, by question ids.
            previous: The run whose conversation the new run continues. The expert's memory then summarizes older turns
                of the job before the run starts.
            sees: Function that returns True for runs that the caller may see.

        Returns:
            The run, and True if it was started by this call.

        Raises:
            RefusedError: A run with the id has another job or other answers; the job cannot start, such as one with an
                input that no operator reads; there are too many runs; or the server is shutting down.
        """
        answers = answers or {}
        if run_id is None:
            offer.check_start(job)
            return self._start_new(offer, job, new_id(), answers, previous), True
        async with self._id_locks.setdefault(run_id, asyncio.Lock()):
            known = await self._find_known(run_id)
            if known is None:
                offer.check_start(job)
            elif not sees(known):
                raise RefusedError(409, f"the id {run_id!r} is taken; give another, or none", param="id")
            else:
                check_same_request(known, offer, job)
                job = known.job
                if not await self._is_abandoned(known):
                    check_same_answers(known, answers)
                    return known, False
            return self._start_new(offer, job, run_id, answers, previous), True

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

    async def answer(self, run: ServedRun, question_id: str, answer: JsonValue) -> None:
        """Answer a question of a run.

        Raises:
            RefusedError: The run has no such open question, or the answer does not fit.
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
        try:
            if run.set_aside and run.offer.ledger is not None:
                self._check_room()
                await asyncio.to_thread(run.offer.ledger.answer, run.id, {question_id: answer})
                self._resume(run)
            else:
                await run.offer.agent.workflow.answer(run.id, {question_id: answer})
        except InvalidError as error:
            raise RefusedError(
                400, f"{error}\n  it was asked: {open_questions[question_id].text}; answer again", param="answer"
            ) from error
        except InputError as error:
            raise RefusedError(409, str(error)) from error

    async def cancel(self, run: ServedRun, why: str = "was cancelled") -> None:
        """Cancel a run, and wait for its end; nothing happens if it has ended already.

        A run that another process drives is cancelled there; if it does not end within some seconds, it still has the
        state ``running`` afterwards.
        """
        if run.ended is not None:
            return
        if run.task is None and not run.set_aside:
            await self._cancel_elsewhere(run, why)
            return
        if run.task is not None:
            self._stop(run, why)
            await asyncio.gather(run.task, return_exceptions=True)
        else:
            run.set_aside, run.state, run.error, run.ended = (), "cancelled", why, asyncio.get_running_loop().time()
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

    async def take_up(self) -> list[str]:
        """Resume the runs that were unfinished when an earlier server of these experts ended.

        Returns:
            The ids of the resumed runs.
        """
        resumed: list[str] = []
        ledger = self._ledger
        if ledger is None:
            return resumed
        for kept in await asyncio.to_thread(ledger.runs):
            if kept.state not in _UNFINISHED or await asyncio.to_thread(ledger.is_driven, kept):
                continue
            try:
                offer = self._offer_of(await asyncio.to_thread(ledger.run, kept.run_id))
                job = await asyncio.to_thread(ledger.job, kept.run_id)
            except InputError as error:  # deleted meanwhile, or unreadable
                _logger.warning("%s", error)
                continue
            if offer is not None:
                self._start(offer, job, kept.run_id, None, kept.created)
                resumed.append(kept.run_id)
        return resumed

    async def end(self, grace: float) -> None:
        """Start no more runs, wait `grace` seconds for running ones, and stop the rest; durable ones resume later."""
        self.ending = True
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
    ) -> ServedRun:
        """Start a run, if there is room for it; without an await, so that requests at once cannot exceed the limit.

        Raises:
            RefusedError: There are too many runs, or the server is shutting down.
        """
        if self.ending:
            raise ending_error()
        self._check_room()
        run = self._start(offer, job, run_id, answers)
        if previous is not None:
            run.memory, run.previous = offer.memory(), previous.id
        return run

    def _start(
        self, offer: Offer, job: Job, run_id: str, answers: Mapping[str, JsonValue] | None, began: float | None = None
    ) -> ServedRun:
        log = EventLog(self.bounds.events, self.bounds.event_bytes)
        run = ServedRun(run_id, offer, job, answers, log, time.time() if began is None else began)
        self._runs[run_id] = run
        self._drive(run)
        return run

    def _resume(self, run: ServedRun) -> None:
        """Drive a run that was set aside again."""
        run.set_aside, run.log = (), EventLog(self.bounds.events, self.bounds.event_bytes)
        self._drive(run)

    def _drive(self, run: ServedRun) -> None:
        """Start the task of a run; a callback records its end, also if the task is cancelled before it has begun."""
        limit = asyncio.get_running_loop().call_later(self.bounds.seconds, self._time_out, run)
        run.task = asyncio.ensure_future(self._stream_events(run))
        run.task.add_done_callback(partial(self._record_end, run, limit))

    def _record_end(self, run: ServedRun, limit: asyncio.TimerHandle, task: asyncio.Task[None]) -> None:
        limit.cancel()
        run.log.close()
        if task.cancelled():
            run.state = "cancelled"
        elif error := task.exception():  # any error is shown to the followers of the run
            run.state, run.error = ("cancelled", run.error) if run.error else ("failed", describe(error))
        else:
            run.state = "finished"
        if run.set_aside:
            run.state, run.task, run.log = "running", None, EventLog(1, 1)
            run.log.close()
            return
        run.ended = asyncio.get_running_loop().time()
        # An event is kept both as an object and as JSON; the last event contains the result.
        job = run.job
        turns_length = sum(len(turn.text) for turn in job.turns)
        run.size = len(job.goal) + len(job.context) + turns_length + len(to_json(job.inputs)) + 2 * run.log.size
        self._drop_old()

    async def _stream_events(self, run: ServedRun) -> None:
        memory_usage = NO_USAGE
        if run.memory is not None:
            recalled = await run.memory.recall(run.job.turns, run.job.goal)
            run.job, memory_usage = run.job.model_copy(update={"turns": recalled.turns}), recalled.usage
            run.usage = memory_usage
        async with aclosing(run.offer.agent.stream(run.job, run_id=run.id)) as stream:
            async for event in stream:
                run.log.add(event)
                if isinstance(event, events.Interrupted):
                    run.asked.add(event.interrupt_id)
                    if run.answers and event.interrupt_id in run.answers:
                        await self._give_known_answer(run, event, run.answers[event.interrupt_id])
                elif isinstance(event, events.ModelAnswered):
                    run.usage += event.usage
                elif isinstance(event, events.RunFailed):
                    run.usage = event.usage + memory_usage
                elif isinstance(event, events.RunFinished):
                    run.message, run.usage = event.message, event.message.usage + memory_usage

    async def _give_known_answer(self, run: ServedRun, event: events.Interrupted, answer: JsonValue) -> None:
        try:
            await run.offer.agent.workflow.answer(run.id, {event.interrupt_id: answer})
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
        if run.offer.ledger is not None and run.task is not None and (questions := run.questions):
            run.set_aside = questions
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
        """Return a run of this server, or of its database in its stored state; None if there is none with the id."""
        self._drop_old()
        if run_id in self._runs:
            return self._runs[run_id]
        ledger = self._ledger
        if ledger is None:
            return None
        kept = await asyncio.to_thread(ledger.store.run, run_id)
        offer = kept and self._offer_of(kept)
        if kept is None or offer is None:
            return None
        try:
            job = await asyncio.to_thread(ledger.job, run_id)
            message = await asyncio.to_thread(ledger.result, run_id)
        except InputError as error:
            raise RefusedError(409, str(error)) from error
        log = EventLog(1, 1)
        log.close()
        run = ServedRun(run_id, offer, job, None, log, kept.created, message=message, error=kept.error)
        with suppress(ValidationError):
            run.usage = Usage.model_validate_json(kept.usage)
        run.record_end(kept)
        return run

    @staticmethod
    async def _is_abandoned(run: ServedRun) -> bool:
        """Return True if a run has not ended and no process drives it."""
        ledger = run.offer.ledger
        if run.ended is not None or run.task is not None or run.set_aside or ledger is None:
            return False
        return not await asyncio.to_thread(lambda: ledger.is_driven(ledger.run(run.id)))

    def _offer_of(self, kept: StoredRun) -> Offer | None:
        with suppress(ValueError):
            source: JsonValue = json.loads(kept.source)
            return next((o for o in self.offers.values() if o.ledger and o.ledger.source == source), None)
        return None


def unknown_run(run_id: str, known: Iterable[str], retention: str) -> RefusedError:
    """Return the error of a request for a run that is not known."""
    text = f"no run has the id {run_id[:200]!r}{did_you_mean(run_id[:200], known)}; GET /runs lists runs. {retention}"
    return RefusedError(404, text, param="run_id")


def ending_error() -> RefusedError:
    """Return the error of a request that arrives while the server shuts down."""
    return RefusedError(503, "the server is shutting down and starts no more runs; retry later", retry_after=30)
