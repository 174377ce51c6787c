"""Code that a file names: descriptions of the parts that would run, their modules, and a digest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

from operad.configs.schema import FunctionSpec, LocalToolSpec, McpToolSpec, OperatorSpec, Spec, TypedSpec
from operad.configs.static_code import Module, Reader, imports_of, is_own, is_stdlib
from operad.operators.mcp import StdioServer
from operad.runtime.values.errors import InputError, shorten

MAX_FILES = 1_000
"""Maximum number of Python files that a configuration may import from its folder."""


class Named(NamedTuple):
    """A class or function that a file names.

    Attributes:
        module: Dotted name of the module.
        name: Name of the class or function in the module.
    """

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Code:
    """Code that a file names, read without running it; false if the file names none.

    Attributes:
        file: The file that names the code, as given by the user.
        folder: The folder of that file.
        lines: Descriptions of the code that would run: files with their classes and functions, packages, commands.
        modules: Modules in the folder of the file, by name: those that the file names, and those that these import.
        named: The names of classes and functions, and digests of the commands.
        digest: A hash of the content of the file and of all of this code.
    """

    file: str
    folder: Path
    lines: Sequence[str] = ()
    modules: Mapping[str, Module] = field(default_factory=dict[str, Module], repr=False)
    named: frozenset[object] = frozenset()
    digest: str = ""

    def __bool__(self) -> bool:
        return bool(self.named)

    def covers(self, other: Code) -> bool:
        """Return True if this code includes all of the other: a file derived from this one's names nothing new."""
        return other.named <= self.named and all(
            self.modules.get(name) == module for name, module in other.modules.items()
        )


Trust = bool | Callable[[Code], bool]
"""True if the code that a file names may run: for all code, or decided for each."""


class UntrustedError(InputError):
    """A file names code that is not trusted, so none of it was run.

    Attributes:
        code: The code that is not trusted.
    """

    def __init__(self, code: Code) -> None:
        super().__init__(
            f"{code.file} names code that is not trusted: {shorten(code.lines)}; read it, then load the file with "
            "trust=True"
        )
        self.code = code


def is_trusted(trust: Trust, code: Code) -> bool:
    """Return True if code may run."""
    return not code or (trust if isinstance(trust, bool) else trust(code))


def code_of(file: str, says: object, folder: Path, parts: Iterable[Named | StdioServer]) -> Code:
    """Return the code that a file names.

    Args:
        file: The file, as the user named it.
        says: Content of the file, as plain values.
        folder: Folder of the file.
        parts: The classes, functions and commands that the file names.

    Raises:
        InputError: The file names code in more than `MAX_FILES` files.
    """
    named: dict[Named, None] = {}
    servers: dict[str, StdioServer] = {}
    for part in parts:
        if isinstance(part, StdioServer):
            servers[part.model_dump_json()] = part
        else:
            named[part] = None
    if not (named or servers):
        return Code(file, folder)
    reader = Reader(folder)
    modules = _with_imports(reader, [each.module for each in named], file)
    digests = {name: _sha256(module.data or b"") for name, module in modules.items()}
    lines: dict[str, list[str]] = {}
    for module, name in named:
        found = reader.module(module)
        if isinstance(found, str):  # reported as a fault of the file
            continue
        lines.setdefault(_description(found, folder), []).append(name)
        digests[module] = _sha256(found.data or b"")
    descriptions = [f"{place} ({', '.join(names)})" for place, names in lines.items()]
    imported = [_description(each, folder) for each in modules.values() if each.data is not None]
    descriptions += [f"{place} (imported)" for place in imported if place not in lines]
    descriptions += dict.fromkeys(_command_description(server) for server in servers.values())
    script_digests = [_script_digests(server, folder) for server in servers.values()]
    content = [
        says,
        digests,
        script_digests,
        [str(folder)] if servers else [],
    ]  # the behaviour of a command depends on its folder
    text = json.dumps(content, sort_keys=True, default=str)
    all_named = frozenset({*named, *(_sha256(server.encode()) for server in servers)})
    return Code(
        file, folder, tuple(descriptions), modules, all_named, _sha256(text.encode("utf-8", "backslashreplace"))
    )


def named_in(spec: object) -> Iterator[Named | StdioServer]:
    """Yield the classes, functions and commands that a part of a configuration names, at any depth.

    Classes of operad are left out: they are part of the program, not of the file.
    """
    if isinstance(spec, LocalToolSpec):
        yield Named(spec.module_path, spec.name)
    elif isinstance(spec, McpToolSpec):
        if isinstance(spec.mcp_transport_config, StdioServer):
            yield spec.mcp_transport_config
    elif isinstance(spec, Spec):
        yield from _named_class(spec)
        for key in type(spec).model_fields:
            yield from named_in(getattr(spec, key) if key != "params" else None)
    elif isinstance(spec, list | dict):
        items = cast("list[object] | dict[str, object]", spec)
        for item in items.values() if isinstance(items, dict) else items:
            yield from named_in(item)


def _named_class(spec: Spec) -> Iterator[Named]:
    dotted = ""
    if isinstance(spec, OperatorSpec):
        dotted = spec.class_
    elif isinstance(spec, TypedSpec):
        dotted = spec.type
    elif isinstance(spec, FunctionSpec):
        dotted = spec.function
    module, _, name = dotted.rpartition(".")
    # Unlike its classes, operad's functions do all that the program does, such as running a file with trust=True.
    if module and (isinstance(spec, FunctionSpec) or not is_own(module)):
        yield Named(module, name)


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


def _command_description(server: StdioServer) -> str:
    """Return the command line with its folder and the names of its variables, of which some, such as LD_PRELOAD, run code."""
    folder = f", in {server.cwd}" if server.cwd else ""
    variables = f", with {', '.join(server.env)}" if server.env else ""
    return f"command {server.where}{folder}{variables}"


def _script_digests(server: StdioServer, folder: Path) -> dict[str, str]:
    """Return the digests of files beside the configuration that a command or its variables name, such as a script."""
    found: dict[str, str] = {}
    for name in _names_of_files(server):
        try:
            path = folder / (server.cwd or "") / name
            if path.is_file() and path.resolve().is_relative_to(folder):
                with path.open("rb") as file:
                    found[name] = _file_sha256(file)
        except (OSError, ValueError):  # not a valid file name
            continue
    return found


def _names_of_files(server: StdioServer) -> Iterator[str]:
    """Yield what may be the name of a file: each argument and variable, the parts of those that hold several, such as
    ``--require=./a.js`` or ``./a.so:./b.so``, and the file of a module that Python runs by ``-m``.
    """
    texts = (server.command, *server.args, *server.env.values())
    for text in texts:
        yield text
        yield from (part for part in re.split(r"[\s:;,=]+", text) if part)
    for option, module in pairwise(server.args):
        if option == "-m":
            yield from (f"{module.replace('.', '/')}{rest}" for rest in (".py", "/__main__.py"))


def _file_sha256(file: Any) -> str:
    digest = sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()
