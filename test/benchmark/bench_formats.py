"""Read files of every format and write them back; count exact round trips and listed losses.

    python test/benchmark/bench_formats.py [DIR] [--data ../shared/data]

Reads the shared data: recorded Chat2Workflow responses, ComfyUI workflows, WorFBench's gold workflows. The table shows,
for each conversion, the files read, the exact round trips, and the listed losses. With DIR, the JSON files of
comfyui-workflow-templates-json (found by itself if installed), it also shows the seconds to load, check and convert these
from the page's format to the server's, to code and back, on one core. The exit status is 1 if a file without a listed
loss changes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from operad.flows.formats.format import check_nodes
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.comfyui.formats import Definitions, formats, read_definitions
from operad.integrations.comfyui.generation.generate import code_of, continued
from operad.operators.variables import Text
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).resolve().parents[3] / "shared/data"


@dataclass
class Row:
    """Counts of a conversion."""

    way: str
    files: int = 0
    read: int = 0
    exact: int = 0
    losses: int = 0
    unsaid: int = 0

    def add(self, exact: bool, losses: int) -> None:
        """Count a file."""
        self.files += 1
        self.read += 1
        self.exact += exact
        self.losses += losses
        self.unsaid += not exact and not losses


def normal(graph: NodeGraph) -> Any:
    """Return a graph in the normal form of Coze's module: no order, references without quotes."""

    def text(value: Any) -> Any:
        if isinstance(value, str):
            return Text(value).renamed(lambda each: f"{{{{#{each.node}.{each.variable}#}}}}")
        if isinstance(value, dict):
            return {key: text(item) for key, item in value.items()}
        return [text(item) for item in value] if isinstance(value, list) else value

    def params(node: NodeSpec) -> Any:
        made = text(node.params)
        for case in made["cases"] if node.type == "if-else" else []:
            case[0] = "or" if case[0] == "or" else "and" if len(case[1]) > 1 else None
        return made

    nodes = {node.id: (node.type, node.parent, params(node)) for node in graph.nodes}
    return nodes, sorted((edge.source, edge.port, edge.target) for edge in graph.edges)


def responses(data: Path) -> Iterator[Mapping[str, Any]]:
    """Return the recorded responses of models."""
    for path in sorted(data.glob("chat2workflow/*/*.json")):
        if path.parent.name != "dataset":
            yield from json.loads(path.read_text(encoding="utf-8"))


def chat2workflow(data: Path) -> Iterator[Row]:
    """Convert responses: as JSON, as a whole, and through other formats."""
    ours = FORMATS["chat2workflow"]
    plain, whole = Row("chat2workflow (JSON) → same"), Row("chat2workflow (response) → same")
    ways = {name: Row(f"chat2workflow → {name} → back") for name in ("dify", "coze", "operad")}
    selected = [0, 0]
    for record in responses(data):
        text = record["workflow"] or ""
        try:
            graph = ours.load(text.encode(), record["task"])
        except InvalidError:
            plain.files += 1
            whole.files += 1
            continue
        written = json.loads(text)
        for node in written["nodes_info"]:
            node.setdefault("param", {})
        plain.add(json.loads(ours.dump(graph)) == written, len(ours.losses(graph)))
        response = (
            f"<node_selection>{record['node_selection']}</node_selection>\n<design_principle>\n"
            f"{record['design_principle']}\n</design_principle>\n<workflow>\n"
            f"{json.dumps(written, indent=2, ensure_ascii=False)}\n</workflow>\n"
        ).encode()
        read = ours.load(response, record["task"])
        whole.add(ours.dump(read) == response, len(ours.losses(read)))
        if record["valid"]:
            selected[1] += 1
            selected[0] += not any(issue.code == "not-selected" for issue in ours.check(read))
        if check_nodes(graph):
            continue
        for name, row in ways.items():
            other = FORMATS[name]
            again = other.load(other.dump(graph), graph.name)
            same = normal(again) == normal(graph) if name == "coze" else replace(again, name=graph.name) == graph
            row.add(same, len(other.losses(graph)))
    yield from (plain, whole, *ways.values())
    print(f"of {selected[1]} responses that Chat2Workflow calls valid, {selected[0]} name all types in the selection")


