"""Measure engines in turns, so that other load affects all of them alike; the median counts.

Each engine has its own process: a hanging one is ended, a crash is reported, and imports of one do not affect another.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from statistics import median
from time import perf_counter
from types import TracebackType
from typing import Any

from engines import ENGINES, Go
from graphs import Graph, Nap, WrongRunError, check_runs
from memory import Growth, growth

BUILD_SECONDS = 40.0
RUN_SECONDS = 10.0
TURN_SECONDS = 0.03
ALL_TURNS_SECONDS = 1.0


@dataclass(frozen=True)
class Case:
    """Graph, the seconds that its nodes sleep (None: they never suspend), and the number of concurrent runs."""

    graph: Graph
    sleeps: Mapping[str, float] | float | None = None
    at_once: int = 1


@dataclass(frozen=True)
class Cost:
    """Seconds of a run, and of the preparation: building and checking."""

    run: float
    build: float


class Unable(Exception):  # noqa: N818 - it is what the table says
    """Reason for a missing figure."""


class Process:
    """Engine in its own process, started when it is first used."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = None

    def build(self, case: Case) -> float:
        """Return the seconds of building; 0.0 if the last case had the same graph."""
        return self._ask("build", case, seconds=BUILD_SECONDS)

    def first_run(self) -> float:
        """Return the seconds of the first run, in which the engine may still build and check."""
        return self._ask("first_run", seconds=RUN_SECONDS)

    def run(self, times: int) -> float:
        """Return the mean seconds of a run."""
        return self._ask("run", times, seconds=RUN_SECONDS * times)

    def growth(self) -> Growth:
        return self._ask("growth", seconds=120)

    def _ask(self, what: str, *how: Any, seconds: float) -> Any:
        if self._process is None:
            spawning = multiprocessing.get_context("spawn")
            self._connection, theirs = spawning.Pipe()
            process = self._process = spawning.Process(target=serve, args=(self.engine, theirs), daemon=True)
            process.start()
            theirs.close()
        assert self._connection is not None
        try:
            self._connection.send((what, how))
            if not self._connection.poll(seconds):
                self.end()
                raise Unable(f"over {seconds:g} s" + " to build" * (what == "build"))
            answer, reason = self._connection.recv()
        except (EOFError, ConnectionError):
            self.end()
            raise Unable("crashes") from None
        if reason:
            raise Unable(reason)
        return answer


class Trial:
    """Case in the process of an engine."""

    def __init__(self, process: Process, case: Case) -> None:
        self._process = process
        self._build = self._first = 0.0
        self._seconds: list[float] = []
        self._reason = ""
        try:
            self._build = process.build(case)
            self._first = process.first_run()
            self._seconds.append(process.run(1) if self._first < RUN_SECONDS / 2 else self._first)
        except Unable as reason:
            self._reason = str(reason)

    def take_turn(self) -> None:
        if self._reason:
            return
        times = int(TURN_SECONDS / self._seconds[0]) + 1
        if self._seconds[0] * times * len(self._seconds) > ALL_TURNS_SECONDS:
            return
        try:
            self._seconds.append(self._process.run(times))
        except Unable as reason:
            self._reason = str(reason)

    def cost(self) -> Cost | str:
        if self._reason:
            return self._reason
        typical = median(self._seconds)
        return Cost(typical, self._build + max(0.0, self._first - typical))


def in_turns(case: Case, processes: Sequence[Process], turns: int) -> dict[str, Cost | str]:
    """Return the cost of a case for each engine, or the reason for a missing figure; slow engines take fewer turns."""
    trials = {process.engine: Trial(process, case) for process in processes}
    for _ in range(turns):
        for trial in trials.values():
            trial.take_turn()
    return {engine: trial.cost() for engine, trial in trials.items()}


def processes_of(engines: Sequence[str], stack: ExitStack) -> list[Process]:
    return [stack.enter_context(Process(engine)) for engine in engines]


# In the process of an engine


def serve(engine: str, connection: Connection) -> None:
    asyncio.run(_serve(_Measuring(engine), connection))


async def _serve(measuring: _Measuring, connection: Connection) -> None:
    while True:
        what, how = connection.recv()
        try:
            answer = await getattr(measuring, what)(*how), None
        except ModuleNotFoundError as error:
            answer = None, f"no {error.name}"
        except WrongRunError as error:
            answer = None, str(error)
        except Exception as error:  # noqa: BLE001 - the table says it
            answer = None, type(error).__name__
        connection.send(answer)


class _Measuring:
    def __init__(self, engine: str) -> None:
        self._engine = ENGINES[engine]
        self._case = Case({})
        self._naps: dict[str, Nap] = {}
        self._go: Go | None = None

    async def build(self, case: Case) -> float:
        built = self._go is not None and case.graph == self._case.graph
        self._case = case
        if built:
            return 0.0
        self._go = None
        self._naps = {node: Nap(node) for node in case.graph}
        started = perf_counter()
        self._go = self._engine(case.graph, self._naps)
        return perf_counter() - started

    async def first_run(self) -> float:
        sleeps = self._case.sleeps
        for node, nap in self._naps.items():
            nap.seconds = sleeps[node] if isinstance(sleeps, Mapping) else sleeps
        return await self._checked_run(1, 1)

    async def run(self, times: int) -> float:
        return await self._checked_run(times, self._case.at_once)

    async def _checked_run(self, times: int, at_once: int) -> float:
        go = self._go
        assert go is not None
        for nap in self._naps.values():
            nap.runs = 0
        started = perf_counter()
        for _ in range(times):
            if at_once == 1:
                await go()
            else:
                await asyncio.gather(*(go() for _ in range(at_once)))
        seconds = perf_counter() - started
        check_runs(times * at_once, self._case.graph, self._naps)
        return seconds / times

    async def growth(self) -> Growth:
        return await growth(self._engine)
