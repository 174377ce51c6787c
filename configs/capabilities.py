"""Capabilities of a file: all that it can do outside of its folder, listed before it is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from operad.configs.static_code import Module
from operad.operators.mcp_pins import ToolPins
from operad.runtime.values.errors import InputError
from operad.runtime.values.text import printable, shortened

Kind = Literal[
    "code",
    "imports",
    "packages",
    "command",
    "sends",
    "mcp",
    "samples",
    "reaches",
    "reads",
    "writes",
    "deletes",
    "sets",
    "requests",
    "starts",
]

_LINES: Mapping[Kind, str] = {
    "code": "runs {where} ({what})",
    "imports": "runs {where} (imported)",
    "packages": "runs {what} with the Python packages {where}",
    "command": "starts the command {what}",
    "sends": "sends {what} to {where}",
    "mcp": "connects to the MCP server {where}{what}",
    "samples": "lets the MCP server {what} send prompts to your model",
    "reaches": "reaches {where}, also at an internal address",
    "reads": "reads {where} ({what})",
    "writes": "writes {where} ({what})",
    "deletes": "deletes finished durable runs of {what}",
    "sets": "sets {what}, which is not known to be harmless",
    "requests": "sends requests to {where}",
    "starts": "starts runs by itself where it is served: {what}",
}
"""The line of a capability, by its kind, in the order of a list."""

_ORDER = list(_LINES)

HARMLESS: frozenset[Kind] = frozenset({"requests", "starts"})
"""Kinds of capabilities that need no trust by themselves: the address guard allows public addresses to every file, and a
file only starts runs once somebody serves it."""

MAX_NAME = 500
"""Maximum number of characters of a path, a command or another name in a line."""


class Capability(NamedTuple):
    """Something that a file can do outside of its folder.

    Attributes:
        what: What is run, sent, read or written.
        where: The source file, the host or the path.
        digest: A hash of what the capability covers beyond these words, such as source code.
    """

    kind: Kind
    what: str = ""
    where: str = ""
    digest: str = ""

    def __str__(self) -> str:
        shown = {
            key: shortened(printable(text), MAX_NAME) for key, text in (("what", self.what), ("where", self.where))
        }
        return _LINES[self.kind].format(**shown)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a file; false if it needs no trust.

    Attributes:
        file: The file, as given by the user.
        each: The capabilities, sorted by kind, place and name.
        modules: Modules in the folder of the file, by name: those that the file names, and those that these import.
        digest: A hash of the capabilities, of what they cover, and of the place of the file.
    """

    file: str
    folder: Path
    each: Sequence[Capability] = ()
    modules: Mapping[str, Module] = field(default_factory=dict[str, Module], repr=False)
    digest: str = ""

    def __bool__(self) -> bool:
        return any(each.kind not in HARMLESS for each in self.each)

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each capability; for code, one for each of its files."""
        return tuple(self.digests)

    @property
    def digests(self) -> Mapping[str, str]:
        """The lines, each with a hash of what it covers."""
        names: dict[str, list[str]] = {}
        for each in self.each:
            if each.kind == "code":
                names.setdefault(each.where, []).append(each.what)
        of_code = {where: str(Capability("code", ", ".join(each), where)) for where, each in names.items()}
        found: dict[str, str] = {}
        for each in self.each:
            line = of_code[each.where] if each.kind == "code" else str(each)
            found[line] = _sha256([found.get(line, ""), each.digest])
        return found

    def covers(self, other: Capabilities) -> bool:
        """Return True if the other can do nothing new, such as a file derived from this one."""
        return set(other.each) <= set(self.each) and all(
            self.modules.get(name) == module for name, module in other.modules.items()
        )


Trust = bool | Callable[[Capabilities], bool]
"""True if a file may do what it can: for all files, or decided by a function for the list of each."""


@runtime_checkable
class PinningTrust(Protocol):
    """Trust that also keeps pins of the tools of MCP servers."""

    def pins(self, capabilities: Capabilities) -> ToolPins:
        """Return the pins that belong to the trust in a file."""
        ...


class UntrustedError(InputError):
    """A file is not trusted, so nothing of what it can do was done."""

    def __init__(self, capabilities: Capabilities, advice: str = "load the file with trust=True") -> None:
        super().__init__(f"{told(capabilities)}\nread the file; if you trust it, {advice}")
        self.capabilities = capabilities


def told(capabilities: Capabilities) -> str:
    """Return the text that a file is not trusted, with a line for each capability."""
    return "\n  ".join((f"{printable(capabilities.file)} is not trusted. It", *capabilities.lines))


def is_trusted(trust: Trust, capabilities: Capabilities) -> bool:
    """Return True if a file may do what it can."""
    return not capabilities or (trust if isinstance(trust, bool) else trust(capabilities))


def pins_of(trust: Trust, capabilities: Capabilities) -> ToolPins | None:
    """Return the pins that belong to the trust in a file; None for trust that keeps none, such as True."""
    return trust.pins(capabilities) if isinstance(trust, PinningTrust) else None


def capabilities_of(
    file: str,
    folder: Path,
    found: Sequence[Capability],
    modules: Mapping[str, Module] | None = None,
    says: object = None,
) -> Capabilities:
    """Return the sorted capabilities of a file.

    Args:
        file: The file, as the user named it.
        found: Its capabilities, in any order.
        modules: Modules in the folder.
        says: Content of the file, as plain values. It counts if the file runs code, which it may steer.
    """
    each = sorted(set(found), key=lambda one: (_ORDER.index(one.kind), one.where, one.what, one.digest))
    runs_code = any(one.kind in ("code", "packages", "command") for one in each)
    content = [str(folder), Path(file).name, each, says if runs_code else None]
    return Capabilities(file, folder, tuple(each), modules or {}, _sha256(content))


def _sha256(content: object) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
