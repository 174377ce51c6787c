"""Recorded Chat2Workflow responses, run to their end: which are sound, which of these end, and what failed and why.

    python test/benchmark/run_recorded.py [RUN.json…] [--json]

Each file is a list of records with ``task``, ``round`` and ``workflow``. A response is sound when the
full static check finds nothing. The sound ones are run: models answer what fits the schema that
they are asked for (and in the language that the prompt names, where it names one: Mermaid, JSON),
inputs are those of the benchmark's first test case where the names fit, with small generated files in the
place of its own (documents for what a document-extractor reads), every address of the web is answered by a server on this machine. Exit status 1
where fewer than 98% of the sound ones end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from struct import pack
from typing import Any

from operad.operators.assemble import assemble
from operad.operators.formats.chat2workflow import issues_of, load
from operad.operators.media.markdown import export_markdown
from operad.operators.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import StartParams, StartVariable, read_value
from operad.operators.services import Services
from operad.operators.variables import VariableType
from operad.operators.web.endpoints import ImageModel
from operad.operators.web.fetch import Fetched, Guard, fetch
from operad.operators.web.search import SearchResult
from operad.runtime import Job, MonoModelReasoner, events
from operad.runtime.errors import InputError, InvalidError, Issue, describe
from operad.runtime.testing import Say, ScriptedModel, plausible

AIM = 0.98
DATA = Path(__file__).resolve().parents[3] / "shared/data/chat2workflow"
CASES = DATA / "dataset/check_pass_stage.json"
LONGEST_RUN = 60.0
"""Seconds that a workflow may take."""

BY_NAME = {"date": "2024-03-15", "url": "https://example.org/page", "link": "https://example.org/page"}
"""What is said for strings with such names."""

MARKDOWN = "# A report\n\nSome *words*, and a table:\n\n| quarter | sales |\n|---|---|\n| 1 | 10 |\n| 2 | 12 |\n"
PAGE = b"<html><head><title>A page</title></head><body><h1>A page</h1><p>Some words.</p></body></html>"


@dataclass
class Tally:
    """What came of the responses."""

    responses: int = 0
    sound: int = 0
    ended: int = 0
    by_code: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)


class Found:
    """Finds the same for every query."""

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        return [
            SearchResult(
                title=f"Result {n}", url=f"https://example.org/{n}", content="Some words.", site_name="Example"
            )
            for n in range(1, min(limit, 3) + 1)
        ]


class _World(BaseHTTPRequestHandler):
    """Every address of the web, and an endpoint that makes images."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._say(PAGE, "text/html; charset=utf-8")

    def do_POST(self) -> None:
        import base64

        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        image = base64.b64encode(png()).decode()
        self._say(json.dumps({"created": 0, "data": [{"b64_json": image}]}).encode(), "application/json")

    def _say(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def world() -> Iterator[str]:
    """Serve it; the host and the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _World)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def png() -> bytes:
    """A picture of 8 by 8 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x30\x60\x90" * 8 for _ in range(8))
    header = pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def xlsx() -> bytes:
    """A table of sales."""
    from io import BytesIO

    from openpyxl import Workbook

    book = Workbook()
    for row in (
        ["Order Date", "Region", "Product", "Sales", "Profit"],
        ["2024-01-05", "North", "Tea", 10, 2.5],
        ["2024-04-09", "South", "Rice", 12, 3],
    ):
        book.worksheets[0].append(row)
    data = BytesIO()
    book.save(data)
    return data.getvalue()


def make_files(folder: Path) -> Mapping[str, Path]:
    """A small file of each kind, by suffix."""
    texts = {"txt": MARKDOWN, "md": MARKDOWN, "py": "print('hello')\n", "html": PAGE.decode(), "csv": "a,b\n1,2\n"}
    made = {suffix: text.encode() for suffix, text in texts.items()}
    made |= {suffix: asyncio.run(export_markdown(MARKDOWN, suffix)) for suffix in ("docx", "pptx", "pdf")}
    made |= {"xlsx": xlsx(), "png": png(), "jpg": png()}
    paths = {suffix: folder / f"input.{suffix}" for suffix in made}
    for suffix, data in made.items():
        paths[suffix].write_bytes(data)
    return paths


def inputs_of(graph: NodeGraph, case: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """A value for each input: the case's where it has one, else one of its type."""
    start = next(node for node in graph.nodes if node.type == "start")
    extracted = {tuple(node.params["variable_selector"]) for node in graph.nodes if node.type == "document-extractor"}
    values: dict[str, Any] = {}
    for variable in StartParams(**start.params).variables:
        readable = {kind: path for kind, path in files.items() if kind not in ("png", "jpg")}
        kinds = readable if (variable.name, start.id) in extracted else files
        values[variable.name] = _input(variable, case.get(variable.name), kinds)
    return values


def _input(variable: StartVariable, given: Any, files: Mapping[str, Path]) -> Any:
    match variable.type:
        case VariableType.FILE:
            return _file(variable.name, given[0] if isinstance(given, list) and given else given, files)
        case VariableType.ARRAY_FILE:
            several = given if isinstance(given, list) else [given, given]
            return [_file(variable.name, each, files) for each in several]
        case kind if given is not None and _reads(given, kind):
            return given
        case VariableType.STRING if re.search("url|link|address|website", variable.name.lower()):
            return "https://example.org/page"
        case kind:
            return plausible(kind.json_schema())


def _reads(given: Any, kind: VariableType) -> bool:
    try:
        read_value(given, kind)
    except InputError:
        return False
    return True


def _file(name: str, given: Any, files: Mapping[str, Path]) -> str:
    said = str(given.get("value", "")) if isinstance(given, dict) else ""
    suffix = said.rpartition(".")[2].lower() if "." in said else ""
    if suffix not in files:
        guesses = {"image|pict|photo|png|formula": "png", "excel|sheet|sales|data": "xlsx", "code": "py"}
        suffix = next((each for words, each in guesses.items() if re.search(words, name.lower())), "pdf")
    return str(files.get(suffix, files["pdf"]))


@dataclass
class Answers:
    """What the model says about a workflow: what fits the schema, or text in the language that the prompt asks for.

    Where a schema leaves open what an object holds, it gets the keys that the workflow's code asks for.
    """

    keys: Sequence[str] = ()

    def about(self, graph: NodeGraph) -> None:
        """From now on, answer for this workflow."""
        code = "\n".join(str(node.params.get("code", "")) for node in graph.nodes)
        self.keys = list(dict.fromkeys(re.findall(r"""(?:\[|\.get\()\s*['"]([^'"]+)['"]""", code)))

    def __call__(self, request: dict[str, Any]) -> Say:
        schema = (request.get("response_format") or {}).get("json_schema", {}).get("schema")
        if schema is not None:
            return Say(json.dumps(self._filled(plausible(schema)), ensure_ascii=False))
        prompt = "\n".join(str(message.get("content")) for message in request["messages"])
        if re.search("mermaid", prompt, re.IGNORECASE):
            return Say("flowchart TD\n  A[Start] --> B[End]")
        if re.search(r"\bjson\b", prompt, re.IGNORECASE):
            return Say(json.dumps(example_in(prompt) or {"text": "text"}, ensure_ascii=False))
        return Say("Some words on the matter.")

    def _filled(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            filled = {key: self._filled(each, key) for key, each in value.items()}
            return filled or {key: self._filled("1", key) for key in self.keys}
        if isinstance(value, list):
            return [self._filled(item, name) for item in value]
        return (
            next((fits for word, fits in BY_NAME.items() if word in name.lower()), value)
            if value in ("text", "1")
            else value
        )


def example_in(prompt: str) -> dict[str, Any]:
    """The largest JSON object that a prompt shows as an example, its placeholders in angle brackets filled."""
    from json_repair import loads

    shown = re.findall(r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}", re.sub(r"\{\{#.*?#\}\}", "", prompt))
    found = [loads(re.sub(r"<[^<>]*>", "1", text)) for text in shown if '"' in text]
    return max((each for each in found if isinstance(each, dict)), key=len, default={})


async def run(
    graph: NodeGraph, inputs: Mapping[str, Any], services: Services, model: ScriptedModel, tally: Tally
) -> str:
    """Run a workflow to its end; what failed, or an empty text."""
    types = {node.id: node.type for node in graph.nodes}
    workflow = assemble(graph, NODE_TYPES, services=services)
    failure = ""
    try:
        async for event in workflow.stream(Job(goal=graph.name, inputs=dict(inputs)), MonoModelReasoner(model.model)):
            if isinstance(event, events.OperatorFinished):
                tally.ran[types.get(event.operator_id, "")] += 1
            elif isinstance(event, events.OperatorFailed):
                tally.failed[types.get(event.operator_id, "")] += 1
            elif isinstance(event, events.RunFinished) and not event.message.outputs:
                failure = "ended without outputs"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said
        failure = describe(error)
    return failure


def checked(recorded: Any, name: str) -> tuple[NodeGraph, Sequence[Issue]]:
    """A recorded workflow, and what is wrong with it."""
    try:
        graph = load(recorded if isinstance(recorded, str) else json.dumps(recorded), name)
    except InvalidError as error:
        return NodeGraph(), error.issues
    return graph, issues_of(graph, NODE_TYPES)


async def run_all(paths: Sequence[Path], cases: Mapping[str, Any], folder: Path) -> Tally:
    """Check and run every response of the files."""
    tally = Tally()
    files = await asyncio.to_thread(make_files, folder)
    answers = Answers()
    with world() as host, ScriptedModel(answers) as model:

        async def fetch_here(url: str, guard: Guard) -> Fetched:
            return await fetch(f"http://{host}/", guard=Guard(allowed_hosts=(host,)))

        services = Services(
            folder=folder / "made",
            search=Found(),
            images=ImageModel(name="scripted", base_url=f"http://{host}/v1"),
            fetch=fetch_here,
        )
        for path in paths:
            for record in json.loads(path.read_text(encoding="utf-8")):
                name = f"{path.parent.name}/{path.stem} {record['task']} {record['round']}"
                tally.responses += 1
                graph, issues = checked(record["workflow"], name)
                tally.by_code.update({issue.code for issue in issues})
                if issues:
                    continue
                tally.sound += 1
                answers.about(graph)
                case = cases.get(f"{record['task']}_{record['round']}", {}).get("test1", {})
                try:
                    inputs = inputs_of(graph, case, files)
                    failure = await asyncio.wait_for(run(graph, inputs, services, model, tally), LONGEST_RUN)
                except asyncio.TimeoutError:
                    failure = f"took longer than {LONGEST_RUN:g} s"
                if failure:
                    tally.failures.append({"response": name, "error": failure})
                else:
                    tally.ended += 1
    return tally


def main() -> int:
    """Print the table, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded runs; those of ../shared where none is named")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=Path, default=CASES, help="the benchmark's check_pass_stage.json")
    options = parser.parse_args()
    runs = options.runs or sorted([*DATA.glob("may/*.json"), *DATA.glob("apr/*.json")])
    if not runs:
        print(f"no recorded runs: none is named, and none is at {DATA}", file=sys.stderr)
        return 0
    cases = json.loads(options.cases.read_text(encoding="utf-8")) if options.cases.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        tally = asyncio.run(run_all(runs, cases, Path(folder)))
    if options.json:
        print(
            json.dumps(
                {
                    "responses": tally.responses,
                    "sound": tally.sound,
                    "ended": tally.ended,
                    "issues": dict(tally.by_code.most_common()),
                    "types": {kind: {"ran": tally.ran[kind], "failed": tally.failed[kind]} for kind in NODE_TYPES},
                    "failures": tally.failures,
                },
                ensure_ascii=False,
                indent=1,
            )
        )
    else:
        print(
            f"{tally.responses} responses, {tally.sound} sound, {tally.ended} ended ({tally.ended / max(tally.sound, 1):.1%})"
        )
        for kind in NODE_TYPES:
            print(f"  {kind:22} {tally.ran[kind]:6} ran {tally.failed[kind]:6} failed")
        print("not sound:", ", ".join(f"{code} {count}" for code, count in tally.by_code.most_common()))
        for failure in tally.failures:
            print(f"  {failure['response']}: {failure['error']}")
    return 0 if tally.ended >= AIM * tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
