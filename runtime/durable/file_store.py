"""Files by their content: in a folder, or at an address that machines share.

A store, local or remote, is laid out alike:

    ab/abcd…                 a content, under its SHA-256 in hexadecimal
    names/abcd…/notes.txt    the same under a name that it was asked for by; local only
    writing/…                what is not whole yet
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

MAX_STORED_BYTES = 4 * 2**30
"""The largest file that is stored, in bytes."""

GRACE_SECONDS = 3600.0
"""How long a file stays that nothing refers to: whoever put it may be about to."""

_BLOCK_BYTES = 2**20

_NAME_BYTES = 200

_MOST_SEEN = 100_000

_SETTLED_SECONDS = 2.0
"""How old a change must be to tell it from the next one: the coarsest clock of a file system."""


class FileStore:
    """Files by their content, in a folder or at an fsspec URL.

    What is put is copied, each content once, and never changed; the original may go. Threads,
    processes and machines may share a store. All methods read and write files: under an event
    loop, call them with `asyncio.to_thread`.

    Args:
        url: A folder, ``file://`` and a folder, or the address of a remote store such as
            ``s3://bucket/runs``. It is made when it is first needed.
        cache: The folder, used by this store alone, where files of a remote store are brought to;
            a fresh temporary folder where none is given.

    Raises:
        InputError: The address cannot be one of a store.
        MissingExtraError: fsspec, or what it needs for such an address, is not installed.
    """

    def __init__(self, url: str | Path, cache: Path | None = None) -> None:
        address = os.fspath(url)
        if not address.strip() or "\0" in address:
            raise InputError(f"{address!r} names no file store; name a folder, or an address such as s3://bucket/runs")
        is_local = isinstance(url, Path) or "://" not in address.removeprefix("file://")
        self._remote = None if is_local else _Remote(address)
        if is_local:
            folder = Path(address if isinstance(url, Path) else address.removeprefix("file://"))
        else:
            folder = cache or Path(tempfile.mkdtemp(prefix="operad-files-"))
        self._folder = _Folder(folder)

    def put(self, file: FileDescriptor) -> str:
        """Store a file, unless its content is there. One that `get` gave, or that was put before, is not read again.

        Returns:
            The digest to get it by: ``sha256:`` and 64 hexadecimal digits.

        Raises:
            InputError: It is no regular file, is larger than `MAX_STORED_BYTES`, cannot be read, or changes
                while it is read; or the store cannot be written to. Then nothing of it is stored.
        """
        key = self._folder.add(file.path)
        if self._remote:
            self._remote.add(self._folder.content(key), key)
        return f"sha256:{key}"

    def get(self, digest: str, name: str) -> Path:
        """A local path of a stored file, to be read only.

        Args:
            digest: What `put` said.
            name: What the path ends with. Slashes, zero bytes and other control characters become ``_``,
                and of a name of more than 200 bytes the start and the suffix remain.

        Raises:
            InputError: The digest is none, the file is not there or is damaged, or it cannot be brought here.
        """
        key = _key(digest)
        if not self._folder.holds(key):
            if self._remote:
                self._folder.bring(key, self._remote.blocks(key), self._remote.place(key))
            elif os.path.lexists(self._folder.content(key)):
                raise InputError(_damaged(self._folder.content(key)))
            else:
                raise InputError(_missing(self._folder.root, key))
        return self._folder.named(key, _safe(name))

    def collect(self, kept: Collection[str]) -> int:
        """Remove what nothing refers to and nobody put within `GRACE_SECONDS`, also from the folder of a remote store.

        Args:
            kept: The digests that something refers to.

        Returns:
            How many bytes the store has less.

        Raises:
            InputError: What is kept holds something else than digests, and nothing is removed; or something could
                not be removed.
        """
        keys = frozenset(map(_key, kept))
        removed = self._folder.collect(keys)
        return self._remote.collect(keys) if self._remote else removed


_State = tuple[int, int, int, int, int]
"""What tells a file from another, and from itself before a change."""


class _Folder:
    """Files by their content in a folder. Others may put things there: what is read is compared with its digest, and
    nothing is written or removed through a link.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(os.path.expanduser(root)))
        self._seen: dict[_State, str] = {}

    def content(self, key: str) -> Path:
        return self.root / key[:2] / key

    def add(self, path: Path) -> str:
        with self._writing(path):
            key = self._named(path)
            if key and self._touch(key):
                return key
            with _given(path) as stream:
                before = os.fstat(stream.fileno())
                key = self._seen.get(_state(before))
                if key and self._is(self.content(key), key) and self._touch(key):
                    return key
                if before.st_size > MAX_STORED_BYTES:
                    raise InputError(_too_large(path, before.st_size))
                with self._temporary() as (temporary, out):
                    key, size = _copy(_read(stream.read, path), out, path)
                    if (size, *_state(os.fstat(stream.fileno()))[:4]) != (before.st_size, *_state(before)[:4]):
                        raise InputError(f"{path}: changed while it was stored; let who writes it finish first")
                    self._place(temporary, out, key)
        if time.time() - max(before.st_mtime, before.st_ctime) > _SETTLED_SECONDS:
            self._remember(before, key)
        return key

    def bring(self, key: str, blocks: Iterable[bytes], source: str) -> None:
        with self._writing(source), self._temporary() as (temporary, out):
            found, _ = _copy(blocks, out, source)
            if found != key:
                raise InputError(_damaged(source))
            self._place(temporary, out, key)

    def holds(self, key: str) -> bool:
        """Whether a content is there and whole; it is read where that is not known."""
        try:
            return self._is(self.content(key), key)
        except OSError as error:
            raise InputError(f"{self.content(key)}: cannot be read: {error.strerror or error}") from error

    def named(self, key: str, name: str) -> Path:
        with self._writing(name):
            path = self._inside("names", key) / name
            if self._is(path, key):
                return path
            temporary = self._inside("writing") / secrets.token_hex(16)
            try:
                try:
                    os.link(self.content(key), temporary)
                except OSError:  # a file system without links; a file of another user
                    shutil.copyfile(self.content(key), temporary)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            for same in (path, self.content(key)):  # a link changes the state of both
                self._remember(same.lstat(), key)
            return path

    def collect(self, kept: Collection[str]) -> int:
        before = time.time() - GRACE_SECONDS
        removed, problems = 0, list[str]()
        places = [folder for folder in _listed(self.root, problems) if _is_place(folder.name)]
        for path in (path for folder in places for path in _listed(folder, problems)):
            if not _is_ours(path.parent.name, path.name) or path.name in kept:
                continue
            try:
                if path.lstat().st_mtime >= before:
                    continue
                doomed = self._inside("writing") / secrets.token_hex(16)
                os.replace(path, doomed)
                if (found := doomed.lstat()).st_mtime >= before:  # it was put just now
                    os.replace(doomed, path)
                    continue
                doomed.unlink()
                removed += found.st_size if path.parent.name != "writing" else 0
            except FileNotFoundError:  # somebody else collects
                continue
            except OSError as error:
                problems.append(f"{path}: {error.strerror or error}")
        for names in _listed(self.root / "names", problems):
            if names.name not in kept and _KEY.fullmatch(names.name) and not os.path.lexists(self.content(names.name)):
                shutil.rmtree(names, ignore_errors=True)
        if problems:
            raise InputError(f"{self.root}: not all could be removed; may it be written to? {shorten(problems)}")
        return removed

    def _named(self, path: Path) -> str | None:
        """What content a path is that `named` gave, by where it lies; None of others."""
        key = path.parent.name
        if not _KEY.fullmatch(key) or path.parent.parent != self.root / "names":
            return None
        state, of_content = _regular(path), _regular(self.content(key))
        return key if state and of_content and state[2] == of_content[2] else None

    def _is(self, path: Path, key: str) -> bool:
        """Whether a path is a file of this content, which is read where it is not known."""
        state = _regular(path)
        if state is None or state[2] > MAX_STORED_BYTES:
            return False
        if self._seen.get(state) == key:
            return True
        digest = hashlib.sha256()
        try:
            with _opened(path) as stream:
                found = os.fstat(stream.fileno())
                for block in _read(stream.read, path):
                    digest.update(block)
        except FileNotFoundError:  # collected just now
            return False
        self._remember(found, digest.hexdigest())
        return digest.hexdigest() == key  # by what was read: another thread may have touched it since

    def _is_known(self, path: Path, key: str) -> bool:
        state = _regular(path)
        return state is not None and self._seen.get(state) == key

    def _touch(self, key: str) -> bool:
        """Give a content its grace anew; whether that could be done."""
        content = self.content(key)
        is_known = self._is_known(content, key)
        try:
            os.utime(content)
            if is_known:
                self._remember(content.lstat(), key)
        except OSError:  # collected just now; a file of another user
            return False
        return True

    def _remember(self, found: os.stat_result, key: str) -> None:
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[_state(found)] = key

    def _place(self, temporary: Path, out: BinaryIO, key: str) -> None:
        """Make a file the content, unless one that is whole is there."""
        content = self._inside(key[:2]) / key
        if self._is(content, key) and self._touch(key):
            return
        out.flush()
        os.fsync(out.fileno())
        os.replace(temporary, content)
        self._remember(content.lstat(), key)
        for folder in (content.parent, self.root):  # what refers to the file may be written next, and last longer
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _temporary(self) -> Generator[tuple[Path, BinaryIO], None, None]:
        """A new file, to be read only when it is whole; removed at the end unless it was renamed."""
        path = self._inside("writing") / secrets.token_hex(16)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        try:
            with open(descriptor, "wb") as out:
                yield path, out
        finally:
            path.unlink(missing_ok=True)

    def _inside(self, *parts: str) -> Path:
        """A folder of ours, made where it is not there."""
        folder = self.root
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            folder /= part
            with suppress(FileExistsError):
                folder.mkdir()
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise InputError(
                    f"{folder}: is a link or a file where the store has a folder; find out whose, remove it"
                )
        return folder

    @contextmanager
    def _writing(self, what: object) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.root}: {what} cannot be stored here: {error.strerror or error}; nothing of it is kept. "
                "See that there is room and that one may write there, or name another folder"
            ) from error


