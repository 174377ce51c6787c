"""Check that Arize Phoenix understands Operad's spans: query a real server for the spans that it received.

    make conformance
    python test/benchmark/conformance_phoenix.py --phoenix .venv-phoenix/bin/phoenix

`operad run FILE --trace http://127.0.0.1:PORT` runs a workflow with a scripted model, once to its end, in two rounds and
with a tool, and once into an error. Prints the spans in Phoenix; the exit status is 1 if anything is missing or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from operad.runtime.observe.tracing import trace_id_of
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel

READY = 120.0
ARRIVED = 30.0
LOOK = 0.25

TOOLS = '''
def look_up(person: str) -> str:
    """Look up the first release that a person helped with.

    Args:
        person: The full name.
    """
    return "1.9.0"
'''
FILE = """
model: {price: {prompt: 2.0, completion: 8.0}}
tools:
  - &look_up {name: look_up, module_path: phoenix_tools}
operators:
  - &find {instruction: Find the release., tools: [*look_up]}
  - &write {instruction: Write the line.}
  - &judge {instruction: Is it friendly?}
experts:
  - profile: {name: Writer}
    max_rounds: 2
    workflow: [[*find, *write]]
    evaluator: *judge
"""
COLD = {"evaluation": "cold", "status": "EXECUTION_ERROR", "lesson": "be warm", "blame": ["write"], "score": 2}
WARM = {"evaluation": "warm", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}
SCRIPT = [
    CallTools([("look_up", {"person": "Marit Solberg"})]),
    Say("1.9.0"),
    Say("Marit: 1.9.0."),
    Say(json.dumps(COLD)),
    Say("Thank you, Marit, since 1.9.0!"),
    Say(json.dumps(WARM)),
]
TREE = """
CHAIN     OK    Writer
CHAIN     ERROR   round 1
AGENT     OK        find
LLM       OK          MODEL
TOOL      OK          look_up
LLM       OK          MODEL
AGENT     OK        write
LLM       OK          MODEL
EVALUATOR OK        judge
LLM       OK          MODEL
CHAIN     OK      round 2
AGENT     OK        write
LLM       OK          MODEL
EVALUATOR OK        judge
LLM       OK          MODEL
"""
FAILED = """
CHAIN     ERROR Writer
CHAIN     UNSET   round 1
AGENT     ERROR     find
LLM       ERROR       MODEL
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextmanager
def phoenix(program: Path, folder: Path) -> Generator[str]:
    """Run Phoenix on this machine with its data in a folder and without telemetry; yield its address."""
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PHOENIX_", "OTEL_", "PYTHON"))},
        "HOME": str(folder),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
        "PHOENIX_AGENTS_DISABLE_WEB_ACCESS": "true",
    }
    log = folder / "phoenix.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [str(program.absolute()), "serve"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            end = time.monotonic() + READY
            while not _is_up(address):
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"Phoenix does not start:\n{log.read_text()[-4000:]}")
                time.sleep(LOOK)
            yield address
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                continue


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5):  # noqa: S310 - on this machine
            return True
    except (OSError, urllib.error.URLError):
        return False


def received(address: str, run_id: str, count: int) -> list[dict[str, Any]]:
    """Wait for a number of spans of a run in Phoenix, and return them."""
    end = time.monotonic() + ARRIVED
    path = f"/v1/projects/default/spans?limit=1000&trace_id={trace_id_of(run_id):032x}"
    while True:
        try:
            with urllib.request.urlopen(address + path, timeout=30) as answer:  # noqa: S310
                spans = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code != 404:  # there is no project before its first span
                raise
            spans = []
        if len(spans) >= count or time.monotonic() > end:
            return sorted(spans, key=lambda span: (span["start_time"], span["id"]))
        time.sleep(LOOK)


