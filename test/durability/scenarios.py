"""Faults for durable runs. Each function takes a new trial to its end and notes the problems in it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from clients import Client
from databases import Databases, Sqlite, path_of
from graph import THROWS
from trial import Begin, HungError, Process, Trial, TrialResult

from operad.runtime import OperadError
from operad.runtime.durable.worker import MAX_DEATHS

SILENCE = 2.0
"""Seconds without a heartbeat after which a process counts as dead, in scenarios that wait for that."""


class UnsupportedError(Exception):
    """The machine or the database does not support the scenario."""


def killed(trial: Trial, times: int = 4) -> None:
    """Kill the driving process repeatedly; each time another one takes over."""
    for _ in range(times):
        driving = trial.drive()
        trial.wait_for_random_moment(driving)
        driving.kill()
        trial.note_stored()
    trial.check(trial.drive())


def killed_elsewhere(trial: Trial) -> None:
    """Kill a process on another machine, where only its missing heartbeat shows that it is dead."""
    driving = trial.drive()
    _wait_for_work(trial, driving)
    driving.kill()
    trial.note_stored()
    trial.forget_machines()
    trial.check(trial.drive())


def stopped(trial: Trial) -> None:
    """Suspend the driving process until another one took over, then continue it, before or after the end of that one."""
    first = trial.drive()
    _wait_for_work(trial, first)
    trial.stop(first)
    trial.note_stored()
    second = trial.drive()
    pid = second.process.pid
    goal = trial.rng.choice((1, 3, 10))
    trial.until(
        lambda: (
            sum(throw.process == pid for throw in trial.throws()) >= goal or not second.alive
        ),  # or the run is finished
        "the second process",
    )
    end = trial.rng.choice(("goes on", "has finished", "is killed"))
    if end == "has finished":
        trial.until(lambda: not second.alive, "the second process's end")
    elif end == "is killed":
        second.kill()
    first.go_on()
    report = first.ended()
    if "is driven by another process now" not in report.get("error", ""):
        trial.fail(f"the continued process reported {report} {first.errors()[-2000:]}")
    trial.check(trial.drive() if end == "is killed" else second)


def stopped_while_it_writes(trial: Trial, seconds: float = 40.0) -> None:
    """Suspend the driving process while it writes: another one waits until that is continued or killed."""
    if not isinstance(trial.databases, Sqlite):
        raise UnsupportedError("a server ends transactions that stand still")
    first = trial.drive()
    _wait_for_work(trial, first)
    trial.stop_while_it_writes(first)
    trial.note_stored()
    second = trial.drive()
    time.sleep(seconds)
    pid = first.process.pid
    trial.until(
        lambda: f"process {pid} is writing into it" in second.errors(), "a warning that names the writing process"
    )
    if trial.rng.random() < 0.5:
        first.kill()
        trial.check(second)
    else:
        first.go_on()
        _check_one_of(trial, first, second)


def killed_after_a_verdict(trial: Trial) -> None:
    """Kill the driving process between a verdict and the end of the repair; the conversation goes on in another one."""
    for _ in range(trial.rng.randrange(1, 4)):
        driving = trial.drive_repaired()
        trial.until(
            lambda driving=driving: any(each.key == "verdict" for each in trial.throws()) or not driving.alive,
            "a verdict",
        )
        time.sleep(0.4 * trial.rng.random())
        driving.kill()
    trial.check_repaired(trial.drive_repaired())


def many_end(trial: Trial, runs: int = 100) -> None:
    """Have many runs of a process end at the same time, and sometimes kill it meanwhile."""
    driving = trial.drive_many(runs)
    if trial.rng.random() < 0.5:
        trial.until(lambda: len(trial.throws()) > runs or not driving.alive, "the first ends")
        time.sleep(0.3 * trial.rng.random())
        driving.kill()
        driving = trial.drive_many(runs)
    trial.check_many(driving, partial(trial.drive_many, runs), runs)


def many_resumed(trial: Trial, runs: int = 100, times: int = 2) -> None:
    """Kill a process that drives many runs repeatedly; each time another one resumes all of them at once."""
    for number in range(times):
        driving = trial.drive_many(runs)
        goal = trial.rng.randrange(1, runs)
        trial.until(lambda goal=goal: len(trial.throws()) >= goal or not driving.alive, f"{goal} throws")  # noqa: B023
        driving.kill()
        if number == 0:
            trial.forget_machines()  # the others wait for a heartbeat
    trial.check_many(trial.drive_many(runs), partial(trial.drive_many, runs), runs)


def two_drivers(trial: Trial) -> None:
    """Start two processes that drive the same run."""
    first = trial.drive()
    if trial.rng.random() < 0.5:
        _wait_for_work(trial, first)
    _check_one_of(trial, first, trial.drive())


def _check_one_of(trial: Trial, first: Process, second: Process) -> None:
    """Check that one of two processes finishes the run and the other one gives up."""
    both = [first, second]
    refusals = ("is being driven by", "is driven by another process now")
    refused = [each for each in both if any(text in each.ended().get("error", "") for text in refusals)]
    finished = [each for each in both if "result" in each.ended()]
    if len(finished) == 2:  # the first finished before the second started
        trial.check(second)
    elif len(refused) != 1 or len(finished) != 1:
        trial.fail(f"{[(each.ended(), each.errors()[-2000:]) for each in both]}")
    else:
        trial.check(finished[0])


def database_gone(trial: Trial, seconds: float = 10.0) -> None:
    """Make the database unavailable for a while."""
    driving = trial.drive()
    _wait_for_work(trial, driving)
    trial.databases.interrupt(trial.url, seconds)
    trial.note_stored()
    trial.check(driving)


def disk_full(trial: Trial) -> None:
    """Fill the disk for a while."""
    if not isinstance(trial.databases, Sqlite):
        raise UnsupportedError("the server handles a full disk itself")
    disk = path_of(trial.url).parent / trial.run_id
    with _small_disk(disk):
        trial.url = f"sqlite:///{disk / 'runs.sqlite'}"
        driving = trial.drive()
        _wait_for_work(trial, driving)
        filler = disk / "filler"
        _fill(filler)
        report = driving.ended()
        if "check that the database exists and has space left" not in report.get("error", ""):
            trial.fail(f"with a full disk it reported {report} {driving.errors()[-2000:]}")
        filler.unlink()
        trial.note_stored()
        trial.check(trial.drive())


def file_deleted(trial: Trial) -> None:
    """Delete the file of the database: the driving process reports it, unless it had finished."""
    if not isinstance(trial.databases, Sqlite):
        raise UnsupportedError("PostgreSQL has no single file")
    driving = trial.drive()
    _wait_for_work(trial, driving)
    for path in path_of(trial.url).parent.glob(path_of(trial.url).name + "*"):
        path.unlink()
    report = driving.ended()
    # the second one if SQLite had created an empty file
    remedies = ("check that the database exists", "restore it from a copy")
    if not any(each in report.get("error", "") for each in remedies) and "result" not in report:
        trial.fail(f"without the file it reported {report} {driving.errors()[-2000:]}")


# With workers


def worker_killed(trial: Trial, times: int = 3) -> None:
    """Kill and replace workers repeatedly, and sometimes the driving process."""
    driving = trial.drive()
    workers = [trial.work() for _ in range(3)]
    for _ in range(times):
        trial.wait_for_random_moment(driving)
        trial.kill_worker(workers.pop(trial.rng.randrange(3)))
        workers.append(trial.work())
        if driving.alive and trial.rng.random() < 0.3:
            driving.kill()
            trial.note_stored()
            driving = trial.drive()
    trial.check(driving)


def worker_stopped(trial: Trial) -> None:
    """Suspend a worker until others have done its work, then continue it."""
    driving = trial.drive()
    workers = [trial.work() for _ in range(2)]
    _wait_for_work(trial, driving)
    trial.stop(workers[0])
    trial.note_stored()
    time.sleep(SILENCE * (0.5 + 2 * trial.rng.random()))
    workers[0].go_on()
    trial.check(driving)


def notifications_lost(trial: Trial, times: int = 20) -> None:
    """Drop notifications repeatedly: end the connections that listen."""
    driving = trial.drive()
    for _ in range(2):
        trial.work()
    for _ in range(times):
        trial.wait_for_random_moment(driving)
        trial.databases.drop_notifications(trial.url)
    trial.check(driving)


def database_gone_from_workers(trial: Trial, seconds: float = 10.0) -> None:
    """Make the database unavailable for a while, for the driving process and the workers."""
    driving = trial.drive()
    for _ in range(2):
        trial.work()
    _wait_for_work(trial, driving)
    trial.databases.interrupt(trial.url, seconds)
    trial.check(driving)


def worker_of_another_version(trial: Trial) -> None:
    """Start a worker of another version: it takes no work, and the driving process reports that."""
    driving = trial.drive()
    other = trial.work(version="another")
    trial.until(lambda: "no worker of version" in driving.errors(), "a warning about versions")
    if throws := trial.throws():
        trial.fail(f"{len(throws)} operators ran on a worker of another version")
    trial.work()
    trial.check(driving)
    if any(throw.process == other.process.pid for throw in trial.throws()):
        trial.fail("an operator ran on a worker of another version")


def poison(trial: Trial) -> None:
    """Run an operator that kills its worker: the run fails and names the operator, and resumes after a fix.

    Workers run one operator at a time here, because a death does not show which of several caused it.
    """
    driving = trial.drive()
    workers = [trial.work(poison="c0", concurrency=1) for _ in range(MAX_DEATHS + 2)]
    report = driving.ended()
    if f"operator 'c0' of run {trial.run_id!r} was given up" not in report.get("error", ""):
        trial.fail(f"with a deadly operator it reported {report} {driving.errors()[-2000:]}")
    tried = sum(throw.key == "c0" for throw in trial.throws())
    if tried != MAX_DEATHS:
        trial.fail(f"a deadly operator was tried {tried} times, not {MAX_DEATHS}")
    for worker in workers:
        worker.kill()
    trial.note_stored(failed=False)
    trial.retry()
    trial.work()
    trial.check(trial.drive())


# With several servers


def server_killed(trial: Trial) -> None:
    """Kill one of two servers under load, around the time of a schedule, and start another one later."""
    with _two_servers(trial) as server:
        trial.kill_worker(server)
        time.sleep(5 * trial.rng.random())
        trial.serve()


def server_stopped(trial: Trial) -> None:
    """Suspend one of two servers under load, around the time of a schedule, and continue it before or after takeover."""
    with _two_servers(trial) as server:
        trial.stop(server)
        time.sleep(20 * trial.rng.random())
        server.go_on()


@contextmanager
def _two_servers(trial: Trial, clients: int = 8) -> Generator[Process]:
    """Start two servers, and clients shortly before a full minute; give one of the servers around the minute.

    Afterwards the clients go on for some seconds, and what became of the runs is checked.
    """
    if isinstance(trial.databases, Sqlite):
        raise UnsupportedError("several servers share a PostgreSQL database")
    servers = [trial.serve(), trial.serve()]
    trial.until(lambda: len(trial.urls()) == 2, "the start of two servers")
    minute = (time.time() + 6) // 60 * 60 + 60
    _sleep_until(minute - 5)
    sending = [Client(f"{trial.run_id}-{each}", trial.urls, f"{trial.rng.random()}") for each in range(clients)]
    for client in sending:
        client.start()
    _sleep_until(minute + 6 * trial.rng.random() - 3)
    yield trial.rng.choice(servers)
    _sleep_until(minute + 10)
    for client in sending:
        client.stop()
    trial.until(lambda: not any(client.is_alive() for client in sending), "the last orders")
    trial.check_served([order for client in sending for order in client.orders], minute)


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.time()))


@dataclass(frozen=True)
class Scenario:
    """Fault and the kind of run that it is injected into.

    Attributes:
        act: Injects the fault and checks the run.
        seconds: The average duration of an operator.
        limit: Seconds without a heartbeat after which a process counts as dead.
        workers: Whether workers run the operators.
    """

    act: Callable[..., None]
    seconds: float = 0.1
    limit: float = 10.0
    workers: bool = False


SCENARIOS: Mapping[str, Scenario] = {
    "driver killed": Scenario(killed, seconds=0.03),
    "driver killed, elsewhere": Scenario(killed_elsewhere, limit=SILENCE),
    "driver stopped, woken": Scenario(stopped, limit=SILENCE),
    "driver stopped in writing": Scenario(stopped_while_it_writes, limit=SILENCE),
    "killed after a verdict": Scenario(killed_after_a_verdict, seconds=0.3),
    "two drivers": Scenario(two_drivers, seconds=0.03),
    "many runs end": Scenario(many_end, seconds=2.0),
    "many runs resumed": Scenario(many_resumed, seconds=2.0, limit=SILENCE),
    "database gone": Scenario(database_gone),
    "disk full": Scenario(disk_full),
    "file deleted": Scenario(file_deleted),
    "worker killed": Scenario(worker_killed, limit=SILENCE, workers=True),
    "worker stopped, woken": Scenario(worker_stopped, limit=SILENCE, workers=True),
    "notifications lost": Scenario(notifications_lost, limit=SILENCE, workers=True),
    "database gone from workers": Scenario(database_gone_from_workers, limit=SILENCE, workers=True),
    "worker of another version": Scenario(worker_of_another_version, limit=SILENCE, workers=True),
    "operator that kills": Scenario(poison, limit=SILENCE, workers=True),
    "server killed": Scenario(server_killed, seconds=0.5),
    "server stopped, woken": Scenario(server_stopped, seconds=0.5),
}


def run_scenario(
    name: str,
    databases: Databases,
    folder: Path,
    rng: Random,
    *,
    begin: Begin = subprocess.Popen,
    **options: float,
) -> TrialResult:
    """Run one trial of a scenario.

    Args:
        name: The name of the scenario.
        databases: The kind of database.
        folder: The folder of its files.
        rng: The source of its random moments.
        begin: Starts processes.
        options: Further arguments of the scenario.

    Raises:
        UnsupportedError: The machine or the database does not support it.
    """
    scenario = SCENARIOS[name]
    if scenario.workers and isinstance(databases, Sqlite):
        raise UnsupportedError("workers need a server")
    began = time.monotonic()
    trial = Trial(
        databases,
        folder,
        rng,
        seconds=scenario.seconds,
        limit=scenario.limit,
        workers=scenario.workers,
        begin=begin,
    )
    try:
        scenario.act(trial, **options)
    except (HungError, OperadError) as error:
        trial.fail(str(error))
    finally:
        trial.end()
    trial.result.seconds = time.monotonic() - began
    return trial.result


def _wait_for_work(trial: Trial, driving: Process) -> None:
    """Wait until some operators have run."""
    goal = trial.rng.randrange(1, THROWS // 2)
    trial.until(lambda: len(trial.throws()) >= goal or not driving.alive, f"{goal} throws")


@contextmanager
def _small_disk(folder: Path) -> Generator[None]:
    folder.mkdir()
    mount = partial(subprocess.run, check=True, capture_output=True)
    try:
        mount(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)])
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnsupportedError("needs the right to mount a small disk") from error
    try:
        yield
    finally:
        mount(["umount", "--lazy", str(folder)])
        shutil.rmtree(folder, ignore_errors=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"\0" * 4096):
            pass