class _Remote:
    """Files by their content at an fsspec URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._shown = re.sub(r"//[^/@]*@", "//", url).rstrip("/")
        if find_spec("fsspec") is None:
            raise MissingExtraError(f"{self._shown}: needs the package fsspec: pip install 'operad[durable]'")
        if magic := re.findall(r"[*?\[\]]", url):
            raise InputError(
                f"{self._shown}: holds {magic[0]!r}, which stands for other characters; name another place"
            )
        fsspec: Any = import_module("fsspec")
        for part in url.split("::"):
            protocol = part.partition("://")[0]
            try:
                fsspec.get_filesystem_class(protocol)
            except ImportError as error:
                raise MissingExtraError(f"{self._shown}: {error}") from error
            except ValueError as error:
                raise InputError(
                    f"{self._shown}: {protocol!r} is no kind of address that fsspec knows; "
                    f"of these one may need a package: {shorten(sorted(fsspec.available_protocols()), 50)}"
                ) from error

    def place(self, key: str) -> str:
        return f"{self._shown}/{key[:2]}/{key}"

    def add(self, content: Path, key: str) -> None:
        with self._reached("cannot be written to"):
            fs, root = self._open()
            target, temporary = f"{root}/{key[:2]}/{key}", f"{root}/writing/{secrets.token_hex(16)}"
            size = content.stat().st_size
            if _is_fresh(fs, target, size):
                return
            for folder in (f"{root}/writing", f"{root}/{key[:2]}"):
                fs.makedirs(folder, exist_ok=True)
            try:
                fs.put_file(str(content), temporary)
                if (arrived := fs.info(temporary)["size"]) != size:
                    raise OSError(f"of {size:,} bytes {arrived:,} arrived")
                fs.mv(temporary, target)
            except BaseException:
                with suppress(Exception):  # it may never have been made; `collect` removes it
                    fs.rm_file(temporary)
                raise

    def blocks(self, key: str) -> Generator[bytes, None, None]:
        with self._reached("cannot be read"):
            fs, root = self._open()
            try:
                with fs.open(f"{root}/{key[:2]}/{key}", "rb") as stream:
                    yield from iter(lambda: stream.read(_BLOCK_BYTES), b"")
            except FileNotFoundError as error:
                raise InputError(_missing(self._shown, key)) from error

    def collect(self, kept: Collection[str]) -> int:
        removed = 0
        with self._reached("files that nothing refers to cannot be removed"):
            fs, root = self._open()
            for path in fs.find(root):
                folder, name = path.split("/")[-2:]
                if path != f"{root}/{folder}/{name}" or not _is_ours(folder, name) or name in kept:
                    continue
                with suppress(FileNotFoundError):  # somebody else collects
                    if _age(fs, path) > GRACE_SECONDS:
                        size = fs.info(path)["size"]
                        fs.rm_file(path)
                        removed += size if folder != "writing" else 0
        return removed

    def _open(self) -> tuple[Any, str]:
        """The file system, which fsspec keeps for each process and thread, and where in it the store is."""
        core: Any = import_module("fsspec.core")
        fs, root = core.url_to_fs(self._url)
        fs.invalidate_cache()  # others write there too
        return fs, root.rstrip("/")

    @contextmanager
    def _reached(self, problem: str) -> Generator[None, None, None]:
        try:
            yield
        except OperadError:
            raise
        except Exception as error:  # each kind of store has errors of its own
            raise InputError(
                f"{self._shown}: {problem}: {describe(error)}; is the address right, can it be reached, "
                "do its keys allow that?"
            ) from error


def _is_fresh(fs: Any, path: str, size: int) -> bool:
    """Whether a file of this size is there that nobody will collect before what refers to it is written."""
    try:
        return fs.info(path)["size"] == size and _age(fs, path) < GRACE_SECONDS / 2
    except FileNotFoundError:
        return False
    except NotImplementedError:  # of unknown age: never collected
        return True


def _age(fs: Any, path: str) -> float:
    return time.time() - fs.modified(path).timestamp()


_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"[0-9a-f]{32}")
_UNSAFE = re.compile(r"[/\\\x00-\x1f\x7f]")


def _key(digest: object) -> str:
    key = digest.removeprefix("sha256:") if isinstance(digest, str) else ""
    if digest != f"sha256:{key}" or not _KEY.fullmatch(key):
        raise InputError(
            f"{digest!r:.100} is no digest of a stored file: that is 'sha256:' and 64 hexadecimal digits, as put() says it"
        )
    return key


def _is_place(folder: str) -> bool:
    return folder == "writing" or re.fullmatch(r"[0-9a-f]{2}", folder) is not None


def _is_ours(folder: str, name: str) -> bool:
    """Whether a file of this name in this folder is a content, or was to be one."""
    if folder == "writing":
        return _TEMPORARY.fullmatch(name) is not None
    return folder == name[:2] and _KEY.fullmatch(name) is not None


def _safe(name: str) -> str:
    """A name as the last part of a path, of at most `_NAME_BYTES`."""
    name = _UNSAFE.sub("_", name.encode(errors="replace").decode())
    if not name.strip(". "):
        return "file"
    if len(name.encode()) <= _NAME_BYTES:
        return name
    suffix = Path(name).suffix
    suffix = suffix if len(suffix.encode()) <= 20 else ""
    return name.encode()[: _NAME_BYTES - len(suffix.encode())].decode(errors="ignore") + suffix


def _missing(where: object, key: str) -> str:
    return (
        f"{where}: holds no file sha256:{key}; name the store that it was put in, "
        "or, where it was removed from there, run again what made it"
    )


def _damaged(where: object) -> str:
    return f"{where}: is damaged, its content is not the one it is named after; delete it, and put the file again"


def _too_large(what: object, size: int) -> str:
    return (
        f"{what}: {size:,} bytes are more than the {MAX_STORED_BYTES:,} that a file store takes; "
        "make it smaller, or keep it elsewhere and pass on where"
    )


def _state(found: os.stat_result) -> _State:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _regular(path: Path) -> _State | None:
    """The state of a regular file; None where there is none, or something else."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a zero byte
        return None
    return _state(found) if stat.S_ISREG(found.st_mode) else None


