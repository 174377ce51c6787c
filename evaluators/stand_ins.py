"""Substitutes for the outside world in a dry run: files, answers of models, the web."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from struct import pack
from typing import Any, cast
from zlib import compress, crc32

from json_repair import loads

from operad.evaluators.branches import ADDRESS, Steering
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.comfyui.server import ComfyUIServer
from operad.operators.comfyui.work import ComfyUIWork, Made
from operad.operators.media.markdown import MarkdownTarget, export_markdown
from operad.operators.nodes.flow import StartParams, StartVariable, read_value
from operad.operators.services import Sent, Services
from operad.operators.variables import VariableType, as_text
from operad.operators.web.endpoints import ImageModel
from operad.operators.web.fetch import Fetched, Guard
from operad.operators.web.search import SearchResult
from operad.runtime.events import current_scope
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.reasoning.task import Task
from operad.runtime.testing import plausible
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError, MissingExtraError

T = VariableType

MARKDOWN = "# A report\n\nSome *words*, and a table:\n\n| quarter | sales |\n|---|---|\n| 1 | 10 |\n| 2 | 12 |\n"
PAGE = b"<html><head><title>A page</title></head><body><h1>A page</h1><p>Some words.</p></body></html>"

DIAGRAM = "flowchart TD\n  A[Start] --> B[End]"

_BY_NAME = {"date": "2024-03-15", "url": ADDRESS, "link": ADDRESS, "mermaid": DIAGRAM}
"""Texts by words in the variable's name."""

WORDS = "Some words on the matter."
"""Text for other names."""

TABLE = "| what | how many |\n|---|---|\n| one | 1 |"
"""Table in the texts of workflows that make spreadsheets of them."""

_NUMBERS = re.compile("(?:.*_)?(?:score|count|number|amount|total|rating|index)", re.IGNORECASE)
"""Names of what is a number."""

_SEVERAL = re.compile(r"\w*[^isu]s", re.IGNORECASE)
"""Names of what is a list, as a rule."""

_DIVIDERS = re.compile(r"(?:-{3,}|={3,}|#{3,}) ?[A-Z][A-Z_ ]*(?:-{3,}|={3,}|#{3,})")
"""Lines that a prompt wants between the parts of an answer."""

_PICTURES = ("png", "jpg", "jpeg")
_SUFFIXES = {
    re.compile("image|pict|photo|png|formula|screenshot"): "png",
    re.compile("excel|sheet|sales|data"): "xlsx",
    re.compile("code"): "py",
}
"""Suffixes of files by words in the variable's name."""


# Files


def png() -> bytes:
    """A picture of 8 by 8 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    rows = b"".join(b"\0" + b"\x30\x60\x90" * 8 for _ in range(8))
    header = pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", compress(rows)) + chunk(b"IEND", b"")


async def file(suffix: str) -> bytes:
    """Return a small file, if the package that creates its type is installed; otherwise, the text of the file.

    Args:
        suffix: Suffix of its name, without the dot.
    """
    if suffix in _PICTURES:
        return png()
    if suffix == "xlsx":
        return _table()
    if suffix in ("docx", "pptx", "pdf"):
        try:
            return await export_markdown(MARKDOWN, cast("MarkdownTarget", suffix))
        except MissingExtraError:
            return MARKDOWN.encode()
    texts = {"py": "print('hello')\n", "html": PAGE.decode(), "csv": "a,b\n1,2\n", "json": '{"a": 1}\n'}
    return texts.get(suffix, MARKDOWN).encode()


def _table() -> bytes:
    """A table of sales."""
    try:
        from openpyxl import Workbook
    except ImportError:
        return b"Order Date,Region,Product,Sales,Profit\n2024-01-05,North,Tea,10,2.5\n"
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


# Inputs


async def inputs_of(graph: NodeGraph, folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each input of a valid workflow.

    Args:
        graph: The workflow.
        folder: Folder for input files.
        given: Values to use where they fit; for files, names that determine their types.
    """
    start = next(node for node in graph.nodes if node.type == "start")
    read = {tuple(node.params["variable_selector"]) for node in graph.nodes if node.type == "document-extractor"}
    values: dict[str, Any] = {}
    for variable in StartParams(**start.params).variables:
        as_text = (variable.name, start.id) in read
        values[variable.name] = await _input(variable, given.get(variable.name), folder, as_text)
    return values


