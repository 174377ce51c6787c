"""The beginning and the end of the command: Ctrl-C while it is still being loaded, and what it has started ends with it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from amounts import sample

from operad.cli.interruptible import end_children, signals_heard

COMMAND = [sys.executable, "-c", "from operad.cli.entry import main; main()"]


WAITS = "import time\nprint('waiting', flush=True)\ntime.sleep(60)\n"
OPERATOR = """
import atexit, time
from operad.operators import Operator

def wait():
    print("waiting", flush=True)
    time.sleep(60)

class Done(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        {work}
        return "done"
"""
EXPERT = """
operators: [&it {instruction: Wait., class: waiting.Done}]
model: {name: m, base_url: "http://127.0.0.1:9/v1"}
experts: [{profile: {name: it}, workflow: [[*it]]}]
"""


@pytest.mark.parametrize(
    ("files", "arguments"),
    sample(
        [
            ({"typer.py": WAITS}, ["--help"]),  # before the command line is read
            ({"yaml.py": WAITS}, ["check", "expert.yaml"]),  # while a command is imported
            (
                {"waiting.py": WAITS},
                ["run", "--trust", "expert.yaml", "--job", "Wait."],
            ),  # as code of the user is imported
            (
                {"waiting.py": OPERATOR.format(work="wait()")},
                ["run", "--trust", "expert.yaml", "--job", "Wait."],
            ),  # in an operator that holds the thread
            (
                {"waiting.py": OPERATOR.format(work="atexit.register(wait)")},
                ["run", "--trust", "expert.yaml", "--job", "Wait."],
            ),  # after the result
        ],
        2,
    ),
    ids=sample(["start", "import", "module", "operator", "end"], 2),
)
def test_ctrl_c_ends_the_command_with_one_line(files, arguments, tmp_path):
    for name, text in {"expert.yaml": EXPERT, **files}.items():
        (tmp_path / name).write_text(text)
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "waiting\n" in iter(process.stdout.readline, "")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err.splitlines()[-1]) == (130, "operad: interrupted")
    assert "Traceback" not in err


BEGUN = "import os, signal; from operad.cli import entry; signal.signal(signal.SIGINT, entry._leave); os.write(1, b'!'); entry.main()"


@pytest.mark.slow
@pytest.mark.parametrize("milliseconds", range(0, 1500, 60))
def test_ctrl_c_at_any_moment_ends_the_command_with_one_line(milliseconds, tmp_path):
    (tmp_path / "expert.yaml").write_text(EXPERT)
    (tmp_path / "waiting.py").write_text(OPERATOR.format(work="await __import__('asyncio').sleep(60)"))
    process = subprocess.Popen(
        [sys.executable, "-c", BEGUN, "run", "--trust", "expert.yaml", "--job", "Wait."],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"!"
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err.splitlines()[-1]) == (130, b"operad: interrupted")
    assert b"Traceback" not in err


def test_the_command_runs_from_there(tmp_path):
    done = subprocess.run(
        [*COMMAND, "run", "x.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (2, "operad: x.yaml: no such file\n")


def test_only_asking_for_its_names_loads_the_package():
    code = "import sys, operad.cli.entry; assert 'operad.configs.loader' not in sys.modules; from operad.configs import load"
    subprocess.run([sys.executable, "-c", code], check=True)


ENDLESS = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": []}},
        {"id": "2", "type": "code", "param": {"code": "def main():\n    while True:\n        pass\n", "variables": [], "outputs": [["x", "string"]]}},
        {"id": "3", "type": "end", "param": {"outputs": [["x", ["x", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}  # fmt: skip


def children(pid):
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def state_and_ticks(pid):
    """What a process does, and how long it has computed; a process that is gone does nothing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "gone", 0
    return fields[0], int(fields[11])


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux says who whose child is")
@pytest.mark.slow
def test_a_sandbox_that_computes_ends_with_the_command(tmp_path):
    (tmp_path / "flow.json").write_text(json.dumps(ENDLESS))
    process = subprocess.Popen(
        [*COMMAND, "run", "flow.json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
    )  # fmt: skip
    busy = []
    while process.poll() is None and not busy:
        time.sleep(0.02)
        busy = [child for child in children(process.pid) if state_and_ticks(child)[1] > 20]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err.splitlines()[-1]) == (130, "operad: interrupted")
    [sandbox] = busy
    while state_and_ticks(sandbox)[0] not in {"gone", "Z"} and state_and_ticks(sandbox)[1] < 500:
        time.sleep(0.02)
    assert state_and_ticks(sandbox)[1] < 500  # of 1,000, its limit


@pytest.mark.parametrize(
    ("arguments", "redirection", "why"),
    sample(
        [
            (["check", "expert.yaml"], ">/dev/full", "No space left on device"),
            (["show", "expert.yaml"], ">&-", "Bad file descriptor"),
            (["run", "--trust", "expert.yaml", "--job", "Wait."], ">&-", "Bad file descriptor"),
            (["chat", "--trust", "expert.yaml"], ">/dev/full", "No space left on device"),
        ],
        2,
    ),
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_stdout_that_cannot_be_written_is_one_line(arguments, redirection, why, tmp_path):
    done = _run_redirected(arguments, redirection, tmp_path)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last) == (2, f"operad: stdout cannot be written: {why}"), done.stderr
    assert "internal error" not in done.stderr


def test_a_result_that_stdout_does_not_take_goes_to_stderr(tmp_path):
    done = _run_redirected(["run", "--trust", "expert.yaml", "--job", "Wait."], ">/dev/full", tmp_path)
    assert done.stderr.splitlines()[-2:] == ["done", "operad: stdout cannot be written: No space left on device"]


@pytest.mark.parametrize("redirection", sample(["2>&-", "2>/dev/full"], 2))
def test_a_stderr_that_cannot_be_written_does_not_cost_the_result(redirection, tmp_path):
    done = _run_redirected(["run", "--trust", "expert.yaml", "--job", "Wait."], redirection, tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert _run_redirected(["check", "missing.yaml"], redirection, tmp_path).returncode == 2


def test_a_reader_that_ends_early_is_no_error(tmp_path):
    done = _run_redirected(["schema"], "| head -c 1 >&2", tmp_path)
    assert done.stderr == "{"


def _run_redirected(arguments, redirection, folder):
    """Run the command by a shell that redirects its streams, beside an expert without a model."""
    (folder / "expert.yaml").write_text(EXPERT)
    (folder / "waiting.py").write_text(OPERATOR.format(work="pass"))
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *COMMAND, *arguments],
        cwd=folder, input="Wait.\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_command_is_a_module_too():
    shown = subprocess.run([sys.executable, "-m", "operad", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("operad ")


# What ends with a command


def test_all_children_are_ended_though_threads_and_other_children_have_ended_meanwhile(tmp_path, forked):
    process = forked.begin([sys.executable, "-c", "import time; time.sleep(600)"])
    for thread in ("1", "3"):
        (tmp_path / thread / "children").mkdir(parents=True)  # cannot be read, as that of a thread that has ended
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "children").write_text(f"{2**22 + 1} {process.pid} ")  # the first is no process's
    end_children(tmp_path)
    assert process.wait() == -signal.SIGTERM


def test_the_thread_that_hears_signals_has_ended_behind_the_work():
    def names():
        return [thread.name for thread in threading.enumerate()]

    with signals_heard(lambda number: None):
        assert "operad-signals" in names()
    assert "operad-signals" not in names()


def test_a_signal_that_arrives_while_the_handlers_change_is_handled_once(monkeypatch):
    heard: list[int] = []
    left: list[int] = []
    arrived = threading.Event()
    set_wakeup_fd = signal.set_wakeup_fd

    def interrupted(fd: int, **options: bool) -> int:
        before = set_wakeup_fd(fd, **options)
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        return before

    handler = signal.signal(signal.SIGINT, lambda number, _: left.append(number))
    try:
        monkeypatch.setattr(signal, "set_wakeup_fd", interrupted)
        with signals_heard(lambda number: (heard.append(number), arrived.set())):
            assert arrived.wait(10)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert (heard, left) == ([signal.SIGINT], [])
