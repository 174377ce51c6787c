"""Folder of files by their content, with local names."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from operad.runtime.values.errors import InputError, shorten

MAX_STORED_BYTES = 4 * 2**30
"""Maximum size of a stored file, in bytes."""

GRACE_SECONDS = 3600.0
"""Seconds that an unreferenced file is kept, because its reference may be about to be written."""

BLOCK_BYTES = 2**20

_NAME_BYTES = 200

_MOST_DIGESTS = 100_000

_SETTLED_SECONDS = 2.0
"""Minimum age in seconds of a file's last change for its state to be remembered.

A newer file could change again within the resolution of the file system's clock, without a change of its state.
"""

_State = tuple[int, int, int, int, int]
"""State of a file, by which a modification is noticed: device, inode, size, and times of the last changes."""


class FileFolder:
    """Content-addressed files in a folder.

    Other programs may write into the folder. So contents are compared with their digests when they are read, and
    nothing is written or removed through a link.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(os.path.expanduser(root)))
        self._digests: dict[_State, str] = {}

    def content(self, key: str) -> Path:
        """Return the path of a content."""
        return self.root / key[:2] / key

    def add(self, path: Path) -> str:
        """Store a file, and return the key of its content."""
        with self._reporting_errors(path):
            key = self._key_of_named(path)
            if key and self._extend_grace(key):
                return key
            with _open_given(path) as stream:
                before = os.fstat(stream.fileno())
                key = self._digests.get(_state(before))
                if key and self._has_content(self.content(key), key) and self._extend_grace(key):
                    return key
                if before.st_size > MAX_STORED_BYTES:
                    raise InputError(too_large(path, before.st_size))
                with self._temporary() as (temporary, out):
                    key, size = copied(_read(stream.read, path), out, path)
                    if (size, *_state(os.fstat(stream.fileno()))[:4]) != (before.st_size, *_state(before)[:4]):
                        raise InputError(f"{path}: changed while it was stored; let its writer finish first")
                    self._move_into_place(temporary, out, key)
        if time.time() - max(before.st_mtime, before.st_ctime) > _SETTLED_SECONDS:
            self._remember(before, key)
        return key

    def bring(self, key: str, blocks: Iterable[bytes], source: str) -> None:
        """Store a content that is downloaded, after checking that it is complete."""
        with self._reporting_errors(source), self._temporary() as (temporary, out):
            found, _ = copied(blocks, out, source)
            if found != key:
                raise InputError(damaged(source))
            self._move_into_place(temporary, out, key)

    def holds(self, key: str) -> bool:
        """Return True if a content is stored and undamaged; it is read unless this is known."""
        try:
            return self._has_content(self.content(key), key)
        except OSError as error:
            raise InputError(f"{self.content(key)}: cannot be read: {error.strerror or error}") from error

    def named(self, key: str, name: str) -> Path:
        """Return the path of a file with a name that has this content; it is created if missing."""
        with self._reporting_errors(name):
            path = self._inside("names", key) / name
            if self._has_content(path, key):
                return path
            temporary = self._inside("writing") / secrets.token_hex(16)
            try:
                try:
                    os.link(self.content(key), temporary)
                except OSError:  # a file system without links, or a file of another user
                    shutil.copyfile(self.content(key), temporary)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            for link in (path, self.content(key)):  # creating a link changes the state of both
                self._remember(link.lstat(), key)
            return path

    def collect(self, kept: Collection[str]) -> int:
        """Remove contents that are not kept, and return the number of bytes freed."""
        before = time.time() - GRACE_SECONDS
        removed, problems = 0, list[str]()
        folders = [folder for folder in _entries(self.root, problems) if _is_place(folder.name)]
        for path in (path for folder in folders for path in _entries(folder, problems)):
            if not is_ours(path.parent.name, path.name) or path.name in kept:
                continue
            try:
                if path.lstat().st_mtime >= before:
                    continue
                doomed = self._inside("writing") / secrets.token_hex(16)
                os.replace(path, doomed)
                if (found := doomed.lstat()).st_mtime >= before:  # it was stored again in this moment
                    os.replace(doomed, path)
                    continue
                doomed.unlink()
                removed += found.st_size if path.parent.name != "writing" else 0
            except FileNotFoundError:  # another process collects
                continue
            except OSError as error:
                problems.append(f"{path}: {error.strerror or error}")
        for names in _entries(self.root / "names", problems):
            if names.name not in kept and KEY.fullmatch(names.name) and not os.path.lexists(self.content(names.name)):
                shutil.rmtree(names, ignore_errors=True)
        if problems:
            raise InputError(
                f"{self.root}: some files could not be removed; check the permissions: {shorten(problems)}"
            )
        return removed

    def _key_of_named(self, path: Path) -> str | None:
        """Return the key of a path that `named` returned, derived from its location; None for other paths."""
        key = path.parent.name
        if not KEY.fullmatch(key) or path.parent.parent != self.root / "names":
            return None
        state, of_content = _state_of_regular(path), _state_of_regular(self.content(key))
        return key if state and of_content and state[2] == of_content[2] else None

    def _has_content(self, path: Path, key: str) -> bool:
        """Return True if a path is a file with this content; it is read unless its state is known."""
        state = _state_of_regular(path)
        if state is None or state[2] > MAX_STORED_BYTES:
            return False
        if self._digests.get(state) == key:
            return True
        digest = hashlib.sha256()
        try:
            with _open_regular(path) as stream:
                found = os.fstat(stream.fileno())
                for block in _read(stream.read, path):
                    digest.update(block)
        except FileNotFoundError:  # another process has just collected it
            return False
        self._remember(found, digest.hexdigest())  # with its state when it was read: it may have changed since
        return digest.hexdigest() == key

    def _extend_grace(self, key: str) -> bool:
        """Restart the grace period of a content; return False if that fails."""
        content = self.content(key)
        state = _state_of_regular(content)
        is_known = state is not None and self._digests.get(state) == key
        try:
            os.utime(content)
            if is_known:
                self._remember(content.lstat(), key)
        except OSError:  # another process has just collected it, or it belongs to another user
            return False
        return True

    def _remember(self, found: os.stat_result, key: str) -> None:
        """Remember the digest of a file with this state, so that it is not read again."""
        if len(self._digests) >= _MOST_DIGESTS:
            self._digests.clear()
        self._digests[_state(found)] = key

    def _move_into_place(self, temporary: Path, out: BinaryIO, key: str) -> None:
        """Move a complete temporary file to the path of its content, unless an undamaged file is there."""
        content = self._inside(key[:2]) / key
        if self._has_content(content, key) and self._extend_grace(key):
            return
        out.flush()
        os.fsync(out.fileno())
        os.replace(temporary, content)
        self._remember(content.lstat(), key)
        # The folders are synced, too: a reference to the file may be written next, and must not survive a power failure
        # that loses the file.
        for folder in (content.parent, self.root):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _temporary(self) -> Generator[tuple[Path, BinaryIO], None, None]:
        """Create a temporary file to be renamed when complete; it is removed at the end unless it was renamed."""
        path = self._inside("writing") / secrets.token_hex(16)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        try:
            with open(descriptor, "wb") as out:
                yield path, out
        finally:
            path.unlink(missing_ok=True)

    def _inside(self, *parts: str) -> Path:
        """Return a folder of the store, created if missing."""
        folder = self.root
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            folder /= part
            with suppress(FileExistsError):
                folder.mkdir()
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise InputError(
                    f"{folder}: is a link or a file, but the store needs a folder here; find out who owns it and remove it"
                )
        return folder

    @contextmanager
    def _reporting_errors(self, what: object) -> Generator[None, None, None]:
        """Raise InputError for an OSError while a file is stored."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.root}: {what} cannot be stored here: {error.strerror or error}; no part of it is kept. "
                "Check free space and permissions, or name another folder"
            ) from error


KEY = re.compile(r"[0-9a-f]{64}")

_TEMPORARY = re.compile(r"[0-9a-f]{32}")

_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")


def _is_place(folder: str) -> bool:
    return folder == "writing" or re.fullmatch(r"[0-9a-f]{2}", folder) is not None


def is_ours(folder: str, name: str) -> bool:
    """Return True if a file name in this folder belongs to the store: a content or a temporary file."""
    if folder == "writing":
        return _TEMPORARY.fullmatch(name) is not None
    return folder == name[:2] and KEY.fullmatch(name) is not None


def safe_name(name: str) -> str:
    """Return a name that is safe as the last part of a path, of at most `_NAME_BYTES`."""
    name = _UNSAFE.sub("_", name.encode(errors="replace").decode())
    if not name.strip(". "):
        return "file"
    if len(name.encode()) <= _NAME_BYTES:
        return name
    suffix = Path(name).suffix
    suffix = suffix if len(suffix.encode()) <= 20 else ""
    return name.encode()[: _NAME_BYTES - len(suffix.encode())].decode(errors="ignore") + suffix


def damaged(where: object) -> str:
    """Return the error of a content that was changed on disk."""
    return f"{where}: is damaged: its content does not match its name; delete it, and store the file again"


def too_large(what: object, size: int) -> str:
    """Return the error of a file that is too large to be stored."""
    return (
        f"{what}: {size:,} bytes are more than the maximum of {MAX_STORED_BYTES:,} for a file store; "
        "make it smaller, or keep it elsewhere and pass on its address"
    )


def _state(found: os.stat_result) -> _State:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _state_of_regular(path: Path) -> _State | None:
    """Return the state of a regular file; None if the path is missing or not a regular file."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: the path has a zero byte
        return None
    return _state(found) if stat.S_ISREG(found.st_mode) else None


