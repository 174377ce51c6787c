"""One run in several processes writes one trace: with workers, and after a crash. The processes are `operad` itself."""

import json
import os
import signal
import subprocess
import time
import urllib.request

import pytest
from forked import OPERAD_COMMAND
from trusting import with_trust

pytest.importorskip("sqlalchemy")
pytest.importorskip("opentelemetry.sdk")

from operad.runtime.observe.tracing import trace_id_of

OPERATORS = """
import asyncio, os, signal
from pathlib import Path
from operad.operators import Operator
from operad.runtime import Usage, events
from operad.runtime.events import emit

def mine():
    from opentelemetry import trace
    with trace.get_tracer("mine").start_as_current_span("mine"):
        pass

class Step(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        name = self.get_id()
        emit(events.ModelAsked(call_id=name, model="m", messages=({"role": "user", "content": "secret of " + name},)))
        emit(events.ModelAnswered(call_id=name, model="m", usage=Usage(calls=1, prompt_tokens=2), text="said"))
        emit(events.ToolCalled(call_id="t", tool="look", arguments={}))
        await asyncio.to_thread(mine)
        emit(events.ToolReturned(call_id="t", tool="look", result="r", failed=False, seconds=0.0))
        if Path(f"{name}.deadly").exists():
            os.unlink(f"{name}.deadly")
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} {job.goal}"
"""
TWO = """
app: {desc: Greet Ada.}
operators:
  - &a {instruction: First, class: traced_steps.Step}
  - &b {instruction: Last, class: traced_steps.Step}
experts:
  - profile: {name: Two}
    max_rounds: 1
    workflow: [[*a, *b]]
"""
RENDEZVOUS = 60.0


@pytest.fixture
def place(tmp_path):
    (tmp_path / "traced_steps.py").write_text(OPERATORS)
    (tmp_path / "two.yaml").write_text(TWO)
    return tmp_path


@pytest.fixture
def begun(place, forked, request):
    """Begins the command in a process of its own, what it says on stderr in a file; those that are left are ended."""
    processes = []
    needs_server = "worker" in request.node.name
    database = request.getfixturevalue("postgresql").new() if needs_server else str(place / "runs.sqlite")

    def begun(name, *arguments):
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "OPERAD_", "OTEL_"))},
            "PYTHONPATH": str(place),
            "OPERAD_DB": database,
            "XDG_STATE_HOME": str(place),
            "PYTHONUNBUFFERED": "1",
        }
        with (place / name).open("w") as said:
            processes.append(
                forked.begin(
                    [*OPERAD_COMMAND, *with_trust(arguments)], cwd=place, env=environment,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                )
            )  # fmt: skip
        return processes[-1]

    yield begun
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def spans(place):
    """The spans that a process wrote."""

    def spans(name):
        lines = (place / name).read_text().splitlines()
        return [span for line in lines if line.startswith("{") and "context" in (span := json.loads(line))]

    return spans


def until(condition, process):
    end = time.monotonic() + RENDEZVOUS
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to that"
        assert process.poll() is None, "it ended before"
        time.sleep(0.05)
    return found


def around(spans):
    """Per span its name with those around it, from the outside in; what is missing on top is nothing."""
    known = {span["context"]["span_id"]: span for span in spans}

    def path(span):
        outer = known.get(span["parent_id"])
        return [*(path(outer) if outer else []), span["name"]]

    return sorted("/".join(path(span)) for span in spans)


@pytest.mark.slow
def test_a_driver_and_its_worker_write_one_trace(place, begun, spans):
    worker = begun("worker.txt", "worker", "two.yaml", "--trace", "console", "--metrics-port", "0")
    until(lambda: "serves:" in (place / "worker.txt").read_text(), worker)
    driver = begun("driver.txt", "run", "two.yaml", "--job", "Go.", "--workers", "--run-id", "R", "--trace", "console")
    assert driver.wait(RENDEZVOUS) == 0, (place / "driver.txt").read_text()
    address = next(
        line.split()[1] for line in (place / "worker.txt").read_text().splitlines() if line.startswith("metrics:")
    )
    with urllib.request.urlopen(address, timeout=RENDEZVOUS) as answer:  # noqa: S310
        counted = answer.read().decode()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(RENDEZVOUS) == 0
    here, there = spans("driver.txt"), spans("worker.txt")
    top = "Two/round 1"
    assert around(here + there) == sorted(
        ["Two", top, *(f"{top}/{op}{below}" for op in "ab" for below in ("", "/m", "/look", "/look/mine"))]
    )
    assert {span["name"] for span in here} == {"Two", "round 1", "a", "b"}  # and the worker's own nowhere twice
    assert {span["context"]["trace_id"] for span in here + there} == {f"0x{trace_id_of('R'):032x}"}
    assert "secret of a" in next(span for span in there if span["name"] == "m")["attributes"]["input.value"]
    assert 'operad_model_tokens_total{kind="prompt",model="m"} 4.0' in counted
    assert 'operad_operator_seconds_count{operator="a",state="finished",workflow="Two"} 1.0' in counted
    assert "operad_worker_slots 4.0" in counted
    assert "operad_worker_slots_busy 0.0" in counted
    assert "operad_worker_queue 0.0" in counted


def test_where_the_worker_writes_nothing_its_driver_says_what_it_heard_of(place, begun, spans):
    worker = begun("worker.txt", "worker", "two.yaml")
    until(lambda: "serves:" in (place / "worker.txt").read_text(), worker)
    driver = begun("driver.txt", "run", "two.yaml", "--job", "Go.", "--workers", "--trace", "console")
    assert driver.wait(RENDEZVOUS) == 0, (place / "driver.txt").read_text()
    top = "Two/round 1"
    assert around(spans("driver.txt")) == sorted(
        ["Two", top, *(f"{top}/{op}{below}" for op in "ab" for below in ("", "/m", "/look"))]
    )


def test_a_run_that_goes_on_after_a_crash_goes_on_with_its_trace(place, begun, spans):
    (place / "b.deadly").touch()
    first = begun("first.txt", "run", "two.yaml", "--job", "Go.", "--durable", "--run-id", "R", "--trace", "console")
    assert first.wait(RENDEZVOUS) == -signal.SIGKILL
    second = begun("second.txt", "runs", "resume", "R", "--trace", "console")
    assert second.wait(RENDEZVOUS) == 0, (place / "second.txt").read_text()
    before, after = spans("first.txt"), spans("second.txt")
    assert {span["context"]["trace_id"] for span in before + after} == {f"0x{trace_id_of('R'):032x}"}
    ids = [span["context"]["span_id"] for span in before + after]
    assert len(ids) == len(set(ids))
    assert around(before) == ["a", "a/look", "a/look/mine", "a/m", "look", "look/mine", "m"]  # b, the run: never ended
    top = "Two/round 1"
    assert around(after) == ["Two", top, f"{top}/a", f"{top}/b", *(f"{top}/b/{e}" for e in ("look", "look/mine", "m"))]
    kept = next(span for span in after if span["name"] == "a")
    assert kept["attributes"]["operad.state"] == "kept"
