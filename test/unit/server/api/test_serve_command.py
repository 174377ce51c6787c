"""`operad serve` as a process: how it begins, what it refuses, how it ends, and what it finds again."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import httpx2
import pytest
from forked import OPERAD_COMMAND
from trusting import with_trust

from operad.cli import main as cli
from operad.runtime.testing import Plausible, Say, ScriptedModel
from operad.runtime.values.pip import pip_install

RENDEZVOUS = 60.0
KEY = "a-key-of-many-characters"

STEPS = """
import asyncio, time
from pathlib import Path
from operad.operators import Operator
from operad.runtime import interrupt

class Step(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        with open("ran.txt", "a") as file:
            file.write(f"{self.get_id()} {job.goal}\\n")
        while Path(f"{self.get_id()}.shut").exists():
            await asyncio.sleep(0.02)
        if Path(f"{self.get_id()}.asks").exists():
            return str(await interrupt("Well?", "boolean"))
        if Path(f"{self.get_id()}.hangs").exists():
            time.sleep(60)
        return f"{self.config.instruction} {job.goal}"
"""

TWO = """
operators:
  - &a {instruction: First, class: served_steps.Step}
  - &b {instruction: Last, class: served_steps.Step}
experts:
  - profile: {name: Two, desc: Does two steps.}
    max_rounds: 1
    workflow: [[*a, *b]]
"""


class Process:
    """The command, in a process of its own."""

    def __init__(self, forked, place, *arguments):
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        self.process: Any = forked.begin([*OPERAD_COMMAND, *with_trust(["serve", *arguments])], cwd=place, **pipes)
        self.said = ""
        self.url = ""

    def up(self):
        """Once it listens."""
        while not (found := re.search(r"^http://\S+:\d+(?= )", self.said, re.MULTILINE)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = found[0]
        return self

    def ask(self, path, body=None, method=None) -> Any:
        said = httpx2.request(
            method or ("GET" if body is None else "POST"),
            f"{self.url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=30,
        )
        return said.status_code, said.json() if said.content else None

    def until(self, run_id, state):
        end = time.monotonic() + RENDEZVOUS
        while (run := self.ask(f"/runs/{run_id}")[1])["state"] != state:
            assert time.monotonic() < end, run
            time.sleep(0.02)
        return run

    def ended(self):
        out, err = self.process.communicate(timeout=RENDEZVOUS)
        assert "Traceback" not in err, err
        return self.process.returncode, out, self.said + err


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with two.yaml."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL", "OPERAD_DB", "OPERAD_SERVE_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    (tmp_path / "served_steps.py").write_text(STEPS)
    (tmp_path / "two.yaml").write_text(TWO)
    return tmp_path


@pytest.fixture
def begun(place, forked):
    """Begins the command in a process of its own."""
    processes = []

    def begun(*arguments):
        processes.append(Process(forked, place, *arguments))
        return processes[-1]

    yield begun
    for each in processes:
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def operad(place, monkeypatch, capsys):
    """Runs the command in this process: exit status, stderr."""

    def operad(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *with_trust(["serve", *arguments])])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return exit_.value.code, captured.err

    return operad


def test_it_serves_until_it_is_told_to_end_and_finishes_what_is_under_way(place, begun):
    server = begun("two.yaml", "--port", 0).up()
    assert server.ask("/healthz") == (200, {"status": "ok", "stuck": []})
    (place / "b.shut").touch()
    assert server.ask("/runs", {"expert": "Two", "goal": "Ada"})[0] == 202
    server.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + RENDEZVOUS
    while server.ask("/healthz")[0] != 503:
        assert time.monotonic() < end
    (place / "b.shut").unlink()
    status, out, err = server.ended()
    assert (status, out) == (0, "")
    assert "serves: Two" in err
    assert "no key required" in err
    assert "shutting down: 1 run in progress, which may take 30 s" in err
    assert (place / "ran.txt").read_text() == "a Ada\nb Ada\n"


def test_a_server_whose_stderr_nobody_reads_any_more_ends_as_ever(place, begun):
    (place / "b.shut").touch()
    server = begun("two.yaml", "--port", 0).up()
    server.ask("/runs", {"expert": "Two", "goal": "Ada"})
    server.process.stderr.close()
    server.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + RENDEZVOUS
    while server.ask("/healthz")[0] != 503:
        assert time.monotonic() < end
    (place / "b.shut").unlink()
    assert server.process.wait(RENDEZVOUS) == 0
    assert (place / "ran.txt").read_text() == "a Ada\nb Ada\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_idle_server_at_once(place, begun, number):
    server = begun("two.yaml", "--port", 0).up()
    server.process.send_signal(number)
    status, out, err = server.ended()
    assert (status, out) == (0, "")
    assert err.endswith("shutting down: 0 runs in progress, which may take 30 s; a second signal ends at once\n")


@pytest.mark.parametrize("stuck", ["shut", "hangs"])
def test_a_second_signal_ends_it_whatever_hangs(place, begun, stuck):
    (place / f"a.{stuck}").touch()
    server = begun("two.yaml", "--port", 0).up()
    server.ask("/runs", {"expert": "Two", "goal": "Ada"}) if stuck == "shut" else _ask_and_leave(server)
    end = time.monotonic() + RENDEZVOUS
    while not (place / "ran.txt").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    server.process.send_signal(signal.SIGINT)
    if stuck == "shut":
        while "shutting down: 1 run in progress" not in (line := server.process.stderr.readline()):
            assert " operad.access: " in line
        server.process.send_signal(signal.SIGINT)
    else:  # code that holds up the event loop lets nothing be said: when the first was heeded, nobody knows
        while server.process.poll() is None:
            assert time.monotonic() < end
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.02)
    status = server.ended()[0]
    assert status in ((0, 130) if stuck == "shut" else (130,))


def _ask_and_leave(server):
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"expert": "Two", "goal": "Ada"})
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /runs HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head + body).encode())


def test_what_it_cannot_do_is_said_in_a_line(operad, place, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert operad("two.yaml", "--port", port) == (
            2,
            f"operad: cannot listen at 127.0.0.1:{port}: Address already in use; choose another with --port, or any free one with --port 0\n",
        )
    status, err = operad("two.yaml", "--host", "0.0.0.0")  # noqa: S104
    assert (status, "--host 0.0.0.0: other machines can reach it without a key" in err) == (2, True)
    (place / "keys").write_text("# ours\nshort\n")
    assert "key 1 has to be 16 or more" in operad("two.yaml", "--key-file", "keys")[1]
    (place / "keys").write_text("# none\n")
    assert "holds no key" in operad("two.yaml", "--key-file", "keys")[1]
    assert "cannot be read: No such file" in operad("two.yaml", "--key-file", "kys")[1]
    monkeypatch.setenv("OPERAD_SERVE_KEYS", "secret-but-short")
    assert "secret-but-short" not in operad("two.yaml", "two.yaml")[1]
    assert "2 experts are called 'Two', in two.yaml, two.yaml" in operad("two.yaml", "two.yaml")[1]
    assert "no such file" in operad("tow.yaml")[1]


def test_without_the_extra_it_says_what_to_install(operad, monkeypatch):
    monkeypatch.setitem(sys.modules, "operad.server.embed", None)
    status, err = operad("two.yaml", "--port", 0)
    assert (status, err.count("\n")) == (2, 1)
    assert pip_install("serve") in err


def test_keys_of_a_file_let_in_and_are_nowhere(place, begun):
    (place / "keys").write_text(f"# ours\n{KEY}\n")
    server = begun("two.yaml", "--port", 0, "--key-file", "keys").up()
    assert server.ask("/experts")[0] == 200
    assert httpx2.get(f"{server.url}/experts").status_code == 401
    server.process.send_signal(signal.SIGTERM)
    status, _, err = server.ended()
    assert (status, KEY in err) == (0, False)
    assert "1 key)" in err


def test_a_key_that_is_made_is_let_in_within_its_limits(place, begun, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["operad", "key", "web", "--expert", "Two", "--own-runs"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    entry, shown = capsys.readouterr()
    key = shown.rpartition(" ")[2].strip()
    assert (exit_.value.code or 0, entry.splitlines()[0], entry.splitlines()[2:]) == (
        0,
        "web:",
        ['  experts: ["Two"]', "  own_runs: true"],
    )
    assert key not in entry
    (place / "keys.yaml").write_text(entry)
    server = begun("two.yaml", "--port", 0, "--keys", "keys.yaml").up()
    statuses = [
        httpx2.get(f"{server.url}/experts", headers={"Authorization": f"Bearer {each}"}).status_code
        for each in (key, KEY)
    ]
    server.process.send_signal(signal.SIGTERM)
    status, _, err = server.ended()
    assert (statuses, status, key in err) == ([200, 401], 0, False)
    assert re.findall(r"127\.0\.0\.1 (\S+) GET /experts (\d+)", err) == [("web", "200"), ("-", "401")]


def test_a_file_of_keys_that_names_unknown_experts_is_refused_at_the_start(operad, place):
    (place / "keys.yaml").write_text(f"web: {{sha256: {'0' * 64}, experts: [Tow]}}\nfull: {{sha: {'1' * 64}}}\n")
    assert operad("two.yaml", "--keys", "keys.yaml") == (
        2,
        "operad: keys.yaml cannot be used: 2 issues\n"
        "keys.yaml:1: web.experts[0]: no expert has the name 'Tow' (did you mean 'Two'?) [value]\n"
        "keys.yaml:2: full.sha: unknown key (did you mean 'sha256'?) [unknown-key]\n",
    )


def test_the_faults_of_all_files_are_reported_at_once(operad, place):
    for name in ("one", "three"):
        (place / f"{name}.yaml").write_text(TWO.replace("instruction: Last", "instructio: Last").replace("Two", name))
    assert operad("one.yaml", "two.yaml", "missing.yaml", "three.yaml") == (
        2,
        "operad: 3 files cannot be served: 3 issues\n"
        "one.yaml:4: operators[1].instructio: unknown key (did you mean 'instruction'?) [unknown-key]\n"
        "missing.yaml: no such file [input]\n"
        "three.yaml:4: operators[1].instructio: unknown key (did you mean 'instruction'?) [unknown-key]\n",
    )
    status, err = operad("two.yaml", "one.yaml")
    assert (status, err.splitlines()[0]) == (2, "operad: one.yaml cannot be used: 1 issue")


def test_runs_that_are_kept_are_found_again_and_go_on(place, begun):
    pytest.importorskip("sqlalchemy")
    (place / "b.asks").touch()
    server = begun("two.yaml", "--port", 0, "--db", "runs.sqlite").up()
    asked = {"expert": "Two", "goal": "Ada", "id": "r"}
    server.ask("/runs", asked)
    server.until("r", "asks")
    server.ask("/runs", {**asked, "id": "gone"})
    server.until("gone", "asks")
    assert server.ask("/runs/gone/cancel", {})[1]["state"] == "cancelled"
    server.process.kill()
    server.ended()

    server = begun("two.yaml", "--port", 0, "--db", "runs.sqlite").up()
    run = server.until("r", "asks")
    assert server.ask("/runs/gone")[1]["state"] == "cancelled"
    (question,) = run["questions"]
    assert server.ask(f"/runs/r/answers/{question['id']}", {"answer": True})[0] == 200
    assert server.until("r", "finished")["result"] == "True"
    server.process.send_signal(signal.SIGTERM)
    assert server.ended()[0] == 0

    server = begun("two.yaml", "--port", 0, "--db", "runs.sqlite").up()
    again = server.ask("/runs/r")[1]
    assert (again["result"], again["created"]) == ("True", run["created"])
    assert server.ask("/runs", asked)[0] == 200
    assert server.ask("/runs", {**asked, "goal": "Bob"})[0] == 409
    assert server.ask("/runs/r", method="DELETE")[0] == 204
    assert server.ask("/runs/r")[0] == 404
    assert (place / "ran.txt").read_text().splitlines().count("a Ada") == 2  # of r and of the other, once each


def test_runs_are_traced_and_counted(begun):
    server = begun("two.yaml", "--port", 0, "--trace", "console", "--metrics-port", 0).up()
    server.ask("/runs", {"expert": "Two", "goal": "Ada", "id": "r"})
    server.until("r", "finished")
    metrics = re.search(r"metrics: (\S+)", server.said)
    assert metrics
    assert 'workflow="Two"' in httpx2.get(metrics[1]).text
    server.process.send_signal(signal.SIGTERM)
    spans = [json.loads(line) for line in server.ended()[2].splitlines() if line.startswith("{")]
    assert {"a", "b"} <= {span["name"].split()[-1] for span in spans}


@pytest.mark.slow
def test_a_kept_run_that_waits_for_a_person_beyond_its_limit_is_set_aside_and_goes_on_when_answered(place, begun):
    pytest.importorskip("sqlalchemy")
    (place / "b.asks").touch()
    server = begun("two.yaml", "--port", 0, "--db", "runs.sqlite", "--run-seconds", 10, "--max-runs", 1).up()
    began = time.monotonic()
    for run_id in ("r", "gone"):
        while server.ask("/runs", {"expert": "Two", "goal": "Ada", "id": run_id})[0] == 429:
            assert time.monotonic() - began < 60
            time.sleep(0.2)
        server.until(run_id, "asks")
    assert server.ask("/runs", {"expert": "Two", "goal": "Ada", "id": "more"})[0] == 429  # `gone` has its place
    assert [(each["id"], each["state"]) for each in server.ask("/runs")[1]["runs"]] == [("gone", "asks"), ("r", "asks")]
    (question,) = server.ask("/runs/r")[1]["questions"]
    answer = f"/runs/r/answers/{question['id']}"
    assert server.ask(answer, {"answer": "perhaps"})[0] in (400, 429)
    while (said := server.ask(answer, {"answer": True}))[0] == 429:
        assert time.monotonic() - began < 60
        time.sleep(0.2)
    assert said[0] == 200
    assert server.until("r", "finished")["result"] == "True"
    assert server.ask("/runs/gone/cancel", {})[1]["state"] == "cancelled"
    assert (place / "ran.txt").read_text().splitlines().count("a Ada") == 2  # once for each run


def test_a_conversation_whose_runs_are_kept_goes_on_after_a_restart(place, begun):
    pytest.importorskip("sqlalchemy")
    (place / "say.yaml").write_text(CHECKED)

    def counted(request):
        return Say(f"{len(request['messages'])} messages")

    with ScriptedModel(counted) as model:
        arguments = "say.yaml", "--port", 0, "--db", "runs.sqlite", "--base-url", model.base_url
        server = begun(*arguments).up()
        first = server.ask("/v1/responses", {"model": "Say", "input": "I am Ada."})[1]
        second = server.ask(
            "/v1/responses", {"model": "Say", "input": "And now?", "previous_response_id": first["id"]}
        )[1]
        server.process.kill()
        server.process.communicate()
        server = begun(*arguments).up()
        assert "id" in second, second
        assert server.ask(f"/v1/responses/{second['id']}")[1]["output"] == second["output"]
        third = server.ask("/v1/responses", {"model": "Say", "input": "On.", "previous_response_id": second["id"]})[1]
    assert [each["output"][0]["content"][0]["text"] for each in (first, second, third)] == [
        "2 messages", "4 messages", "6 messages",
    ]  # fmt: skip


CHECKED = """
operators:
  - &a {instruction: Say something.}
experts:
  - profile: {name: Say}
    workflow: [[*a]]
"""


@pytest.mark.slow
def test_schemathesis_finds_nothing_that_the_document_does_not_say(place, begun):
    pytest.importorskip("schemathesis")
    (place / "say.yaml").write_text(CHECKED.replace("Say something.", "Say something., output: {said: string}"))
    (place / "keys").write_text(f"{KEY}\n")
    with ScriptedModel(lambda _: Plausible()) as model:
        arguments = ["say.yaml", "--port", 0, "--key-file", "keys", "--base-url", model.base_url, "--max-runs", 1000]
        server = begun(*arguments).up()
        code = "from schemathesis.cli import schemathesis; schemathesis()"
        options = "--max-examples 8 --seed 1 --no-color --generation-database none --header".split()
        options.append(f"Authorization: Bearer {KEY}")
        command = [sys.executable, "-c", code, "run", f"{server.url}/openapi.json", *options]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
