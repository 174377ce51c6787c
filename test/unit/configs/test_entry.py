"""The beginning and the end of the command: Ctrl-C while it is still being loaded, and what it has started ends with it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from operad.configs.entry import main; main()"]


def test_ctrl_c_while_modules_load_shows_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [*COMMAND, "run", "x.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "operad: interrupted\n")


def test_the_command_runs_from_there(tmp_path):
    done = subprocess.run(
        [*COMMAND, "run", "x.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (2, "operad: x.yaml: no such file\n")


def test_only_asking_for_its_names_loads_the_package():
    code = "import sys, operad.configs.entry; assert 'operad.configs.loader' not in sys.modules; from operad.configs import load"
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