async def _input(variable: StartVariable, given: Any, folder: Path, as_text: bool) -> Any:
    match variable.type:
        case T.FILE:
            return await _file(variable.name, _first(given), folder, as_text)
        case T.ARRAY_FILE:
            several = cast("list[Any]", given) if isinstance(given, list) else [given, given]
            return [await _file(variable.name, each, folder, as_text) for each in several]
        case kind if given is not None and _reads(given, kind):
            return given
        case T.STRING if re.search("url|link|address|website", variable.name.lower()):
            return ADDRESS
        case kind:
            return plausible(kind.json_schema())


def _first(given: Any) -> Any:
    values = cast("list[Any]", given) if isinstance(given, list) else [given]
    return values[0] if values else None


def _reads(given: Any, kind: VariableType) -> bool:
    try:
        read_value(given, kind)
    except InputError:
        return False
    return True


async def _file(name: str, given: Any, folder: Path, as_text: bool) -> str:
    said = str(cast("dict[str, Any]", given).get("value", "")) if isinstance(given, dict) else str(given or "")
    guessed = next((each for words, each in _SUFFIXES.items() if words.search(name.lower())), "md")
    suffix = said.rpartition(".")[2].lower() if "." in said else guessed
    suffix = "md" if as_text and suffix in _PICTURES else suffix
    path = folder / f"input.{re.sub(r'[^a-z0-9]', '', suffix)[:10]}"
    if not path.exists():
        path.write_bytes(await file(suffix))
    return str(path)


# Models

_UNSTEERED = Steering()


