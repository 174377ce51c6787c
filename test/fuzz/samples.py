"""Real files and small ones made here, by what reads them."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from bounds import LONGEST
from inputs import DATA, SEPARATOR

from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats import Definitions, formats, read_definitions

ROOT = Path(__file__).resolve().parents[2]
MOST = 12
"""Files of a kind to begin with."""


def files(*patterns: str) -> list[bytes]:
    """The files in `../shared/data` and in the tests that fit patterns, the shortest first."""
    found = [path for pattern in patterns for home in (DATA, ROOT / "test") for path in sorted(home.glob(pattern))]
    return sorted((path.read_bytes() for path in found if path.stat().st_size < LONGEST), key=len)[:MOST]


def fenced(language: str, *names: str) -> list[bytes]:
    """The blocks of a language in the documentation."""
    texts = [path.read_text("utf-8") for name in names or ("*",) for path in sorted((ROOT / "docs").glob(f"{name}.md"))]
    return [block.encode() for text in texts for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def joined(*parts: bytes | str) -> bytes:
    """An input of several texts."""
    return SEPARATOR.join(part if isinstance(part, bytes) else part.encode() for part in parts)


def as_json(*values: Any) -> list[bytes]:
    """Each value as JSON."""
    return [json.dumps(value).encode() for value in values]


@cache
def definitions() -> Definitions:
    """The classes of a ComfyUI server; none on a machine without the real data."""
    file = DATA / "comfyui/object_info.json"
    return read_definitions(file.read_text("utf-8")) if file.is_file() else Definitions()


@cache
def graph() -> NodeGraph:
    """A workflow with nodes of many types."""
    kinds: list[tuple[str, Any, list[tuple[str, int]]]] = [
        ("start", {"variables": [["text", "string"], ["list", "array[string]"], ["n", "number"], ["f", "file"]]}, []),
        ("llm", {"system": "You are kind.", "user": "Say {{#1.text#}}"}, [("1", 0)]),
        ("if-else", {"cases": [[None, [[["n", "1"], ">", "2"]]], ["and", [[["text", "1"], "empty"]]]]}, [("2", 0)]),
        ("code", {"variables": [["a", ["n", "1"]]], "outputs": [["b", "number"]], "code": "def main(a):\n  return {'b': a}"}, [("3", 0)]),
        ("template-transform", {"variables": [["a", ["text", "2"]]], "template": "{% for x in a %}{{ x }}{% endfor %}"}, [("3", 1)]),
        ("question-classifier", {"query_variable_selector": ["text", "1"], "classes": ["a", "b"]}, [("3", 2)]),
        ("iteration", {"iterator_selector": ["list", "1"], "output_selector": ["text", "7-2"]}, [("6", 0), ("6", 1)]),
        ("end", {"outputs": [["said", ["output", "7"]]]}, [("7", 0), ("4", 0), ("5", 0)]),
    ]  # fmt: skip
    nodes = [NodeSpec(str(number), kind, params) for number, (kind, params, _) in enumerate(kinds, 1)]
    edges = [Edge(source, str(n), port) for n, (*_, after) in enumerate(kinds, 1) for source, port in after]
    nodes += [
        NodeSpec("7-1", "iteration-start", {}, "7"),
        NodeSpec("7-2", "llm", {"system": "", "user": "{{#7.item#}}"}, "7"),
    ]
    return NodeGraph(nodes, [*edges, Edge("7-1", "7-2")], "fuzz")


def of_format(name: str) -> list[bytes]:
    """Files of a format."""
    return list(_of_formats(name))


def _of_formats(name: str) -> Iterator[bytes]:
    if not name.startswith("comfyui"):
        yield FORMATS[name].dump(graph())
    match name:
        case "dify" | "flowise" | "coze-canvas":
            folder = "dify/*.yml" if name == "dify" else f"{name.replace('-', '_')}_cases/*.json"
            yield from files(f"unit/data/{folder}")
        case "operad":
            yield from fenced("yaml", "formats", "nodes*", "edit")
        case "chat2workflow":
            written = FORMATS[name].dump(graph())
            yield b"<node_selection>Start, LLM</node_selection>\n<workflow>" + written + b"</workflow>"
            yield from responses()
        case "worfbench":
            yield from golds()
        case "comfyui":
            yield _page()
            yield from files("comfyui/workflows/*.json")
        case "comfyui-api":
            yield FORMATS[name].dump(FORMATS["comfyui"].load(_page(), "fuzz"))
            yield from files("comfyui/api/*.json")
        case "comfyui-picture":
            page = FORMATS["comfyui"].load(_page(), "fuzz")
            yield FORMATS[name].dump(page)
        case "comfyui-code":
            ui, _, code, _ = formats(definitions())
            yield from (code.dump(ui.load(page, "fuzz")) for page in of_format("comfyui"))
        case _:
            pass


def responses() -> list[bytes]:
    """Answers of models to Chat2Workflow's instructions."""
    file = DATA / "chat2workflow/may/glm_4d6.json"
    listed = json.loads(file.read_text("utf-8")) if file.is_file() else []
    return sorted((item["workflow"].encode() for item in listed if item["valid"]), key=len)[:MOST]


