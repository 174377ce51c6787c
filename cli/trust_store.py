"""The user's trust in code that files name, stored by a digest of the file and its code."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from operad.configs.code import Code, Trust, UntrustedError
from operad.configs.printable import printable
from operad.runtime.models.prices import config_folder
from operad.runtime.values.errors import InputError, shorten

T = TypeVar("T")

MAX_BYTES = 16 * 2**20

Trusted = Annotated[
    bool, typer.Option("--trust", help="Run the code that the file names, without a question, this time only.")
]


class TrustStore:
    """File of a user's trust decisions, readable and writable by the user only.

    Args:
        path: The file. It need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_user(cls, environ: Mapping[str, str] = os.environ) -> TrustStore:
        """Return the store in the user's folder for configuration: ``$XDG_CONFIG_HOME/operad/trust.json``.

        Raises:
            InputError: There is no such folder, as neither ``XDG_CONFIG_HOME`` nor ``HOME`` is set.
        """
        folder = config_folder(environ)
        if folder is None:
            raise InputError("trust cannot be looked up: neither XDG_CONFIG_HOME nor HOME is set; give --trust")
        return cls(folder / "trust.json")

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the trusted entries by digest: the file, its code and the time.

        Raises:
            InputError: The file cannot be read, has another content, or can be written by other users.
        """
        try:
            with self.path.open("rb") as file:
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o022:
                    raise InputError(f"{self.path}: others can write to it; check what it lists, then chmod 600 it")
                content = json.loads(file.read(MAX_BYTES))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self.path}: is not a store of trust: {error}; delete it to start with an empty one"
            ) from error
        entries: list[object] = (
            list(cast("dict[str, object]", content).values()) if isinstance(content, dict) else [None]
        )
        if not all(isinstance(entry, dict) for entry in entries):
            raise InputError(f"{self.path}: is not a store of trust; delete it to start with an empty one")
        return cast("dict[str, dict[str, Any]]", content)

    def holds(self, code: Code) -> bool:
        """Return True if the code is trusted in its current state."""
        return code.digest in self.entries()

    def grant(self, code: Code) -> None:
        """Trust the code until it or its file changes."""
        file = str(Path(code.file).absolute())
        granted = datetime.now().astimezone().isoformat(timespec="seconds")
        self._write({**self.entries(), code.digest: {"file": file, "code": list(code.lines), "granted": granted}})

    def revoke(self, what: str) -> int:
        """Revoke the trust in a file, or in digests with a prefix of at least 8 characters; return their number."""
        entries, file = self.entries(), str(Path(what).absolute())
        revoked = [
            digest
            for digest, entry in entries.items()
            if entry.get("file") == file or (len(what) >= 8 and digest.startswith(what))
        ]
        if revoked:
            self._write({digest: entry for digest, entry in entries.items() if digest not in revoked})
        return len(revoked)

    def _write(self, entries: Mapping[str, object]) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".trust.", dir=self.path.parent)  # 0600
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(entries, file, indent=2)
                Path(temporary).replace(self.path)
            except BaseException:
                with suppress(OSError):
                    Path(temporary).unlink()
                raise
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror or error}") from error


def trusting(load: Callable[[Trust], T], trusted: bool) -> T:
    """Load files whose code the user trusts; at a terminal, ask for missing trust, and keep the decision.

    Args:
        load: Function that loads the files, given a trust decision.
        trusted: True if the command has the option ``--trust``.

    Raises:
        InputError: The code is not trusted, and the user refused or cannot be asked.
    """
    if trusted:
        return load(True)
    while True:
        try:
            return load(lambda code: TrustStore.of_user().holds(code))
        except UntrustedError as error:
            ask(error.code)
            TrustStore.of_user().grant(error.code)


def ask(code: Code) -> None:
    """Ask at the terminal whether the code of a file may run.

    Raises:
        InputError: There is no terminal, or the answer was not yes.
    """
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        raise InputError(
            f"{code.file} names code that is not trusted: {shorten(code.lines)}; read it, then: "
            f"operad trust {shlex.quote(code.file)}, or give --trust"
        )
    print(f"{printable(code.file)} names code, which can do all that you can do:", file=sys.stderr)
    for line in code.lines:
        print(f"  {printable(line)}", file=sys.stderr)
    print("Run it, now and as long as it does not change? (yes or no)\n> ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError(f"{code.file}: its code is not trusted; nothing was run")


def _is_terminal(stream: Any) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # the stream is missing or closed
        return False
