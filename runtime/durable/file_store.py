"""Content-addressed file store: in a folder, or at an address that machines share.

Local and remote stores have the same layout:

    ab/abcd…                 a content, under its SHA-256 in hexadecimal
    names/abcd…/notes.txt    the same content under a requested name; local only
    writing/…                incomplete files

A folder is used without fsspec, because `get` can return the paths of its files directly: it takes 0.3 ms per file,
and 4.7 ms with fsspec's local file system, which copies files. `put` takes 5.4 ms and 3.2 ms (measured on 2026-11-23).
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from operad.runtime.values.errors import InputError, MissingExtraError, OperadError, describe, shorten
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.pip import pip_install


class RemoteFiles:
    """Content-addressed files at an fsspec URL.

    Args:
        url: The address.

    Raises:
        InputError: The address is not valid.
        MissingExtraError: fsspec, or the package for this protocol, is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._shown = re.sub(r"//[^/@]*@", "//", url).rstrip("/")
        if find_spec("fsspec") is None:
            raise MissingExtraError(f"{self._shown}: needs the package fsspec: {pip_install('durable')}")
        if magic := re.findall(r"[*?\[\]]", url):
            raise InputError(f"{self._shown}: contains the wildcard {magic[0]!r}; name another place")
        fsspec: Any = import_module("fsspec")
        for part in url.split("::"):
            protocol = part.partition("://")[0]
            try:
                fsspec.get_filesystem_class(protocol)
            except ImportError as error:
                raise MissingExtraError(f"{self._shown}: {error}") from error
            except ValueError as error:
                raise InputError(
                    f"{self._shown}: fsspec does not know the protocol {protocol!r}; "
                    f"known protocols, some of which need a package: {shorten(sorted(fsspec.available_protocols()), 50)}"
                ) from error

    def place(self, key: str) -> str:
        """Return the address of a content, for errors."""
        return f"{self._shown}/{key[:2]}/{key}"

    def add(self, content: Path, key: str) -> None:
        """Upload a file's content, unless it is stored already."""
        with self._reporting_errors("cannot be written to"):
            fs, root = self._open()
            target, temporary = f"{root}/{key[:2]}/{key}", f"{root}/writing/{secrets.token_hex(16)}"
            size = content.stat().st_size
            if _is_safe_from_collection(fs, target, size):
                return
            for folder in (f"{root}/writing", f"{root}/{key[:2]}"):
                fs.makedirs(folder, exist_ok=True)
            try:
                fs.put_file(str(content), temporary)
                if (arrived := fs.info(temporary)["size"]) != size:
                    raise OSError(f"of {size:,} bytes {arrived:,} arrived")
                fs.mv(temporary, target)
            except BaseException:
                with suppress(Exception):  # the file may not exist; if it stays, `collect` removes it later
                    fs.rm_file(temporary)
                raise

    def blocks(self, key: str) -> Generator[bytes, None, None]:
        """Yield the blocks of a content."""
        with self._reporting_errors("cannot be read"):
            fs, root = self._open()
            try:
                with fs.open(f"{root}/{key[:2]}/{key}", "rb") as stream:
                    yield from iter(lambda: stream.read(BLOCK_BYTES), b"")
            except FileNotFoundError as error:
                raise InputError(missing_file(self._shown, key)) from error

    def collect(self, kept: Collection[str]) -> int:
        """Remove contents that are not kept, and return the number of bytes freed."""
        removed = 0
        with self._reporting_errors("unreferenced files cannot be removed"):
            fs, root = self._open()
            for path in fs.find(root):
                folder, name = path.split("/")[-2:]
                if path != f"{root}/{folder}/{name}" or not _is_ours(folder, name) or name in kept:
                    continue
                with suppress(FileNotFoundError):  # another process collects
                    if _age(fs, path) > GRACE_SECONDS:
                        size = fs.info(path)["size"]
                        fs.rm_file(path)
                        removed += size if folder != "writing" else 0
        return removed

    def _open(self) -> tuple[Any, str]:
        """Return the file system, which fsspec caches per process and thread, and the root of the store in it."""
        core: Any = import_module("fsspec.core")
        fs, root = core.url_to_fs(self._url)
        fs.invalidate_cache()  # other processes write into the store, too
        return fs, root.rstrip("/")

    @contextmanager
    def _reporting_errors(self, problem: str) -> Generator[None, None, None]:
        try:
            yield
        except OperadError:
            raise
        except Exception as error:  # each kind of store has its own errors
            raise InputError(
                f"{self._shown}: {problem}: {describe(error)}; check the address, the connection, "
                "and the permissions of its keys"
            ) from error


