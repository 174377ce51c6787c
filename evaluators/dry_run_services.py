"""Substitutes for external services in a dry run: files, answers of models, the web."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, cast

from json_repair import loads

from operad.evaluators.branches import ADDRESS, MadeUpValues
from operad.flows.check import Checker
from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeGraph
from operad.operators.integration import integrations, named
from operad.operators.media.markdown import MarkdownTarget, export_markdown
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.containers import SubWorkflow
from operad.operators.nodes.flow import StartParams, StartVariable, read_value
from operad.operators.services import Sent, Services
from operad.operators.variables import VariableType, as_text, fits
from operad.operators.web.endpoints import ImageModel
from operad.operators.web.fetch import Fetched, Guard
from operad.operators.web.search import SearchResult
from operad.runtime.events import current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.reasoning.task import Task
from operad.runtime.testing import plausible
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

T = VariableType

MARKDOWN = "# A report\n\nSome *words*, and a table:\n\n| quarter | sales |\n|---|---|\n| 1 | 10 |\n| 2 | 12 |\n"
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGMwSJiAFTEMLQkACmxIAasRElQAAAAASUVORK5CYII=")
"""Image of 8 by 8 pixels."""

PAGE = b"<html><head><title>A page</title></head><body><h1>A page</h1><p>Some words.</p></body></html>"

DIAGRAM = "flowchart TD\n  A[Start] --> B[End]"

_TEXTS_BY_NAME = {"date": "2024-03-15", "url": ADDRESS, "link": ADDRESS, "mermaid": DIAGRAM}
"""Texts by words in the name of a variable."""

WORDS = "Some words on the matter."
"""Text of variables with other names."""

TABLE = "| what | how many |\n|---|---|\n| one | 1 |"
"""Table in the texts of workflows that make spreadsheets from them."""

_NUMBER_NAME = re.compile("(?:.*_)?(?:score|count|number|amount|total|rating|index)", re.IGNORECASE)
"""Names of variables that are numbers."""

_LIST_NAME = re.compile(r"\w*[^isu]s", re.IGNORECASE)
"""Names of variables that are usually lists: plurals."""

_DIVIDERS = re.compile(r"(?:-{3,}|={3,}|#{3,}) ?[A-Z][A-Z_ ]*(?:-{3,}|={3,}|#{3,})")
"""Lines that a prompt asks for between the parts of an answer."""

_IMAGE_SUFFIXES = ("png", "jpg", "jpeg")
_SUFFIXES_BY_NAME = {
    re.compile("image|pict|photo|png|formula|screenshot"): "png",
    re.compile("excel|sheet|sales|data"): "xlsx",
    re.compile("code"): "py",
}
"""Suffixes of files by words in the name of a variable."""


# Files


async def file(suffix: str) -> bytes:
    """Return a small file of a type; if the package that creates the type is not installed, its text.

    Args:
        suffix: Suffix of the file's name, without the dot.
    """
    if suffix in _IMAGE_SUFFIXES:
        return PNG
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
    """Return a spreadsheet of sales; CSV if openpyxl is not installed."""
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
    """Return the given value of an input if it fits, or else a made-up value."""
    match variable.type:
        case T.FILE:
            return await _file(variable.name, _first(given), folder, as_text)
        case T.ARRAY_FILE:
            several = cast("list[Any]", given) if isinstance(given, list) else [given, given]
            return [await _file(variable.name, item, folder, as_text) for item in several]
        case kind if given is not None and _is_readable(given, kind):
            return given
        case T.STRING if re.search("url|link|address|website", variable.name.lower()):
            return ADDRESS
        case kind:
            return plausible(kind.json_schema())


def _first(given: Any) -> Any:
    values = cast("list[Any]", given) if isinstance(given, list) else [given]
    return values[0] if values else None


def _is_readable(given: Any, kind: VariableType) -> bool:
    """Return whether a value can be read as a type."""
    try:
        read_value(given, kind)
    except InputError:
        return False
    return True


async def _file(name: str, given: Any, folder: Path, as_text: bool) -> str:
    """Create an input file of the type that a given name has, or that the variable's name suggests; return its path."""
    given_name = str(cast("dict[str, Any]", given).get("value", "")) if isinstance(given, dict) else str(given or "")
    likely_suffix = next((each for words, each in _SUFFIXES_BY_NAME.items() if words.search(name.lower())), "md")
    suffix = given_name.rpartition(".")[2].lower() if "." in given_name else likely_suffix
    suffix = "md" if as_text and suffix in _IMAGE_SUFFIXES else suffix
    path = folder / f"input.{re.sub(r'[^a-z0-9]', '', suffix)[:10]}"
    if not path.exists():
        path.write_bytes(await file(suffix))
    return str(path)