def _entries(folder: Path, problems: list[str]) -> list[Path]:
    """Return the entries of a folder; an empty list for a missing folder or a link."""
    try:
        return list(folder.iterdir()) if stat.S_ISDIR(folder.lstat().st_mode) else []
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{folder}: {error.strerror or error}")
        return []


def _open_regular(path: Path) -> FileIO:
    """Open a regular file for reading, without waiting for pipes or devices."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: is not a regular file; write its output into one")
    return open(descriptor, "rb", buffering=0)


def _open_given(path: Path) -> FileIO:
    """Open a file named by the caller for reading."""
    try:
        return _open_regular(path)
    except (OSError, ValueError) as error:  # ValueError: the path has a zero byte
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}; was it moved or deleted since it was named?") from error


def _read(read: Callable[[int], bytes], path: Path) -> Generator[bytes, None, None]:
    try:
        while block := read(BLOCK_BYTES):
            yield block
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def copied(blocks: Iterable[bytes], out: BinaryIO, what: object) -> tuple[str, int]:
    """Write blocks; return their SHA-256 in hexadecimal and their size in bytes."""
    digest, size = hashlib.sha256(), 0
    for block in blocks:
        size += len(block)
        if size > MAX_STORED_BYTES:
            raise InputError(too_large(what, size))
        digest.update(block)
        out.write(block)
    return digest.hexdigest(), size
