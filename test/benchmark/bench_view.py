"""Measure the memory of the run page's server, and the time until a browser shows the run.

Runs of a workflow in layers of ten operators are stored as event files; `operad view` shows each, in its own process.

python test/benchmark/bench_view.py
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Job, MonoModelReasoner, events
from operad.runtime.events import Event
from operad.runtime.events.events_file import line_of
from operad.runtime.testing import Say, ScriptedModel

ANSWER = "The harbour was built in three stages, and each of them is described in the annual report. " * 5
VIEW = [sys.executable, "-c", "from operad.cli.main import main; main()", "view", "--port", "0", "--no-browser"]
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Shown:
    """Figures of a file: seconds until the page sends its first picture and the whole run, and MiB."""

    first: float
    whole: float
    picture: float
    resident: float


def run_of(operators: int) -> list[Event]:
    """Return the events of a real run of so many operators, with a scripted model."""
    happened: list[Event] = []
    workflow = BuiltinWorkflow(name="layers", listeners=[happened.append])
    before: list[Operator] = []
    for first in range(0, operators, 10):
        layer = [
            Operator(OperatorConfig(id=f"op{number}", instruction=f"Say what part {number} says of the harbour."))
            for number in range(first, min(first + 10, operators))
        ]
        for operator in layer:
            workflow.add_operator(operator, previous_ops=before)
        before = layer
    with ScriptedModel(lambda request: Say(ANSWER)) as endpoint:
        workflow.execute(Job(goal="Tell the story of the harbour."), MonoModelReasoner(endpoint.model))
    return happened


def streamed(happened: Sequence[Event], total: int) -> Iterator[Event]:
    """Return these events with additional tokens, up to a number of events."""
    asked = sum(isinstance(event, events.ModelAsked) for event in happened)
    each, more = divmod(total - len(happened), asked)
    for event in happened:
        yield event
        if isinstance(event, events.ModelAsked):
            for _ in range(each + (more > 0)):
                yield events.TokenStreamed(
                    run_id=event.run_id, path=event.path, operator_id=event.operator_id, round=event.round,
                    attempt=event.attempt, time=event.time, text="word ",
                )  # fmt: skip
            more -= 1


def show(file: Path) -> Shown:
    """Show a file, and measure."""
    with subprocess.Popen([*VIEW, str(file)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        found = re.search(r"page: (\S+)", process.stderr.readline())
        assert found
        began = time.monotonic()
        OPENER.open(found[1]).read()
        told, first, size = picture(found[1]), 0.0, 0
        while True:
            first = first or (bool(told[0]["spans"]) and time.monotonic() - began) or 0.0
            if told[0]["ended"] or not file.stat().st_size:
                break
            time.sleep(0.02)
            told = picture(found[1])
        whole, size = time.monotonic() - began, told[1]
        resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        process.send_signal(signal.SIGINT)
    return Shown(first, whole, size / 2**20, resident)


def picture(url: str) -> tuple[dict[str, Any], int]:
    text = OPENER.open(f"{url}data/picture").read()
    return json.loads(text), len(text)


def write(file: Path, happened: Iterable[Event]) -> int:
    with file.open("w", encoding="utf-8") as writing:
        return sum(bool(writing.write(line_of(event))) for event in happened)


def main() -> None:
    small, large = run_of(12), run_of(300)
    cases = {
        "nothing": [],
        "12 operators": small,
        "300 operators": large,
        "300 operators, 100,000 events": streamed(large, 100_000),
    }
    print(f"{'':32}{'events':>9}{'file MiB':>10}{'first s':>9}{'whole s':>9}{'picture MiB':>13}{'server MiB':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for name, happened in cases.items():
            file = Path(folder) / "run.jsonl"
            count = write(file, happened)
            shown = show(file)
            print(
                f"{name:32}{count:9,}{file.stat().st_size / 2**20:10.1f}{shown.first:9.2f}{shown.whole:9.2f}"
                f"{shown.picture:13.2f}{shown.resident:12.0f}"
            )


if __name__ == "__main__":
    main()
