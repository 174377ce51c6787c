"""Export of a workflow in another format, as Python or as a picture, with its losses."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pprint import pformat
from typing import Any, cast, get_args

from operad.configs.chart import experts_chart, experts_page
from operad.configs.flow import called
from operad.configs.loader import preview
from operad.flows.formats.format import without_instructions, without_sticky_notes
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph, NodeSpec, PictureTarget, draw
from operad.operators.media.mermaid import render_mermaid
from operad.operators.variables import plain
from operad.runtime.values.errors import InputError, did_you_mean
from operad.server.studio.file_json import inputs_of, losses_json, models_json
from operad.server.studio.files.open_file import Content, OpenFile

PYTHON = "python"
_SAMPLES: Mapping[str, Any] = {"number": 1, "boolean": True, "object": {}, "array[string]": ["…"]}
_TITLES = {
    "operad": "Operad YAML", "dify": "Dify", "coze": "Coze (archive)",
    "coze-canvas": "Coze Studio (canvas JSON)", "flowise": "Flowise (AgentFlow v2)",
    "chat2workflow": "Chat2Workflow JSON",
    "mermaid": "Mermaid flowchart", "worfbench": "WorFBench JSON", PYTHON: "Python that builds it",
    "svg": "Picture (SVG)", "png": "Picture (PNG)", "md": "Markdown with a flowchart",
}  # fmt: skip


def targets(content: Content) -> list[dict[str, str]]:
    """Return the formats in which a content can be exported."""
    pictures = list(get_args(PictureTarget))
    if content.format is None:
        names = pictures
    elif not content.format.runs:
        names = [content.format.name, *pictures]
    else:
        names = [*(name for name, each in FORMATS.items() if each.of_server is None), PYTHON, *pictures]
    return [{"name": name, "title": _TITLES.get(name, name)} for name in names]


def export(file: OpenFile, target: str) -> dict[str, Any]:
    """Return a file in a format: the losses, the name, and the text, or the content as base64.

    Raises:
        InputError: The file cannot be exported in the format.
        OperadError: The file cannot be drawn.
    """
    content = file.content
    names = [format_["name"] for format_ in targets(content)]
    if target not in names:
        raise InputError(
            f"there is no format {target[:40]!r}{did_you_mean(target, names)}; there are: {', '.join(names)}"
        )
    stem = called(file.name, FORMATS)
    if target == PYTHON:
        return _export_json(f"{stem}.py", python_of(content.graph).encode(), _python_losses(content.graph))
    if target in get_args(PictureTarget):
        return _export_json(f"{stem}.{target}", _picture(file, cast("PictureTarget", target)), [])
    found = FORMATS[target]
    same = content.format is found
    data = content.data if same else found.dump(content.graph)
    told = _export_json(f"{stem}{found.suffix}", data, losses_json(content.graph, found))
    return told | {"models": [] if same else models_json(content.graph, found)}


def _export_json(name: str, data: bytes, losses: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {"losses": losses, "name": name}
    try:
        return result | {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return result | {"base64": base64.b64encode(data).decode()}


def _picture(file: OpenFile, target: PictureTarget) -> bytes:
    if file.content.format is not None:
        return draw(file.content.graph, target)
    configuration = preview(file.path)
    if target == "md":
        return experts_page(configuration).encode("utf-8", "replace")
    return render_mermaid(experts_chart(configuration), target)


def python_of(graph: NodeGraph) -> str:
    """Return a Python program that builds and runs a workflow."""
    inputs = {each["name"]: _SAMPLES.get(each["type"], "…") for each in inputs_of(graph)}
    lines = [
        '"""A workflow of typed nodes, written by operad studio."""',
        "",
        "from operad.flows.assemble import assemble",
        "from operad.flows.node_graph import Edge, NodeGraph, NodeSpec",
        "from operad.operators.nodes import NODE_TYPES",
        "from operad.runtime import Job, MonoModelReasoner",
        "",
        "nodes = [",
        *(line for spec in graph.nodes for line in _node_lines(spec)),
        "]",
        "edges = [",
        *(f"    Edge({_edge_arguments(each.source, each.target, each.port)})," for each in graph.edges),
        "]",
        f"graph = NodeGraph(nodes, edges, name={graph.name!r})",
        "",
        'if __name__ == "__main__":',
        "    workflow = assemble(graph, NODE_TYPES)",
        f"    inputs = {inputs!r}",
        f"    message = workflow.execute(Job(goal={graph.name!r}, inputs=inputs), MonoModelReasoner())",
        "    print(dict(message.outputs))",
        "",
    ]
    return "\n".join(lines)


def _node_lines(spec: NodeSpec) -> Iterator[str]:
    named = {"parent": spec.parent, "title": spec.title}
    more = [f"{key}={value!r}" for key, value in named.items() if value]
    params = pformat(plain(spec.params), width=100, sort_dicts=False).splitlines() or ["{}"]
    if len(params) == 1 and len(params[0]) < 80:
        yield f"    NodeSpec({spec.id!r}, {spec.type!r}, {', '.join([params[0], *more])}),"
        return
    yield "    NodeSpec("
    yield f"        {spec.id!r},"
    yield f"        {spec.type!r},"
    yield f"        {params[0]}{',' if len(params) == 1 else ''}"
    for number, line in enumerate(params[1:], 2):
        yield f"        {line}{',' if number == len(params) else ''}"
    yield from (f"        {each}," for each in more)
    yield "    ),"


def _edge_arguments(source: str, target: str, port: int) -> str:
    return f"{source!r}, {target!r}, {port}" if port else f"{source!r}, {target!r}"


def _python_losses(graph: NodeGraph) -> list[dict[str, Any]]:
    lost = [(issue.message, False) for issue in (*without_instructions(graph), *without_sticky_notes(graph))]
    if graph.is_imported:
        lost.append(("settings that only the original platform has", True))
    return [{"where": "", "what": message, "foreign": is_foreign} for message, is_foreign in lost]