def missing_file(where: object, key: str) -> str:
    """Return the error text for a content that is not in the store."""
    return (
        f"{where}: holds no file sha256:{key}; name the store that it was put in, "
        "or, if it was removed, run the operator that made it again"
    )


def _is_safe_from_collection(fs: Any, path: str, size: int) -> bool:
    """Return True if a file of this size exists, and `collect` will not remove it before its reference is written."""
    try:
        return fs.info(path)["size"] == size and _age(fs, path) < GRACE_SECONDS / 2
    except FileNotFoundError:
        return False
    except NotImplementedError:  # files of unknown age are never collected
        return True


def _age(fs: Any, path: str) -> float:
    return time.time() - fs.modified(path).timestamp()


class FileStore:
    """Content-addressed files in a folder or at an fsspec URL.

        store = FileStore("files")
        digest = store.put(FileDescriptor.of("letter.txt"))
        print(store.get(digest, "letter.txt").read_text())

    Each content is stored once, as a copy that never changes; the original file may be deleted. Threads, processes and
    machines can share a store. All methods read and write files: in an event loop, call them with `asyncio.to_thread`.

    Args:
        url: A folder, ``file://`` and a folder, or the address of a remote store such as
            ``s3://bucket/runs``. It is created on first use.
        cache: Folder for local copies of a remote store's files, which no other store uses; a new temporary folder by
            default.

    Raises:
        InputError: The address is not valid for a store.
        MissingExtraError: fsspec, or the package it needs for this address, is not installed.
    """

    def __init__(self, url: str | Path, cache: Path | None = None) -> None:
        address = os.fspath(url)
        if not address.strip() or "\0" in address:
            raise InputError(
                f"{address!r} is not the address of a file store; name a folder, or an address such as s3://bucket/runs"
            )
        is_local = isinstance(url, Path) or "://" not in address.removeprefix("file://")
        self._remote = None if is_local else RemoteFiles(address)
        if is_local:
            folder = Path(address if isinstance(url, Path) else address.removeprefix("file://"))
        else:
            folder = cache or Path(tempfile.mkdtemp(prefix="operad-files-"))
        self._folder = FileFolder(folder)

    def put(self, file: FileDescriptor) -> str:
        """Store a file, unless its content is stored already. A file from `get` or an earlier `put` is not read again.

        Returns:
            The digest of the content: ``sha256:`` and 64 hexadecimal digits.

        Raises:
            InputError: The path is not a regular file, is larger than `MAX_STORED_BYTES`, cannot be read, or changes
                while it is read; or the store cannot be written to. In these cases, nothing is stored.
        """
        key = self._folder.add(file.path)
        if self._remote:
            self._remote.add(self._folder.content(key), key)
        return f"sha256:{key}"

    def get(self, digest: str, name: str) -> Path:
        """Return a local, read-only path of a stored file.

        Args:
            digest: The digest that `put` returned.
            name: Last part of the path. Slashes, zero bytes and other control characters become ``_``;
                a name of more than 200 bytes is cut before its suffix.

        Raises:
            InputError: The digest is malformed, the file is missing or damaged, or it cannot be downloaded.
        """
        key = _key(digest)
        if not self._folder.holds(key):
            if self._remote:
                self._folder.bring(key, self._remote.blocks(key), self._remote.place(key))
            elif os.path.lexists(self._folder.content(key)):
                raise InputError(_damaged(self._folder.content(key)))
            else:
                raise InputError(missing_file(self._folder.root, key))
        return self._folder.named(key, _safe_name(name))

    def collect(self, kept: Collection[str]) -> int:
        """Remove unreferenced files older than `GRACE_SECONDS`, also from the cache folder of a remote store.

        Args:
            kept: Digests that are referenced.

        Returns:
            The number of bytes freed.

        Raises:
            InputError: `kept` holds a value that is not a digest, so that nothing is removed; or a file could not be
                removed.
        """
        keys = frozenset(map(_key, kept))
        removed = self._folder.collect(keys)
        return self._remote.collect(keys) if self._remote else removed


