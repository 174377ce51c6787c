"""Open file of the studio: its workflow, its steps, and outside changes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Literal

from operad.configs.flow import called, read_file
from operad.flows.edit import (
    AddBranch,
    AddInput,
    AddNode,
    AddOutput,
    Connect,
    Disconnect,
    InsertBetween,
    Operation,
    RemoveInput,
    RemoveNode,
    RemoveNote,
    RemoveOutput,
    RenameNode,
    RenameVariable,
    ReplaceText,
    SetNote,
    SetParam,
    apply,
)
from operad.flows.formats.format import Format
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import NodeGraph, names_of
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InputError, InvalidError, OperadError
from operad.runtime.values.file import write_whole
from operad.server.studio.experts.edits import edited
from operad.server.studio.experts.graph import graph_of
from operad.server.studio.files.folder import EXPERTS, read_any
from operad.server.studio.files.history import History, Kind, digest_of

# Titles of steps, from their operations.


def title_of(operations: Sequence[Operation], graph: NodeGraph) -> str:
    """Return the title of a step: its first operation, and the number of further ones.

    Args:
        operations: The operations, at least one.
        graph: The workflow before them.
    """
    first = _title(operations[0], graph, names_of(graph))
    more = len(operations) - 1
    return f"{first}, and {more} more" if more else first


def _title(operation: Operation, graph: NodeGraph, names: Mapping[str, str]) -> str:  # noqa: C901 - a table
    def name(node_id: str) -> str:
        return names.get(node_id, node_id)

    match operation:
        case AddNode():
            return f"Add {operation.title or f'{operation.type} {operation.id}'}"
        case RemoveNode():
            return f"Remove {name(operation.node)}"
        case RenameNode():
            return f"Rename {name(operation.node)} to {operation.title}".removesuffix(" to ")
        case SetParam() | ReplaceText():
            return f"Set {operation.path} of {name(operation.node)}"
        case Connect():
            port = f" port {operation.port}" if operation.port else ""
            return f"Connect {name(operation.source)}{port} to {name(operation.target)}"
        case Disconnect():
            return f"Disconnect {name(operation.source)} from {name(operation.target)}"
        case InsertBetween():
            return (
                f"Insert {operation.type} {operation.id} between {name(operation.source)} and {name(operation.target)}"
            )
        case AddBranch():
            return f"Add a branch to {name(operation.node)}"
        case RenameVariable():
            return f"Rename {operation.old} of {name(operation.node)} to {operation.new}"
        case AddInput():
            return f"Add input {operation.name}"
        case RemoveInput():
            return f"Remove input {operation.name}"
        case AddOutput():
            return f"Add output {operation.name}"
        case RemoveOutput():
            return f"Remove output {operation.name}"
        case SetNote():
            known = any(note.id == operation.id for note in graph.sticky_notes)
            return "Change a note" if known else "Add a note"
        case RemoveNote():
            return "Remove a note"
        case _:
            return type(operation).__name__


Disk = Literal["same", "changed", "gone"]

MOST_NODES = 2_000
"""Maximum number of nodes of a workflow that can be edited."""

DEFERRED = 40
"""Number of nodes above which a change is written to the history at once, to the file later: `OpenFile.flush`."""


class StaleError(OperadError):
    """A change was meant for an earlier version of a file."""

    def __init__(self, file: OpenFile, version: int) -> None:
        super().__init__(f"{file.name} was changed meanwhile: this is version {file.version}, not {version}")
        self.file = file


class ReadonlyError(OperadError):
    """A file that cannot be changed here."""


@dataclass(frozen=True)
class Content:
    """The content of a file, as it was read.

    Attributes:
        format: The format; None for a YAML file of experts.
        graph: The workflow; for experts, their operators and edges.
        readonly: Reason why the file cannot be changed in the studio; empty if it can.
    """

    data: bytes
    format: Format | None
    graph: NodeGraph
    readonly: str = ""

    @property
    def format_name(self) -> str:
        """Name of the format."""
        return self.format.name if self.format else EXPERTS


def content_of(path: Path, name: str) -> Content:
    """Return the content of a file.

    Raises:
        InputError: The file does not exist.
        InvalidError: The file cannot be read; every issue is listed.
    """
    found, graph, data = read_any(path, name)
    return _content(found, graph, data, path, name)


def _content(found: Format | None, graph: NodeGraph | None, data: bytes, path: Path, name: str) -> Content:
    if found is None or graph is None:
        return Content(data, None, graph_of(data, path))
    if not found.runs:
        served = found.of_server is not None
        how = "a node of the type comfyui runs the file on a ComfyUI server" if served else "convert it"
        return Content(data, found, graph, f"nodes of the format {found.name} are not of Operad's types; {how}")
    if len(graph.nodes) > MOST_NODES:
        return Content(data, found, graph, f"has {len(graph.nodes):,} nodes; up to {MOST_NODES:,} can be edited")
    return Content(data, found, graph)


class OpenFile:
    """Open file. Each change is a step, written to the history at once, and to the file at once or, if large, later.

    The methods may be called from any thread.

    Args:
        name: Name of the file in the folder.
        histories: Folder of all histories; None for the user's.

    Attributes:
        version: Number that increases with each change.
        disk: State of the file, compared with what the studio last wrote.
        fault: Reason why a changed file could not be read.

    Raises:
        InputError: The file does not exist.
        InvalidError: The file cannot be read; every issue is listed.
    """

    def __init__(self, path: Path, name: str, histories: Path | None = None) -> None:
        self.path = path
        self.name = name
        self.content = content_of(path, name)
        self.history = History(path, histories)
        self.version = 1
        self.disk: Disk = "same"
        self.fault = ""
        self._lock = RLock()
        self._file_state = self._stat()
        self._dirty = False
        self._find_step()

    def _find_step(self) -> None:
        """Find the step of the current content; changes that an earlier process did not write yet are written."""
        data, step = self.content.data, self.history.settled
        if step is not None and step.digest == digest_of(data):
            if self.history.step is not step:
                self._dirty = True
                self.content = replace(
                    self.content, graph=self._parse(self.history.content(self.history.current)).graph
                )
                self.flush()
            return
        known = next((earlier for earlier in reversed(self.history.steps) if earlier.digest == digest_of(data)), None)
        if known:
            self.history.move(known.number)
        else:
            kind: Kind = "outside" if self.history.steps else "open"
            self._add_step("changed outside" if self.history.steps else "opened", kind, data)

    @property
    def readonly(self) -> str:
        """Reason why the file cannot be changed; empty if it can."""
        return self.content.readonly

    # Changes made here

    def apply(self, version: int, operations: Sequence[Operation]) -> None:
        """Apply operations, all of them or none.

        Raises:
            StaleError: The version is not the current one.
            InvalidError: An operation is not valid; every issue is listed.
            ReadonlyError: The file cannot be changed, or was changed outside and cannot be read.
        """
        with self._lock:
            self._check_version(version)
            if not operations:
                raise InputError("there is no operation")
            if self.content.format is None:
                data = edited(self.content.data, operations, self.path)
                self.write(data, title_of(operations, self.content.graph), "edit")
                return
            changed = apply(self.content.graph, operations, NODE_TYPES).graph
            if len(changed.nodes) > MOST_NODES:
                raise InputError(f"the workflow would have {len(changed.nodes):,} nodes; the maximum is {MOST_NODES:,}")
            title = title_of(operations, self.content.graph)
            if self.content.format is OPERAD and len(changed.nodes) > DEFERRED:
                self.history.add(title, "edit", OPERAD.dump(changed), time.time(), draft=True)
                self.content = replace(self.content, graph=changed)
                self._dirty = True
                self.version += 1
            else:
                self.put(changed, title, "edit")

    @property
    def dirty(self) -> bool:
        """True if changes are in the history but not in the file yet; see `flush`."""
        return self._dirty

    def flush(self) -> None:
        """Write changes of a large workflow to the file; comments and layout of unchanged parts stay.

        Raises:
            InputError: The file cannot be written.
        """
        with self._lock:
            if not self._dirty:
                return
            content, number = self.content, self.history.current
        data = self._file_content(content.graph, content.data)  # slow: other changes may be made meanwhile
        with self._lock:
            if not self._dirty or self._stat() != self._file_state:
                return  # written by another thread, or changed outside, which `refresh` detects
            self.history.settle(number, data)
            self._write_file(data)
            self._dirty = self.content.graph is not content.graph
            self.content = replace(self.content, data=data)

    def _file_content(self, graph: NodeGraph, old: bytes) -> bytes:
        found = self.content.format
        assert found is not None  # noqa: S101 - only workflows of typed nodes get here
        return found.dump_keeping_text(graph, old)

    def put(self, graph: NodeGraph, title: str, kind: Kind) -> None:
        """Replace the workflow of the file.

        Raises:
            InvalidError: The format of the file cannot hold the workflow.
        """
        with self._lock:
            self.flush()
            self._save(self._parse(self._file_content(graph, self.content.data)), title, kind)

    def write(self, data: bytes, title: str, kind: Kind) -> None:
        """Replace the content of the file by one of the same format.

        Raises:
            InvalidError: The new content cannot be read.
        """
        with self._lock:
            self._save(self._parse(data), title, kind)

    def replace(self, version: int, new: NodeGraph | bytes, title: str, kind: Kind) -> None:
        """Replace the workflow, or the text of the experts, of a version of the file.

        Raises:
            StaleError, ReadonlyError: As `apply`.
        """
        with self._lock:
            self._check_version(version)
            if isinstance(new, bytes):
                self.write(new, title, kind)
            else:
                self.put(new, title, kind)

    def undo(self, version: int) -> None:
        """Go back to the previous step; do nothing at the first."""
        with self._lock:
            if step := self.history.back:
                self.goto(version, step.number)

    def redo(self, version: int) -> None:
        """Go to the latest step that changed the current one; do nothing if there is none."""
        with self._lock:
            if step := self.history.forth:
                self.goto(version, step.number)

    def goto(self, version: int, number: int) -> None:
        """Go to a step.

        Raises:
            InputError: The step does not exist.
            StaleError, ReadonlyError: As `apply`.
        """
        with self._lock:
            self._check_version(version, allow_readonly=True)
            self.flush()
            content = self._parse(self.history.content(number))
            step = self.history.at(number)
            if step is not None and step.draft:
                content = self._parse(self._file_content(content.graph, self.content.data))
                self.history.settle(number, content.data)
            self._write_file(content.data)
            self.history.move(number)
            self.content = content
            self.version += 1

    def at(self, number: int) -> NodeGraph:
        """Return the workflow after a step.

        Raises:
            InputError: The step does not exist.
        """
        return self._parse(self.history.content(number)).graph

    def restore(self) -> None:
        """Overwrite a file that was changed or deleted outside with the studio's content; the other content is kept.

        Raises:
            InputError: The file cannot be written.
        """
        with self._lock:
            if self.disk == "changed":
                self.history.keep_aside(read_file(self.path))
            if self._dirty:
                self.content = replace(self.content, data=self._file_content(self.content.graph, self.content.data))
                self.history.settle(self.history.current, self.content.data)
                self._dirty = False
            self._write_file(self.content.data)
            self.disk, self.fault = "same", ""
            self.version += 1

    # Changes made outside

    def refresh(self) -> bool:
        """Read outside changes of the file; return True if anything changed."""
        with self._lock:
            file_state = self._stat()
            if file_state == self._file_state:
                return False
            self._file_state = file_state
            before = (self.disk, self.version, self.fault)
            self._read_outside_change()
            return (self.disk, self.version, self.fault) != before

    def _read_outside_change(self) -> None:
        if self._file_state is None:
            self.disk, self.fault = "gone", "the file was deleted or moved"
            return
        try:
            data = read_file(self.path)
            if data == self.content.data:
                self.disk, self.fault = "same", ""
                return
            content = content_of(self.path, self.name)
        except OperadError as error:
            issues = error.issues if isinstance(error, InvalidError) else ()
            self.disk, self.fault = "changed", str(issues[0] if issues else error)[:300]
            return
        self.content, self._dirty = content, False  # unwritten changes stay in the history
        self._add_step("changed outside", "outside", content.data)
        self.disk, self.fault = "same", ""
        self.version += 1

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    # Helpers

    def _check_version(self, version: int, *, allow_readonly: bool = False) -> None:
        """Check that a change applies to the current version of a file that can be changed.

        Raises:
            StaleError, ReadonlyError: It does not.
        """
        self.refresh()
        if version != self.version:
            raise StaleError(self, version)
        if self.disk != "same":
            raise ReadonlyError(
                f"{self.name}: {self.fault}; nothing was written. Correct the file, or restore the studio's version"
            )
        if self.readonly and not allow_readonly:
            raise ReadonlyError(f"{self.name} {self.readonly}")

    def _parse(self, data: bytes) -> Content:
        found = self.content.format
        if found is None:
            return Content(data, None, graph_of(data, self.path), self.content.readonly)
        return _content(found, found.load(data, called(self.name, FORMATS)), data, self.path, self.name)

    def _save(self, content: Content, title: str, kind: Kind) -> None:
        if content.data == self.content.data:
            return
        self._add_step(
            title, kind, content.data
        )  # before the file, so that nothing is lost if the process ends in between
        try:
            self._write_file(content.data)
        except InputError:
            if step := self.history.back:
                self.history.move(step.number)
            raise
        self.content = content
        self.version += 1

    def _add_step(self, title: str, kind: Kind, data: bytes) -> None:
        self.history.add(title, kind, data, time.time())

    def _write_file(self, data: bytes) -> None:
        write_whole(str(self.path), data)
        self._file_state = self._stat()