def _listed(folder: Path, problems: list[str]) -> list[Path]:
    """What is in a folder; nothing where there is none, or a link."""
    try:
        return list(folder.iterdir()) if stat.S_ISDIR(folder.lstat().st_mode) else []
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{folder}: {error.strerror or error}")
        return []


def _opened(path: Path) -> FileIO:
    """A regular file, open to be read; nothing else is waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: is not a regular file; write what it gives into one")
    return open(descriptor, "rb", buffering=0)


def _given(path: Path) -> FileIO:
    """What somebody named, open to be read."""
    try:
        return _opened(path)
    except (OSError, ValueError) as error:  # a zero byte
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}; was it moved or deleted since it was named?") from error


def _read(read: Callable[[int], bytes], path: Path) -> Generator[bytes, None, None]:
    try:
        while block := read(_BLOCK_BYTES):
            yield block
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _copy(blocks: Iterable[bytes], out: BinaryIO, what: object) -> tuple[str, int]:
    """Write blocks, and say their SHA-256 in hexadecimal and how many bytes they are."""
    digest, size = hashlib.sha256(), 0
    for block in blocks:
        size += len(block)
        if size > MAX_STORED_BYTES:
            raise InputError(_too_large(what, size))
        digest.update(block)
        out.write(block)
    return digest.hexdigest(), size