# Models

_NO_VALUES = MadeUpValues()


@dataclass(frozen=True)
class Answers:
    """Reasoner with made-up answers that fit the requested schema, or that are text, a diagram or JSON as prompted.

    Objects without declared properties get the keys that the workflow's code reads.

    Attributes:
        keys: Keys that the workflow's code reads.
        made_up: Made-up values that replace plausible ones.
        samples: Samples of the answers of agents, by node id.
        tables: True if texts contain a table, because a node makes a spreadsheet from them.
    """

    keys: Sequence[str] = ()
    made_up: MadeUpValues = _NO_VALUES
    tables: bool = False
    samples: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def for_workflow(cls, graph: NodeGraph, made_up: MadeUpValues = _NO_VALUES) -> Answers:
        """Return the answers for a workflow, with made-up values that replace plausible ones."""
        code = "\n".join(str(node.params.get("code", "")) for node in graph.nodes)
        keys = tuple(dict.fromkeys(re.findall(r"""(?:\[|\.get\()\s*['"]([^'"]+)['"]""", code)))
        agents = {spec.id for spec in graph.nodes if spec.type == "agent"}
        samples = {node: answer for node, answer in graph.samples.items() if node in agents}
        return cls(keys, made_up, "xlsx" in _param_texts(graph, "markdown-exporter", "target_type"), samples)

    async def infer(self, task: Task) -> str:
        """Answer a task."""
        scope = current_scope()
        wanted = self.made_up.of(scope.operator_id) if scope else {}
        if "class_name" in wanted:
            return str(wanted["class_name"])
        if task.output_schema.schema is not None:
            filled = self._filled(plausible(task.output_schema.schema))
            return json.dumps(_with_values(filled, {**self.made_up.named, **wanted}), ensure_ascii=False)
        if scope and scope.operator_id in self.samples and "text" not in wanted:
            return as_text(self.samples[scope.operator_id])
        prompt = "\n".join((task.instruction, task.job.goal))
        if re.search("mermaid", prompt, re.IGNORECASE):
            parts = (f"{divider}\n{DIAGRAM}" for divider in dict.fromkeys(_DIVIDERS.findall(prompt)))
            return "\n".join((WORDS, *parts)) if _DIVIDERS.search(prompt) else DIAGRAM
        if re.search(r"\bjson\b", prompt, re.IGNORECASE):
            shown, in_brackets = _example_in(prompt)
            example = _with_values(shown or _keys_in(prompt) or {"text": "text"}, self.made_up.named)
            is_list = in_brackets or re.search(r"\bjson\s+(?:array|list)\b", prompt, re.IGNORECASE)
            return json.dumps([example] if is_list else example, ensure_ascii=False)
        return as_text(wanted.get("text", f"{WORDS}\n\n{TABLE}" if self.tables else WORDS))

    def _filled(self, value: Any, name: str = "") -> Any:
        """Return a made-up value with texts that fit the names of fields, and with keys in empty objects."""
        if isinstance(value, dict):
            filled = {key: self._filled(each, key) for key, each in cast("dict[str, Any]", value).items()}
            return filled or {key: self._filled("1", key) for key in self.keys}
        if isinstance(value, list):
            return [self._filled(item, name) for item in cast("list[Any]", value)]
        if value not in ("text", "1"):
            return value
        return next((fits for word, fits in _TEXTS_BY_NAME.items() if word in name.lower()), value)


