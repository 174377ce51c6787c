"""`operad view`, and `operad run --view`, as processes of their own."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from forked import OPERAD_COMMAND
from local_http import NO_AUTHORITIES
from trusting import with_trust

from operad.cli import main as cli
from operad.runtime.testing import Fail, Say, ScriptedModel
from operad.runtime.values.pip import pip_install

STARTED = '{"event": "RunStarted", "run_id": "r", "workflow": "w", "goal": "go", "operators": {}, "time": 1.0}\n'

ASKING = """
from operad.operators import Operator
from operad.runtime import interrupt

class Ask(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return repr(await interrupt(self.config.instruction, {"type": "boolean"}))
"""

ASKER = """
operators:
  - &pay {instruction: "Pay?", class: asks_on_a_page.Ask}
  - &send {instruction: "Send?", class: asks_on_a_page.Ask}
experts:
  - profile: {name: Asker}
    workflow: [[*pay, *send]]
"""

EXPERT = """
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter}
    workflow: [[*greet]]
"""


class Command:
    """A command that runs; what it says on stderr can be waited for."""

    def __init__(self, process):
        self.process = process
        self.said = ""

    def hears(self, pattern):
        """The first match in what it has said, or says next."""
        until = time.monotonic() + 60
        while not (found := re.search(pattern, self.said)):
            line = self.process.stderr.readline()
            assert line, f"it ended: {self.said}"
            assert time.monotonic() < until, self.said
            self.said += line
        return found

    @property
    def page(self):
        """The page's address."""
        return self.hears(r"page: (http://127\.0\.0\.1:\d+/[\w-]{32,}/\S*)")[1]

    def ends(self):
        """Its exit status, and all that it says."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, self.said + err


@pytest.fixture
def operad(tmp_path, forked):
    """Begins a command in an empty folder."""
    (tmp_path / "asks_on_a_page.py").write_text(ASKING)
    (tmp_path / "asker.yaml").write_text(ASKER)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}

    @contextmanager
    def operad(*arguments, stdin=subprocess.DEVNULL):
        process = forked.begin(
            [*OPERAD_COMMAND, *with_trust(arguments)],
            cwd=tmp_path, text=True, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**environment, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)},
        )  # fmt: skip
        with process:
            try:
                yield Command(process)
            finally:
                process.kill()

    return operad


def get(url):
    return httpx.get(url, timeout=30, trust_env=False, verify=NO_AUTHORITIES)


def post(url, **said):
    return httpx.post(url, json=said, timeout=30, trust_env=False, verify=NO_AUTHORITIES)


def question(url, name):
    """Waits until the run asks it."""
    until = time.monotonic() + 60
    while True:
        spans = get(f"{url}data/picture").json()["spans"]
        if any((span["kind"], span["name"], span["state"]) == ("question", name, "running") for span in spans):
            return
        assert time.monotonic() < until, spans
        time.sleep(0.05)


def ended(url):
    """The picture, once the run has ended."""
    until = time.monotonic() + 60
    while not (picture := get(f"{url}data/picture").json())["ended"]:
        assert time.monotonic() < until, picture
        time.sleep(0.05)
    return picture


# operad view


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_file_is_shown_until_ctrl_c_with_browsers_still_there(operad, tmp_path, number):
    (tmp_path / "run.jsonl").write_text(STARTED)
    with (
        operad("view", "run.jsonl", "--port", "0") as command,
        httpx.stream(
            "GET", f"{command.page}data/changes", timeout=30, trust_env=False, verify=NO_AUTHORITIES
        ) as stream,
    ):
        told = next(line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(told.removeprefix("data: "))["goal"] == "go"
        command.process.send_signal(number)
        assert command.ends() == (0, "", f"page: {command.page}\n")


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """What a command that ends at once says on stderr: one line."""
    monkeypatch.chdir(tmp_path)

    def refused(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert (exit_.value.code, captured.out) == (2, "")
        return captured.err

    return refused


def test_what_is_no_events_file_is_refused_in_one_line(refused, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    assert refused("view", "table.cvs") == (
        "operad: table.cvs: there is no such file (did you mean 'table.csv'?); operad run … --events FILE.jsonl writes "
        "one; for a stored run, give --db URL as well\n"
    )
    said = refused("view", "table.csv")
    assert said.startswith("operad: table.csv: line 1 is not an event: ")
    assert said.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(refused, tmp_path, monkeypatch):
    (tmp_path / "run.jsonl").write_text(STARTED)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "operad.server.view.server", raising=False)
    assert refused("view", "run.jsonl") == f"operad: the page needs the extra `page`: {pip_install('page')}\n"


@pytest.mark.parametrize(("command", "option"), [("view", "--port"), ("run", "--view-port")])
def test_a_port_in_use_is_refused_before_anything_runs(refused, tmp_path, command, option):
    (tmp_path / "run.jsonl").write_text(STARTED)
    (tmp_path / "expert.yaml").write_text(EXPERT)
    what = {"view": ["run.jsonl"], "run": ["expert.yaml", "--job", "Go.", "--base-url", "http://127.0.0.1:1/v1"]}[
        command
    ]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert refused(command, *what, option, port) == (
            f"operad: {option}: cannot bind port {port}: Address already in use; "
            "choose another, or 0 for any free port\n"
        )


def test_the_runs_of_a_database_are_listed(operad, tmp_path):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        (tmp_path / "expert.yaml").write_text(EXPERT)
        with operad(
            "run",
            "expert.yaml",
            "--job",
            "Go.",
            "--db",
            "runs.sqlite",
            "--run-id",
            "one",
            "--base-url",
            endpoint.base_url,
        ) as run:
            assert run.ends()[0] == 0
    with operad("view", "--db", "runs.sqlite", "--port", "0") as command:
        assert '"id":"one"' in get(command.page).text.replace('": "', '":"')
        command.process.send_signal(signal.SIGINT)
        assert command.ends()[0] == 0
    with operad("view", "won", "--db", "runs.sqlite", "--port", "0") as command:
        status, _, err = command.ends()
        assert (status, err) == (
            2,
            "operad: no run has the id 'won' (did you mean 'one'?); to list the runs: "
            f"operad runs list --db {tmp_path / 'runs.sqlite'}\n",
        )
    with operad("view", "one", "--db", "runs.sqlite", "--port", "0") as command:
        assert command.page.endswith("/runs/one/")
        assert get(command.page).status_code == 200


# operad run --view


def test_a_run_ends_as_ever_where_nobody_sits_at_a_terminal(operad, tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    with (
        ScriptedModel([Say("Hello!")]) as endpoint,
        operad("run", "expert.yaml", "--job", "Go.", "--view", "--base-url", endpoint.base_url) as command,
    ):
        status, out, err = command.ends()
    assert (status, out) == (0, "Hello!\n")
    assert err.splitlines()[0].startswith("page: http://127.0.0.1:")


def test_questions_are_answered_on_the_page_or_at_the_terminal(operad):
    with operad("run", "asker.yaml", "--job", "Go.", "--view", stdin=subprocess.PIPE) as command:
        url = command.page
        question(url, "pay")
        command.hears("pay asks: Pay")
        assert post(f"{url}data/answer", interrupt_id="pay", value=True).status_code == 200
        command.hears("pay was answered elsewhere")
        command.hears("send asks: Send")
        command.process.stdin.write("no\n")
        command.process.stdin.flush()
        assert command.ends()[:2] == (0, "False\n")


def test_without_a_stdin_questions_wait_for_the_page(operad):
    with operad("run", "asker.yaml", "--job", "Go.", "--view-port", "0") as command:
        url = command.page
        for name in ("pay", "send"):
            question(url, name)
            command.hears(f"{name} asks")
            command.hears(f"answer it on the page: {url}")
            assert post(f"{url}data/answer", interrupt_id=name, value=name == "send").status_code == 200
        assert command.ends()[:2] == (0, "True\n")


def test_a_run_that_is_cancelled_on_the_page_ends_as_by_ctrl_c_and_browsers_see_it(operad):
    with operad("run", "asker.yaml", "--job", "Go.", "--view", "--db", "runs.sqlite", "--run-id", "one") as command:
        url = command.page
        question(url, "pay")
        with httpx.stream("GET", f"{url}data/changes", timeout=30, trust_env=False, verify=NO_AUTHORITIES) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if line.startswith("data: "))
            post(f"{url}data/cancel")
            told = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        status, out, err = command.ends()
    assert (status, out) == (130, "")
    assert re.search(r"\noperad: interrupted; to resume: operad runs resume one --db \S+ --trust\n$", err)
    assert told[-1]["ended"]


def test_a_kept_run_is_resumed_with_a_page(operad):
    with operad(
        "run", "asker.yaml", "--job", "Go.", "--db", "runs.sqlite", "--run-id", "one", "--answer", "pay=yes"
    ) as command:
        assert command.ends()[0] == 2
    with operad("runs", "resume", "one", "--db", "runs.sqlite", "--view") as command:
        question(command.page, "send")
        post(f"{command.page}data/answer", interrupt_id="send", value=True)
        assert command.ends()[:2] == (0, "True\n")


def test_a_run_that_fails_under_a_page_says_so(operad, tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    with operad("run", "expert.yaml", "--job", "Go.", "--view", "--base-url", "http://127.0.0.1:1/v1") as command:
        assert urlsplit(command.page).hostname == "127.0.0.1"
        status, out, err = command.ends()
    assert (status, out) == (2, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("works", [True, False])
def test_at_a_terminal_the_page_stays_after_the_run_until_ctrl_c(tmp_path, forked, works):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    with ScriptedModel([Say("Hello!")] if works else [Fail(400, "out of order")]) as endpoint:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 300, 0, 0))
        process = forked.begin(
            [*OPERAD_COMMAND, "run", "expert.yaml", "--job", "Go.", "--view", "--base-url", endpoint.base_url],
            cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        with process:
            try:
                while b"the page stays until Ctrl-C: " not in seen or not seen.endswith(b"\n"):
                    assert select.select([ours], [], [], 60)[0], seen
                    seen += os.read(ours, 4096)
                before, _, url = seen.decode().rpartition("the page stays until Ctrl-C: ")
                assert ("Hello!\r\n" if works else "out of order") in before, "what came of it is said first"
                ended(url.strip())
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == (0 if works else 2)
            finally:
                process.kill()
        os.close(ours)


def test_a_kept_run_is_shown_from_its_database(operad):
    arguments = ["--db", "runs.sqlite", "--run-id", "one", "--answer", "pay=yes", "--answer", "send=no"]
    with operad("run", "asker.yaml", "--job", "Go.", *arguments) as run:
        assert run.ends()[0] == 0
    with operad("view", "one", "--db", "runs.sqlite", "--port", "0") as command:
        picture = ended(command.page)
    assert {span["name"] for span in picture["spans"] if span["kind"] == "operator"} == {"pay", "send"}
