"""Runs and experts as the sender of a request may see them: a foreign run is like an unknown one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from pydantic import JsonValue
from starlette.requests import HTTPConnection

from operad.runtime.values.message import Job
from operad.server.api.experts import Offer
from operad.server.api.runs import Runs, unknown_run
from operad.server.api.served_run import ServedRun
from operad.server.http.bounds import Bounds
from operad.server.http.keys import Caller
from operad.server.http.problems import RefusedError

MOST_LISTED = 1_000
"""Maximum number of runs in a list."""


class SeenRuns:
    """The runs of a server, as a caller may see them.

    Attributes:
        offers: The experts that the caller may use, by name.
        bounds: Limits of the server.
    """

    def __init__(self, runs: Runs, caller: Caller) -> None:
        self._runs = runs
        self.caller = caller
        self.bounds: Bounds = runs.bounds
        self.offers: Mapping[str, Offer] = {name: offer for name, offer in runs.offers.items() if caller.may_use(name)}
        self.retention = runs.retention
        self.cancel, self.forget = runs.cancel, runs.forget  # of a run that was found
        self.following = runs.following

    def listed(self) -> list[ServedRun]:
        """Return the runs in memory, the newest first."""
        return [run for run in self._runs.listed() if self._sees(run)]

    async def newest(self, most: int) -> list[ServedRun]:
        """Return the newest runs, of this server and of its database; without those that cannot be read.

        Of a database, the newest `MOST_LISTED` runs are looked at.
        """
        found = {run.id: run for run in self.listed()}
        stored = await self._runs.stored(MOST_LISTED if self.caller.limited else most)
        read = 0
        for kept in stored:
            if kept.run_id not in found and read < most and (run := await self.look(kept.run_id)):
                found[run.id], read = run, read + 1
        return sorted(found.values(), key=lambda run: -run.began)[:most]

    async def look(self, run_id: str) -> ServedRun | None:
        """Return a run in its present state; None if there is none, it cannot be read, or the caller may not see it."""
        with suppress(RefusedError):
            run = await self._runs.look(run_id)
            return run if run is not None and self._sees(run) else None
        return None

    async def find(self, run_id: str) -> ServedRun:
        """Return the run with an id.

        Raises:
            RefusedError: No run has the id, or the caller may not see it.
        """
        try:
            run = await self._runs.find(run_id)
        except RefusedError:  # also of a stored run that cannot be read: whose it is, is not known
            run = None
            if not self.caller.limited:
                raise
        if run is None or not self._sees(run):
            raise unknown_run(run_id, [each.id for each in self.listed()], self.retention)
        self.caller.run_id = run.id
        return run

    async def find_started(self, run_id: str) -> ServedRun | None:
        """Return the run with an id; None if there is none, or the caller may not see it."""
        with suppress(RefusedError):
            return await self.find(run_id)
        return None

    async def answer(self, run: ServedRun, question_id: str, answer: JsonValue) -> None:
        """Answer a question of a run that was found; see `Runs.answer`."""
        await self._runs.answer(run, question_id, answer, self.caller.name)

    async def begin(
        self,
        offer: Offer,
        job: Job,
        run_id: str | None = None,
        answers: Mapping[str, JsonValue] | None = None,
        previous: ServedRun | None = None,
    ) -> tuple[ServedRun, bool]:
        """Start a run of the caller, or return its run with the id; see `Runs.begin`."""
        job = job.model_copy(update={"session_id": self.caller.session(job.session_id)})
        run, begun = await self._runs.begin(offer, job, run_id, answers, previous, self._sees, self.caller.name)
        self.caller.run_id = run.id
        return run, begun

    def _sees(self, run: ServedRun) -> bool:
        return self.caller.may_see(run.offer.name, run.job.session_id)


def caller_of(request: HTTPConnection) -> Caller:
    """Return the sender of a request."""
    return cast("Caller", cast("Any", request.state).caller)
