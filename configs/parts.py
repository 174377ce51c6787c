"""Parts of files that can do something outside of the folder: paths, endpoints, code."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import BaseModel

from operad.configs.capabilities import Capabilities, Capability, capabilities_of
from operad.configs.code import Named, code_in
from operad.configs.keys import CLASS_KEYS, Keys
from operad.configs.schema import ModelSpec
from operad.configs.static_code import Reader, is_own
from operad.operators.mcp import StdioServer
from operad.operators.operator import Operator
from operad.runtime.models.addresses import without_login
from operad.runtime.models.names import OPENAI, is_paired, locate, named_vendor
from operad.runtime.values.errors import InputError
from operad.runtime.values.secret import SecretUse

Part = Capability | Named | StdioServer
"""A capability, or a class, function or command whose capability depends on files in the folder."""

WEB = Capability("requests", where="addresses of the public web")

MAX_PARTS = 20_000
"""Maximum number of parts of a file that can do something; each operator counts once for each endpoint around it."""

_BESIDE_SQLITE = ("", "-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite writes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Surroundings of a part, on which its capabilities depend.

    Attributes:
        folder: The folder of the file, resolved.
        environ: The environment variables, which pair endpoints with keys.
        outer: The models around the part, of which a model without an endpoint takes its endpoint and its key.
        stem: Name of the file without its suffix.
        names: Names of the experts in the file.
    """

    folder: Path
    environ: Mapping[str, str]
    outer: Sequence[ModelSpec | None] = (None,)
    stem: str = ""
    names: Sequence[str] = ()

    def outside(self, kind: Any, text: str, what: str, base: Path | None = None) -> Iterator[Capability]:
        """Yield the capability for a path, if it leads out of the folder, also by links."""
        try:
            path = Path(base or self.folder, os.path.expanduser(text)).resolve()
        except (OSError, RuntimeError, ValueError):  # a circle of links; a zero byte: reported as a fault of the file
            yield Capability(kind, what, text)
            return
        if not path.is_relative_to(self.folder):
            yield Capability(kind, what, str(path))

    def sqlite(self, text: str, what: str) -> Iterator[Capability]:
        """Yield the capability for an SQLite file that leads out of the folder, or has links beside it that do."""
        found = [each for end in _BESIDE_SQLITE for each in self.outside("writes", text + end, what)]
        yield from found[:1]

    def weights(self, name: str) -> Iterator[Capability]:
        """Yield the capability to read the weights of a model inside this process, whose path is its name."""
        if name.endswith(".gguf"):
            yield from self.outside("reads", name, "weights of a model", Path.cwd())

    def sends(self, what: str, name: str | None, base_url: str | None, key: str | None) -> Iterator[Capability]:
        """Yield the capability to send something to an endpoint, unless the environment names it with this key.

        Args:
            what: What is sent, such as ``your prompts``.
            name: Name of the model; its prefix may name a vendor. None for the model of the environment.
            base_url: Address of the endpoint; None for that of the vendor or of the environment.
            key: The environment variable of the key; None for that of the vendor.
        """
        try:
            located = locate(name or "", base_url, "", self.environ)
        except InputError:  # reported as a fault of the file
            return
        address, vendor = located.base_url, located.vendor
        own = [OPENAI, named_vendor(self.environ.get("OPERAD_MODEL", ""), self.environ.get(OPENAI.moved_by))]
        for each in own:
            if each and is_paired(each, address, self.environ) and (key is None or key in each.keys):
                return
        if key is None:  # that of `locate_told`
            keys = vendor.keys if vendor and (vendor.needs_key or not base_url) else OPENAI.keys
            key = keys[0] if keys else ""
        yield sending(what, address, key)


def sending(what: str, url: str, key: str = "") -> Capability:
    """Return the capability to send something to an address.

    Args:
        what: What is sent, such as ``your prompts``.
        url: The address.
        key: Name of an environment variable or of a secret that is sent, too.
    """
    if key:  # a key itself, put there by mistake, is not shown
        name = f"${key}" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", key) else "a key"
        what = f"{name} and {what}"
    return Capability("sends", what, shown_host(url), sha256(f"{key} {url}".encode("utf-8", "replace")).hexdigest())


def sending_secret(use: SecretUse, digest: str = "") -> Capability:
    """Return the capability to send a secret; the digest is of the request that sends it."""
    return Capability("sends", f"${use.secret.name}", use.host or "any address", digest)


def shown_host(url: str) -> str:
    """Return the host of an address for display, with its port, and its path unless that is usual; without login."""
    try:
        parts = urlsplit(without_login(url))
        host = parts.netloc
    except ValueError:
        return url
    path = "" if parts.path.rstrip("/") in ("", "/v1") else parts.path.rstrip("/")
    return f"{host}{path}" if host else url


def unclassified(spec: BaseModel, name: str, known: Mapping[str, Keys]) -> Iterator[Capability]:
    """Yield the capabilities of keys that are missing in `operad.configs.keys`."""
    for key in sorted(spec.model_fields_set):
        if key not in known.get(name, ()):
            yield Capability("sets", f"{key} of {name}")


def parts_capabilities(file: str, says: object, folder: Path, parts: Iterable[Part]) -> Capabilities:
    """Return what a file with these parts can do; arguments are those of `read_capabilities`.

    Raises:
        InputError: The file has more than `MAX_PARTS` parts, or names code in more than `code.MAX_FILES` files.
    """
    every = list(islice(parts, MAX_PARTS + 1))
    if len(every) > MAX_PARTS:
        raise InputError(
            f"{file}: can do more than {MAX_PARTS:,} things outside of its folder; divide it into several files"
        )
    found = [part for part in every if isinstance(part, Capability)]
    named = [part for part in every if not isinstance(part, Capability)]
    code, modules = code_in(file, folder, named)
    return capabilities_of(file, folder, [*found, *code], modules, says)


def parameters_of(kind: type) -> Collection[str]:
    """Return the names of the parameters with which a class is made, without those of its bases."""
    return inspect.signature(kind.__init__).parameters if "__init__" in vars(kind) and kind is not object else ()


def class_parts(dotted: str, params: Mapping[str, Any], place: Place, base: Path | None = None) -> Iterator[Part]:
    """Yield the parts of a class with parameters: those of a user are code; those of operad may be given files.

    Paths among the parameters are relative to `base`; by default, those that the class declares are relative to the
    folder of the file.
    """
    module, _, name = dotted.rpartition(".")
    if not is_own(module):
        yield from [Named(module, name)] if module else []
        return
    found = Reader(place.folder).look_up(module, name).value
    if isinstance(found, type) and issubclass(found, Operator):
        for key, value in params.items():
            if key == "server":
                yield sending("inputs and files of your jobs", str(value))
            elif key == "model":
                yield from place.weights(str(value))
                yield from place.sends("your prompts", str(value), None, None)
            elif key in CLASS_KEYS.opening:
                given = value
                if key in ("key", "subtask"):
                    given = cast("dict[str, object]", value).get("dataset") if isinstance(value, dict) else None
                elif key == "gold" and isinstance(value, str):  # a path, or the text of a workflow
                    given = None if "\n" in value.strip() else value.strip()
                kind = "writes" if key == "folder" else "reads"
                relative_to = base or (None if key in found.paths else Path.cwd())
                yield from place.outside(kind, str(given), f"{key} of {name}", relative_to) if given is not None else ()
            elif key not in CLASS_KEYS and any(key in parameters_of(base) for base in found.__mro__):
                yield Capability("sets", f"{key} of {name}")  # other keys are faults
