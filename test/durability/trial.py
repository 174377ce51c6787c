"""One run, what is done to the processes that drive it, and whether it came out right."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from databases import Databases
from graph import undisturbed
from sqlalchemy import create_engine, text

from operad.runtime import InputError
from operad.runtime.durable import Ledger

HERE = Path(__file__).parent
Begin = Callable[..., "subprocess.Popen[str]"]
"""Begins a process: `subprocess.Popen`, or what does the same."""

LONGEST = 60.0
"""Seconds after which a process counts as hanging; a crowded machine may need many."""


class HungError(Exception):
    """A process did not come to an end, or did not do what it was waited for."""


@dataclass(frozen=True)
class Throw:
    """A line of the journal: an operator began its work."""

    key: str
    token: str
    process: int
    at: float


@dataclass
class Found:
    """What came of a trial.

    Attributes:
        wrong: What is wrong, in words.
        again: How many executions were more than one of their operator.
        takeovers: Seconds from when each process was told to go on with the run to the first work that it began; and
            from the death of a worker to when another one began what it was at.
        seconds: How long it all took.
    """

    wrong: list[str] = field(default_factory=list)
    again: int = 0
    takeovers: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Process:
    """A process that drives a run, or works for it; see `driver.py` and `worker.py`."""

    def __init__(self, begin: Begin, script: str, options: Mapping[str, Any], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as stderr:
            self.process = begin(
                [sys.executable, "-X", "faulthandler", str(HERE / script), json.dumps(options)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.begun = 0.0
        self._said: dict[str, Any] = {}

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """With no chance to say goodbye."""
        self.process.kill()
        self._read(self.process.communicate()[0])

    def stop(self) -> None:
        """Have it stand still, with all its threads; or find that it has ended."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ended(self, seconds: float = LONGEST) -> Mapping[str, Any]:
        """What it said in the end.

        Raises:
            HungError: It did not come to an end.
        """
        try:
            self._read(self.process.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # which has it say where it is
            self._read(self.process.communicate()[0])
            raise HungError(f"it did not end within {seconds:g} s, see {self._errors}") from None
        return self._said

    def errors(self) -> str:
        """What it wrote for people."""
        return self._errors.read_text(errors="replace")

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            self._said |= json.loads(line)
        self.begun = self._said.get("begun", 0.0)


class Trial:
    """A run in a database of its own.

    Args:
        databases: The kind of database.
        folder: Where its journal lies.
        chance: What decides.
        seconds: How long an operator takes on average.
        limit: After how many seconds of silence a process counts as dead.
        workers: Whether workers do the work.
        begin: What begins its processes.
    """

    def __init__(
        self,
        databases: Databases,
        folder: Path,
        chance: random.Random,
        *,
        seconds: float = 0.03,
        limit: float = 10.0,
        workers: bool = False,
        begin: Begin = subprocess.Popen,
    ) -> None:
        self.databases = databases
        self.chance = chance
        self.url = databases.new()
        self.run_id = f"run-{chance.getrandbits(32):08x}"
        self.found = Found()
        self._journal = folder / f"{self.run_id}.journal"
        self._folder = folder
        self._seconds = seconds
        self._limit = limit
        self._workers = workers
        self._begin = begin
        self._deaths: list[tuple[int, float]] = []
        self._kept: list[tuple[int, frozenset[str]]] = []
        self._all: list[Process] = []

    # What is done

    def drive(self) -> Process:
        """Have a process begin the run, or go on with it."""
        return self._start("driver.py", workers=self._workers)

    def work(self, **options: Any) -> Process:
        """Have a worker begin."""
        return self._start("worker.py", **options)

    def _start(self, script: str, **options: Any) -> Process:
        given = {
            "url": self.url,
            "run_id": self.run_id,
            "journal": str(self._journal),
            "seconds": self._seconds,
            "limit": self._limit,
        }
        process = Process(self._begin, script, given | options, self._folder / f"{self.run_id}.{len(self._all)}.err")
        self._all.append(process)
        return process

    def kill_worker(self, worker: Process) -> None:
        """Kill it, and see how long it takes until another one does what it was at."""
        worker.kill()
        self._deaths.append((worker.process.pid, time.time()))
        self.note_kept()

    def at_a_random_moment(self, driving: Process) -> None:
        """Wait for it: while the process starts or ends, or in the midst of the work."""
        more = self.chance.choice([0, *range(1, 25)])
        goal = len(self.throws()) + more
        self.until(lambda: len(self.throws()) >= goal or not driving.lives, f"{goal} throws")
        time.sleep(self.chance.random() * (0.1 if more else 2.0))

    def until(self, holds: Callable[[], bool], what: str, seconds: float = LONGEST) -> None:
        """Wait for something.

        Raises:
            HungError: It does not come.
        """
        by = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > by:
                raise HungError(f"waited {seconds:g} s for {what}")
            time.sleep(0.005)

    def stop(self, driving: Process) -> None:
        """Have it stand still, but not in the midst of writing into a file that nobody else can write into then."""
        driving.stop()
        while self.databases.is_held(self.url):
            driving.go_on()
            time.sleep(0.01)
            driving.stop()

    def stop_while_it_writes(self, driving: Process) -> None:
        """Have it stand still in the midst of writing into a file, so that nobody else can write into it.

        Raises:
            HungError: It has ended, or never writes.
        """

        def is_caught() -> bool:
            driving.stop()
            if self.databases.is_held(self.url):
                return True
            driving.go_on()
            time.sleep(0.02 * self.chance.random())
            return not driving.lives

        self.until(is_caught, "a moment in which it writes")
        if not driving.lives:
            raise HungError("it ended before it was caught writing")

    def throws(self) -> Sequence[Throw]:
        """What has been done so far."""
        try:
            lines = self._journal.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [Throw(key, token, int(process), float(at)) for key, token, process, at in map(str.split, lines)]

    def recorded(self) -> Mapping[str, Any]:
        """What is kept of the run, by key."""
        ledger = Ledger(self.url)
        try:
            return {step.key: step.outcome for step in ledger.timeline(self.run_id) if step.outcome is not None}
        except InputError as error:
            if "no run has the id" in str(error):
                return {}
            raise
        finally:
            ledger.close()

    def note_kept(self) -> None:
        """Note that nothing that is kept by now may be done again."""
        kept = frozenset(self.recorded())
        self._kept.append((len(self.throws()), kept))

    def retry(self) -> None:
        """Have what failed tried again."""
        ledger = Ledger(self.url)
        ledger.retry(self.run_id)
        ledger.close()

    def forget_machines(self) -> None:
        """Have it look as if all processes so far ran on other machines."""
        engine = create_engine(Ledger(self.url).url.set(drivername=self.databases.driver))
        with engine.begin() as connection:
            connection.execute(text("UPDATE operad_executors SET process = ''"))
        engine.dispose()

    # Whether it is right

    def check(self, driving: Process) -> Found:
        """Look at everything, once the run has finished.

        Args:
            driving: Who finished it.
        """
        found, said = self.found, driving.ended()
        if "result" not in said:
            self.wrong(f"the run did not finish: {said} {driving.errors()[-2000:]}")
            return found
        throws = self.throws()
        self._check_results({key: _token(outcome) for key, outcome in self.recorded().items()}, said["result"])
        for done, kept in self._kept:
            if again := {throw.key for throw in throws[done:]} & kept:
                self.wrong(f"done again though it was kept: {sorted(again)}")
        key, most = Counter(throw.key for throw in throws).most_common(1)[0]
        if most > len(self._all):
            self.wrong(f"{key} was done {most} times by {len(self._all)} processes")
        found.again = len(throws) - len({throw.key for throw in throws})
        found.takeovers = list(self._takeovers(throws))
        return found

    def _check_results(self, recorded: Mapping[str, str], result: object) -> None:
        """See that what came of it is what comes of the recorded throws, and that these are true ones."""
        thrown = {(throw.key, throw.token) for throw in self.throws()}
        if untrue := recorded.items() - thrown:
            self.wrong(f"recorded, and never thrown: {sorted(untrue)}")
        try:
            expected, keys = undisturbed(self.run_id, recorded)
        except KeyError as error:
            self.wrong(f"{error} is not recorded")
            return
        if keys != recorded.keys():
            self.wrong(f"recorded, and nobody did that: {sorted(recorded.keys() - keys)}")
        if (right := expected.model_dump(mode="json")) != result:
            self.wrong(f"the result is {result}, not {right}")

    def _takeovers(self, throws: Sequence[Throw]) -> Iterator[float]:
        for each in self._all[1:]:
            if each.begun:
                yield from [throw.at - each.begun for throw in throws if throw.process == each.process.pid][:1]
        for process, died in self._deaths:
            its = {throw.key for throw in throws if throw.process == process}
            yield from [throw.at - died for throw in throws if throw.at > died and throw.key in its][:1]

    def wrong(self, what: str) -> None:
        """Note that something is wrong."""
        self.found.wrong.append(f"{self.run_id} ({self.databases.name}): {what}")

    def end(self) -> None:
        """Leave no process behind."""
        for driving in self._all:
            if driving.lives:
                driving.kill()
            driving.process.wait()
            if driving.process.stdout:
                driving.process.stdout.close()


def _token(outcome: Any) -> str:
    """What an operator threw; its error says it, too."""
    return outcome.message.outputs["token"] if outcome.error is None else str(outcome.error).split()[2]