def _with_values(value: Any, wanted: Mapping[str, Any]) -> Any:
    """Return an object with wanted values in the fields of these names."""
    if not isinstance(value, dict):
        return value
    return {key: wanted.get(key, field_value) for key, field_value in cast("dict[str, Any]", value).items()}


def _example_in(prompt: str) -> tuple[dict[str, Any], bool]:
    """Return the largest JSON object that a prompt shows as an example, and whether it is an item of a list.

    Placeholders in angle brackets are filled.
    """
    text = re.sub(r"\{\{#.*?#\}\}", "", prompt[:100_000])
    shown = [
        (cast("dict[str, Any]", example), text[: found.start()].rstrip().endswith("["))
        for found in re.finditer(r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}", text)
        if '"' in found[0] and isinstance(example := cast("Any", loads(re.sub(r"<[^<>]*>", "1", found[0]))), dict)
    ]
    return max(shown, key=lambda each: len(each[0]), default=(dict[str, Any](), False))


def _keys_in(prompt: str) -> dict[str, Any]:
    """Return an object with the keys that a prompt names in quotes after it asks for JSON."""
    _, _, after = prompt.lower().partition("json")
    after = prompt[len(prompt) - len(after) :][:1_000]
    names = re.findall(r"""(?<!\w)(['"`])([A-Za-z_]\w{0,40})\1""", after)
    return {name: _value_of(name) for _, name in names}


def _value_of(name: str) -> Any:
    """Return a value that fits a name."""
    return 1 if _NUMBER_NAME.fullmatch(name) else ["text"] if _LIST_NAME.fullmatch(name) else "text"


# The web, tools and knowledge

_NOTHING = NodeGraph()


class _Images(ImageModel):
    async def generate(self, prompt: str, *, count: int = 1) -> list[tuple[bytes, str]]:
        """Return the same small image as often as requested."""
        return [(PNG, "image/png")] * count


class _Search:
    """Search with up to three fixed results."""

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        return [
            SearchResult(
                title=f"Result {n}", url=f"https://example.org/{n}", content="Some words.", site_name="Example"
            )
            for n in range(1, min(limit, 3) + 1)
        ]


@dataclass(frozen=True)
class _Others:
    """Answers of other systems: the samples of the workflow, or else an answer that is made up.

    Attributes:
        made_up: Made-up values that replace answers.
        answer: The made-up answer of all systems; None for the usual one of a node.
    """

    graph: NodeGraph
    made_up: MadeUpValues
    answer: Any

    def of_node(self, usual: Any) -> Any:
        """Return the answer for the node that runs; `usual` if none was given."""
        scope = current_scope()
        given = self.graph.samples.get(scope.operator_id, self.answer) if scope else self.answer
        return usual if given is None else given

    def response(self, url: str, kind: str, usual: str) -> Fetched:
        """Return a response to the node that runs, with the status and the body that are made up for it."""
        scope = current_scope()
        wanted = self.made_up.of(scope.operator_id) if scope else {}
        answer = self.of_node(usual)
        fields = fields_of(answer)
        if "body" in fields and fields.keys() <= _RESPONSE:  # a sample of all outputs of the node
            answer = fields["body"]
        body = wanted.get("body", answer)
        headers = {"content-type": kind if isinstance(body, str) else "application/json"}
        return Fetched(int(wanted.get("status_code", 200)), url, headers, as_text(body).encode())

    def tool(self, name: str) -> Tool:
        """Return a tool with a name that accepts any arguments."""

        async def stand_in(**arguments: Any) -> Any:
            """Return the same words for all arguments."""
            return self.of_node(WORDS)

        named = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"
        return Tool(name=named, parameters={"type": "object"}, function=stand_in)

    def workflows(self) -> dict[str, Workflow]:
        """Return workflows with results of the declared types, by the names that nodes run them by."""
        checker = Checker(self.graph, NODE_TYPES)
        found: dict[str, Workflow] = {}
        for node in checker.nodes.values():
            if isinstance(node, SubWorkflow):
                workflow = found.setdefault(node.params.workflow, BuiltinWorkflow(name=node.params.workflow))
                if not workflow.graph().operators:
                    workflow.add_operator(_Results(self, checker))
        return found