@dataclass(frozen=True)
class Answers:
    """Answers what fits the schema that is asked for, or text in the language that the prompt names.

    Where a schema leaves open what an object holds, it gets the keys that the workflow's code asks for.

    Attributes:
        keys: These keys.
        steering: Values that take the place of made-up ones.
        tables: True if texts hold a table, because a node makes a spreadsheet of them.
    """

    keys: Sequence[str] = ()
    steering: Steering = _UNSTEERED
    tables: bool = False

    @classmethod
    def about(cls, graph: NodeGraph, steering: Steering = _UNSTEERED) -> Answers:
        """Return the answers for a workflow, with values that take the place of made-up ones."""
        code = "\n".join(str(node.params.get("code", "")) for node in graph.nodes)
        keys = tuple(dict.fromkeys(re.findall(r"""(?:\[|\.get\()\s*['"]([^'"]+)['"]""", code)))
        return cls(keys, steering, tables="xlsx" in _named(graph, "markdown-exporter", "target_type"))

    async def infer(self, task: Task) -> str:
        """Answer a task."""
        scope = current_scope()
        wanted = self.steering.of(scope.operator_id) if scope else {}
        if "class_name" in wanted:
            return str(wanted["class_name"])
        if task.output_schema:
            filled = self._filled(plausible(json.loads(task.output_schema)))
            return json.dumps(_with(filled, {**self.steering.named, **wanted}), ensure_ascii=False)
        prompt = "\n".join((task.instruction, task.job.goal))
        if re.search("mermaid", prompt, re.IGNORECASE):
            parts = (f"{each}\n{DIAGRAM}" for each in dict.fromkeys(_DIVIDERS.findall(prompt)))
            return "\n".join((WORDS, *parts)) if _DIVIDERS.search(prompt) else DIAGRAM
        if re.search(r"\bjson\b", prompt, re.IGNORECASE):
            said = _example_in(prompt) or _named_in(prompt) or {"text": "text"}
            said = _with(said, self.steering.named)
            several = re.search(r"\bjson\s+(?:array|list)\b", prompt, re.IGNORECASE)
            return json.dumps([said] if several else said, ensure_ascii=False)
        return as_text(wanted.get("text", f"{WORDS}\n\n{TABLE}" if self.tables else WORDS))

    def _filled(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            filled = {key: self._filled(each, key) for key, each in cast("dict[str, Any]", value).items()}
            return filled or {key: self._filled("1", key) for key in self.keys}
        if isinstance(value, list):
            return [self._filled(item, name) for item in cast("list[Any]", value)]
        if value not in ("text", "1"):
            return value
        return next((fits for word, fits in _BY_NAME.items() if word in name.lower()), value)


def _with(said: Any, wanted: Mapping[str, Any]) -> Any:
    """An object with other values in the fields of some names."""
    if not isinstance(said, dict):
        return said
    return {key: wanted.get(key, each) for key, each in cast("dict[str, Any]", said).items()}


def _example_in(prompt: str) -> dict[str, Any]:
    """The largest JSON object that a prompt shows as an example, its placeholders in angle brackets filled."""
    shown = re.findall(r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}", re.sub(r"\{\{#.*?#\}\}", "", prompt[:100_000]))
    found: list[Any] = [loads(re.sub(r"<[^<>]*>", "1", text)) for text in shown if '"' in text]
    objects = [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]
    return max(objects, key=len) if objects else {}


def _named_in(prompt: str) -> dict[str, Any]:
    """An object with the keys that a prompt names in quotes after it asks for JSON."""
    _, _, after = prompt.lower().partition("json")
    after = prompt[len(prompt) - len(after) :][:1_000]
    names = re.findall(r"""(?<!\w)(['"`])([A-Za-z_]\w{0,40})\1""", after)
    return {name: _value_of(name) for _, name in names}


def _value_of(name: str) -> Any:
    """Return a value that fits a name."""
    return 1 if _NUMBERS.fullmatch(name) else ["text"] if _SEVERAL.fullmatch(name) else "text"


# The web, tools and knowledge


_NOTHING = NodeGraph()


class _Images(ImageModel):
    async def generate(self, prompt: str, *, count: int = 1) -> list[tuple[bytes, str]]:
        """The same small picture, as often as asked."""
        return [(png(), "image/png")] * count


class _Search:
    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        return [
            SearchResult(
                title=f"Result {n}", url=f"https://example.org/{n}", content="Some words.", site_name="Example"
            )
            for n in range(1, min(limit, 3) + 1)
        ]


def _fetched(steering: Steering, url: str, kind: str, body: bytes) -> Fetched:
    """A response, with the status and the body that are wanted of the node that asks."""
    scope = current_scope()
    wanted = steering.of(scope.operator_id) if scope else {}
    said = as_text(wanted["body"]).encode() if "body" in wanted else body
    return Fetched(int(wanted.get("status_code", 200)), url, {"content-type": kind}, said)


class _Knowledge:
    """A knowledge base that finds one passage."""

    def retrieve(self, query: str) -> Knowledge:
        """Return the same passage for every query."""
        return Knowledge(passages=(Passage(text=WORDS, source="a.md", score=1.0),))


def _named(graph: NodeGraph, node_type: str, name: str) -> list[str]:
    """The texts of a parameter of the nodes of a type."""
    values = [fields_of(node.params).get(name) for node in graph.nodes if node.type == node_type]
    listed = [each for value in values for each in (list_of(value) if isinstance(value, list) else [value])]
    return list(dict.fromkeys(each for each in listed if isinstance(each, str)))


def _tool(name: str) -> Tool:
    async def stand_in(**arguments: Any) -> str:
        """Return the same words for all arguments."""
        return WORDS

    return Tool(name=re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_", parameters={"type": "object"}, function=stand_in)


def services(folder: Path, graph: NodeGraph = _NOTHING, steering: Steering = _UNSTEERED) -> Services:
    """Return substitutes for the services of nodes.

    Args:
        folder: Folder for their files.
        graph: The workflow, whose tools and knowledge bases are substituted by name.
        steering: Values that take the place of made-up ones.
    """

    async def fetch(url: str, guard: Guard) -> Fetched:
        return _fetched(steering, url, "text/html; charset=utf-8", PAGE)

    async def send(url: str, sent: Sent, guard: Guard) -> Fetched:
        return _fetched(steering, url, "application/json", b'{"text": "Some words."}')

    async def comfyui(server: ComfyUIServer, work: ComfyUIWork) -> Made:
        return [work.write("made", ".png", png())], []

    tools = [*_named(graph, "tool", "tool"), *_named(graph, "agent", "tools")]
    return Services(
        folder=folder,
        search=_Search(),
        images=_Images(name="none", base_url="http://localhost"),
        fetch=fetch,
        send=send,
        comfyui=comfyui,
        tools=[_tool(each) for each in dict.fromkeys(tools)],
        knowledge={each: _Knowledge() for each in _named(graph, "knowledge-retrieval", "knowledge")},
    )
