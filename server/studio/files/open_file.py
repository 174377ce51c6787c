"""A file that is open in the studio: its workflow, its steps, and what others do to it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Literal

from operad.configs.flow import read_file
from operad.configs.written import write_whole
from operad.flows.edit import Operation, apply
from operad.flows.formats.format import Format
from operad.flows.formats.operad import OPERAD
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InputError, InvalidError, OperadError
from operad.server.studio.experts.edits import edited
from operad.server.studio.experts.graph import graph_of
from operad.server.studio.files.folder import EXPERTS, called, read_any
from operad.server.studio.files.history import History, Kind, digest_of
from operad.server.studio.files.titles import title_of

Disk = Literal["same", "changed", "gone"]

MOST_NODES = 2_000
"""Nodes of the largest workflow that can be edited."""

DEFERRED = 40
"""Nodes above which a change is kept in the history at once and in the file a moment later: see `OpenFile.flush`."""


class StaleError(OperadError):
    """A change was meant for an earlier version of a file.

    Attributes:
        file: The file.
    """

    def __init__(self, file: OpenFile, version: int) -> None:
        super().__init__(f"{file.name} was changed meanwhile: this is version {file.version}, not {version}")
        self.file = file


class ReadonlyError(OperadError):
    """A file that cannot be changed here."""


@dataclass(frozen=True)
class Content:
    """The content of a file, as it was read.

    Attributes:
        data: The bytes.
        format: The format; None for a YAML file of experts.
        graph: The workflow; of experts, their operators and edges.
        readonly: The reason why it cannot be changed here; empty if it can.
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
    """Read a file.

    Raises:
        InputError: There is no such file.
        InvalidError: It cannot be read; every issue is listed.
    """
    found, graph, data = read_any(path, name)
    return _content(found, graph, data, path, name)


def _content(found: Format | None, graph: NodeGraph | None, data: bytes, path: Path, name: str) -> Content:
    if found is None or graph is None:
        return Content(data, None, graph_of(data, path))
    if not found.runs:
        return Content(data, found, graph, f"nodes of the format {found.name} are not of Operad's types; convert it")
    if len(graph.nodes) > MOST_NODES:
        return Content(data, found, graph, f"has {len(graph.nodes):,} nodes; up to {MOST_NODES:,} can be edited")
    return Content(data, found, graph)


