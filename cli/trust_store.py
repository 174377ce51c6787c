"""The user's trust in files, stored by a digest of what each can do."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import typer
from pydantic import TypeAdapter, ValidationError

from operad.configs.capabilities import Capabilities, Trust, UntrustedError, told
from operad.runtime.models.prices import config_folder
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import write_private
from operad.runtime.values.text import printable

T = TypeVar("T")

MAX_BYTES = 16 * 2**20

Trusted = Annotated[
    bool, typer.Option("--trust", help="Let the file do what it can, without a question, this time only.")
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
        """Return the trusted entries by digest: the file, what it can do and the time.

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

    def holds(self, capabilities: Capabilities) -> bool:
        """Return True if a file is trusted in exactly these capabilities."""
        return capabilities.digest in self.entries()

    def grant(self, capabilities: Capabilities) -> None:
        """Trust a file in these capabilities, until they change."""
        file = str(Path(capabilities.file).expanduser().absolute())
        granted = datetime.now().astimezone().isoformat(timespec="seconds")
        entry = {"file": file, "can": dict(capabilities.digests), "granted": granted}
        others = {digest: other for digest, other in self.entries().items() if digest != capabilities.digest}
        self._write({**others, capabilities.digest: entry})  # the latest is the last

    def changes(self, capabilities: Capabilities) -> list[str]:
        """Return the differences from what the file was last trusted in; none if it was never trusted."""
        file = str(Path(capabilities.file).expanduser().absolute())
        earlier = [entry.get("can") for entry in self.entries().values() if entry.get("file") == file]
        if not earlier or not isinstance(earlier[-1], dict) or self.holds(capabilities):
            return []
        before, now = cast("dict[str, object]", earlier[-1]), capabilities.digests
        new = [f"new: {line}" for line in now if line not in before]
        gone = [f"gone: {line}" for line in before if line not in now]
        changed = [f"changed: {line}" for line in now if before.get(line, now[line]) != now[line]]
        return [*new, *gone, *changed] or ["changed: the content of the file"]

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

    def pins(self, capabilities: Capabilities) -> FilePins:
        """Return the pins of tools that belong to the trust in a file."""
        return FilePins(self, capabilities.digest)

    def keep_tools(self, digest: str, server: str, tools: Mapping[str, str]) -> None:
        """Keep pins of tools of a server with a file that is trusted; nothing if it is trusted no longer."""
        entries = self.entries()
        if digest in entries:
            kept = _tools_in(entries[digest])
            entry = {**entries[digest], "tools": {**kept, server: {**kept.get(server, {}), **tools}}}
            self._write({**entries, digest: entry})

    def _write(self, entries: Mapping[str, object]) -> None:
        write_private(self.path, json.dumps(entries, indent=2))


class FilePins(NamedTuple):
    """Pins of the tools of a trusted file's MCP servers, kept with the trust.

    Attributes:
        digest: Digest of what the file can do.
    """

    store: TrustStore
    digest: str

    def known(self, server: str) -> Mapping[str, str] | None:
        """Return the pins of a server's tools by name; None if it was not connected since the file is trusted."""
        return _tools_in(self.store.entries().get(self.digest, {})).get(server)

    def keep(self, server: str, tools: Mapping[str, str]) -> None:
        """Keep pins of tools of a server."""
        self.store.keep_tools(self.digest, server, tools)


def _tools_in(entry: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the pins of an entry, by server and tool."""
    try:
        return TypeAdapter(dict[str, dict[str, str]]).validate_python(entry.get("tools", {}))
    except ValidationError:
        raise InputError("the store of trust is damaged: operad trust FILE writes its entry anew") from None


class _StoredTrust:
    """The user's trust, as the store says at the time of the question."""

    def __call__(self, capabilities: Capabilities) -> bool:
        return TrustStore.of_user().holds(capabilities)

    def pins(self, capabilities: Capabilities) -> FilePins:
        return TrustStore.of_user().pins(capabilities)


def trusting(load: Callable[[Trust], T], trusted: bool) -> T:
    """Load files that the user trusts; at a terminal, ask for missing trust, and keep the decision.

    Args:
        trusted: True if the command has the option ``--trust``.

    Raises:
        InputError: A file is not trusted, and the user refused or cannot be asked.
    """
    if trusted:
        return load(True)
    while True:
        try:
            return load(_StoredTrust())
        except UntrustedError as error:
            store = TrustStore.of_user()
            ask(error.capabilities, store.changes(error.capabilities))
            store.grant(error.capabilities)


def ask(capabilities: Capabilities, changes: Sequence[str] = ()) -> None:
    """Ask at the terminal whether a file may do what it can.

    Args:
        changes: The differences from what it was trusted in before.

    Raises:
        InputError: There is no terminal, or the answer was not yes.
    """
    file = capabilities.file
    since = "\n  ".join(["\nsince you trusted it:", *map(printable, changes)]) if changes else ""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        advice = f"read the file, then: operad trust {shlex.quote(file)}, or give --trust"
        raise InputError(f"{told(capabilities)}{since}\n{advice}")
    print(f"{told(capabilities)}{since}", file=sys.stderr)
    if any(each.kind in ("code", "imports", "command") for each in capabilities.each):
        print("Code and commands can do all that you can do.", file=sys.stderr)
    print("Allow this, now and as long as it does not change? (yes or no)\n> ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError(f"{file}: is not trusted; nothing was done")


def _is_terminal(stream: Any) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # the stream is missing or closed
        return False