def golds() -> list[bytes]:
    """WorFBench's workflows."""
    file = DATA / "worfbench/wikihow.json"
    listed = json.loads(file.read_text("utf-8")) if file.is_file() else []
    return [item["conversations"][-1]["content"].encode() for item in listed[:MOST]]


def conversations() -> list[bytes]:
    """Answers of models in recorded conversations."""
    found: list[bytes] = []
    for path in sorted((ROOT / "test/unit/data/conversations").glob("*.json")):
        found += _texts(json.loads(path.read_text("utf-8")))
    return found


def _texts(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield value.encode()
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _page() -> bytes:
    nodes = [
        {
            "id": 1,
            "type": "Load",
            "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}],
            "widgets_values": ["a"],
        },
        {
            "id": 2,
            "type": "sub",
            "inputs": [{"name": "in", "type": "IMAGE", "link": 1}],
            "outputs": [{"type": "IMAGE"}],
        },
        {"id": 3, "type": "Save", "inputs": [{"name": "images", "type": "IMAGE", "link": 2}], "mode": 4},
    ]
    inner = {"id": 5, "type": "Reroute", "inputs": [{"name": "", "type": "*"}], "outputs": [{"type": "*"}]}
    links = [
        {"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 5, "target_slot": 0, "type": "*"},
        {"id": 2, "origin_id": 5, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "*"},
    ]
    ends = {"inputs": [{"name": "in"}], "outputs": [{"name": "out"}]}
    sub = {"id": "sub", "name": "Sub", "nodes": [inner], "links": links, **ends}
    outer = [[1, 1, 0, 2, 0, "IMAGE"], [2, 2, 0, 3, 0, "IMAGE"]]
    return json.dumps({"nodes": nodes, "links": outer, "definitions": {"subgraphs": [sub]}, "version": 0.4}).encode()


# Documents


def documents(suffix: str) -> list[bytes]:
    """Documents of a kind, by how their names end."""
    made = {
        ".docx": _docx,
        ".eml": lambda: (
            b"From: a@b.c\nSubject: =?utf-8?q?Hi?=\nContent-Type: multipart/mixed; boundary=x\n\n"
            b"--x\nContent-Type: text/plain; charset=latin-1\n\nHello\n--x\nContent-Type: text/html\n\n<b>Hi</b>\n--x--\n"
        ),
        ".epub": _epub,
        ".html": lambda: (
            b"<html><head><meta charset=utf-8><title>T</title></head><body><h1>H</h1><p>a <b>b</b></p>"
            b"<table><tr><th>x<td>1</table><ul><li>i<ol><li>j</ol></ul><img src='data:image/png;base64,AAAA'></body></html>"
        ),
        ".pdf": _pdf,
        ".pptx": _pptx,
        ".csv": lambda: b'name;price\n"Figs; dried";2,50\n\xd6l;7\n',
        ".txt": lambda: "Überschrift\n===\n\nEin Satz. Noch einer.\n\n1. Punkt\n".encode("cp1252"),
        ".md": lambda: b"# One\n\nText.\n\n```python\n# no heading\n```\n\n## Two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        ".xlsx": _xlsx,
    }
    return [made[suffix]()]


def _packed(parts: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return packed.getvalue()


def _docx() -> bytes:
    word, office = "schemas.openxmlformats.org/wordprocessingml/2006/main", "schemas.openxmlformats.org"
    cell = "<w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc>"
    return _packed(
        {
            "[Content_Types].xml": f'<Types xmlns="http://{office}/package/2006/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="http://{office}/package/2006/relationships"><Relationship Id="r1" '
            f'Type="http://{office}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>'
            "</Relationships>",
            "word/document.xml": f'<w:document xmlns:w="http://{word}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/>'
            f"</w:pPr><w:r><w:t>Title</w:t></w:r></w:p><w:tbl><w:tr>{cell}{cell}</w:tr></w:tbl></w:body></w:document>",
        }
    )


def _epub() -> bytes:
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    item = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
    return _packed(
        {
            "META-INF/container.xml": container,
            "c.opf": f"<package><metadata/><manifest>{item}</manifest><spine><itemref idref='a'/></spine></package>",
            "a.xhtml": "<html><body><h1>Title</h1><p>Text</p></body></html>",
        }
    )


def _pdf() -> bytes:
    drawn = "BT /F1 12 Tf 20 100 Td (Some text) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 500 200] /Contents 5 0 R "
        "/Resources << /Font << /F1 3 0 R >> >> >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
    ]
    body = "".join(f"{number} 0 obj\n{thing}\nendobj\n" for number, thing in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer << /Size 6 /Root 1 0 R >>\n%%EOF\n".encode()


def _pptx() -> bytes:
    show = import_module("pptx").Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Title"
    slide.placeholders[1].text = "Text"
    packed = io.BytesIO()
    show.save(packed)
    return packed.getvalue()


def _xlsx() -> bytes:
    book: Any = import_module("openpyxl").Workbook()
    for row in [["name", "price"], ["figs", 2], ["dates", 1.5], [None, "=A1"]]:
        book.active.append(row)
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def sqlite(make: Any) -> list[bytes]:
    """The file that `make` makes at a path."""
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "file.sqlite"
        make(path)
        return [path.read_bytes()]


def lines(*values: Any) -> bytes:
    """JSON lines."""
    return b"".join(each + b"\n" for each in as_json(*values))
