"""Files by their content at an fsspec URL."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from operad.runtime.durable.file_folder import BLOCK_BYTES, GRACE_SECONDS, is_ours
from operad.runtime.values.errors import InputError, MissingExtraError, OperadError, describe, shorten


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
            raise MissingExtraError(f"{self._shown}: needs the package fsspec: pip install 'operad[durable]'")
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
                if path != f"{root}/{folder}/{name}" or not is_ours(folder, name) or name in kept:
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
