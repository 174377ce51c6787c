"""What is done to runs. Each takes a fresh trial to its end, and notes in it what is wrong."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from databases import Databases, Sqlite, path_of
from graph import THROWS
from trial import Begin, Found, HungError, Process, Trial

from operad.runtime import OperadError
from operad.runtime.durable.remote import MAX_DEATHS

SILENCE = 2.0
"""Seconds of silence after which a process counts as dead, where one has to be waited for."""


class UnableError(Exception):
    """This machine, or this database, does not allow it."""


def killed(trial: Trial, times: int = 4) -> None:
    """Its process is killed again and again, and another one goes on."""
    for _ in range(times):
        driving = trial.drive()
        trial.at_a_random_moment(driving)
        driving.kill()
        trial.note_kept()
    trial.check(trial.drive())


def killed_elsewhere(trial: Trial) -> None:
    """Nobody can see whether a process of another machine was killed: its silence has to be waited for."""
    driving = trial.drive()
    _work_of(trial, driving)
    driving.kill()
    trial.note_kept()
    trial.forget_machines()
    trial.check(trial.drive())


def stopped(trial: Trial) -> None:
    """Its process stands still until another one drives the run, and wakes up: while that one goes on, or is gone."""
    first = trial.drive()
    _work_of(trial, first)
    trial.stop(first)
    trial.note_kept()
    second = trial.drive()
    pid = second.process.pid
    goal = trial.chance.choice((1, 3, 10))
    trial.until(
        lambda: sum(throw.process == pid for throw in trial.throws()) >= goal or not second.lives,  # or all are done
        "the second process",
    )
    end = trial.chance.choice(("goes on", "has finished", "is killed"))
    if end == "has finished":
        trial.until(lambda: not second.lives, "the second process's end")
    elif end == "is killed":
        second.kill()
    first.go_on()
    said = first.ended()
    if "is driven by another process now" not in said.get("error", ""):
        trial.wrong(f"who woke up said {said} {first.errors()[-2000:]}")
    trial.check(trial.drive() if end == "is killed" else second)


def stopped_while_it_writes(trial: Trial, seconds: float = 40.0) -> None:
    """Its process stands still while it holds the file: another one waits, and goes on when that is woken or killed."""
    if not isinstance(trial.databases, Sqlite):
        raise UnableError("a server ends transactions that stand still")
    first = trial.drive()
    _work_of(trial, first)
    trial.stop_while_it_writes(first)
    trial.note_kept()
    second = trial.drive()
    time.sleep(seconds)
    pid = first.process.pid
    trial.until(lambda: f"process {pid} is writing into it" in second.errors(), "a word about who writes")
    if trial.chance.random() < 0.5:
        first.kill()
        trial.check(second)
    else:
        first.go_on()
        _one_of(trial, first, second)


def two(trial: Trial) -> None:
    """Two processes want to drive it."""
    first = trial.drive()
    if trial.chance.random() < 0.5:
        _work_of(trial, first)
    _one_of(trial, first, trial.drive())


def _one_of(trial: Trial, first: Process, second: Process) -> None:
    """See that one of two processes drives the run to its end, and the other one leaves it to that."""
    both = [first, second]
    others = ("is being driven by", "is driven by another process now")
    refused = [each for each in both if any(said in each.ended().get("error", "") for said in others)]
    finished = [each for each in both if "result" in each.ended()]
    if len(finished) == 2:  # the first was done before the second came
        trial.check(second)
    elif len(refused) != 1 or len(finished) != 1:
        trial.wrong(f"{[(each.ended(), each.errors()[-2000:]) for each in both]}")
    else:
        trial.check(finished[0])


def database_gone(trial: Trial, seconds: float = 10.0) -> None:
    """The database is gone for a while."""
    driving = trial.drive()
    _work_of(trial, driving)
    trial.databases.gone(trial.url, seconds)
    trial.note_kept()
    trial.check(driving)


def disk_full(trial: Trial) -> None:
    """There is no room left, and then there is."""
    if not isinstance(trial.databases, Sqlite):
        raise UnableError("a full disk under a server is the server's own business")
    disk = path_of(trial.url).parent / trial.run_id
    with _small_disk(disk):
        trial.url = f"sqlite:///{disk / 'runs.sqlite'}"
        driving = trial.drive()
        _work_of(trial, driving)
        filler = disk / "filler"
        _fill(filler)
        said = driving.ended()
        if "check that the database exists and has space left" not in said.get("error", ""):
            trial.wrong(f"without room it said {said} {driving.errors()[-2000:]}")
        filler.unlink()
        trial.note_kept()
        trial.check(trial.drive())


def file_deleted(trial: Trial) -> None:
    """Somebody deletes the file; who drives the run says so, or does not need it any more."""
    if not isinstance(trial.databases, Sqlite):
        raise UnableError("PostgreSQL has no such file")
    driving = trial.drive()
    _work_of(trial, driving)
    for path in path_of(trial.url).parent.glob(path_of(trial.url).name + "*"):
        path.unlink()
    said = driving.ended()
    remedies = "see that the database is there", "restore it from a copy"  # the second: an empty file was made again
    if not any(each in said.get("error", "") for each in remedies) and "result" not in said:
        trial.wrong(f"without its file it said {said} {driving.errors()[-2000:]}")


# With workers


def worker_killed(trial: Trial, times: int = 3) -> None:
    """Workers are killed again and again, and others come; now and then who drives is killed as well."""
    driving = trial.drive()
    workers = [trial.work() for _ in range(3)]
    for _ in range(times):
        trial.at_a_random_moment(driving)
        trial.kill_worker(workers.pop(trial.chance.randrange(3)))
        workers.append(trial.work())
        if driving.lives and trial.chance.random() < 0.3:
            driving.kill()
            trial.note_kept()
            driving = trial.drive()
    trial.check(driving)


def worker_stopped(trial: Trial) -> None:
    """A worker stands still until others have done its work, and wakes up."""
    driving = trial.drive()
    workers = [trial.work() for _ in range(2)]
    _work_of(trial, driving)
    trial.stop(workers[0])
    trial.note_kept()
    time.sleep(SILENCE * (0.5 + 2 * trial.chance.random()))
    workers[0].go_on()
    trial.check(driving)


def wakeups_lost(trial: Trial, times: int = 20) -> None:
    """Nobody hears of anything, again and again: pipes are deleted, or the connections that listen are ended."""
    driving = trial.drive()
    for _ in range(2):
        trial.work()
    for _ in range(times):
        trial.at_a_random_moment(driving)
        trial.databases.deafen(trial.url)
    trial.check(driving)


def database_gone_from_workers(trial: Trial, seconds: float = 10.0) -> None:
    """The database is gone for a while, from workers as well."""
    driving = trial.drive()
    for _ in range(2):
        trial.work()
    _work_of(trial, driving)
    trial.databases.gone(trial.url, seconds)
    trial.check(driving)


def worker_of_another_version(trial: Trial) -> None:
    """A worker with other code takes nothing, and whoever drives says so."""
    driving = trial.drive()
    other = trial.work(version="another")
    trial.until(lambda: "no worker of version" in driving.errors(), "a word about versions")
    if throws := trial.throws():
        trial.wrong(f"{len(throws)} operators were done by another version")
    trial.work()
    trial.check(driving)
    if any(throw.process == other.process.pid for throw in trial.throws()):
        trial.wrong("a worker of another version did something")


def poison(trial: Trial) -> None:
    """An operator kills whoever does it, is given up and named; once it is mended, the run goes on.

    Workers do one operator at a time here: nobody could tell it from what else they are at when they die.
    """
    driving = trial.drive()
    workers = [trial.work(poison="c0", concurrency=1) for _ in range(MAX_DEATHS + 2)]
    said = driving.ended()
    if f"operator 'c0' of run {trial.run_id!r} was given up" not in said.get("error", ""):
        trial.wrong(f"of a deadly operator it said {said} {driving.errors()[-2000:]}")
    tried = sum(throw.key == "c0" for throw in trial.throws())
    if tried != MAX_DEATHS:
        trial.wrong(f"a deadly operator was tried {tried} times, not {MAX_DEATHS}")
    for worker in workers:
        worker.kill()
    trial.note_kept()
    trial.retry()
    trial.work()
    trial.check(trial.drive())


@dataclass(frozen=True)
class Scenario:
    """What is done, and to what runs.

    Attributes:
        act: What is done.
        seconds: How long their operators take on average.
        limit: After how many seconds of silence their processes count as dead.
        workers: Whether workers do the work.
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
    "two drivers": Scenario(two, seconds=0.03),
    "database gone": Scenario(database_gone),
    "disk full": Scenario(disk_full),
    "file deleted": Scenario(file_deleted),
    "worker killed": Scenario(worker_killed, limit=SILENCE, workers=True),
    "worker stopped, woken": Scenario(worker_stopped, limit=SILENCE, workers=True),
    "wake-ups lost": Scenario(wakeups_lost, limit=SILENCE, workers=True),
    "database gone from workers": Scenario(database_gone_from_workers, limit=SILENCE, workers=True),
    "worker of another version": Scenario(worker_of_another_version, limit=SILENCE, workers=True),
    "operator that kills": Scenario(poison, limit=SILENCE, workers=True),
}


