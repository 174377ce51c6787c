"""Measure the start-up of the command and of imports, compared with other frameworks.

    make bench                                          # this, among others
    python test/benchmark/bench_startup.py --times 21 --page docs/performance.md

Each row is a process, from its start to its end; `operad run` ends when its first operator starts. The rows take turns, so
that other load affects all of them alike. The minimum is the time of an idle machine. The engine of `operad run` is AWEL,
which imports DB-GPT, or the built-in one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from page import markdown, write_into
from rich.console import Console
from rich.table import Table

OPERAD = [sys.executable, "-c", "from operad.cli.entry import main; main()"]
EXPERT = """
operators: [&first {instruction: Begin., class: first.First}]
model: {name: none, base_url: "http://127.0.0.1:9/v1"}
experts: [{profile: {name: starter}, workflow: [[*first]]}]
"""
FIRST = """
import os
from operad.operators import Operator

class First(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        os._exit(0)
"""
ROWS: Mapping[str, Sequence[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "operad --help": [*OPERAD, "--help"],
    "operad --version": [*OPERAD, "--version"],
    "operad check FILE": [*OPERAD, "check", "expert.yaml"],
    "operad run FILE, to its first operator": [*OPERAD, "run", "--trust", "expert.yaml", "--job", "Begin."],
    "the same on the built-in engine": [*OPERAD, "run", "--trust", "builtin.yaml", "--job", "Begin."],
    "from operad.runtime import Workflow": [sys.executable, "-c", "from operad.runtime import Workflow"],
}
OTHERS = ("langgraph.graph", "pydantic_ai", "prefect")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how long the command and the imports take to start.")
    parser.add_argument("--times", type=int, default=11, help="the number of starts of each")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    times: int = args.times
    there = [name for name in OTHERS if find_spec(name.partition(".")[0])]
    rows = {**ROWS, **{f"import {name}": [sys.executable, "-c", f"import {name}"] for name in there}}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "expert.yaml").write_text(EXPERT)
        Path(folder, "builtin.yaml").write_text(EXPERT + "plugin: {workflow_platform: BUILTIN}\n")
        Path(folder, "first.py").write_text(FIRST)
        for command in rows.values():
            _started(command, folder)  # compiles what is to be imported
        taken = {name: list[tuple[float, float]]() for name in rows}
        for _ in range(times):
            for name, command in rows.items():
                taken[name].append(_started(command, folder))
    table = Table("start of", "least s", "median s", "least CPU s", title=f"Start-up, {times} processes each")
    for name, each in taken.items():
        walls, cpus = zip(*each, strict=True)
        table.add_row(name, f"{min(walls):.3f}", f"{median(walls):.3f}", f"{min(cpus):.3f}")
    for name in OTHERS:
        if name not in there:
            table.add_row(f"import {name}", "not installed", "", "")
    Console().print(table)
    if args.page:
        write_into(args.page, markdown([table], "python test/benchmark/bench_startup.py"), "startup")


def _started(command: Sequence[str], folder: str) -> tuple[float, float]:
    """Return the seconds and CPU seconds of a process."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # what is compiled
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**kept, "OPENAI_API_KEY": "none"}
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {said.decode()}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
