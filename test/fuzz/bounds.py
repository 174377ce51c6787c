"""What every input must keep to: only the errors that are meant, soon, no file outside its folder, no network."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from operad.runtime.values.errors import InvalidError, OperadError

SECONDS = 5.0
"""Of computing that an input may take, unless its target says otherwise."""

MEMORY = 4 * 2**30
"""Bytes of addresses that a process may have."""

LONGEST = 256 * 2**10
"""Bytes of an input at most."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
_AWAY = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.", "os.system", "os.exec", "os.spawn")


class Target(NamedTuple):
    """A loader or parser of ours.

    Attributes:
        run: Does all that is done with such a text or file.
        seeds: Makes inputs to begin with.
        raises: What may come out besides an `OperadError`.
        seconds: Of computing that an input may take.
    """

    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    raises: tuple[type[Exception], ...] = ()
    seconds: float = SECONDS


class UnboundedError(Exception):
    """An input took too long, wrote where it must not, or reached for the network."""


class Deeds:
    """What is done that must not be, while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        self._home = Path()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITES
        if (writes or event in _CHANGES or event == "sqlite3.connect") and self._is_outside(args[0]):
            self.seen.append(f"{event} {args[0]!r:.200}")
        elif event.startswith(_AWAY):
            self.seen.append(f"{event} {args!r:.200}")
            raise PermissionError(f"{event} while fuzzing")

    @contextmanager
    def watched(self) -> Generator[None]:
        """Raise `UnboundedError` for what was done meanwhile."""
        self.seen.clear()
        self._home = Path(tempfile.gettempdir()).resolve()
        self.on, bytecode, sys.dont_write_bytecode = True, sys.dont_write_bytecode, True
        try:
            yield
        finally:
            self.on, sys.dont_write_bytecode = False, bytecode
        if self.seen:
            raise UnboundedError("; ".join(self.seen))

    def _is_outside(self, path: Any) -> bool:
        if isinstance(path, int) or path in (os.devnull, ":memory:"):
            return False
        name = os.fsdecode(path).removeprefix("file:").partition("?")[0]  # as SQLite names one
        return not Path(name).resolve().is_relative_to(self._home)


_DEEDS = Deeds()


def attempt(target: Target, data: bytes) -> None:
    """Run a target on an input, and raise whatever is wrong with that."""
    began = process_time()
    with _DEEDS.watched():
        try:
            target.run(data)
        except InvalidError as error:
            if not error.issues or not all(issue.code and issue.message for issue in error.issues):
                raise AssertionError(f"an issue without a code or a message: {error}") from error
        except OperadError as error:
            if not str(error):
                raise AssertionError("an error without a message") from error
        except target.raises:
            pass
    seconds = process_time() - began
    if seconds > target.seconds:
        raise UnboundedError(f"took {seconds:.1f} s of computing")


def folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for an input, in which it may write."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
