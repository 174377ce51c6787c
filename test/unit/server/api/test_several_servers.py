"""Two servers on one database: each serves the runs of both, and one takes over when the other dies or freezes."""

import json
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from forked import OPERAD_COMMAND

pytestmark = pytest.mark.slow
pytest.importorskip("sqlalchemy")

FLOWS = """
import asyncio
from pathlib import Path
from operad import Job, RunContext, Workflow, operator

@operator
async def work(job: Job) -> str:
    with open("ran.txt", "a") as file:
        file.write(f"{job.goal}\\n")
    while Path("shut").exists():
        await asyncio.sleep(0.05)
    return f"did {job.goal}"

@operator
async def pay(job: Job, context: RunContext) -> str:
    return "paid" if await context.ask(f"Pay {job.goal}?", bool) else "not paid"

working = Workflow([work], name="working")
bill = Workflow([pay], name="bill")
"""


class Server:
    def __init__(self, process):
        self.process = process
        while not (found := re.match(r"(http://\S+) ", process.stderr.readline())):
            assert process.poll() is None
        self.url = found[1]

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, {"content-type": "application/json"}), timeout=30) as reply:  # noqa: S310
                return json.loads(reply.read() or "null")
        except HTTPError as error:
            with error:
                return json.loads(error.read())

    def until(self, run_id, state):
        by = time.monotonic() + 60
        while (run := self.ask(f"/runs/{run_id}")).get("state") != state:
            assert time.monotonic() < by, run
            time.sleep(0.1)
        return run


@pytest.fixture
def servers(forked, tmp_path, postgresql):
    """Function that starts a server of the flows on the database of the test."""
    (tmp_path / "flows_of_two.py").write_text(FLOWS)
    url, started = postgresql.new(), []

    def start():
        command = [*OPERAD_COMMAND, "serve", "flows_of_two:working", "flows_of_two:bill", "--db", url, "--port", "0"]
        started.append(forked.begin([*command, "--grace", "0"], cwd=tmp_path, stderr=subprocess.PIPE, text=True))
        return Server(started[-1])

    yield start
    for process in started:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        process.stderr.close()


def ran(folder, times):
    """Wait until the operator has begun so many times."""
    by = time.monotonic() + 60
    while (folder / "ran.txt").read_text().count("\n") < times if (folder / "ran.txt").exists() else times:
        assert time.monotonic() < by
        time.sleep(0.1)


def test_a_question_of_one_server_is_read_and_answered_at_the_other(servers):
    first, second = servers(), servers()
    first.ask("/runs", {"expert": "bill", "goal": "9", "id": "p"})
    first.until("p", "asks")
    seen = second.until("p", "asks")
    assert [question["id"] for question in seen["questions"]] == ["pay"]
    second.ask("/runs/p/answers/pay", {"answer": True})
    assert (second.until("p", "finished")["result"], first.until("p", "finished")["result"]) == ("paid", "paid")


def test_a_run_that_has_ended_by_one_server_has_ended_by_the_other_that_follows_it(servers, tmp_path):
    (tmp_path / "shut").touch()
    first, second = servers(), servers()
    runs = [f"w{number}" for number in range(8)]
    for run in runs:
        first.ask("/runs", {"expert": "working", "goal": run, "id": run})
        assert second.ask(f"/runs/{run}")["state"] == "running"
    (tmp_path / "shut").unlink()
    for run in runs:
        first.until(run, "finished")
        assert second.ask(f"/runs/{run}")["result"] == f"did {run}"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_the_other_server_takes_the_runs_of_one_that_ends_over(servers, tmp_path, end):
    (tmp_path / "shut").touch()
    first, second = servers(), servers()
    first.ask("/runs", {"expert": "working", "goal": "a", "id": "w"})
    first.ask("/runs", {"expert": "bill", "goal": "9", "id": "p"})
    first.until("p", "asks")
    ran(tmp_path, 1)
    first.process.send_signal(end)
    ran(tmp_path, 2)
    (tmp_path / "shut").unlink()
    assert second.until("w", "finished")["result"] == "did a"
    second.until("p", "asks")
    second.ask("/runs/p/answers/pay", {"answer": False})
    assert second.until("p", "finished")["result"] == "not paid"
    if end == signal.SIGSTOP:
        first.process.send_signal(signal.SIGCONT)
        assert first.until("w", "finished")["result"] == "did a"
        assert first.until("p", "finished")["result"] == "not paid"
    assert (tmp_path / "ran.txt").read_text() == "a\na\n"


@contextmanager
def worker(forked, folder, url):
    with forked.begin([*OPERAD_COMMAND, "worker", "flows_of_two:working", "--db", url], cwd=folder) as process:
        try:
            yield
        finally:
            process.terminate()


def test_workers_execute_the_operators_of_a_server(forked, tmp_path, postgresql):
    (tmp_path / "flows_of_two.py").write_text(FLOWS)
    url = postgresql.new()
    command = [
        *OPERAD_COMMAND,
        "serve",
        "flows_of_two:working",
        "--workers",
        "--db",
        url,
        "--port",
        "0",
        "--grace",
        "0",
    ]
    with forked.begin(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        server = Server(process)
        server.ask("/runs", {"expert": "working", "goal": "a", "id": "w"})
        time.sleep(1)
        assert not (tmp_path / "ran.txt").exists()  # nobody has executed it
        with worker(forked, tmp_path, url):
            assert server.until("w", "finished")["result"] == "did a"
        process.kill()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers"], "--workers needs the database of the workers"),
        (["--workers", "--model", "m", "--db", "runs.db"], "workers have models of their own"),
        (["--workers", "--db", "runs.db"], "PostgreSQL"),
    ],
)
def test_workers_without_what_they_need_are_refused(forked, tmp_path, options, said):
    (tmp_path / "flows_of_two.py").write_text(FLOWS)
    done = forked.run([*OPERAD_COMMAND, "serve", "flows_of_two:working", *options], cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
