"""Compare outputs and executed nodes of Dify files in Dify's own engine (graphon) and in Operad.

    make conformance
    python test/benchmark/conformance.py --dify-python .venv-dify/bin/python ../shared/data/chat2workflow/*/*.json

Runs the workflows in this file, and those of the given Chat2Workflow responses that need no files, tools or web. In both
engines, models repeat their prompt and code runs in Operad's sandbox, so that only the engines differ. Prints a table; the
exit status is 1 on any difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from operad.flows.assemble import assemble
from operad.flows.check import OUTCOME, check
from operad.flows.formats import chat2workflow
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.dify.format import dump, load
from operad.integrations.dify.write import Writer
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeLimits, run_code
from operad.operators.services import Services
from operad.runtime import Job, events
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InvalidError, OperadError, describe

RUNNER = Path(__file__).with_name("conformance_graphon.py")
WITHOUT_WORLD = set(
    "start end llm code template-transform if-else iteration iteration-start variable-aggregator list-operator "
    "question-classifier parameter-extractor".split()
)
SAID = {"string": "two words", "number": 3, "boolean": True}
PICKS = (0, 1)
"""The numbers of the classes that classifiers choose."""


@dataclass(frozen=True)
class Run:
    """Result of a workflow in an engine.

    Attributes:
        outputs: The outputs of its end nodes.
        ran: The number of executions of each node, by Operad's ids.
        error: The error that ended the run.
    """

    outputs: Mapping[str, Any] = field(default_factory=dict)
    ran: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Sample:
    """Workflow with its inputs."""

    graph: NodeGraph
    inputs: Mapping[str, Any]
    pick: int = 0


class _Sandbox(BaseHTTPRequestHandler):
    """Server that runs code for the other process."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        task = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            said = {"result": run_code(task["code"], task["inputs"], CodeLimits())}
        except OperadError as error:
            said = {"error": describe(error)}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def sandbox() -> Generator[str]:
    """Yield the address of a sandbox for code."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sandbox)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def _value(name: str, schema: Mapping[str, Any]) -> Any:
    match schema:
        case {"type": "array", "items": {"type": "string"}}:
            return [f"<{name}> 1", f"<{name}> 2"]
        case {"type": "array", "items": {"type": "number"}}:
            return [1, 2, 3]
        case {"type": "array", "items": {"type": "boolean"}}:
            return [True, False]
        case {"type": "array"}:
            return [{"name": f"<{name}>"}]
        case {"type": "number"}:
            return 7
        case {"type": "boolean"}:
            return True
        case _:
            return f"<{name}>"


def counted(graph: NodeGraph) -> set[str]:
    """Return the nodes whose executions are counted: all but the starts of containers, which Dify does not report."""
    return {spec.id for spec in graph.nodes if not spec.type.endswith("-start")}


async def run_here(sample: Sample) -> Run:
    """Run a workflow in Operad."""

    def answer(task: Any) -> str:
        if not task.output_schema:
            return f"{task.instruction}|{task.job.goal}"
        properties = task.output_schema.schema["properties"]
        said = {
            name: schema["enum"][sample.pick % len(schema["enum"])] if "enum" in schema else _value(name, schema)
            for name, schema in properties.items()
        }
        return json.dumps(said)

    ids = counted(sample.graph)
    ran: Counter[str] = Counter()
    outputs: Mapping[str, Any] = {}
    try:
        workflow = assemble(sample.graph, NODE_TYPES, services=Services())
        async for event in workflow.stream(Job(goal="", inputs=dict(sample.inputs)), ScriptedReasoner(answer)):
            if isinstance(event, events.OperatorFinished) and event.operator_id in ids:
                ran[event.operator_id] += 1
            if (
                isinstance(event, events.OperatorFinished)
                and event.operator_id == OUTCOME
                and "results" not in event.message.outputs
            ):
                outputs = event.message.outputs
    except OperadError as error:
        return Run(outputs, ran, describe(error))
    return Run(outputs, ran)


def run_there(samples: Sequence[Sample], python: str) -> list[Run]:
    """Run workflows in Dify's engine."""
    with sandbox() as address:
        process = subprocess.Popen(
            [python, str(RUNNER), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin
        assert process.stdout
        runs: list[Run] = []
        for sample in samples:
            task = {"file": dump(sample.graph).decode(), "inputs": dict(sample.inputs), "pick": sample.pick}
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            said = json.loads(line) if line else {"outputs": {}, "ran": {}, "error": "the engine ended"}
            ids = Writer(sample.graph).ids
            ran = {ours: said["ran"][ids[ours]] for ours in counted(sample.graph) if ids[ours] in said["ran"]}
            runs.append(Run(said["outputs"], ran, said["error"]))
        process.stdin.close()
        process.wait()
        return runs


def difference(here: Run, there: Run) -> str:
    """Return the difference of two runs; empty if there is none."""
    if bool(here.error) is not bool(there.error):
        return f"ours: {here.error[:300] or 'ends'}; theirs: {there.error[:300] or 'ends'}"
    if here.error:
        return ""
    if _plain(here.outputs) != _plain(there.outputs):
        return f"outputs: ours {_shown(here.outputs)}, theirs {_shown(there.outputs)}"
    return "" if dict(here.ran) == dict(there.ran) else f"ran: ours {dict(here.ran)}, theirs {dict(there.ran)}"


def _plain(outputs: Mapping[str, Any]) -> Any:
    """Return outputs as JSON, without empty ones and without the empty ``files`` of Dify's answers."""
    there = {key: value for key, value in outputs.items() if value is not None}
    if "answer" in there:
        there.pop("files", None)
    return json.loads(json.dumps(there, default=str))


def _shown(outputs: Mapping[str, Any]) -> str:
    return json.dumps(_plain(outputs), ensure_ascii=False)[:400]


# Workflows of our own


def _graph(
    title: str, inputs: Sequence[tuple[str, str]], nodes: Sequence[NodeSpec], edges: str, **outputs: list[str]
) -> NodeGraph:
    """Return a workflow from its start 1 to its end 9 with edges ``1>2 2.1>3``."""
    start = NodeSpec("1", "start", {"variables": [list(each) for each in inputs]})
    end = [NodeSpec("9", "end", {"outputs": [[key, value] for key, value in outputs.items()]})] if outputs else []
    made: list[Edge] = []
    for edge in edges.split():
        source, _, target = edge.partition(">")
        source, _, port = source.partition(".")
        made.append(Edge(source, target, int(port or 0)))
    return NodeGraph([start, *nodes, *end], made, title)


def _template(node_id: str, template: str, parent: str = "", /, **variables: list[str]) -> NodeSpec:
    params = {"variables": [[name, value] for name, value in variables.items()], "template": template}
    return NodeSpec(node_id, "template-transform", params, parent)


def _code(node_id: str, code: str, outputs: Mapping[str, str], parent: str = "", **variables: list[str]) -> NodeSpec:
    given = [[name, value] for name, value in variables.items()]
    made = {"variables": given, "outputs": [list(each) for each in outputs.items()], "code": code}
    return NodeSpec(node_id, "code", made, parent)


def _branch(operator: str, value: str | None, kind: str) -> NodeGraph:
    condition = [["x", "1"], operator] + ([] if value is None else [value])
    return _graph(
        f"if {kind} {operator}",
        [("x", kind)],
        [
            NodeSpec("2", "if-else", {"cases": [[None, [condition]]]}),
            _template("3", "yes"),
            _template("4", "no"),
            NodeSpec("5", "variable-aggregator", {"variables": [["output", "3"], ["output", "4"]]}),
        ],
        "1>2 2.0>3 2.1>4 3>5 4>5 5>9",
        said=["output", "5"],
    )


def _listed(operator: list[Any], kind: str) -> NodeGraph:
    code = {
        "string": "return {'items': text.split()}",
        "number": "return {'items': [len(word) for word in text.split()]}",
        "boolean": "return {'items': [len(word) > 3 for word in text.split()]}",
    }[kind]
    return _graph(
        f"list {kind} {operator[0]} {operator[1]}",
        [("text", "string")],
        [
            _code("2", f"def main(text):\n    {code}\n", {"items": f"array[{kind}]"}, text=["text", "1"]),
            NodeSpec("3", "list-operator", {"variable": ["items", "2"], "operator": operator}),
        ],
        "1>2 2>3 3>9",
        result=["result", "3"],
        first=["first_record", "3"],
        last=["last_record", "3"],
    )


def _iteration(name: str, inner: NodeSpec, output: str, kind: str = "string", **params: Any) -> NodeGraph:
    split = {
        "string": "return {'items': text.split()}",
        "number": "return {'items': [len(word) for word in text.split()]}",
    }[kind]
    return _graph(
        name,
        [("text", "string")],
        [
            _code("2", f"def main(text):\n    {split}\n", {"items": f"array[{kind}]"}, text=["text", "1"]),
            NodeSpec(
                "5", "iteration", {"iterator_selector": ["items", "2"], "output_selector": [output, "5-2"], **params}
            ),
            NodeSpec("5-1", "iteration-start", {}, "5"),
            inner,
        ],
        "1>2 2>5 5-1>5-2 5>9",
        made=["output", "5"],
    )


WORDS = {"text": "pear fig apple fig kiwi"}
ITEM = {"item": ["item", "5"], "index": ["index", "5"]}


def own() -> list[Sample]:
    """Return the workflows of this file."""
    samples = [
        Sample(
            _graph(
                "template",
                [("name", "string"), ("count", "number")],
                [
                    _template(
                        "2",
                        "{% for i in range(n) %}{{ i }}:{{ name|upper }} {% endfor %}",
                        n=["count", "1"],
                        name=["name", "1"],
                    )
                ],
                "1>2 2>9",
                text=["output", "2"],
            ),
            {"name": "ada", "count": 3},
        ),
        Sample(
            _graph(
                "code",
                [("a", "number"), ("b", "number")],
                [
                    _code(
                        "2",
                        "def main(a, b):\n    return {'sum': a + b, 'parts': [a, b], 'all': {'a': a}, 'big': a > b, 'said': str(a)}\n",
                        {
                            "sum": "number",
                            "parts": "array[number]",
                            "all": "object",
                            "big": "boolean",
                            "said": "string",
                        },
                        a=["a", "1"],
                        b=["b", "1"],
                    )
                ],
                "1>2 2>9",
                sum=["sum", "2"],
                parts=["parts", "2"],
                all=["all", "2"],
                part=["all.a", "2"],
                big=["big", "2"],
                said=["said", "2"],
            ),
            {"a": 4, "b": 2},
        ),
        Sample(
            _graph(
                "llm",
                [("text", "string"), ("n", "number")],
                [
                    NodeSpec("2", "llm", {"system": "Say {{#1.n#}}.", "user": "To {{#1.text#}}: {{#'1'.text#}}"}),
                    NodeSpec("3", "llm", {"system": "Only {{#2.text#}}", "user": ""}),
                ],
                "1>2 2>3 3>9",
                text=["text", "3"],
            ),
            {"text": "you & me", "n": 2},
        ),
        Sample(
            _graph(
                "two branches, both taken",
                [("text", "string")],
                [
                    _template("2", "a {{ t }}", t=["text", "1"]),
                    _template("3", "b {{ t }}", t=["text", "1"]),
                    _template("4", "{{ a }} {{ b }}", a=["output", "2"], b=["output", "3"]),
                ],
                "1>2 1>3 2>4 3>4 4>9",
                text=["output", "4"],
            ),
            {"text": "t"},
        ),
        Sample(_iteration("iteration", _template("5-2", "{{ index }} {{ item }}", "5", **ITEM), "output"), WORDS),
        Sample(
            _iteration("iteration, one by one", _template("5-2", "{{ item }}", "5", **ITEM), "output", concurrency=1),
            WORDS,
        ),
        Sample(
            _iteration(
                "iteration, flattened",
                _code(
                    "5-2",
                    "def main(item):\n    return {'two': [item, item]}\n",
                    {"two": "array[string]"},
                    "5",
                    item=["item", "5"],
                ),
                "two",
            ),
            WORDS,
        ),
        Sample(
            _iteration(
                "iteration, a failure skipped",
                _code(
                    "5-2",
                    "def main(item):\n    return {'inverse': 12 / (item - 5)}\n",
                    {"inverse": "number"},
                    "5",
                    item=["item", "5"],
                ),
                "inverse",
                "number",
                on_error="skip",
            ),
            WORDS,
        ),
        Sample(
            _iteration(
                "iteration, a failure kept",
                _code(
                    "5-2",
                    "def main(item):\n    return {'inverse': 12 / (item - 5)}\n",
                    {"inverse": "number"},
                    "5",
                    item=["item", "5"],
                ),
                "inverse",
                "number",
                on_error="keep",
            ),
            WORDS,
        ),
        Sample(
            _iteration("iteration over nothing", _template("5-2", "{{ item }}", "5", **ITEM), "output"), {"text": ""}
        ),
        Sample(
            _iteration(
                "iteration with a model", NodeSpec("5-2", "llm", {"system": "", "user": "{{#5.item#}}!"}, "5"), "text"
            ),
            WORDS,
        ),
    ]
    samples += [
        Sample(
            _graph(
                "classifier",
                [("text", "string")],
                [
                    NodeSpec(
                        "2",
                        "question-classifier",
                        {"query_variable_selector": ["text", "1"], "classes": ["A", "B", "C"]},
                    ),
                    _template("3", "a"),
                    _template("4", "b"),
                    _template("5", "c"),
                    NodeSpec(
                        "6", "variable-aggregator", {"variables": [["output", "3"], ["output", "4"], ["output", "5"]]}
                    ),
                ],
                "1>2 2.0>3 2.1>4 2.2>5 3>6 4>6 5>6 6>9",
                way=["output", "6"],
                name=["class_name", "2"],
            ),
            {"text": "t"},
            pick,
        )
        for pick in range(3)
    ]
    loop = NodeGraph(
        [
            NodeSpec("1", "start", {"variables": [["n", "number"]]}),
            NodeSpec(
                "5",
                "loop",
                {"loop_count": 10, "variables": [["sum", "number", 0]], "break_conditions": [[["sum", "5"], "≥", "7"]]},
            ),
            NodeSpec("5-1", "loop-start", {}, "5"),
            NodeSpec("5-2", "assigner", {"assignments": [[["sum", "5"], "add", 3]]}, "5"),
            NodeSpec("9", "end", {"outputs": [["sum", ["sum", "5"]], ["rounds", ["rounds", "5"]]]}),
        ],
        [Edge("1", "5"), Edge("5-1", "5-2"), Edge("5", "9")],
        "loop",
    )
    samples.append(Sample(loop, {"n": 1}))
    answer = [
        NodeSpec("2", "llm", {"system": "", "user": "{{#1.t#}}"}),
        NodeSpec("7", "answer", {"answer": "So: {{#2.text#}}!"}),
    ]
    samples.append(Sample(_graph("answer", [("t", "string")], answer, "1>2 2>7"), {"t": "x"}))
    condition = NodeSpec("2", "if-else", {"cases": [[None, [[["t", "1"], "is", "x"]]]]})
    branches = [condition, _template("3", "yes"), _template("4", "no")]
    samples += [
        Sample(
            _graph(
                "end after branches",
                [("t", "string")],
                branches,
                "1>2 2.0>3 2.1>4 3>9 4>9",
                yes=["output", "3"],
                no=["output", "4"],
            ),
            {"t": t},
        )
        for t in ("x", "y")
    ]
    cases = [
        ["or", [[["t", "1"], "is", "x"], [["t", "1"], "is", "z"]]],
        ["and", [[["t", "1"], "is not", "x"], [["t", "1"], "not empty"]]],
    ]
    joined = NodeSpec("6", "variable-aggregator", {"variables": [["output", "3"], ["output", "4"], ["output", "5"]]})
    samples += [
        Sample(
            _graph(
                "several cases",
                [("t", "string")],
                [
                    NodeSpec("2", "if-else", {"cases": cases}),
                    _template("3", "1"),
                    _template("4", "2"),
                    _template("5", "3"),
                    joined,
                ],
                "1>2 2.0>3 2.1>4 2.2>5 3>6 4>6 5>6 6>9",
                way=["output", "6"],
            ),
            {"t": t},
        )
        for t in ("x", "z", "y", "")
    ]
    samples.append(
        Sample(
            _graph(
                "extractor",
                [("text", "string")],
                [
                    NodeSpec(
                        "2",
                        "parameter-extractor",
                        {
                            "query": ["text", "1"],
                            "parameters": [
                                ["A name", "name", "string"],
                                ["A sum", "sum", "number"],
                                ["All", "all", "array[string]"],
                            ],
                            "instruction": "Read {{#1.text#}}.",
                        },
                    )
                ],
                "1>2 2>9",
                name=["name", "2"],
                sum=["sum", "2"],
                all=["all", "2"],
            ),
            {"text": "t"},
        )
    )
    texts = [("contains", "ea"), ("not contains", "ea"), ("start with", "p"), ("end with", "r"), ("is", "pear")]
    texts += [("is not", "pear"), ("empty", None), ("not empty", None)]
    samples += [
        Sample(_branch(operator, value, "string"), {"x": x}) for operator, value in texts for x in ("pear", "fig", "")
    ]
    numbers = [("=", "3"), ("≠", "3"), (">", "3"), ("‹", "3"), ("≥", "3"), ("≤", "3")]
    samples += [
        Sample(_branch(operator, value, "number"), {"x": x}) for operator, value in numbers for x in (2, 3, 3.5)
    ]
    samples += [Sample(_branch("is", "true", "boolean"), {"x": x}) for x in (True, False)]
    samples += [Sample(_branch("is not", "false", "boolean"), {"x": x}) for x in (True, False)]
    lists: list[tuple[list[Any], str]] = [
        (["extract_by", 2], "string"),
        (["limit", 2], "string"),
        (["order_by", "asc"], "string"),
        (["order_by", "desc"], "number"),
        (["filter_by", "contains", "i"], "string"),
        (["filter_by", "not in", "fig pear"], "string"),
        (["filter_by", "is", "fig"], "string"),
        (["filter_by", "start with", "zz"], "string"),
        (["filter_by", "≥", "4"], "number"),
        (["filter_by", "is", "true"], "boolean"),
        (["filter_by", "is not", "true"], "boolean"),
    ]
    samples += [Sample(_listed(operator, kind), WORDS) for operator, kind in lists]
    samples += [
        Sample(_listed(["extract_by", 9], "string"), WORDS),
        Sample(_listed(["limit", 3], "string"), {"text": ""}),
    ]
    return samples


def recorded(paths: Sequence[Path]) -> list[Sample]:
    """Return the recorded workflows that are sound and need no services."""
    samples: list[Sample] = []
    for path in paths:
        for record in json.loads(path.read_text(encoding="utf-8")):
            try:
                name = f"{path.parent.name}/{path.stem} {record['task']} {record['round']}"
                graph = chat2workflow.load(record["workflow"] or "", name)
            except InvalidError:
                continue
            start = next((node for node in graph.nodes if node.type == "start"), None)
            if start is None or check(graph, NODE_TYPES) or not {node.type for node in graph.nodes} <= WITHOUT_WORLD:
                continue
            inputs = {name: SAID.get(kind) for name, kind in start.params["variables"]}
            branches = any(node.type == "question-classifier" for node in graph.nodes)
            if None not in inputs.values():
                samples += [Sample(graph, inputs, pick) for pick in (PICKS if branches else PICKS[:1])]
    return samples


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded responses")
    parser.add_argument("--dify-python", default=".venv-dify/bin/python", help="a Python with graphon")
    options = parser.parse_args()
    samples = [*own(), *recorded(options.runs)]
    wrong = [f"{s.graph.name}: {issue}" for s in samples for issue in check(s.graph, NODE_TYPES)]
    wrong += [s.graph.name for s in samples if load(dump(s.graph), s.graph.name) != s.graph]
    there = run_there(samples, options.dify_python)
    here = [asyncio.run(run_here(sample)) for sample in samples]
    bad = 0
    for sample, ours, theirs in zip(samples, here, there, strict=True):
        found = difference(ours, theirs)
        bad += bool(found)
        result = "differs" if found else "fails in both" if ours.error else "same"
        print(f"{sample.graph.name[:60]:60} {sum(ours.ran.values()):4} ran  {result}")
        if found:
            print(f"    given {json.dumps(dict(sample.inputs), ensure_ascii=False)}, class {sample.pick}: {found}")
    graphs = len({sample.graph.name for sample in samples})
    kept = len({sample.graph.name for sample in recorded(options.runs)})
    print(f"{graphs} workflows ({kept} recorded), {len(samples)} runs, {bad} differ")
    for each in wrong:
        print(f"not exact or not sound: {each}")
    return 1 if bad or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
