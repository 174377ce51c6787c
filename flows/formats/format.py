"""Format of workflow files: detection, reading, writing and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from operad.flows.check import check
from operad.flows.formats.fields import Remark
from operad.flows.formats.json_text import MAX_BYTES
from operad.flows.formats.kept_text import keep_text
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.flows.secrets import kept_keys, names_where_none_is_sent, with_named_keys_of_file, without_file_secrets
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime.values.errors import InputError, InvalidError, Issue, shorten
from operad.runtime.values.text import short_line

_DIFFERENCE = frozenset({"at", "items", "was", "is", "without"})
"""Keys of a stored difference between a file and what its format would write by itself (`formats.overlay`)."""


def check_nodes(graph: NodeGraph, services: Services | None = None) -> list[Issue]:
    """Return all issues of a workflow of the node types that come with Operad."""
    return check(graph, NODE_TYPES, services)


def no_lines(data: bytes) -> Mapping[str, int]:
    """Return no lines, for a format that cannot tell the lines of its nodes."""
    return {}


def no_remarks(graph: NodeGraph) -> Sequence[Remark]:
    """Return no remarks, for a format whose files run here as on their platform."""
    return ()


def no_models(graph: NodeGraph) -> Sequence[Issue]:
    """Return no models, for a format whose files name only those that nodes name."""
    return ()


class Greeting(NamedTuple):
    """Greeting of a conversation, which users see before they write.

    Attributes:
        text: The first message; empty for none.
        questions: Suggested questions.
    """

    text: str = ""
    questions: tuple[str, ...] = ()


def no_greeting(graph: NodeGraph) -> Greeting:
    """Return no greeting, for a format that has none."""
    return Greeting()


def content_of(source: str | bytes | Path) -> bytes:
    """Return the content of a workflow file.

    Args:
        source: The content, as text or bytes; or the path of the file, of which at most one byte more than `MAX_BYTES`
            is read, so that formats refuse it.

    Raises:
        InputError: The file cannot be read.
    """
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise InputError(f"{source}: cannot be read: {error.strerror or error}") from error
    return source.encode("utf-8", errors="replace") if isinstance(source, str) else source


@dataclass(frozen=True, slots=True)
class Format:
    """Format of workflow files: `load` reads one, `dump` writes one.

        from pathlib import Path
        from operad.flows.formats.table import FORMATS

        graph = FORMATS["dify"].load(Path("flow.dify.yml"))
        Path("flow.coze.zip").write_bytes(FORMATS["coze"].dump(graph))

    A new format is a value of this class, which an `Integration` names.

    Attributes:
        name: Name of the format.
        suffix: Extension of its files, with the dot.
        is_it: Function that returns True for a file of this format, by its content.
        reader: Function that reads a file, given the name of a workflow that has none; raises `InvalidError` with
            every issue.
        writer: Function that writes a workflow, without what the format cannot hold, which `losses` lists.
        lost: Function that yields the `losses` of a workflow.
        issues: Function that yields the issues of a workflow, each with the id of its node.
        lines: Function that returns the line of each node of a readable file by its id, counted from 1, as far as known.
        runs: True if its nodes have the types of Operad, so that its workflows can run here.
        dump_over: Function that writes a workflow over the file that it was read from, and keeps the text of what is
            unchanged; None for files of one JSON or YAML text, in which `keep_text` keeps it.
        remarks: Function that yields how an imported workflow behaves differently here, from its `extra`.
        greeting: Function that returns the greeting of an imported workflow.
        of_server: Function that returns the format with the node classes of a server, given its address or a file; None
            for a format whose node types do not depend on a server.
        models: Function that yields the models that a file of this format names for nodes that name none, each with
            the id of its node.
        keeps_notes: True if it has a place for sticky notes.
        designer: ``module:name`` of a function that returns the `Designer` of its workflows, given the address or file for
            `of_server` (None without one) and the options of `Designer`; empty if they have Operad's node types.
    """

    name: str
    suffix: str
    is_it: Callable[[bytes], bool]
    reader: Callable[[bytes, str], NodeGraph]
    writer: Callable[[NodeGraph], bytes]
    lost: Callable[[NodeGraph], Iterable[Issue]]
    issues: Callable[[NodeGraph], Iterable[Issue]] = check_nodes
    lines: Callable[[bytes], Mapping[str, int]] = no_lines
    runs: bool = True
    dump_over: Callable[[NodeGraph, bytes], bytes] | None = None
    remarks: Callable[[NodeGraph], Iterable[Remark]] = no_remarks
    greeting: Callable[[NodeGraph], Greeting] = no_greeting
    of_server: Callable[[str], Format] | None = None
    models: Callable[[NodeGraph], Iterable[Issue]] = no_models
    keeps_notes: bool = False
    designer: str = ""

    def load(self, source: str | bytes | Path, name: str = "") -> NodeGraph:
        """Read a workflow.

        Args:
            source: The file's content, as text or bytes; or its path.
            name: Name of a workflow whose file has none; by default the name of the file without its extensions, or
                ``workflow``.

        Raises:
            InputError: The file cannot be read.
            InvalidError: The content is not of this format; every issue is listed.
        """
        of_file = source.name.partition(".")[0] if isinstance(source, Path) else ""
        return self.reader(content_of(source), name or of_file or "workflow")

    def dump(self, graph: NodeGraph) -> bytes:
        """Return the content of a file with this workflow: UTF-8, or an archive.

        The parts that the format cannot hold are left out; `losses` lists them. Keys that are written in an imported file
        are written in files of its own platform only.
        """
        return self.writer(self._writable(graph))

    def check(self, graph: NodeGraph, services: Services | None = None) -> list[Issue]:
        """Return the issues of a workflow, each with the id of its node.

        Args:
            graph: The workflow.
            services: The services of its nodes, which may allow more, such as packages of code.
        """
        return check_nodes(graph, services) if self.issues is check_nodes else list(self.issues(graph))

    def losses(self, graph: NodeGraph) -> list[Issue]:
        """Return what the format cannot hold of a workflow, each with the id of its node.

        The code is ``loss`` if results may differ without it, and ``note`` if nothing that runs changes.
        """
        return [*self._losses(graph), *(() if self.keeps_notes else without_sticky_notes(graph))]

    def _losses(self, graph: NodeGraph) -> list[Issue]:
        if self._is_own(graph) or not graph.is_imported:
            return list(self.lost(graph))
        named, secrets = with_named_keys_of_file(graph)
        notes = [Issue("note", f"the key {name}; give its value by operad secrets set {name}") for name in secrets]
        notes += [
            Issue("note", f"the key in {each.field}: it stays in the imported file alone", each.node)
            for each in kept_keys(graph)
        ]
        says = "stands in place of a key: only requests send keys"
        unsent = [Issue("loss", f"{secret.in_text} {says}", node) for node, secret in names_where_none_is_sent(named)]
        return [*self.lost(named), *unsent, *notes]

    def _is_own(self, graph: NodeGraph) -> bool:
        """Return True for a workflow that was read from a file of the same platform."""
        platform = self.name.partition("-")[0]
        return platform in graph.extra or any(platform in each.extra for each in graph.nodes)

    def _writable(self, graph: NodeGraph) -> NodeGraph:
        return graph if self._is_own(graph) else without_file_secrets(graph)

    def dump_keeping_text(self, graph: NodeGraph, old: bytes | None = None) -> bytes:
        """Return the content of a file with this workflow; unchanged parts keep the text of the old file.

        Args:
            graph: The workflow.
            old: The file of this format that the workflow was read from; None for a new file.
        """
        graph = self._writable(graph)
        if old is None:
            return self.writer(graph)
        if self.dump_over:
            return self.dump_over(graph, old)
        new, load = self.writer(graph), partial(self.load, name=graph.name)
        try:
            return keep_text(old, self.writer(load(old)), new, load)
        except InvalidError:
            return new


def without_instructions(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the instructions and notes of a workflow, for a format without a place for them."""
    if graph.instructions:
        yield Issue("note", "the instructions that it was made from")
    if graph.notes:
        yield Issue("note", "the notes on it")


