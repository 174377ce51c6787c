"""`operad worker`, `operad workers`, and `operad run … --workers`, in a folder of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from forked import OPERAD_COMMAND
from trusting import with_trust

pytest.importorskip("sqlalchemy")

from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.ledger import Ledger
from operad.runtime.durable.run_owner import leave

STEPS = """
import asyncio, os, time
from pathlib import Path
from operad.operators import Operator

class Step(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        with open("ran.txt", "a") as file:
            file.write(f"{self.get_id()} {os.getpid()}\\n")
        end = time.monotonic() + 60
        while Path(f"{self.get_id()}.shut").exists() and time.monotonic() < end:
            await asyncio.sleep(0.02)
        return f"{self.config.instruction} {job.goal}"
"""

TWO = """
app: {desc: Greet Ada.}
operators:
  - &a {instruction: First, class: worker_steps.Step}
  - &b {instruction: Last, class: worker_steps.Step}
experts:
  - profile: {name: Two}
    max_rounds: 1
    workflow: [[*a, *b]]
"""

RENDEZVOUS = 60.0


@pytest.fixture
def place(tmp_path, monkeypatch, postgresql, nothing_configured):
    """A folder with two.yaml; runs are kept there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPERAD_DB", postgresql.new())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    (tmp_path / "worker_steps.py").write_text(STEPS)
    (tmp_path / "two.yaml").write_text(TWO)
    return tmp_path


@pytest.fixture
def operad(operad, place):
    """Runs the command in this process: exit status, stdout, stderr."""
    yield lambda *arguments: operad(*with_trust(arguments))
    leave(database_url(os.environ["OPERAD_DB"]))


@pytest.fixture
def begun(place, forked):
    """Begins the command in a process of its own."""
    processes = []

    def begun(*arguments, program=OPERAD_COMMAND):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(forked.begin([*program, *with_trust(arguments)], cwd=place, **pipes))
        return processes[-1]

    yield begun
    for process in processes:
        process.kill()
        process.communicate()


def until(condition, *processes):
    """Wait until something is so, while these processes live; what it is."""
    end = time.monotonic() + RENDEZVOUS
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to that"
        for process in processes:
            assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return found


def ran():
    """What ran, in which process."""
    path = Path("ran.txt")
    return [(name, int(pid)) for name, pid in map(str.split, path.read_text().splitlines())] if path.exists() else []


def ended(process):
    out, err = process.communicate(timeout=RENDEZVOUS)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def status_of(step_id):
    run_id, _, key = step_id.partition(":")
    with closing(Ledger(os.environ["OPERAD_DB"])) as ledger:
        return {row.key: row.status for row in ledger.steps.of_run(run_id)}.get(key)


def test_a_run_is_done_by_a_worker_and_workers_says_who_lives(place, operad, begun):
    status, out, err = operad("workers", "--db", place / "none.sqlite")
    assert (status, "there is no such file" in err) == (2, True)
    worker = begun("worker", "two.yaml", "--concurrency", "2")
    (place / "b.shut").touch()
    driver = begun("run", "two.yaml", "--workers", "--run-id", "r", "--job", "Hello")
    until(lambda: [name for name, _ in ran()] == ["a", "b"], worker, driver)
    until(lambda: '"r:b"' in operad("workers", "--json")[1], worker, driver)
    status, out, _ = operad("workers", "--json")
    told = {each["kind"]: each for each in json.loads(out)}
    assert (status, set(told)) == (0, {"worker", "driver"})
    assert (told["worker"]["alive"], told["worker"]["concurrency"], told["worker"]["doing"]) == (True, 2, ["r:b"])
    (queue,) = told["worker"]["queues"]
    assert queue.startswith("operad two ")
    status, out, _ = operad("workers")
    lines = out.splitlines()
    assert lines[0].split() == ["id", "kind", "state", "version", "serves", "at"]
    assert sorted(line.split()[1:3] for line in lines[1:]) == [["driver", "alive"], ["worker", "alive"]]
    assert "r:b" in out
    (place / "b.shut").unlink()
    status, out, err = ended(driver)
    assert (status, out) == (0, "Last Hello\n")
    assert "run: r  (operad runs show r)\n" in err
    worker.terminate()
    status, out, err = ended(worker)
    assert (status, out) == (0, "")
    first, second, third = err.splitlines()
    assert first.startswith(f"worker: {told['worker']['id']}, version {told['worker']['version']}, postgresql://")
    assert second == f"serves: two ({queue}), 2 operators at once"
    assert third.startswith("shutting down: operators in progress have 30 s; a second signal ends them at once")
    assert {pid for _, pid in ran()} == {worker.pid}
    assert operad("workers") == (
        0,
        "",
        "there are no drivers and no workers; start a worker: operad worker FILE\n",
    )


@pytest.mark.slow
def test_a_worker_that_is_to_end_finishes_or_gives_back_what_it_is_at(place, begun):
    """Four workers, one after the other: one finishes its work, the next ends at once, and the third after its grace."""
    for name in "ab":
        (place / f"{name}.shut").touch()
    drains = begun("worker", "two.yaml")
    driver = begun("run", "two.yaml", "--workers", "--run-id", "r", "--job", "Hello")
    until(lambda: ("a", drains.pid) in ran(), drains, driver)
    drains.send_signal(signal.SIGTERM)
    until_said(drains, "shutting down: operators in progress have 30 s")
    (place / "a.shut").unlink()
    status, _, err = ended(drains)
    assert status == 0, err
    until(lambda: status_of("r:b") == "ENQUEUED", driver)

    at_once = begun("worker", "two.yaml", "--grace", "3000")
    until(lambda: ("b", at_once.pid) in ran(), at_once, driver)
    at_once.send_signal(signal.SIGINT)
    until_said(at_once, "shutting down: operators in progress have 3000 s")
    at_once.send_signal(signal.SIGTERM)
    status, _, err = ended(at_once)
    assert (status, "ended; unfinished operators go to other workers" in err) == (0, True)
    assert status_of("r:b") == "ENQUEUED"

    in_time = begun("worker", "two.yaml", "--grace", "0.1")
    until(lambda: ("b", in_time.pid) in ran(), in_time, driver)
    in_time.terminate()
    assert ended(in_time)[0] == 0
    assert status_of("r:b") == "ENQUEUED"

    last = begun("worker", "two.yaml")
    until(lambda: ("b", last.pid) in ran(), last, driver)
    (place / "b.shut").unlink()
    assert ended(driver)[:2] == (0, "Last Hello\n")
    assert ran() == [("a", drains.pid), ("b", at_once.pid), ("b", in_time.pid), ("b", last.pid)]


STAYS = """
import asyncio, os, signal
from operad.configs.runnable import Source
from operad.configs.runnable import make
from operad.runtime.durable import Worker

async def main():
    worker = Worker(os.environ["OPERAD_DB"], [make(Source(file="two.yaml"), trust=True).served()])
    serving = asyncio.ensure_future(worker.serve(asyncio.Event()))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    await asyncio.wait([serving])
    print("left", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_worker_that_is_cancelled_takes_nothing_any_more_though_its_process_goes_on(place, begun):
    for name in "ab":
        (place / f"{name}.shut").touch()
    stays = begun(program=(sys.executable, "-c", STAYS))
    driver = begun("run", "two.yaml", "--workers", "--run-id", "r", "--job", "Hello")
    until(lambda: ("a", stays.pid) in ran(), stays, driver)
    stays.terminate()
    assert stays.stdout.readline() == "left\n"
    assert status_of("r:a") == "ENQUEUED"
    last = begun("worker", "two.yaml")
    until(lambda: ("a", last.pid) in ran(), stays, last, driver)
    for name in "ab":
        (place / f"{name}.shut").unlink()
    assert ended(driver)[:2] == (0, "Last Hello\n")
    assert ran() == [("a", stays.pid), ("a", last.pid), ("b", last.pid)]


def until_said(process, words):
    """Read what a process says until it has said this."""
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"it ended, and never said {words!r}")


# Bad options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "two.yaml", "--job", "Go.", "--workers", "--model", "m"],
            "workers have models of their own: say --model and --base",
        ),
        (
            ["run", "two.yaml", "--job", "Go.", "--workers", "--base-url", "http://x/v1"],
            "say --model and --base-url to operad worker",
        ),
        (["worker", "two.yaml", "two.yaml"], "two of these files define the same agents; name each file once"),
        (["worker", "two.yaml", "copy/two.yaml"], "two of these files define the same agents; name each file once"),
        (["worker", "tow.yaml"], "tow.yaml"),
        (["worker", "two.yaml", "--db", "nowhere/runs.sqlite"], "there is no folder"),
        (["worker", "two.yaml", "--db", "mysql://host/x"], "runs are kept in sqlite or postgresql, not in mysql"),
        (
            ["worker", "two.yaml", "--db", "two.yaml"],
            "two.yaml: cannot be used for runs: file is not a database; the file was not changed: name another one",
        ),
        (
            ["worker", "two.yaml", "--db", "postgresql://u:secret@localhost:1/x"],
            "check that the server runs, and that the address is right",
        ),
        (
            ["worker", "two.yaml", "--db", "runs.sqlite"],
            "runs.sqlite is an SQLite file; to start a local server, and to see its URL for --db: operad postgres",
        ),
        (
            ["run", "two.yaml", "--job", "Go.", "--workers", "--db", "runs.sqlite"],
            "workers need PostgreSQL",
        ),
        (["worker", "two.yaml", "--services", "no.yaml"], "two.yaml configures experts; write `services: …` in it"),
        (["workers", "--db", "none.sqlite"], "there is no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_said_in_a_line(arguments, words, operad, place):
    (place / "copy").mkdir()
    (place / "copy" / "two.yaml").write_text(TWO)
    (place / "copy" / "worker_steps.py").write_text(STEPS)
    status, out, err = operad(*arguments)
    assert (status, out) == (2, "")
    assert words in err.replace("\n", " ")
    assert err.count("\n") <= 2
    assert "secret" not in err
    assert ran() == []


@pytest.mark.parametrize("option", [["--concurrency", "0"], ["--limit", "1"], ["--grace", "-1"], []])
def test_numbers_that_are_none_and_no_file_are_said(option, operad):
    status, out, err = operad("worker", *(["two.yaml", *option] if option else []))
    assert (status, out) == (2, "")
    assert (option or ["FILE"])[0] in err