class _Results(BaseOperator[Any]):
    """Operator that gives the results that the node around its workflow declares.

    Args:
        others: Answers of other systems.
        checker: The checked workflow of the node.
    """

    def __init__(self, others: _Others, checker: Checker) -> None:
        self._others = others
        self._outputs = checker.outputs

    def get_id(self) -> str:
        """Return an id."""
        return "results"

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Return the sample of the node's results, or made-up values of the declared types."""
        scope = current_scope()
        ids = [each.operator_id for each in scope.outwards()] if scope else []
        node = next((each for each in ids if each in self._outputs), "")
        answer = self._others.graph.samples.get(node, self._others.answer)
        given = fields_of(self._others.graph.samples.get(node))
        results = {name: self._result(kind, answer) for name, kind in self._outputs.get(node, {}).items()}
        return WorkflowMessage(outputs={**results, **{name: given[name] for name in results if name in given}})

    def _result(self, kind: VariableType, answer: Any) -> Any:
        """Return the answer as a value of a type, or else a made-up value of the type."""
        value = as_text(answer) if kind is T.STRING and answer is not None else answer
        fit = value is not None and fits(value, kind)
        return value if fit else [] if kind is T.ARRAY_FILE else None if kind.is_file else plausible(kind.json_schema())


_RESPONSE = frozenset({"body", "status_code", "headers", "files"})
"""Outputs of nodes that send requests."""


class _Knowledge:
    """Knowledge base with a single passage."""

    def retrieve(self, query: str) -> Knowledge:
        """Return the same passage for every query."""
        return Knowledge(passages=(Passage(text=WORDS, source="a.md", score=1.0),))


def _param_texts(graph: NodeGraph, node_type: str, name: str) -> list[str]:
    """Return the texts in a parameter of all nodes of a type."""
    values = [fields_of(node.params).get(name) for node in graph.nodes if node.type == node_type]
    listed = [item for value in values for item in (list_of(value) if isinstance(value, list) else [value])]
    return list(dict.fromkeys(item for item in listed if isinstance(item, str)))


def services(
    folder: Path, graph: NodeGraph = _NOTHING, made_up: MadeUpValues = _NO_VALUES, answer: Any = None
) -> Services:
    """Return substitutes for the services of nodes.

    Args:
        folder: Folder for files that nodes make.
        graph: The workflow, whose tools and knowledge bases are substituted by name.
        made_up: Made-up values that replace plausible ones.
        answer: The answer of other systems to nodes of which the workflow has no sample; None for the usual ones.
    """
    others = _Others(graph, made_up, answer)

    async def fetch(url: str, guard: Guard) -> Fetched:
        return others.response(url, "text/html; charset=utf-8", PAGE.decode())

    async def send(url: str, sent: Sent, guard: Guard) -> Fetched:
        return others.response(url, "application/json", '{"text": "Some words."}')

    tools = [*_param_texts(graph, "tool", "tool"), *_param_texts(graph, "agent", "tools")]
    return Services(
        folder=folder,
        search=_Search(),
        images=_Images(name="none", base_url="http://localhost"),
        fetch=fetch,
        send=send,
        outside={name: named(home) for each in integrations() for name, home in each.rehearsed.items()},
        tools=[others.tool(name) for name in dict.fromkeys(tools)],
        workflows=others.workflows(),
        knowledge={name: _Knowledge() for name in _param_texts(graph, "knowledge-retrieval", "knowledge")},
        secrets=lambda name: "a key",
    )
