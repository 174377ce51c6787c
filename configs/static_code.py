"""Static analysis of Python code: modules, definitions and parameters, without running code."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeGuard

from operad.runtime.values.errors import OperadError, describe, did_you_mean

MAX_SOURCE = 4 * 2**20
"""Maximum size of a Python file that is read, in bytes."""

_MAX_IMPORTS = 16
"""Maximum number of imports over which a name is followed."""

_DEFINES_NAMES = {"globals", "vars", "exec", "eval", "setattr"}
"""Functions by which a module may define names that do not appear in its source."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """A module that was found but not imported.

    Attributes:
        name: Its dotted name.
        path: Its file; for a package without ``__init__.py`` the folder; None if no file is known.
        data: Its source; None if there is no source to read.
        is_beside: True if it is in the folder of the configuration that names it.
    """

    name: str
    path: Path | None
    data: bytes | None
    is_beside: bool

    @property
    def is_package(self) -> bool:
        """True if the module may contain modules."""
        return self.path is not None and (self.path.name == "__init__.py" or self.path.suffix != ".py")


@dataclass(frozen=True, slots=True)
class Found:
    """Definition that a name refers to.

    Attributes:
        kind: ``node``: a statement of the source. ``own``: an object of operad. ``stdlib``: an object of Python's
            standard library. ``unknown``: only running the code would show it. ``missing``: the name is not defined.
        name: The dotted name.
        module: The module whose source defines the name.
        node: The statement.
        value: The object of operad.
        why: Reason why the definition is unknown or missing.
    """

    kind: Literal["node", "own", "stdlib", "unknown", "missing"]
    name: str
    module: str = ""
    node: ast.AST | None = None
    value: object = None
    why: str = ""


@dataclass(slots=True)
class ClassLook:
    """Properties of a class, from its source and that of its bases.

    Attributes:
        real: The classes of operad among its bases.
        unknown: Reasons why bases are unknown.
        members: Its members, including those of its bases.
        assigned: Names of the attributes that methods of these classes assign, such as ``function`` by `self.function =`.
        is_plain: True if its members alone determine its instances: no decorator, metaclass or unread base.
    """

    real: list[type] = field(default_factory=list[type])
    unknown: list[str] = field(default_factory=list[str])
    members: dict[str, ast.AST] = field(default_factory=dict[str, ast.AST])
    assigned: set[str] = field(default_factory=set[str])
    is_plain: bool = True

    def signature(self) -> inspect.Signature | None:
        """Return the signature of the constructor; None if only running the code would show it."""
        init = self.members.get("__init__")
        if not self.is_plain or "__new__" in self.members:
            return None
        if init is None:
            return inspect.signature(self.real[0]) if self.real else inspect.Signature()
        return parameters(init, bound=True) if is_function(init) and not init.decorator_list else None


def is_stdlib(module: str) -> bool:
    """Return True if a module belongs to Python's standard library."""
    return module.partition(".")[0] in sys.stdlib_module_names


def is_own(module: str) -> bool:
    """Return True if a module belongs to operad."""
    return module.partition(".")[0] == "operad"


def program(module: str) -> str:
    """Return the error message for the module of a program, such as ``operad.__main__``; empty for other modules."""
    if not module.endswith(".__main__"):
        return ""
    return f"module {module!r} is a program, which its import would run; name a class or function of another module"


def find_module(name: str, folder: Path) -> Module | str:
    """Return the module beside a configuration, or else the installed one; or an error message.

    Args:
        name: Dotted name of the module.
    """
    if why := program(name):
        return why
    if not all(part.isidentifier() for part in name.split(".")):
        return f"{name!r} is not the name of a module"
    if is_stdlib(name):
        top = name.partition(".")[0]
        rename = f", or rename {top}.py beside this file" if (folder / f"{top}.py").exists() else ""
        return (
            f"module {name!r} belongs to Python's standard library; wrap what is needed in a function or class of "
            f"your own, in a module beside this file{rename}"
        )
    found = None if is_own(name) else beside(name, folder)
    return found or _installed(name) or _no_module(name, folder)


def beside(name: str, folder: Path) -> Module | None:
    """Return the module with a name in a folder; None if there is none.

    As in Python, a folder without ``__init__.py`` is a package only if no installed module has its name. Links that lead
    out of the folder are not followed, as nothing there is looked at before trust.
    """
    stem_path, *paths = _places(name, folder)
    for path in paths:
        if _is_inside(path, folder) and path.is_file() and path.stat().st_size <= MAX_SOURCE:
            top = folder / name.partition(".")[0]
            if stem_path != top and not (top / "__init__.py").is_file() and _has_loader(top.name):
                return None
            try:
                return Module(name, path, path.read_bytes(), is_beside=True)
            except OSError:
                return None
    if _is_inside(stem_path, folder) and stem_path.is_dir() and not _has_loader(name.partition(".")[0]):
        return Module(name, stem_path, None, is_beside=True)
    return None


