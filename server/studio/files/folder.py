"""The folder that a studio works in: its workflow files, and no path outside of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from operad.configs.flow import MAX_BYTES, is_configuration, read_file
from operad.configs.issues import located, placed
from operad.configs.written import write_whole
from operad.flows.formats.format import Format
from operad.flows.formats.table import FORMATS, find_format, load_as
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import InputError, InvalidError, OperadError

SUFFIXES = frozenset({".yaml", ".yml", ".json", ".zip", ".png", ".txt", ".md"})
MOST_FILES = 500
"""Files that are listed."""

MOST_SEEN = 20_000
"""Names in the folder that are looked at."""

MOST_DEEP = 5
"""Folders below the folder that are looked into."""

SLOWEST = 2**20
"""Size of the largest file whose nodes are counted for the list, in bytes."""

EXPERTS = "experts"
"""The format of a YAML file that configures experts."""

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
        root: The folder.
        only: The one file of it that is listed; None for all.

    Raises:
        InputError: There is no such folder.
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
            InputError: The name leads out of the folder, or is none.
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
        """Write a new file under a name that is free, and return that.

        Raises:
            InputError: The file cannot be written there.
        """
        path = self.path(name)
        if path.suffix.lower() not in SUFFIXES:
            path = path.with_name(f"{path.name}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        free, number = path, 1
        while free.exists():
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        write_whole(str(free), data)
        return self.name(free)

    def files(self) -> list[Listed]:
        """Return the workflow files, the one changed last first."""
        found: list[Listed] = []
        for path in self._candidates():
            name = self.name(path)
            try:
                seen = path.stat()
            except OSError:
                continue
            mark = (seen.st_mtime_ns, seen.st_size)
            if name not in self._listed or self._listed[name][0] != mark:
                self._listed[name] = (mark, _look(path, name, seen))
            if listed := self._listed[name][1]:
                found.append(listed)
        return sorted(found, key=lambda each: -each.modified)[:MOST_FILES]

    def _candidates(self) -> Iterator[Path]:
        if self.only is not None:
            yield self.path(self.only)
            return
        seen = 0
        for folder, inner, names in os.walk(self.root):
            here = Path(folder)
            deep = len(here.relative_to(self.root).parts)
            inner[:] = sorted(
                each for each in inner if not each.startswith(".") and each not in _NOT_LISTED and deep < MOST_DEEP
            )
            for name in sorted(names):
                seen += 1
                path = here / name
                if not name.startswith(".") and path.suffix.lower() in SUFFIXES and self.root in path.resolve().parents:
                    yield path
            if seen > MOST_SEEN:
                return


def read_any(path: Path, name: str) -> tuple[Format | None, NodeGraph | None, bytes]:
    """Return the format of a file, its workflow and its content; of one that configures experts, the content alone.

    Raises:
        InputError: There is no such file, or it is too large.
        InvalidError: It cannot be read; every issue is listed.
    """
    data = read_file(path)
    if is_configuration(data):
        return None, None, data
    try:
        found, graph = load_as(find_format(data), data, called(name))
    except InvalidError as error:
        raise located(f"{name} cannot be read", [placed(each, called(name)) for each in error.issues], name) from error
    return found, graph, data


def called(name: str) -> str:
    """Return the name of a workflow whose file does not say it: that of the file, without its suffix."""
    last = Path(name).name
    ends = [each.suffix for each in FORMATS.values() if last.endswith(each.suffix)]
    return last.removesuffix(max(ends, key=len, default=Path(name).suffix)) or "workflow"


def _look(path: Path, name: str, seen: os.stat_result) -> Listed | None:
    if seen.st_size > MAX_BYTES:
        return None
    try:
        if seen.st_size > SLOWEST:
            guess = find_format(path.read_bytes())
            return guess and Listed(name, guess.name, called(name), -1, seen.st_mtime, None)
        found, graph, _ = read_any(path, name)
    except InvalidError as error:
        guess = find_format(path.read_bytes())
        is_ours = guess is not None and error.issues[0].code != "format"
        return Listed(name, guess.name, called(name), 0, seen.st_mtime, _first(error)) if guess and is_ours else None
    except (OperadError, OSError) as error:
        return Listed(name, "", called(name), 0, seen.st_mtime, str(error)[:300]) if name.endswith("ml") else None
    if found is None or graph is None:
        return Listed(name, EXPERTS, called(name), 0, seen.st_mtime, None)
    return Listed(name, found.name, graph.name or called(name), len(graph.nodes), seen.st_mtime, None)


def _first(error: InvalidError) -> str:
    more = len(error.issues) - 1
    return f"{error.issues[0]}"[:300] + (f" (and {more} more)" if more else "")


def as_rows(listed: list[Listed]) -> list[dict[str, Any]]:
    """Return files as JSON."""
    return [each._asdict() for each in listed]
