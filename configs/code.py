"""Code that a file names: its capabilities to run classes, functions and commands, and the modules that they need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from operad.configs.capabilities import Capability
from operad.configs.static_code import Module, Reader, imports_of, is_own, is_stdlib
from operad.operators.mcp import StdioServer
from operad.runtime.values.errors import InputError

MAX_FILES = 1_000
"""Maximum number of Python files that a configuration may import from its folder."""


_ENTRIES = ("__main__.py", "index.js", "package.json")
"""Files that interpreters run, or read for what to run, if a folder is named in place of a script."""


class Named(NamedTuple):
    """A class or function that a file names.

    Attributes:
        module: Dotted name of the module.
        name: Name of the class or function in the module.
    """

    module: str
    name: str


def code_in(
    file: str, folder: Path, parts: Iterable[Named | StdioServer]
) -> tuple[Sequence[Capability], Mapping[str, Module]]:
    """Return the capabilities of classes, functions and commands, and the modules in the folder that they need.

    Args:
        file: The file, as the user named it.
        folder: Folder of the file.
        parts: The classes, functions and commands that the file names.

    Raises:
        InputError: The file names code in more than `MAX_FILES` files.
    """
    named: dict[Named, None] = {}
    found: list[Capability] = []
    for part in parts:
        if isinstance(part, StdioServer):
            found.append(_command(part, folder))
        else:
            named[part] = None
    reader = Reader(folder)
    modules = _with_imports(reader, [each.module for each in named], file)
    digests = {name: _sha256(module.data or b"") for name, module in modules.items()}
    places: set[str] = set()
    for module, name in named:
        definition = reader.module(module)
        if isinstance(definition, str):  # a fault of the file, which is reported before trust is asked for
            found.append(Capability("code", name, f"module {module}"))
            continue
        place = _description(definition, folder)
        places.add(place)
        found.append(Capability("code", name, place, _sha256(definition.data or b"")))
    for name, module in modules.items():
        place = _description(module, folder)
        if module.data is not None and place not in places:
            found.append(Capability("imports", "", place, digests[name]))
    return found, modules


def _with_imports(reader: Reader, names: Sequence[str], file: str) -> dict[str, Module]:
    """Return the named modules that are beside the file, with the modules there that they import, recursively."""
    found: dict[str, Module] = {}
    pending = list(names)
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if not name or name in seen or is_stdlib(name) or is_own(name):
            continue
        seen.add(name)
        module = reader.module(name)
        if isinstance(module, str) or not module.is_beside:
            continue
        found[name] = module
        if len(found) > MAX_FILES:
            raise InputError(f"{file}: the code that it names has more than {MAX_FILES:,} files beside it")
        pending.append(name.rpartition(".")[0])
        pending += imports_of(reader, name)
    return dict(sorted(found.items()))


def _description(module: Module, folder: Path) -> str:
    if module.path is None or not module.is_beside:
        return f"installed module {module.name}"
    return module.path.relative_to(folder).as_posix()


def _command(server: StdioServer, folder: Path) -> Capability:
    """Return the capability for a command line, with its folder and the names of its variables, of which some, such as
    LD_PRELOAD, run code.
    """
    cwd = f", in {server.cwd}" if server.cwd else ""
    variables = f", with {', '.join(server.env)}" if server.env else ""
    covered = json.dumps([server.model_dump(mode="json"), _script_digests(server, folder)], sort_keys=True)
    return Capability("command", f"{server.where}{cwd}{variables}", "", _sha256(covered.encode("utf-8", "replace")))


def _script_digests(server: StdioServer, folder: Path) -> dict[str, str]:
    """Return the digests of files beside the configuration that a command or its variables name, such as a script."""
    found: dict[str, str] = {}
    for name in _names_of_files(server):
        try:
            path = folder / (server.cwd or "") / name
            if path.resolve().is_relative_to(folder) and path.is_file():
                with path.open("rb") as file:
                    found[name] = _file_sha256(file)
        except (OSError, RuntimeError, ValueError):  # not a valid file name; a circle of links
            continue
    return found


def _names_of_files(server: StdioServer) -> Iterator[str]:
    """Yield what may be the name of a file: each argument and variable, the parts of those that hold several, such as
    ``--require=./a.js``, ``./a.so:./b.so`` or ``open('./a.py')``, the entry of a folder, and the file of a module that
    Python runs by ``-m``.
    """
    texts = (server.command, *server.args, *server.env.values())
    for text in texts:
        for name in (text, *filter(None, re.split(r"""[\s:;,='"`()&|<>]+""", text))):
            yield name
            yield from (f"{name}/{entry}" for entry in _ENTRIES)
    for option, following in pairwise([*server.args, ""]):
        if named := re.fullmatch(r"-[A-Za-z]*?m(.*)", option):  # -m x, -mx, -Bm x
            module = (named[1] or following).replace(".", "/")
            yield from (f"{module}{rest}" for rest in (".py", "/__main__.py"))


def _file_sha256(file: Any) -> str:
    digest = sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()
