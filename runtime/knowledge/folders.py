"""Folders → the files in them, by names and states alone: nothing is read, no link is followed."""

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
"""The largest file that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be read.

    Attributes:
        name: Name in sources: its path relative to the named folder, with that folder's name.
        size: Size in bytes.
        mtime_ns: Time of its last change.
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
    """Return the targets of paths, each with a name: the shortest end of the path that is unique.

    Raises:
        InputError: There is none, or some do not exist; all of those are named.
    """
    roots: list[Path] = []
    problems: list[str] = []
    for path in paths:
        if not str(path).strip():
            problems.append(f"paths: {path!r} names nothing; '.' is the current folder")
            continue
        try:
            root = Path(path).expanduser().resolve(strict=True)
        except FileNotFoundError:
            problems.append(f"{path}: no such file or folder{_near(Path(path).expanduser())}")
        except (OSError, RuntimeError, ValueError) as error:  # no permission, a circle; no such home; a zero byte
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


def look(roots: Mapping[Path, str], own: Collection[str] = ()) -> Found:
    """Return the files in folders and their subfolders, and single files. Names that begin with a dot are skipped.

    Args:
        roots: The folders and files, and their names.
        own: Paths of files that don't count.

    Raises:
        InputError: There are more than `MAX_FILES`.
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
    """Return True if a path is one of these, or in one of them."""
    return path in roots or any(folder in roots for folder in path.parents)


def too_large(size: int) -> str:
    """Return the reason for which a file of this size is not read."""
    return f"{size:,} bytes are more than the {MAX_FILE_BYTES:,} that are read; cut out the part that matters"


_File = tuple[str, str, os.stat_result]
"""A file's path, the same seen from its root, and its state."""


def _walk(root: Path, roots: Collection[Path], skipped: dict[str, str]) -> Generator[_File, None, None]:
    """Yield the files in a folder, or the file itself. Unreadable folders are noted in `skipped`."""
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
            elif not entry.is_symlink():  # the target of a link inside the folder is found at its own path
                yield entry.path, f"{inner}/{entry.name}", entry.stat(follow_symlinks=False)


def _unusable(entry: os.DirEntry[str], roots: Collection[Path]) -> str:
    """Return the reason for which an entry of a folder cannot be used, by its name and target; empty if it can."""
    try:
        entry.name.encode()
        entry.stat(follow_symlinks=False)
        if entry.is_symlink() and not is_in(Path(entry.path).resolve(strict=True), roots):
            return "is a link that leads out of the folder; name what it leads to"
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    except (OSError, RuntimeError) as error:  # to older Pythons, links in a circle are a RuntimeError
        return f"cannot be read: {_reason(error)}"
    return ""


def _near(path: Path) -> str:
    try:
        return did_you_mean(path.name, [beside.name for beside in path.parent.iterdir()])
    except OSError:
        return ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
