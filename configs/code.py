"""Code named by a file: the parts that would run, their files, and a digest over everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

from operad.configs.schema import FunctionSpec, LocalToolSpec, McpToolSpec, OperatorSpec, Spec, TypedSpec
from operad.configs.static_code import Module, Reader, imports_of, is_own, is_stdlib
from operad.operators.mcp import StdioServer
from operad.runtime.values.errors import InputError, shorten

MAX_FILES = 1_000
"""The most files of Python that one configuration may bring along."""


class Named(NamedTuple):
    """A class or function that a file names.

    Attributes:
        module: The dotted name of its module.
        name: Its name there.
    """

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Code:
    """Code named by a file, read without running it. It is false if there is none.

    Attributes:
        file: The file that names it, as given by the user.
        folder: The folder of that file.
        lines: Description of the code that would run: files with their classes and functions, packages, commands.
        modules: Modules beside the file by name: those that it names, and those that these import.
        named: The names of classes and functions, and the commands.
        digest: A hash over the file's references and all of this code.
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
        """Return True if all of the other code is part of this: a file that was made of this one names nothing new."""
        return other.named <= self.named and all(self.modules.get(name) == each for name, each in other.modules.items())


Trust = bool | Callable[[Code], bool]
"""True if the code that a file names may run: for all code, or decided for each."""


class UntrustedError(InputError):
    """A file names code that is not trusted, so none of it was run.

    Attributes:
        code: The code.
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

    Classes of operad itself are not counted: they are part of the program, not of the file.

    Args:
        file: The file, as the user named it.
        says: Its content, as plain values.
        folder: Its folder.
        parts: The classes, functions and commands that it names.

    Raises:
        InputError: It names more files than may be.
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
    prints = {name: _print(module.data or b"") for name, module in modules.items()}
    lines: dict[str, list[str]] = {}
    for module, name in named:
        found = reader.module(module)
        if isinstance(found, str):  # which is said as a fault of the file
            continue
        lines.setdefault(_place(found, folder), []).append(name)
        prints[module] = _print(found.data or b"")
    shown = [f"{place} ({', '.join(names)})" for place, names in lines.items()]
    more = [_place(each, folder) for each in modules.values() if each.data is not None]
    shown += [f"{place} (imported)" for place in more if place not in lines]
    shown += dict.fromkeys(f"command {server.where}" for server in servers.values())
    beside = [_files_of(server, folder) for server in servers.values()]
    content = [says, prints, beside, [str(folder)] if servers else []]  # other files there decide what a command does
    text = json.dumps(content, sort_keys=True, default=str)
    every = frozenset({*named, *(_print(server.encode()) for server in servers)})
    return Code(file, folder, tuple(shown), modules, every, _print(text.encode("utf-8", "backslashreplace")))


def named_in(spec: object) -> Iterator[Named | StdioServer]:
    """Yield the classes, functions and commands that a part of a configuration names, however deep inside of it."""
    if isinstance(spec, LocalToolSpec):
        yield Named(spec.module_path, spec.name)
    elif isinstance(spec, McpToolSpec):
        if isinstance(spec.mcp_transport_config, StdioServer):
            yield spec.mcp_transport_config
    elif isinstance(spec, Spec):
        yield from _of_class(spec)
        for key in type(spec).model_fields:
            yield from named_in(getattr(spec, key) if key != "params" else None)
    elif isinstance(spec, list | dict):
        items = cast("list[object] | dict[str, object]", spec)
        for each in items.values() if isinstance(items, dict) else items:
            yield from named_in(each)


def _of_class(spec: Spec) -> Iterator[Named]:
    dotted = ""
    if isinstance(spec, OperatorSpec):
        dotted = spec.class_
    elif isinstance(spec, TypedSpec):
        dotted = spec.type
    elif isinstance(spec, FunctionSpec):
        dotted = spec.function
    module, _, name = dotted.rpartition(".")
    if module and not is_own(module):
        yield Named(module, name)


def _with_imports(reader: Reader, names: Sequence[str], file: str) -> dict[str, Module]:
    """The modules of these names that lie beside the file, and those there that they import, and so on."""
    found: dict[str, Module] = {}
    open_ = list(names)
    tried: set[str] = set()
    while open_:
        name = open_.pop()
        if not name or name in tried or is_stdlib(name) or is_own(name):
            continue
        tried.add(name)
        module = reader.module(name)
        if isinstance(module, str) or not module.is_beside:
            continue
        found[name] = module
        if len(found) > MAX_FILES:
            raise InputError(f"{file}: the code that it names has more than {MAX_FILES:,} files beside it")
        open_.append(name.rpartition(".")[0])
        open_ += imports_of(reader, name)
    return dict(sorted(found.items()))


def _place(module: Module, folder: Path) -> str:
    if module.path is None or not module.is_beside:
        return f"installed module {module.name}"
    return module.path.relative_to(folder).as_posix()


def _files_of(server: StdioServer, folder: Path) -> dict[str, str]:
    """Digests of the files beside the configuration that a command is made of, such as a script."""
    found: dict[str, str] = {}
    for part in (server.command, *server.args):
        try:
            path = (folder / (server.cwd or "") / part).resolve()
            if path.is_relative_to(folder) and path.is_file():
                with path.open("rb") as file:
                    found[part] = _digest(file)
        except (OSError, ValueError):  # no name of a file
            continue
    return found


def _digest(file: Any) -> str:
    digest = sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


def _print(data: bytes) -> str:
    return sha256(data).hexdigest()