class OpenFile:
    """A file that is open. Each change is a step, kept at once; the file is written at once, too, a large one soon.

    Its methods may be called from any thread.

    Args:
        path: The file.
        name: Its name in the folder.
        histories: Folder of all histories; None for the user's.

    Attributes:
        version: A number that grows with each change.
        disk: State of the file beside what the studio last wrote.
        fault: Reason why a changed file could not be read.

    Raises:
        InputError: There is no such file.
        InvalidError: It cannot be read; every issue is listed.
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
        self._mark = self._look()
        self._dirty = False
        self._begin()

    def _begin(self) -> None:
        """Find the step that the file is at; drafts that a process left behind when it ended are written."""
        data, step = self.content.data, self.history.settled
        if step is not None and step.digest == digest_of(data):
            if self.history.step is not step:
                self._dirty = True
                self.content = replace(
                    self.content, graph=self._reread(self.history.content(self.history.current)).graph
                )
                self.flush()
            return
        known = next((each for each in reversed(self.history.steps) if each.digest == digest_of(data)), None)
        if known:
            self.history.move(known.number)
        else:
            kind: Kind = "outside" if self.history.steps else "open"
            self._keep("changed outside" if self.history.steps else "opened", kind, data)

    @property
    def readonly(self) -> str:
        """The reason why it cannot be changed; empty if it can."""
        return self.content.readonly

    # Changes made here

    def apply(self, version: int, operations: Sequence[Operation]) -> None:
        """Do operations, all of them or none.

        Raises:
            StaleError: The version is not the present one.
            InvalidError: An operation makes no sense; every issue is listed.
            ReadonlyError: The file cannot be changed, or was changed outside and cannot be read.
        """
        with self._lock:
            self._check(version)
            if not operations:
                raise InputError("there is no operation")
            if self.content.format is None:
                data = edited(self.content.data, operations, self.path)
                self.write(data, title_of(operations, self.content.graph), "edit")
                return
            done = apply(self.content.graph, operations, NODE_TYPES).graph
            if len(done.nodes) > MOST_NODES:
                raise InputError(f"the workflow would have {len(done.nodes):,} nodes; {MOST_NODES:,} are the most")
            title = title_of(operations, self.content.graph)
            if self.content.format is OPERAD and len(done.nodes) > DEFERRED:
                self.history.add(title, "edit", OPERAD.dump(done), time.time(), draft=True)
                self.content = replace(self.content, graph=done)
                self._dirty = True
                self.version += 1
            else:
                self.put(done, title, "edit")

    @property
    def dirty(self) -> bool:
        """True if changes are kept in the history, and not in the file yet; see `flush`."""
        return self._dirty

    def flush(self) -> None:
        """Write changes of a large workflow to the file, with the comments and the layout of what is the same.

        Raises:
            InputError: It cannot be written.
        """
        with self._lock:
            if not self._dirty:
                return
            content, number = self.content, self.history.current
        data = self._written(content.graph, content.data)  # takes long; changes go on meanwhile
        with self._lock:
            if not self._dirty or self._look() != self._mark:
                return  # written by another thread; or changed outside, which `refresh` will find
            self.history.settle(number, data)
            self._to_disk(data)
            self._dirty = self.content.graph is not content.graph
            self.content = replace(self.content, data=data)

    def _written(self, graph: NodeGraph, old: bytes) -> bytes:
        found = self.content.format
        assert found is not None  # noqa: S101 - of typed nodes
        return found.written(graph, old)

    def put(self, graph: NodeGraph, title: str, kind: Kind) -> None:
        """Write another workflow in place of the present one.

        Raises:
            InvalidError: The format of the file cannot hold it.
        """
        with self._lock:
            self.flush()
            self._write(self._reread(self._written(graph, self.content.data)), title, kind)

    def write(self, data: bytes, title: str, kind: Kind) -> None:
        """Write another content of the same format.

        Raises:
            InvalidError: It cannot be read.
        """
        with self._lock:
            self._write(self._reread(data), title, kind)

    def replace(self, version: int, graph: NodeGraph, title: str, kind: Kind) -> None:
        """As `put`, for a version.

        Raises:
            StaleError, ReadonlyError: As `apply`.
        """
        with self._lock:
            self._check(version)
            self.put(graph, title, kind)

    def undo(self, version: int) -> None:
        """Go back to the step before; do nothing at the first."""
        with self._lock:
            if step := self.history.back:
                self.goto(version, step.number)

    def redo(self, version: int) -> None:
        """Go to the last step made from here; do nothing where there is none."""
        with self._lock:
            if step := self.history.forth:
                self.goto(version, step.number)

    def goto(self, version: int, number: int) -> None:
        """Go to a step.

        Raises:
            InputError: There is no such step.
            StaleError, ReadonlyError: As `apply`.
        """
        with self._lock:
            self._check(version, lasting=True)
            self.flush()
            content = self._reread(self.history.content(number))
            step = self.history.at(number)
            if step is not None and step.draft:
                content = self._reread(self._written(content.graph, self.content.data))
                self.history.settle(number, content.data)
            self._to_disk(content.data)
            self.history.move(number)
            self.content = content
            self.version += 1

    def at(self, number: int) -> NodeGraph:
        """Return the workflow after a step.

        Raises:
            InputError: There is no such step.
        """
        return self._reread(self.history.content(number)).graph

    def restore(self) -> None:
        """Write what the studio holds over a file that was changed outside or deleted; the other content is kept aside.

        Raises:
            InputError: It cannot be written.
        """
        with self._lock:
            if self.disk == "changed":
                self.history.keep_aside(read_file(self.path))
            if self._dirty:
                self.content = replace(self.content, data=self._written(self.content.graph, self.content.data))
                self.history.settle(self.history.current, self.content.data)
                self._dirty = False
            self._to_disk(self.content.data)
            self.disk, self.fault = "same", ""
            self.version += 1

    # Changes made outside

    def refresh(self) -> bool:
        """Take in what others did to the file; return True if anything changed."""
        with self._lock:
            mark = self._look()
            if mark == self._mark:
                return False
            self._mark = mark
            before = (self.disk, self.version, self.fault)
            self._take_in()
            return (self.disk, self.version, self.fault) != before

    def _take_in(self) -> None:
        if self._mark is None:
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
        self.content, self._dirty = content, False  # what was not written yet stays in the history
        self._keep("changed outside", "outside", content.data)
        self.disk, self.fault = "same", ""
        self.version += 1

    def _look(self) -> tuple[int, int, int] | None:
        try:
            seen = self.path.stat()
        except OSError:
            return None
        return (seen.st_mtime_ns, seen.st_size, seen.st_ino)

    # Together

    def _check(self, version: int, *, lasting: bool = False) -> None:
        """See that a change is meant for what is there now.

        Raises:
            StaleError, ReadonlyError: It is not.
        """
        self.refresh()
        if version != self.version:
            raise StaleError(self, version)
        if self.disk != "same":
            raise ReadonlyError(
                f"{self.name}: {self.fault}; nothing was written. Mend the file, or restore what the studio holds"
            )
        if self.readonly and not lasting:
            raise ReadonlyError(f"{self.name} {self.readonly}")

    def _reread(self, data: bytes) -> Content:
        found = self.content.format
        if found is None:
            return Content(data, None, graph_of(data, self.path), self.content.readonly)
        return _content(found, found.load(data, called(self.name)), data, self.path, self.name)

    def _write(self, content: Content, title: str, kind: Kind) -> None:
        if content.data == self.content.data:
            return
        self._keep(title, kind, content.data)  # before the file: nothing is lost if the process ends in between
        try:
            self._to_disk(content.data)
        except InputError:
            if step := self.history.back:
                self.history.move(step.number)
            raise
        self.content = content
        self.version += 1

    def _keep(self, title: str, kind: Kind, data: bytes) -> None:
        self.history.add(title, kind, data, time.time())

    def _to_disk(self, data: bytes) -> None:
        write_whole(str(self.path), data)
        self._mark = self._look()
