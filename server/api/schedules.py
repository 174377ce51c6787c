"""Schedules: runs that the server starts at the times of cron expressions.

Rules:

- A time fires once, also if several servers share a database.
- If times passed while no server fired them, the last of them fires once, late; the others are skipped.
- A time is skipped if the run of the one before is still in progress; a run that waits for a person is not.
- A schedule starts with the first server that serves it, or serves it with other times: earlier times do not fire.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.cron import firing_times
from operad.runtime.values.errors import OperadError
from operad.runtime.values.message import Job
from operad.runtime.values.valid_json import to_json
from operad.server.api.experts import Offer
from operad.server.api.runs import Runs
from operad.server.api.triggers import Starter

_LONGEST_SLEEP = 30.0
"""Maximum number of seconds between two looks at the clock, which may be set, and at times that could not be fired."""

_SHORTEST_SLEEP = 0.05

_LATE = 60.0
"""Seconds after which the log says that a time fires late."""

_logger = logging.getLogger(__name__)


class Schedules:
    """The schedules of the offered experts.

    Args:
        runs: The runs of the server.
        clock: Function that returns the time, in seconds since 1970.
    """

    def __init__(self, runs: Runs, clock: Callable[[], float] = time.time) -> None:
        self._runs = runs
        self._clock = clock
        self._offers = [(offer, offer.schedule) for offer in runs.offers.values() if offer.schedule is not None]
        self._last: dict[str, tuple[float, str]] = {}
        self._told: dict[str, str] = {}

    async def fire_until_end(self) -> None:
        """Fire each schedule at its times, until the server ends."""
        while self._offers and not self._runs.ending:
            upcoming = await self.fire_due()
            await asyncio.sleep(max(_SHORTEST_SLEEP, min(upcoming - self._clock(), _LONGEST_SLEEP)))

    async def fire_due(self) -> float:
        """Fire the schedules that are due; return the next time of any."""
        now = self._clock()
        for offer, schedule in self._offers:
            try:
                await self._fire_if_due(offer, schedule, now)
                self._told.pop(offer.name, None)
            except OperadError as error:
                if self._told.get(offer.name) != str(error):  # a problem that lasts is logged once
                    self._told[offer.name] = str(error)
                    _logger.warning("%s: the schedule could not fire, and will be tried again: %s", offer.name, error)
            except Exception:  # the other schedules do not depend on it
                _logger.exception("%s: the schedule could not fire, and will be tried again", offer.name)
        upcoming = [firing_times(each.trigger.cron, each.trigger.timezone, now)[1] for _, each in self._offers]
        return min((each for each in upcoming if each is not None), default=now + _LONGEST_SLEEP)

    async def _fire_if_due(self, offer: Offer, schedule: Starter, now: float) -> None:
        cron, zone = schedule.trigger.cron, schedule.trigger.timezone
        name = to_json([offer.source.file, offer.name, cron, zone])
        if name not in self._last:
            self._last[name] = await self._last_firing(offer, name, now)
        due, _ = firing_times(cron, zone, now)
        if due is None or due <= self._last[name][0]:
            return
        since, run_id = self._last[name] = await self._last_firing(offer, name, now)  # of any server
        if due <= since:
            return
        at = datetime.fromtimestamp(due, ZoneInfo(zone)).isoformat()
        before, _ = firing_times(cron, zone, due - 1)
        job = offer.scheduled_job(at)
        if run_id and await self._runs.is_working(run_id):
            await self._claim(offer, name, job, due, None)
            _logger.warning("%s: %s is skipped, as run %s of the time before is in progress", offer.name, at, run_id)
            return
        run = await self._runs.fire(offer, job, partial(self._claim, offer, name, job, due))
        if run is not None:
            late = f", {now - due:.0f} s late" if now - due > _LATE else ""
            skipped = "; earlier times that were missed are skipped" if before is not None and before > since else ""
            level = logging.WARNING if late or skipped else logging.INFO
            _logger.log(level, "%s: run %s is started by the schedule of %s%s%s", offer.name, run.id, at, late, skipped)

    async def _last_firing(self, offer: Offer, name: str, now: float) -> tuple[float, str]:
        if offer.ledger is None:
            return self._last.get(name, (float(int(now)), ""))
        return await asyncio.to_thread(offer.ledger.store.schedules.last, name, float(int(now)))

    async def _claim(self, offer: Offer, name: str, job: Job, due: float, run_id: str | None) -> bool:
        """Store that a time fires with a run, or is skipped; return False if another server was first."""
        since, run_before = self._last[name]
        run = (run_id, offer.agent.workflow, OperatorCall(offer.agent.reasoner, job)) if run_id else None
        ledger = offer.ledger
        is_first = ledger is None or await asyncio.to_thread(ledger.fire, name, since, due, run)
        self._last[name] = (due, run_id or run_before)
        return is_first