def without_sticky_notes(graph: NodeGraph) -> Iterator[Issue]:
    """Yield the sticky notes of a workflow, for a format without a place for them."""
    yield from (Issue("note", f"the sticky note {short_line(note.text, 60)!r}") for note in graph.sticky_notes)


def foreign(graph: NodeGraph, name: str) -> Iterator[Issue]:
    """Yield the data of other formats in a workflow, its nodes and its edges, which the format `name` cannot hold.

    They change nothing that runs here: `remarks.remarks_of` tells which of them would on their own platform. Samples of
    answers are data of Operad's own format.
    """
    if graph.samples:
        yield Issue("note", "the samples of answers, with which dry runs try it")
    owners = [("", graph.extra)]
    owners += [(node.id, node.extra) for node in graph.nodes]
    owners += [(f"sticky note {note.id}", note.extra) for note in graph.sticky_notes]
    owners += [(f"{edge.source} → {edge.target}", edge.extra) for edge in graph.edges]
    for where, extra in owners:
        yield from (Issue("note", message, where) for message in foreign_settings(extra, name))


def foreign_settings(extra: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the settings that only other formats have, a text for each format.

    Args:
        extra: The data of a workflow, a node or an edge, by format.
        name: The format that is written, whose own settings are left out.
    """
    for other, data in extra.items():
        if other != name:
            names = shorten(list(dict.fromkeys(_settings(fields_of(data)))))
            yield f"settings that only {other} has{': ' if names else ''}{names}"


def _settings(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the settings; the data of Dify are differences, which contain them."""
    for key, value in data.items():
        inner = fields_of(value)
        yield from fields_of(inner.get("at")) if inner.keys() & _DIFFERENCE else (str(key),)
