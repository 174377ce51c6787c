"""Folder of a studio: its workflow files, without access to paths outside of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from operad.configs.flow import MAX_BYTES, called, is_configuration, read_file, read_workflow
from operad.flows.formats.format import Format
from operad.flows.formats.table import FORMATS, find_format
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InputError, InvalidError, OperadError
from operad.runtime.values.file import unwritable, write_whole

SUFFIXES = frozenset({".yaml", ".yml", ".json", ".zip", ".png", ".webp", ".txt", ".md"})
MOST_FILES = 500
"""Maximum number of files that are listed."""

MOST_SEEN = 20_000
"""Maximum number of names in the folder that are examined."""

MOST_DEEP = 5
"""Maximum depth of subfolders that are searched."""

SLOWEST = 2**20
"""Maximum size of a file whose nodes are counted for the list, in bytes."""

EXPERTS = "experts"
"""Format name for YAML files that configure experts."""

_NOT_LISTED = frozenset({"node_modules", "__pycache__", "build", "dist"})


class Listed(NamedTuple):
    """A workflow file of the folder."""

    path: str
    format: str
    name: str
    nodes: int
    modified: float
    error: str | None


class Folder:
    """A folder of workflow files.

    Args:
        only: Name of the only file that is listed; None for all files.

    Raises:
        InputError: The folder does not exist.
    """

    def __init__(self, root: Path, only: str | None = None) -> None:
        if not root.is_dir():
            raise InputError(f"{root}: is not a folder")
        self.root = root.resolve()
        self.only = only
        self._listed: dict[str, tuple[tuple[int, int], Listed | None]] = {}

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder, which need not exist.

        Raises:
            InputError: The name is not valid, or leads outside the folder.
        """
        try:
            if not name or "\0" in name or Path(name).is_absolute() or len(name) > 1_000:
                raise InputError(f"{name[:80]!r}: is not the path of a file below the folder")
            found = (self.root / name).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"{name[:80]!r}: is not the path of a file: {error}") from error
        if self.root not in found.parents:
            raise InputError(f"{name[:80]!r}: lies outside of the folder {self.root}")
        if any(part.startswith(".") for part in found.relative_to(self.root).parts):
            raise InputError(f"{name[:80]!r}: is hidden; the studio leaves hidden files and folders alone")
        return found

    def name(self, path: Path) -> str:
        """Return the name of a file: its path below the folder, with slashes."""
        return path.relative_to(self.root).as_posix()

    def write_new(self, name: str, data: bytes) -> str:
        """Write a new file under an unused name, and return that name.

        Raises:
            InputError: The file cannot be written there.
        """
        path = self.path(name)
        if path.suffix.lower() not in SUFFIXES:
            path = path.with_name(f"{path.name}.yaml")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # a file is in the way; the folder is read-only
            raise unwritable(name, error) from error
        free, number = path, 1
        while free.exists():
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        write_whole(str(free), data)
        return self.name(free)

    def files(self) -> list[Listed]:
        """Return the workflow files, the latest changed first."""
        found: list[Listed] = []
        for path in self._candidates():
            name = self.name(path)
            try:
                status = path.stat()
            except OSError:
                continue
            file_state = (status.st_mtime_ns, status.st_size)
            if name not in self._listed or self._listed[name][0] != file_state:
                self._listed[name] = (file_state, _inspect(path, name, status))
            if listed := self._listed[name][1]:
                found.append(listed)
        return sorted(found, key=lambda file: -file.modified)[:MOST_FILES]

    def _candidates(self) -> Iterator[Path]:
        if self.only is not None:
            yield self.path(self.only)
            return
        examined = 0
        for folder, inner, names in os.walk(self.root):
            path_of_folder = Path(folder)
            depth = len(path_of_folder.relative_to(self.root).parts)
            inner[:] = sorted(
                subfolder
                for subfolder in inner
                if not subfolder.startswith(".") and subfolder not in _NOT_LISTED and depth < MOST_DEEP
            )
            for name in sorted(names):
                examined += 1
                path = path_of_folder / name
                if not name.startswith(".") and path.suffix.lower() in SUFFIXES and self.root in path.resolve().parents:
                    yield path
            if examined > MOST_SEEN:
                return


def read_any(path: Path, name: str) -> tuple[Format | None, NodeGraph | None, bytes]:
    """Return the format, the workflow and the content of a file; for experts, the content alone.

    Raises:
        InputError: The file does not exist or is too large.
        InvalidError: The file cannot be read; every issue is listed.
    """
    data = read_file(path)
    if is_configuration(data):
        return None, None, data
    found, graph = read_workflow(name, data)
    return found, graph, data


def _inspect(path: Path, name: str, status: os.stat_result) -> Listed | None:
    if status.st_size > MAX_BYTES:
        return None
    listed = Listed(name, "", called(name, FORMATS), 0, status.st_mtime, None)
    try:
        if status.st_size > SLOWEST:
            guess = find_format(path.read_bytes())
            return guess and listed._replace(format=guess.name, nodes=-1)
        found, graph, _ = read_any(path, name)
    except InvalidError as error:
        guess = find_format(path.read_bytes())
        is_ours = guess is not None and error.issues[0].code != "format"
        return listed._replace(format=guess.name, error=_first_issue(error)) if guess and is_ours else None
    except (OperadError, OSError) as error:
        return listed._replace(error=str(error)[:300]) if name.endswith("ml") else None
    if found is None or graph is None:
        return listed._replace(format=EXPERTS)
    return listed._replace(format=found.name, name=graph.name or listed.name, nodes=len(graph.nodes))


def _first_issue(error: InvalidError) -> str:
    more = len(error.issues) - 1
    return f"{error.issues[0]}"[:300] + (f" (and {more} more)" if more else "")


def as_rows(listed: list[Listed]) -> list[dict[str, Any]]:
    """Return files as JSON."""
    return [file._asdict() for file in listed]