def carry_out(
    name: str,
    databases: Databases,
    folder: Path,
    chance: Random,
    *,
    begin: Begin = subprocess.Popen,
    **options: float,
) -> Found:
    """Have a scenario carried out once.

    Args:
        name: Its name.
        databases: The kind of database.
        folder: Where its files lie.
        chance: What decides.
        begin: What begins processes.
        options: What it takes.

    Raises:
        UnableError: This machine, or this database, does not allow it.
    """
    scenario = SCENARIOS[name]
    began = time.monotonic()
    trial = Trial(
        databases,
        folder,
        chance,
        seconds=scenario.seconds,
        limit=scenario.limit,
        workers=scenario.workers,
        begin=begin,
    )
    try:
        scenario.act(trial, **options)
    except (HungError, OperadError) as error:
        trial.wrong(str(error))
    finally:
        trial.end()
    trial.found.seconds = time.monotonic() - began
    return trial.found


def _work_of(trial: Trial, driving: Process) -> None:
    """Wait until it is in the midst of its work."""
    goal = trial.chance.randrange(1, THROWS // 2)
    trial.until(lambda: len(trial.throws()) >= goal or not driving.lives, f"{goal} throws")


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    mount = partial(subprocess.run, check=True, capture_output=True)
    try:
        mount(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)])
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnableError("a small disk takes the right to mount one") from error
    try:
        yield
    finally:
        mount(["umount", "--lazy", str(folder)])
        shutil.rmtree(folder, ignore_errors=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"\0" * 4096):
            pass