def _places(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """Return where a module can be: the folder of a package, its ``__init__.py``, and the file of a module."""
    path = folder.joinpath(*name.split("."))
    return path, path / "__init__.py", path.with_name(f"{path.name}.py")


def _is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path is in a folder, also by its links."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a circle of links
        return False


def _has_loader(top: str) -> bool:
    """Return True if a top-level module is installed as code, not only as a namespace."""
    spec = _find_spec(top)
    return spec is not None and spec.loader is not None and spec.origin is not None


def _find_spec(name: str) -> Any:
    """Return the import spec of a module without importing the packages around it; None if it is not installed."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):  # for example, of ``__main__``
        return None
    for part in rest:
        locations = spec and spec.submodule_search_locations
        if locations is None:
            return None
        finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        top = f"{top}.{part}"
        spec = next((found for find in finders if find and (found := find(top, locations, None))), None)
    return spec


def _installed(name: str) -> Module | None:
    spec = _find_spec(name)
    if spec is None:
        return Module(name, None, None, is_beside=False) if name in sys.modules else None
    path = Path(spec.origin) if spec.has_location and spec.origin else None
    if path is None or path.suffix != ".py" or not path.is_file() or path.stat().st_size > MAX_SOURCE:
        return Module(name, path, None, is_beside=False)
    return Module(name, path, path.read_bytes(), is_beside=False)


def _no_module(name: str, folder: Path) -> str:
    try:
        near = [path.stem for path in folder.iterdir() if path.suffix == ".py" and path.stem.isidentifier()]
    except OSError:
        near = []
    if not all(_is_inside(path, folder) for path in _places(name, folder)):
        return f"module {name!r} is neither beside this file nor installed; it is a link that leads out of this folder: copy it"
    hint = did_you_mean(name, near) or "; install it, or write it beside this file"
    return f"module {name!r} is neither beside this file nor installed{hint}"


class Reader:
    """Reader of modules; each module is read once.

    Args:
        folder: The folder of the configuration that names them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: dict[str, Module | str] = {}
        self._trees: dict[str, ast.Module | str | None] = {}
        self._names: dict[str, Mapping[str, ast.AST] | None] = {}

    def module(self, name: str) -> Module | str:
        """Return a module, or an error message."""
        if name not in self._modules:
            self._modules[name] = find_module(name, self._folder)
        return self._modules[name]

    def tree(self, name: str) -> ast.Module | str | None:
        """Return the syntax tree of a module, an error message, or None if the module has no readable source."""
        if name not in self._trees:
            self._trees[name] = self._parse(name)
        return self._trees[name]

    def _parse(self, name: str) -> ast.Module | str | None:
        module = self.module(name)
        if isinstance(module, str) or module.data is None:
            return module if isinstance(module, str) else None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(module.data, module.path.name if module.path else name)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"module {name!r} cannot be read: {describe(error)}"

    def look_up(self, module: str, name: str, depth: int = _MAX_IMPORTS) -> Found:
        """Return the definition of a name in a module; imports are followed to the module that defines it."""
        dotted = f"{module}.{name}"
        if is_own(module):
            return _operad_object(module, name)
        if is_stdlib(module):
            return Found("stdlib", dotted)
        tree = self.tree(module)
        if isinstance(tree, str):
            return Found("missing", dotted, why=tree)
        if tree is None:
            return Found("unknown", dotted, why=f"module {module!r} has no source that can be read")
        if depth == 0:
            return Found("unknown", dotted, why=f"{dotted} is imported over too many modules")
        if module not in self._names:
            self._names[module] = dict(_definitions(tree.body))
        definitions = self._names[module] or {}
        node = definitions.get(name)
        if isinstance(node, ast.ImportFrom | ast.Import):
            return self._look_up_import(module, node, name, depth)
        if node is not None:
            return Found("node", dotted, module, node)
        if "*" in definitions or "__getattr__" in definitions or _may_define_names(tree):
            return Found("unknown", dotted, why=f"module {module!r} may define {name!r} while it runs")
        return Found("missing", dotted, why=f"module {module!r} has no {name!r}{did_you_mean(name, definitions)}")

    def _look_up_import(self, module: str, node: ast.ImportFrom | ast.Import, name: str, depth: int) -> Found:
        alias = next(imported for imported in node.names if _imported_name(imported, node) == name)
        if isinstance(node, ast.Import):
            return Found("unknown", f"{module}.{name}", why=f"{module}.{name} is a module")
        source = self.absolute(module, node)
        if source is None:
            return Found(
                "missing", f"{module}.{name}", why=f"module {module!r} imports {name!r} from beyond its package"
            )
        found = self.look_up(source, alias.name, depth - 1)
        if found.kind == "missing" and not isinstance(self.module(f"{source}.{alias.name}"), str):
            return Found("unknown", f"{module}.{name}", why=f"{module}.{name} is a module")
        return found

    def absolute(self, module: str, node: ast.ImportFrom) -> str | None:
        """Return the absolute name of the module that an import statement of another module names."""
        if not node.level:
            return node.module or ""
        importing = self.module(module)
        is_package = not isinstance(importing, str) and importing.is_package
        package = module.split(".") if is_package else module.split(".")[:-1]
        parents = package[: len(package) - node.level + 1]
        if node.level - 1 > len(package):
            return None
        return ".".join([*parents, *([node.module] if node.module else [])])

    def look_at(self, found: Found) -> ClassLook:
        """Return the properties of a class, from its source."""
        look = ClassLook()
        self._add_members(found, look, set())
        return look

    def _add_members(self, found: Found, look: ClassLook, seen: set[str]) -> None:
        """Add the properties of a class and of its bases to `look`."""
        node = found.node
        if isinstance(found.value, type):
            look.real.append(found.value)
        elif found.kind == "stdlib":
            look.is_plain = False
        elif not isinstance(node, ast.ClassDef):
            look.unknown.append(found.why or f"{found.name} is not defined by a class statement")
            look.is_plain = False
        elif found.name not in seen:
            seen.add(found.name)
            look.is_plain &= not (node.decorator_list or node.keywords)
            for name, member in _definitions(node.body):
                look.members.setdefault(name, member)
            stored = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
            look.assigned.update(each.attr for each in stored if isinstance(each.ctx, ast.Store))
            for base in node.bases:
                self._add_members(self._base(found.module, base), look, seen)

    def _base(self, module: str, base: ast.expr) -> Found:
        """Return the definition of a base class, written as an expression in a module."""
        while isinstance(base, ast.Subscript):  # Base[Parameters]
            base = base.value
        text = ast.unparse(base)
        parts = text.split(".")
        if not all(part.isidentifier() for part in parts):
            return Found("unknown", text, why=f"the base {text} is computed")
        if len(parts) == 1:
            found = self.look_up(module, text)
            builtin = vars(sys.modules["builtins"]).get(text)
            if found.kind == "missing" and isinstance(builtin, type):
                return Found(
                    "own" if builtin is object else "stdlib", text, value=builtin if builtin is object else None
                )
            return found
        node = (self._names.get(module) or {}).get(parts[0])
        if isinstance(node, ast.Import):
            alias = next(imported for imported in node.names if _imported_name(imported, node) == parts[0])
            parts[:1] = alias.name.split(".") if alias.asname else parts[:1]
            return self.look_up(".".join(parts[:-1]), parts[-1])
        if isinstance(node, ast.ImportFrom) and (source := self.absolute(module, node)) is not None:
            alias = next(imported for imported in node.names if _imported_name(imported, node) == parts[0])
            return self.look_up(".".join([source, alias.name, *parts[1:-1]]), parts[-1])
        return Found("unknown", text, why=f"the base {text} is computed")


def imports_of(reader: Reader, module: str) -> Iterator[str]:
    """Yield the names of the modules in the import statements of a module, also of those inside functions."""
    tree = reader.tree(module)
    if not isinstance(tree, ast.Module):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (source := reader.absolute(module, node)) is not None:
            yield source
            yield from (f"{source}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


def is_function(node: ast.AST | None) -> TypeGuard[Function]:
    """Return True if a statement defines a function."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def parameters(node: Function, *, bound: bool) -> inspect.Signature:
    """Return the signature of a function without annotations and defaults, whose values are not known.

    Args:
        bound: True if the function is a method, whose first parameter is not part of the signature.
    """
    arguments = node.args
    kinds = inspect.Parameter
    positional = [(argument, kinds.POSITIONAL_ONLY) for argument in arguments.posonlyargs]
    positional += [(argument, kinds.POSITIONAL_OR_KEYWORD) for argument in arguments.args]
    required = len(positional) - len(arguments.defaults)
    found = [
        kinds(argument.arg, kind, default=kinds.empty if number < required else None)
        for number, (argument, kind) in enumerate(positional)
    ]
    if arguments.vararg:
        found.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(kinds(argument.arg, kinds.KEYWORD_ONLY, default=kinds.empty if default is None else None))
    if arguments.kwarg:
        found.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    drops_first = bound and found and found[0].kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    return inspect.Signature(found[1:] if drops_first else found)


def _operad_object(module: str, name: str) -> Found:
    dotted = f"{module}.{name}"
    if why := program(module):
        return Found("missing", dotted, why=why)
    try:
        holder = importlib.import_module(module)
    except (ImportError, OperadError) as error:
        return Found("missing", dotted, why=f"module {module!r} does not import: {describe(error)}")
    if not hasattr(holder, name):
        hint = did_you_mean(name, vars(holder))
        return Found("missing", dotted, why=f"module {module!r} has no {name!r}{hint}")
    return Found("own", dotted, value=getattr(holder, name))


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that statements define with their statements, also inside `if`, `try` and `with`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((_imported_name(alias, node), node) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) and len(targets) == 1 else None
            for target in targets:
                plain = isinstance(target, ast.Name) and value is not None
                yield from ((name, value if plain and value else node) for name in _assigned_names(target))
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(node, part, []))
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                yield from _definitions(part.body)


def _assigned_names(target: ast.AST) -> Iterator[str]:
    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _imported_name(alias: ast.alias, node: ast.Import | ast.ImportFrom) -> str:
    """Return the name that an import defines."""
    return alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)


def _may_define_names(tree: ast.Module) -> bool:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in _DEFINES_NAMES for called in calls)
