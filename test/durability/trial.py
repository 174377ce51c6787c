"""One run in a new database: starts, kills and suspends its processes, and checks its result."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clients import Order, ask
from databases import Databases
from graph import undisturbed
from sqlalchemy import create_engine, text

from operad.runtime import InputError, events
from operad.runtime.durable import Ledger
from operad.runtime.durable.tables import StoredRun
from operad.runtime.events.journal import bare

HERE = Path(__file__).parent
Begin = Callable[..., "subprocess.Popen[str]"]
"""Starts a process: `subprocess.Popen`, or a function with its signature."""

LONGEST = 60.0
"""Seconds without progress after which a trial counts as hanging; see `Trial.until`."""

MOST_COMPUTED = 40
"""Seconds of computing that count as progress: processes that compute more, or that wait and compute a little, hang."""


class HungError(Exception):
    """A process did not end, or an expected state did not occur, although nothing progressed any more."""


@dataclass(frozen=True)
class Throw:
    """Line of the journal: an operator started."""

    key: str
    token: str
    process: int
    at: float


@dataclass
class TrialResult:
    """Result of a trial.

    Attributes:
        problems: The problems found, as sentences.
        repeated: The number of executions of operators that had been started before.
        takeovers: Seconds from the start of each further process to the first operator that it runs, and from the death
            of a worker to the next start of an operator that it was running.
        seconds: The duration of the trial.
    """

    problems: list[str] = field(default_factory=list)
    repeated: int = 0
    takeovers: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Process:
    """Process that drives a run or is a worker; see `driver.py` and `worker.py`.

    Args:
        begin: Starts it.
        script: The file of its program.
        options: Its argument.
        errors: The file of its standard error.
        until: Waits until a condition holds; see `Trial.until`.
    """

    def __init__(
        self,
        begin: Begin,
        script: str,
        options: Mapping[str, Any],
        errors: Path,
        until: Callable[[Callable[[], bool], str], None],
    ) -> None:
        self._errors = errors
        self._until = until
        with errors.open("wb") as stderr:
            self.process = begin(
                [sys.executable, "-X", "faulthandler", str(HERE / script), json.dumps(options)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.begun = 0.0
        self._report: dict[str, Any] = {}

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self._read(self.process.communicate()[0])

    def stop(self) -> None:
        """Suspend the process with all its threads, unless it has ended."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ended(self) -> Mapping[str, Any]:
        """Wait for the end of the process and return its report.

        Raises:
            HungError: The process did not end.
        """
        try:
            self._until(self._has_ended, f"the end of process {self.process.pid}, see {self._errors}")
        except HungError:
            self._read(self.process.communicate()[0])
            raise
        return self._report

    def stacks(self) -> str:
        """End the process, and return what faulthandler prints of its threads; empty if it had ended."""
        if not self.alive:
            return ""
        self.process.send_signal(signal.SIGABRT)
        self.go_on()
        self.process.wait()
        return f"process {self.process.pid}:\n{self.errors()[-8000:]}"

    def _has_ended(self) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self._read(self.process.communicate(timeout=1)[0])
            return True
        return False

    def computed(self) -> float:
        """Return the seconds for which the process has computed; 0 once it has ended, or if this system does not say."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def errors(self) -> str:
        """Return the standard error of the process."""
        return self._errors.read_text(errors="replace")

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            self._report |= json.loads(line)
        self.begun = self._report.get("begun", 0.0)


class Trial:
    """Run in a new database.

    Args:
        databases: The kind of database.
        folder: The folder of its journal.
        rng: The source of random moments.
        seconds: The average duration of an operator.
        limit: Seconds without a heartbeat after which a process counts as dead.
        workers: Whether workers run the operators.
        begin: Starts its processes.
    """

    def __init__(
        self,
        databases: Databases,
        folder: Path,
        rng: random.Random,
        *,
        seconds: float = 0.03,
        limit: float = 10.0,
        workers: bool = False,
        begin: Begin = subprocess.Popen,
    ) -> None:
        self.databases = databases
        self.rng = rng
        self.url = databases.new()
        self.run_id = f"run-{rng.getrandbits(32):08x}"
        self.result = TrialResult()
        self._journal = folder / f"{self.run_id}.journal"
        self._folder = folder
        self._seconds = seconds
        self._limit = limit
        self._workers = workers
        self._begin = begin
        self._deaths: list[tuple[int, float]] = []
        self._stored: list[tuple[int, frozenset[str]]] = []
        self._processes: list[Process] = []

    # Processes and faults

    def drive(self) -> Process:
        """Start a process that starts or resumes the run."""
        return self._start("driver.py", workers=self._workers)

    def drive_many(self, runs: int) -> Process:
        """Start a process that starts or resumes many runs at once."""
        return self._start("many.py", runs=runs)

    def drive_repaired(self) -> Process:
        """Start a process that starts or resumes a run whose answer is rejected once."""
        return self._start("repaired.py")

    def work(self, **options: Any) -> Process:
        """Start a worker."""
        return self._start("worker.py", **options)

    def serve(self) -> Process:
        """Start one of several servers."""
        return self._start("served.py")

    def urls(self) -> Sequence[str]:
        """Return the addresses of the servers that have started and not ended."""
        found = [re.search(r"^http://\S+", each.errors(), re.MULTILINE) for each in self._processes if each.alive]
        return [address[0] for address in found if address]

    def _start(self, script: str, **options: Any) -> Process:
        common = {
            "url": self.url,
            "run_id": self.run_id,
            "journal": str(self._journal),
            "seconds": self._seconds,
            "limit": self._limit,
        }
        process = Process(
            self._begin,
            script,
            common | options,
            self._folder / f"{self.run_id}.{len(self._processes)}.err",
            self.until,
        )
        self._processes.append(process)
        return process

    def kill_worker(self, worker: Process) -> None:
        """Kill a worker and note the time, from which the take-over of its operators is measured."""
        worker.kill()
        self._deaths.append((worker.process.pid, time.time()))
        self.note_stored()

    def wait_for_random_moment(self, driving: Process) -> None:
        """Wait for a random moment of the run, its start and end included."""
        more = self.rng.choice([0, *range(1, 25)])
        goal = len(self.throws()) + more
        self.until(lambda: len(self.throws()) >= goal or not driving.alive, f"{goal} throws")
        time.sleep(self.rng.random() * (0.1 if more else 2.0))

    def until(self, condition: Callable[[], bool], description: str) -> None:
        """Wait until a condition holds.

        How long that takes depends on the load of the machine, so the time without progress is limited: without a throw,
        and with hardly any computing.

        Raises:
            HungError: The condition does not hold, and nothing progresses.
        """
        progress, since = self._progress(), time.monotonic()
        while not condition():
            if (now := self._progress()) != progress:
                progress, since = now, time.monotonic()
            if time.monotonic() > since + LONGEST:
                stacks = "\n".join(each.stacks() for each in self._processes)
                raise HungError(f"nothing progressed for {LONGEST:g} s, while waiting for {description}\n{stacks}")
            time.sleep(0.005)

    def _progress(self) -> object:
        """Return a value that changes as long as the run goes on, or its processes compute."""
        thrown = self._journal.stat().st_size if self._journal.exists() else 0
        computed = sum(each.computed() for each in self._processes)
        return thrown, min(int(computed), MOST_COMPUTED)

    def stop(self, driving: Process) -> None:
        """Suspend a process, but not while it holds the write lock of a file."""
        driving.stop()
        while self.databases.is_write_locked(self.url):
            driving.go_on()
            time.sleep(0.01)
            driving.stop()

    def stop_while_it_writes(self, driving: Process) -> None:
        """Suspend a process while it holds the write lock of a file.

        Raises:
            HungError: The process ended, or was never caught writing.
        """

        def suspended_or_ended() -> bool:
            driving.stop()
            if self.databases.is_write_locked(self.url):
                return True
            driving.go_on()
            time.sleep(0.02 * self.rng.random())
            return not driving.alive

        self.until(suspended_or_ended, "a write")
        if not driving.alive:
            raise HungError("it ended before it was caught writing")

    def throws(self) -> Sequence[Throw]:
        """Return the throws of all operators so far."""
        try:
            whole, _, _ = self._journal.read_text().rpartition("\n")  # the last line may be half written
            lines = whole.splitlines()
        except FileNotFoundError:
            return []
        return [Throw(key, token, int(process), float(at)) for key, token, process, at in map(str.split, lines)]

    def recorded(self) -> Mapping[str, Any]:
        """Return the stored outcomes of the run by key."""
        ledger = Ledger(self.url)
        try:
            return {step.key: step.outcome for step in ledger.timeline(self.run_id) if step.outcome is not None}
        except InputError as error:
            if "no run has the id" in str(error):
                return {}
            raise
        finally:
            ledger.close()

    def note_stored(self, *, failed: bool = True) -> None:
        """Note the operators stored by now, which must not run again; those that failed may, if the run is retried."""
        stored = frozenset(key for key, outcome in self.recorded().items() if failed or outcome.error is None)
        self._stored.append((len(self.throws()), stored))

    def retry(self) -> None:
        """Retry the failed operators of the run."""
        ledger = Ledger(self.url)
        ledger.retry(self.run_id)
        ledger.close()

    def forget_machines(self) -> None:
        """Make all processes so far look like processes of other machines."""
        engine = create_engine(Ledger(self.url).url.set(drivername=self.databases.driver))
        with engine.begin() as connection:
            connection.execute(text("UPDATE operad_executors SET process = ''"))
        engine.dispose()

    # Checks

    def check(self, driving: Process) -> TrialResult:
        """Check everything about the finished run.

        Args:
            driving: The process that finished the run.
        """
        report = driving.ended()
        if "result" not in report:
            self.fail(f"the run did not finish: {report} {driving.errors()[-2000:]}")
            return self.result
        throws = self.throws()
        recorded = self.recorded()
        self._check_results({key: _token(outcome) for key, outcome in recorded.items()}, report["result"])
        self._check_history(recorded)
        for done, stored in self._stored:
            if again := {throw.key for throw in throws[done:]} & stored:
                self.fail(f"ran again although stored: {sorted(again)}")
        key, most = Counter(throw.key for throw in throws).most_common(1)[0]
        if most > len(self._processes):
            self.fail(f"{key} ran {most} times on {len(self._processes)} processes")
        self.result.repeated = len(throws) - len({throw.key for throw in throws})
        self.result.takeovers = list(self._takeovers(throws))
        return self.result

    def check_many(self, driving: Process, again: Callable[[], Process], runs: int) -> None:
        """Check the results of many runs: each is that of throws in the journal, and does not change any more.

        Args:
            driving: The process that finished the runs.
            again: Starts a process that executes the runs once more.
            runs: The number of runs.
        """
        results = driving.ended().get("result", ())
        throws = self.throws()
        thrown = {(throw.key, throw.token) for throw in throws}
        for number, result in enumerate(results):
            tokens = zip(("first", "second"), result.split(), strict=False)
            if missing := {(f"{self.run_id}-{number}/{name}", token) for name, token in tokens} - thrown:
                self.fail(f"not in the journal: {sorted(missing)}")
        if len(results) != runs:
            self.fail(f"{len(results)} of {runs} runs ended: {driving.ended()} {driving.errors()[-2000:]}")
        else:
            driven = again()
            report, more = driven.ended(), self.throws()[len(throws) :]
            if report.get("result") != results or more:
                others = {key: value for key, value in report.items() if key != "result"}
                self.fail(f"executed once more, the runs have other results: {others} {driven.errors()[-2000:]} {more}")
        self.result.repeated = len(throws) - len({throw.key for throw in throws})

    def check_repaired(self, driving: Process) -> None:
        """Check a run whose answer was rejected once: the repaired answer names what was bought, once.

        Args:
            driving: The process that finished the run.
        """
        report, throws = driving.ended(), self.throws()
        bought = [throw.token for throw in throws if throw.key == "buy"]
        expected = f"In short: Argon [{bought[0]}]." if bought else ""
        if (report.get("result"), report.get("rounds"), report.get("status")) != (expected, 2, "SUCCESS"):
            self.fail(f"expected {expected!r} of round 2, got {report} {driving.errors()[-2000:]}")
        if len(bought) != 1:
            self.fail(f"bought {len(bought)} times, although the first answer was stored before any kill")
        self.result.repeated = len(throws) - 3

    def check_served(self, orders: Sequence[Order], minute: float) -> None:
        """Check the runs of servers: each ended once, with the answer that was accepted, and each schedule fired once.

        Args:
            orders: The runs that the clients began.
            minute: A time of the schedule at which the servers ran, in seconds since 1970.
        """
        throws = self.throws()
        ledger = Ledger(self.url)
        at = f"schedule {datetime.fromtimestamp(minute, UTC).isoformat()}"

        def fired() -> Sequence[StoredRun]:
            return [run for run in ledger.runs() if run.started_by]

        try:
            self.until(lambda: any(run.started_by == at and run.state == "finished" for run in fired()), at)
            times = Counter(run.started_by for run in fired())
            if doubled := {each: count for each, count in times.items() if count > 1}:
                self.fail(f"fired more than once: {doubled}")
            for order in orders:
                for problem in [*order.problems, *self._problems_of(ledger, order, throws)]:
                    self.fail(problem)
            for run_id in [*(order.id for order in orders if not order.problems), *(run.run_id for run in fired())]:
                kinds = Counter(type(event).__name__ for event in ledger.events(run_id))
                if (kinds["RunStarted"], kinds["RunFinished"], kinds["RunFailed"]) != (1, 1, 0):
                    self.fail(f"the history of {run_id} is not that of one run: {kinds}")
        finally:
            ledger.close()
        self.result.repeated = len(throws) - len({throw.key for throw in throws})
        self.result.takeovers = list(self._takeovers(throws))

    def _problems_of(self, ledger: Ledger, order: Order, throws: Sequence[Throw]) -> Iterator[str]:
        if order.problems:
            return
        if order.result is None:
            yield f"{order.id} has no result"
            return
        stored = ledger.result(order.id)
        if stored is None or stored.scratchpad != order.result:
            yield f"a server said {order.result!r} of {order.id}, stored is {stored and stored.scratchpad!r}"
        said = {result for code, result in (_result(url, order.id) for url in self.urls()) if code == 200}
        if said != {order.result}:
            yield f"the servers say different results of {order.id}: {said}"
        drawn, paid, shipped = order.result.split()
        thrown = {(throw.key, throw.token) for throw in throws}
        if not {(f"{order.id}/draw", drawn), (f"{order.id}/ship", shipped)} <= thrown:
            yield f"the result {order.result!r} of {order.id} is of no throws"
        if int(paid) not in order.given or (order.accepted is not None and int(paid) != order.accepted):
            yield f"{order.id} was paid {paid}; of {order.given}, {order.accepted} was accepted"

    def _check_results(self, recorded: Mapping[str, str], result: object) -> None:
        """Check that the result is that of the recorded throws, and that these are in the journal."""
        thrown = {(throw.key, throw.token) for throw in self.throws()}
        if unknown := recorded.items() - thrown:
            self.fail(f"recorded, but not in the journal: {sorted(unknown)}")
        try:
            expected, keys = undisturbed(self.run_id, recorded)
        except KeyError as error:
            self.fail(f"{error} is not recorded")
            return
        if keys != recorded.keys():
            self.fail(f"recorded, but of no operator: {sorted(recorded.keys() - keys)}")
        if (right := expected.model_dump(mode="json")) != result:
            self.fail(f"the result is {result}, not {right}")

    def _check_history(self, recorded: Mapping[str, Any]) -> None:
        """Check that the events are those of one run from its start to its end, which tell each outcome once."""
        ledger = Ledger(self.url)
        told = ledger.events(self.run_id)
        ledger.close()
        kinds = Counter(type(event).__name__ for event in told)
        if (kinds["RunStarted"], kinds["RunFinished"], kinds["RunFailed"]) != (1, 1, 0):
            self.fail(f"the history is not that of one run: {kinds}")
        if (numbers := [event.seq for event in told]) != sorted(set(numbers)):
            self.fail("the events are not numbered")
        places = [bare(key) for key, outcome in recorded.items() if outcome.error is None]
        expected = Counter(("/".join(names), rounds[-1]) for names, rounds in places)
        finished = (event for event in told if isinstance(event, events.OperatorFinished))
        found = Counter(("/".join(event.path), event.round) for event in finished)
        if wrong := {place: found[place] for place in expected if found[place] != expected[place]}:
            self.fail(f"the history tells these ends another number of times than {expected}: {wrong}")

    def _takeovers(self, throws: Sequence[Throw]) -> Iterator[float]:
        for each in self._processes[1:]:
            if each.begun:
                yield from [throw.at - each.begun for throw in throws if throw.process == each.process.pid][:1]
        for process, died in self._deaths:
            running = {throw.key for throw in throws if throw.process == process}
            yield from [throw.at - died for throw in throws if throw.at > died and throw.key in running][:1]

    def fail(self, problem: str) -> None:
        """Note a problem of the run."""
        self.result.problems.append(f"{self.run_id} ({self.databases.name}): {problem}")

    def end(self) -> None:
        """Kill the remaining processes."""
        for each in self._processes:
            if each.alive:
                each.kill()
            each.process.wait()
            if each.process.stdout:
                each.process.stdout.close()


def _result(url: str, run_id: str) -> tuple[int, str | None]:
    code, run = ask(f"{url}/runs/{run_id}")
    return code, run.get("result")


def _token(outcome: Any) -> str:
    """Return the token of an operator, which its error names as well."""
    return outcome.message.outputs["token"] if outcome.error is None else str(outcome.error).split()[2]