def _key(digest: object) -> str:
    """Return the hexadecimal digits of a digest, or raise InputError if it is malformed."""
    key = digest.removeprefix("sha256:") if isinstance(digest, str) else ""
    if digest != f"sha256:{key}" or not _KEY.fullmatch(key):
        raise InputError(
            f"{digest!r:.100} is not the digest of a stored file: expected 'sha256:' and 64 hexadecimal digits, as put() returns"
        )
    return key


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
                    raise InputError(_too_large(path, before.st_size))
                with self._temporary() as (temporary, out):
                    key, size = _copied(_read(stream.read, path), out, path)
                    if (size, *_state(os.fstat(stream.fileno()))[:4]) != (before.st_size, *_state(before)[:4]):
                        raise InputError(f"{path}: changed while it was stored; let its writer finish first")
                    self._move_into_place(temporary, out, key)
        if time.time() - max(before.st_mtime, before.st_ctime) > _SETTLED_SECONDS:
            self._remember(before, key)
        return key

    def bring(self, key: str, blocks: Iterable[bytes], source: str) -> None:
        """Store a content that is downloaded, after checking that it is complete."""
        with self._reporting_errors(source), self._temporary() as (temporary, out):
            found, _ = _copied(blocks, out, source)
            if found != key:
                raise InputError(_damaged(source))
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
            if not _is_ours(path.parent.name, path.name) or path.name in kept:
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
            if names.name not in kept and _KEY.fullmatch(names.name) and not os.path.lexists(self.content(names.name)):
                shutil.rmtree(names, ignore_errors=True)
        if problems:
            raise InputError(
                f"{self.root}: some files could not be removed; check the permissions: {shorten(problems)}"
            )
        return removed

    def _key_of_named(self, path: Path) -> str | None:
        """Return the key of a path that `named` returned, derived from its location; None for other paths."""
        key = path.parent.name
        if not _KEY.fullmatch(key) or path.parent.parent != self.root / "names":
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


_KEY = re.compile(r"[0-9a-f]{64}")

_TEMPORARY = re.compile(r"[0-9a-f]{32}")

_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")


def _is_place(folder: str) -> bool:
    return folder == "writing" or re.fullmatch(r"[0-9a-f]{2}", folder) is not None


def _is_ours(folder: str, name: str) -> bool:
    """Return True if a file name in this folder belongs to the store: a content or a temporary file."""
    if folder == "writing":
        return _TEMPORARY.fullmatch(name) is not None
    return folder == name[:2] and _KEY.fullmatch(name) is not None


def _safe_name(name: str) -> str:
    """Return a name that is safe as the last part of a path, of at most `_NAME_BYTES`."""
    name = _UNSAFE.sub("_", name.encode(errors="replace").decode())
    if not name.strip(". "):
        return "file"
    if len(name.encode()) <= _NAME_BYTES:
        return name
    suffix = Path(name).suffix
    suffix = suffix if len(suffix.encode()) <= 20 else ""
    return name.encode()[: _NAME_BYTES - len(suffix.encode())].decode(errors="ignore") + suffix


def _damaged(where: object) -> str:
    """Return the error of a content that was changed on disk."""
    return f"{where}: is damaged: its content does not match its name; delete it, and store the file again"


def _too_large(what: object, size: int) -> str:
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


def _copied(blocks: Iterable[bytes], out: BinaryIO, what: object) -> tuple[str, int]:
    """Write blocks; return their SHA-256 in hexadecimal and their size in bytes."""
    digest, size = hashlib.sha256(), 0
    for block in blocks:
        size += len(block)
        if size > MAX_STORED_BYTES:
            raise InputError(_too_large(what, size))
        digest.update(block)
        out.write(block)
    return digest.hexdigest(), size