def run(folder: Path, address: str, run_id: str, script: Sequence[Any]) -> tuple[int, str]:
    """Run the workflow from the command line; return the exit status and the name of the model."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_", "OTEL_"))},
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "OPENAI_API_KEY": "canary-9f8e7d6c5b4a",
        "OPERAD_DB": str(folder / "runs.sqlite"),
    }
    with ScriptedModel(list(script)) as endpoint:
        program = [sys.executable, "-c", "from operad.cli.main import main; main()"]
        arguments = ["writer.yaml", "--job", "Thank Marit Solberg.", "--base-url", endpoint.base_url]
        more = ["--model", endpoint.model.name, "--run-id", run_id, "--trace", address]
        ended = subprocess.run(
            [*program, "run", "--trust", *arguments, *more],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return ended.returncode, endpoint.model.name


def drawn(spans: Sequence[Mapping[str, Any]]) -> str:
    """Yield the spans as an indented tree with kind, status and name."""
    inside: dict[str | None, list[Mapping[str, Any]]] = {}
    for span in spans:
        inside.setdefault(span["parent_id"], []).append(span)

    def lines(around: str | None, depth: int) -> Iterator[str]:
        for span in inside.get(around, []):
            yield f"{span['span_kind']:<9} {span['status_code']:<5} {'  ' * depth}{span['name']}"
            yield from lines(span["context"]["span_id"], depth + 1)

    return "\n".join(lines(None, 0))


def checks(good: list[dict[str, Any]], bad: list[dict[str, Any]], model: str) -> Iterator[tuple[str, object, object]]:
    """Yield the checks: name, expected value, value in Phoenix."""
    yield "tree of the run that succeeded", TREE.strip().replace("MODEL", model), drawn(good)
    yield "tree of the run that failed", FAILED.strip().replace("MODEL", model), drawn(bad)
    root = next(span for span in good if span["parent_id"] is None)["attributes"]
    models = [span["attributes"] for span in good if span["span_kind"] == "LLM"]
    tool = next(span["attributes"] for span in good if span["span_kind"] == "TOOL")
    yield "input of the run", "Thank Marit Solberg.", root["input.value"]
    yield "output of the run", "Thank you, Marit, since 1.9.0!", root["output.value"]
    yield "model", {model}, {each["llm.model_name"] for each in models}
    prompt, completion = (sum(each[f"llm.token_count.{kind}"] for each in models) for kind in ("prompt", "completion"))
    yield "prompt tokens, of all calls", root["operad.usage.prompt_tokens"], prompt
    yield "completion tokens, of all calls", root["operad.usage.completion_tokens"], completion
    yield "there are tokens", True, prompt > 0 < completion
    cost = (2.0 * prompt + 8.0 * completion) / 1e6
    yield "cost, of all calls", f"{cost:.9f}", f"{sum(each['llm.cost.total'] for each in models):.9f}"
    yield "last message of the first call", "user", _last_role(models[0])
    yield "the tool's arguments", {"person": "Marit Solberg"}, _below("tool.parameters.", tool)
    yield "the tool's result", "1.9.0", tool["output.value"]
    first = next(span for span in good if span["name"] == "round 1")["attributes"]
    yield "the lesson of round 1", "be warm", first["operad.lesson"]
    failed = next(span for span in bad if span["name"] == "find")
    yield "the error, as an event", ["exception"], [event["name"] for event in failed["events"]]
    yield "no key in anything", False, "canary-9f8e7d6c5b4a" in json.dumps([*good, *bad])


def _below(prefix: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value that Phoenix made of JSON in an attribute."""
    return {name.removeprefix(prefix): value for name, value in said.items() if name.startswith(prefix)}


def _last_role(said: Mapping[str, Any]) -> object:
    places = [int(name.split(".")[2]) for name in said if name.startswith("llm.input_messages.")]
    return said.get(f"llm.input_messages.{max(places)}.message.role") if places else None


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    args.add_argument("--phoenix", type=Path, default=Path(".venv-phoenix/bin/phoenix"))
    program = args.parse_args().phoenix
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "writer.yaml").write_text(FILE)
        (folder / "phoenix_tools.py").write_text(TOOLS)
        with phoenix(program, folder) as address:
            status, model = run(folder, address, "good", SCRIPT)
            failed, _ = run(folder, address, "bad", [Fail(400, "no")])
            good = received(address, "good", TREE.strip().count("\n") + 1)
            bad = received(address, "bad", FAILED.strip().count("\n") + 1)
    if not good or not bad:
        sys.exit("Phoenix has received nothing")
    results = [("exit statuses", (0, 2), (status, failed)), *checks(good, bad, model)]
    wrong = [result for result in results if result[1] != result[2]]
    print(drawn(good), drawn(bad), sep="\n\n", end="\n\n")
    for what, wanted, got in results:
        print(f"{'same' if wanted == got else 'DIFFERENT':<10} {what}")
    for what, wanted, got in wrong:
        print(f"\n{what}: wanted\n{wanted}\ngot\n{got}")
    print(f"\n{len(results) - len(wrong)} of {len(results)} as wanted; {len(good) + len(bad)} spans in Phoenix")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
