"""Search for the files in folders, by name and state only; links are not followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from operad.runtime.values.errors import InputError, did_you_mean

MAX_FILES = 20_000
"""Maximum number of files to look at."""

MAX_FILE_BYTES = 64 * 2**20
"""Maximum size of a file that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be read.

    Attributes:
        name: Name for sources of passages: the path inside the root folder, after the name of that folder.
        size: Size in bytes.
        mtime_ns: Modification time, in nanoseconds since the epoch.
    """

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """Content of folders, by path.

    Attributes:
        files: Readable files.
        skipped: Other files, with the reasons.
    """

    files: dict[str, FoundFile]
    skipped: dict[str, str]


def roots_of(paths: Iterable[str | Path]) -> dict[Path, str]:
    """Return the resolved paths, each with a name: the shortest end of the path that is unique among them.

    Raises:
        InputError: No path is given, or paths cannot be used; the message names all of these.
    """
    roots: list[Path] = []
    problems: list[str] = []
    for path in paths:
        if not str(path).strip():
            problems.append(f"paths: {path!r} is empty; write '.' for the current folder")
            continue
        try:
            root = Path(path).expanduser().resolve(strict=True)
        except FileNotFoundError:
            problems.append(f"{path}: no such file or folder{_near_name(Path(path).expanduser())}")
        except (
            OSError,
            RuntimeError,
            ValueError,
        ) as error:  # no permission; a circle of links, no such home; a zero byte
            problems.append(f"{path}: cannot be read: {_reason(error)}")
        else:
            roots += [root] if root not in roots else []
    if problems:
        raise InputError("\n  ".join(problems))
    if not roots:
        raise InputError("paths: name at least one folder or file")
    depth, names = 1, [root.name for root in roots]
    while len(set(names)) < len(names):
        depth += 1
        names = ["/".join(root.parts[-depth:]) for root in roots]
    return dict(zip(roots, names, strict=True))


def find_files(roots: Mapping[Path, str], own: Collection[str] = ()) -> Found:
    """Return the files in folders and their subfolders, and single files; names that begin with a dot are ignored.

    Args:
        own: Paths of files to ignore, such as those of the index.

    Raises:
        InputError: There are more than `MAX_FILES` files.
    """
    found = Found({}, {})
    for root, name in roots.items():
        for path, inner, state in _walk(root, roots, found.skipped):
            if path in own or path in found.files:
                continue
            if not stat.S_ISREG(state.st_mode):
                found.skipped[path] = "is not a regular file"
            elif state.st_size > MAX_FILE_BYTES:
                found.skipped[path] = too_large(state.st_size)
            else:
                found.files[path] = FoundFile(name + inner, state.st_size, state.st_mtime_ns)
            if len(found.files) + len(found.skipped) > MAX_FILES:
                raise InputError(f"{root}: more than {MAX_FILES:,} files; name fewer folders, or the files that count")
    return found


def is_in(path: Path, roots: Collection[Path]) -> bool:
    """Return True if a path is one of the roots, or inside one."""
    return path in roots or any(folder in roots for folder in path.parents)


def too_large(size: int) -> str:
    """Return the message for a file that is too large to be read."""
    return f"{size:,} bytes are more than the maximum of {MAX_FILE_BYTES:,}; cut out the relevant part"


_File = tuple[str, str, os.stat_result]
"""Path of a file, its path inside the root, and its status."""


def _walk(root: Path, roots: Collection[Path], skipped: dict[str, str]) -> Generator[_File, None, None]:
    """Yield the files in a folder, or the file itself. Folders that cannot be read are added to `skipped`."""
    folders = [(str(root), "")]
    while folders:
        folder, inner = folders.pop()
        try:
            if not os.path.isdir(folder):
                yield folder, inner, os.stat(folder)
                continue
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            skipped[folder] = f"cannot be read: {_reason(error)}"
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if problem := _unusable(entry, roots):
                skipped[os.fsencode(entry.path).decode(errors="backslashreplace")] = problem
            elif entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, f"{inner}/{entry.name}"))
            elif not entry.is_symlink():  # a link into a root: its target is found at its own path
                yield entry.path, f"{inner}/{entry.name}", entry.stat(follow_symlinks=False)


def _unusable(entry: os.DirEntry[str], roots: Collection[Path]) -> str:
    """Return the reason for which an entry of a folder cannot be used, by its name and target; empty if it can."""
    try:
        entry.name.encode()
        entry.stat(follow_symlinks=False)
        if entry.is_symlink() and not is_in(Path(entry.path).resolve(strict=True), roots):
            return "is a link to a place outside the folder; name its target"
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    except (OSError, RuntimeError) as error:  # older Pythons raise RuntimeError for a circle of links
        return f"cannot be read: {_reason(error)}"
    return ""


def _near_name(path: Path) -> str:
    try:
        return did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        return ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