def comfyui(data: Path, definitions: Definitions) -> Iterator[Row]:
    """Convert files of ComfyUI's page, and compare them with what a real server received."""
    page, server, code, _ = formats(definitions)
    same, to_server, back, through = (
        Row("comfyui → same"),
        Row("comfyui → comfyui-api, as a server took it"),
        Row("comfyui-api → comfyui-code → back"),
        Row("comfyui → code that a model is shown → back"),
    )
    for path in sorted((data / "comfyui/workflows").glob("*.json")):
        content = path.read_bytes()
        graph = page.load(content, path.stem)
        same.add(_value(page.dump(graph)) == _value(content), len(page.losses(graph)))
        shown = code_of(graph, definitions)
        through.add(_value(page.dump(continued(shown, shown, graph))) == _value(content), 0)
        reference = data / "comfyui/api" / path.name
        if reference.exists():
            took = reference.read_bytes()
            to_server.add(json.loads(server.dump(graph)) == json.loads(took), 0)
            read = server.load(took, path.stem)
            again = code.load(code.dump(read), path.stem)
            back.add(json.loads(server.dump(again)) == json.loads(took), len(code.losses(read)))
    return iter((same, to_server, back, through))


def worfbench(data: Path) -> Iterator[Row]:
    """Convert the gold workflows."""
    ours = FORMATS["worfbench"]
    graphs, letters = Row("worfbench → same graph"), Row("worfbench → same text, letter by letter")
    for path in sorted(data.glob("worfbench/*.json")):
        for item in json.loads(path.read_text(encoding="utf-8")):
            text = item["conversations"][-1]["content"].encode()
            graph = ours.load(text, "gold")
            written = ours.dump(graph)
            graphs.add(ours.load(written, "gold") == graph, len(ours.losses(graph)))
            letters.files, letters.read = letters.files + 1, letters.read + 1
            letters.exact += written == text
    return iter((graphs, letters))


def templates(folder: Path, definitions: Definitions) -> Iterator[Row]:
    """Convert and check all templates: page → server → code → server."""
    page, server, code, _ = formats(definitions)
    same, back = Row("templates: comfyui → same"), Row("templates: comfyui → api → code → api")
    began, issues, nodes = perf_counter(), 0, 0
    odd: list[str] = []
    for path in sorted(folder.rglob("*.json")):
        content = path.read_bytes()
        if not page.is_it(content):
            continue
        graph = page.load(content, path.stem)
        issues += len(page.check(graph))
        sent = server.dump(graph)
        read = server.load(sent, path.stem)
        nodes += len(read.nodes)
        written = code.dump(read) if read.nodes else b""
        again = server.dump(code.load(written, path.stem)) if read.nodes else sent
        exact = json.loads(again) == json.loads(sent)
        back.add(exact, len(code.losses(read)))
        if not exact:
            odd.append(f"{path.name}: {'; '.join(each.message for each in code.losses(read)) or 'differs'}")
        if not read.nodes:
            odd.append(f"{path.name}: nothing in it runs, so there is no code")
    seconds = perf_counter() - began
    for path in sorted(folder.rglob("*.json")):
        content = path.read_bytes()
        if page.is_it(content):
            graph = page.load(content, path.stem)
            same.add(_value(page.dump(graph)) == _value(content), len(page.losses(graph)))
    print(f"{back.files} templates, {nodes:,} nodes that run: loaded, checked, converted to the server's form, to code")
    print(f"and back in {seconds:.1f} s on one core (aim: 20 s); {issues:,} issues, by the classes that are given")
    print(*odd, sep="\n")
    return iter((same, back))


def _value(content: bytes) -> str:
    return json.dumps(json.loads(content))


def installed() -> Path | None:
    """Return the folder of comfyui-workflow-templates-json, if it is installed."""
    package = find_spec("comfyui_workflow_templates_json")
    return Path(package.origin).parent if package and package.origin else None


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if an unlisted loss occurred."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("templates", nargs="?", type=Path, metavar="DIR", default=installed())
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        print(f"{options.data} is not there; nothing to read")
        return 0
    definitions = read_definitions((options.data / "comfyui/object_info.json").read_text(encoding="utf-8"))
    rows = [*chat2workflow(options.data), *comfyui(options.data, definitions), *worfbench(options.data)]
    if options.templates:
        rows += templates(options.templates, definitions)
    print("| way | files | read | the same | losses listed | lost in silence |\n|---|---:|---:|---:|---:|---:|")
    for row in rows:
        print(f"| {row.way} | {row.files} | {row.read} | {row.exact} | {row.losses} | {row.unsaid} |")
    return int(any(row.unsaid for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
