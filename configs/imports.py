"""Sources of the classes and tools that a configuration names: imported modules, or stand-ins that run no code."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Protocol, TypeVar, cast

from pydantic import ConfigDict

from operad.configs.capabilities import Capabilities, Capability
from operad.configs.read_capabilities import Place, class_parts, is_inside
from operad.configs.schema import FunctionSpec, LocalToolSpec
from operad.configs.static_code import (
    Found,
    Module,
    Reader,
    find_module,
    is_function,
    is_own,
    is_stdlib,
    parameters,
    program,
)
from operad.operators import NodeOperator
from operad.operators.mcp_pins import ToolPins
from operad.operators.node import NodeParams
from operad.operators.nodes import NODE_TYPES
from operad.runtime.events.run_context import RunContext
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.tools.tool import Tool, tool_in
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, ToolError, describe, did_you_mean
from operad.runtime.values.message import Job, SubJob
from operad.runtime.values.private_modules import PREFIX
from operad.runtime.workflow.function import FunctionOperator


class Finder:
    """Finder for the modules of a private package; it finds only the files that were trusted."""

    def __init__(self, package: str, modules: Mapping[str, Module]) -> None:
        self._prefix = f"{package}."
        self._modules = modules
        self._top_level_names = {name.partition(".")[0] for name in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the package; None for other modules."""
        if not fullname.startswith(self._prefix):
            return None
        name = fullname.removeprefix(self._prefix)
        module = self._modules.get(name)
        if module is None or module.path is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=fullname)
        if module.data is None:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(module.path)]
            return spec
        locations = [str(module.path.parent)] if module.is_package else None
        loader = _Loader(fullname, module.path, module.data, self._import)
        return spec_from_file_location(fullname, module.path, loader=loader, submodule_search_locations=locations)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module for the modules of this package, which import each other by their plain names."""
        top = name.partition(".")[0]
        module = self._modules.get(name)
        if level or top not in self._top_level_names or (module is not None and imported_by_program(module)):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(self._prefix + name, globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[self._prefix + top]


class _Loader(SourceFileLoader):
    """Loader that runs the trusted source, never a compiled file or a changed source."""

    def __init__(self, fullname: str, path: Path, data: bytes, import_: Any) -> None:
        super().__init__(fullname, str(path))
        self._data = data
        self._import = import_

    def get_code(self, fullname: str) -> Any:
        return compile(self._data, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        super().exec_module(module)


def imported_by_program(module: Module) -> bool:
    """Return True if the program has already imported a module by its plain name, from the same file."""
    file = getattr(sys.modules.get(module.name), "__file__", None)
    return file is not None and module.path is not None and Path(file).resolve() == module.path.resolve()


OperatorT = TypeVar("OperatorT", bound=BaseOperator)


class Modules(Protocol):
    """Source of the classes, functions and tools that a file names."""

    @property
    def pins(self) -> ToolPins | None:
        """Pins of the tools of the file's MCP servers; None if none are kept."""
        ...

    def opens(self, path: Path) -> bool:
        """Return True if a path that the file names may be looked at."""
        ...

    def covers(self, digest: str) -> bool:
        """Return True if content with this hash is among what the file can do; it may have changed since it was trusted."""
        ...

    def makes(self, path: str, params: Mapping[str, Any], base: Path | None = None) -> bool:
        """Return True if the class at a dotted path may be made with parameters; see `class_parts`."""
        ...

    def operator_class(self, path: str, base: type[OperatorT]) -> type[OperatorT] | str:
        """Return the class at a dotted path, or an error message."""
        ...

    def function(self, spec: FunctionSpec) -> FunctionOperator[Any] | str:
        """Return a function as an operator, or an error message."""
        ...

    def tool(self, spec: LocalToolSpec) -> Tool:
        """Return a tool.

        Raises:
            ToolError: The tool does not exist or cannot be used.
        """
        ...


def node_type(name: str, modules: Modules) -> type[NodeOperator[Any]] | str:
    """Return the node type with a name or at a dotted path, or an error message."""
    if name in NODE_TYPES:
        return NODE_TYPES[name]
    if "." not in name:
        return f"there is no node type {name!r}{did_you_mean(name, NODE_TYPES)}; `operad nodes` lists them"
    return modules.operator_class(name, cast("type[NodeOperator[Any]]", NodeOperator))


# Loaded


class LoadedModules:
    """Source that imports modules: those beside the file from their own paths, under a private package.

    Nothing is added to `sys.path`, so other code does not find the modules. They find each other by `import name` and
    by relative imports, if these imports are statements in their source. A module that the program has already
    imported from the same file is used as it is.

    Args:
        capabilities: What the file can do; it must be trusted.
        pins: Pins of the tools of the file's MCP servers; None if none are kept.
    """

    def __init__(self, capabilities: Capabilities, pins: ToolPins | None = None) -> None:
        self.pins = pins
        self._modules = capabilities.modules
        self._digests = frozenset(each.digest for each in capabilities.each)
        self._folder = capabilities.folder
        identity = f"{capabilities.digest} {capabilities.folder}".encode("utf-8", "surrogateescape")
        self._package = PREFIX + sha256(identity).hexdigest()[:16]

    def opens(self, path: Path) -> bool:
        """Return True: the file is trusted."""
        return True

    def covers(self, digest: str) -> bool:
        """Return True if content with this hash was trusted."""
        return digest in self._digests

    def makes(self, path: str, params: Mapping[str, Any], base: Path | None = None) -> bool:
        """Return True: the file is trusted."""
        return True

    def operator_class(self, path: str, base: type[OperatorT]) -> type[OperatorT] | str:
        """Return the class at a dotted path, or an error message."""
        module_path, _, name = path.rpartition(".")
        if not module_path:
            return f"{path!r} has no module: write package.module.Class"
        module = self._module(module_path)
        if isinstance(module, str):
            return module
        found = getattr(module, name, None)
        if found is None:
            return f"module {module_path!r} has no {name!r}{did_you_mean(name, vars(module))}"
        if not (isinstance(found, type) and issubclass(found, base)):
            return f"{path} is not a subclass of {base.__name__}"
        return found

    def function(self, spec: FunctionSpec) -> FunctionOperator[Any] | str:
        """Return a function as an operator, or an error message."""
        module_path, _, name = spec.function.rpartition(".")
        module = self._module(module_path)
        if isinstance(module, str):
            return module
        found: Any = getattr(module, name, None)
        if found is None:
            return f"module {module_path!r} has no {name!r}{did_you_mean(name, vars(module))}"
        if inspect.isroutine(found) and is_stdlib(found.__module__ or ""):
            return _stdlib_function(spec.function)
        return _as_operator(spec, found)

    def tool(self, spec: LocalToolSpec) -> Tool:
        """Return a tool.

        Raises:
            ToolError: The tool does not exist or cannot be used.
        """
        module = self._module(spec.module_path)
        if isinstance(module, str):
            raise ToolError(f"tool {spec.name!r}: {module}")
        found = getattr(module, spec.name, None)
        if (inspect.isroutine(found) or isinstance(found, type)) and is_stdlib(found.__module__ or ""):
            raise _stdlib_tool(spec.name, f"{found.__module__}.{found.__name__}")
        return tool_in(module, spec.module_path, spec.name, spec.desc)

    def _module(self, name: str) -> ModuleType | str:
        """Import a module; return it, or an error message."""
        if why := program(name):
            return why
        if name not in self._modules and isinstance(found := find_module(name, self._folder), str):
            return found
        try:
            if (module := self._modules.get(name)) is None or imported_by_program(module):
                return import_module(name)
            self._add_package()
            return import_module(f"{self._package}.{name}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything
            return f"module {name!r} does not import: {describe(error)}"

    def _add_package(self) -> None:
        if self._package not in sys.modules:
            package = ModuleType(self._package, "Modules beside a configuration.")
            package.__path__ = []
            sys.meta_path.insert(0, Finder(self._package, self._modules))
            sys.modules[self._package] = package


# Stand-ins


class _AnyPorts(tuple[str, ...]):
    """Ports of a class whose code is not run: every port may exist."""

    __slots__ = ()

    def __contains__(self, port: object) -> bool:
        return True


class _AnyParams(NodeParams):
    """Parameters of a node type whose code is not run: every parameter is accepted."""

    model_config = ConfigDict(frozen=True, extra="allow")


class StandIns:
    """Source of stand-ins with the names, bases and parameters in the source code; no code runs.

    Args:
        capabilities: What the file can do.

    Attributes:
        remarks: Properties that only running the code would reveal.
    """

    pins: ToolPins | None = None

    def __init__(self, capabilities: Capabilities) -> None:
        self._folder = capabilities.folder
        self._reader = Reader(capabilities.folder)
        self.remarks: dict[str, None] = {}

    def covers(self, digest: str) -> bool:
        """Return True: nothing runs."""
        return True

    def opens(self, path: Path) -> bool:
        """Return True if a path is in the folder of the file, also by its links."""
        return is_inside(path.expanduser(), self._folder)

    def makes(self, path: str, params: Mapping[str, Any], base: Path | None = None) -> bool:
        """Return True if a class of operad reads no file outside of the folder when it is made."""
        parts = class_parts(path, params, Place(self._folder, {}), base)
        return not any(isinstance(part, Capability) and part.kind in ("reads", "writes") for part in parts)

    def operator_class(self, path: str, base: type[OperatorT]) -> type[OperatorT] | str:
        """Return a stand-in for the class at a dotted path, or an error message."""
        module, _, name = path.rpartition(".")
        if not module:
            return f"{path!r} has no module: write package.module.Class"
        found = self._look_up(module, name)
        not_a_subclass = f"{path} is not a subclass of {base.__name__}"
        if isinstance(found, str):
            return found
        if found.kind == "own":
            return found.value if isinstance(found.value, type) and issubclass(found.value, base) else not_a_subclass
        if found.kind == "stdlib" or is_function(found.node):
            return not_a_subclass
        look = self._reader.look_at(found)
        if not any(issubclass(real_base, base) for real_base in look.real):
            if not look.unknown:
                return not_a_subclass
            self.remarks[f"{path}: whether it is a subclass of {base.__name__} is not known: {look.unknown[0]}"] = None
        try:
            signature = look.signature()
        except ValueError:  # the same parameter twice
            signature = None
        if issubclass(base, NodeOperator):
            return cast("type[OperatorT]", _node_stand_in(name, look.members))
        if signature is None:
            self.remarks[f"{path}: the `params` that it takes are not known without running it"] = None
        return _stand_in(name, base, signature, executes=bool(look.unknown) or "execute" in look.members)

    def function(self, spec: FunctionSpec) -> FunctionOperator[Any] | str:
        """Return a stand-in for a function as an operator, or an error message."""
        module, _, name = spec.function.rpartition(".")
        found = self._look_up(module, name)
        if isinstance(found, str):
            return found
        if found.kind == "own":
            return _as_operator(spec, found.value)
        if found.kind == "stdlib":
            return _stdlib_function(found.name)
        node = found.node
        if isinstance(node, ast.ClassDef | ast.Constant | ast.List | ast.Dict | ast.Set | ast.Tuple | ast.JoinedStr):
            return f"{spec.function} is not a function"
        if not is_function(node) or any(_last_name(decorator) != "operator" for decorator in node.decorator_list):
            self.remarks[f"{spec.function}: the parameters of this function are not known without running it"] = None
            return FunctionOperator(_not_run_with_defaults, id=spec.name, ports=spec.ports)
        stand_in = FunctionType(_not_run.__code__, {**globals()}, name)
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        special = {arg.arg: kind for arg in given if (kind := _SPECIAL.get(_last_name(arg.annotation)))}
        stand_in.__annotations__ = special
        cast("Any", stand_in).__signature__ = parameters(node, bound=False)
        return _as_operator(spec, stand_in, ports=[*(spec.ports or _declared_ports(node))])

    def tool(self, spec: LocalToolSpec) -> Tool:
        """Return a stand-in for a tool.

        Raises:
            ToolError: The tool does not exist or cannot be used.
        """
        path = f"{spec.module_path}.{spec.name}"
        found = self._look_up(spec.module_path, spec.name)
        if isinstance(found, str):
            raise ToolError(f"tool {spec.name!r}: {found}")
        if found.kind == "stdlib" or (found.kind == "own" and is_stdlib(_module_name(found.value))):
            raise _stdlib_tool(spec.name, found.name)
        node, untyped_tool = found.node, Tool(name=spec.name, description=spec.desc, function=_not_run)
        if isinstance(node, ast.Constant | ast.List | ast.Dict | ast.Set | ast.Tuple | ast.JoinedStr):
            raise ToolError(
                f"tool {spec.name!r}: {path} gives {ast.unparse(node)[:100]}; "
                "it must be a function, a Tool, or a class whose instances are one or can be called"
            )
        callable_node: ast.AST | None = node
        if isinstance(node, ast.ClassDef):
            look = self._reader.look_at(found)
            may_have_function = "function" in look.assigned or "function" in look.members  # a tool as in Chat2Graph
            callable_node = look.members.get("__call__") if look.is_plain and not may_have_function else None
            try:
                init_signature = look.signature()
                _ = init_signature and init_signature.bind()
            except TypeError as error:
                raise ToolError(
                    f"tool {spec.name!r}: class {path} cannot be instantiated without arguments: {describe(error)}"
                ) from error
            except ValueError:
                callable_node = None
            if look.is_plain and callable_node is None and not look.real and not may_have_function:
                raise ToolError(f"tool {spec.name!r}: instances of class {path} cannot be called; give it a __call__")
        if not is_function(callable_node) or callable_node.decorator_list:
            self.remarks[f"{path}: the arguments that this tool takes are not known without running it"] = None
            return untyped_tool
        try:
            signature = parameters(callable_node, bound=isinstance(node, ast.ClassDef))
        except ValueError:
            return untyped_tool
        function = partial(_not_run)
        cast("Any", function).__signature__ = signature
        docstring = (
            ast.get_docstring(callable_node)
            or (ast.get_docstring(node) if isinstance(node, ast.ClassDef) else None)
            or ""
        )
        return Tool.of(function, name=spec.name, description=spec.desc or docstring.partition("\n\n")[0])

    def _look_up(self, module: str, name: str) -> Found | str:
        """Return the definition of a name in a module, or an error message."""
        if not is_own(module) and isinstance(found := self._reader.module(module), str):
            return found
        found = self._reader.look_up(module, name)
        if found.kind == "missing":
            return found.why
        return found


def _stand_in(name: str, base: type[OperatorT], signature: inspect.Signature | None, *, executes: bool) -> Any:
    """Return a class whose instances can be put into workflows; its parameters are checked by a signature."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if signature is not None:
            signature.bind(*args, **kwargs)
        known = {key: value for key, value in kwargs.items() if key in ("toolkit", "knowledge_base")}
        cast("Any", base).__init__(self, *args, **known)

    async def execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        _not_run()

    return type(name, (base,), {"__init__": init, **({"execute": execute} if executes else {})})


def _node_stand_in(name: str, members: Mapping[str, ast.AST]) -> Any:
    """Return a node type whose parameters and variables are not known."""
    given = {"type": name, "params_type": _AnyParams, "variables": lambda self, type_of: None}  # pyright: ignore
    return type(name, (NodeOperator,), {**given, **({"ports": _AnyPorts()} if "ports" in members else {})})


_SPECIAL = {"Job": Job, "SubJob": SubJob, "Reasoner": Reasoner, "RunContext": RunContext}
"""Annotations of parameters that receive something other than the answer of an operator."""


def _last_name(node: ast.AST | None) -> str:
    """Return the last part of an annotation's or decorator's name: ``Job`` for ``x.Job``, ``f`` for ``@x.f(…)``."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # an annotation as text
        return node.value.rpartition(".")[2]
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _declared_ports(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Sequence[str]:
    """Return the ports in ``@operator(ports=[…])``, if they are written as constants."""
    calls = (decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call))
    values = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "ports"]
    items = [item for value in values if isinstance(value, ast.List | ast.Tuple) for item in value.elts]
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _as_operator(spec: FunctionSpec, found: object, ports: Sequence[str] = ()) -> FunctionOperator[Any] | str:
    """Return a function, or an operator that was made of one, as the operator of a file; or an error message."""
    operator = cast("FunctionOperator[Any]", found) if isinstance(found, FunctionOperator) else None
    function = cast("Any", operator.function if operator else found)
    if not inspect.isroutine(function):
        return f"{spec.function} is not a function: {short_repr(function)}"
    declared_ports = operator.ports if operator else ports
    try:
        return FunctionOperator(
            function,
            id=spec.name,
            ports=spec.ports or declared_ports,
            policy=operator.policy if operator else None,
            inline=operator is not None and operator.inline,
        )
    except InputError as error:
        return f"{spec.function}: {error}"


def _stdlib_function(path: str) -> str:
    return (
        f"{path} belongs to Python's standard library; wrap it in a function of your own, in a module beside this file"
    )


def _not_run_with_defaults() -> Any:
    _not_run()


def _not_run(**_: Any) -> Any:
    raise ToolError("the code of this file was analysed, not loaded; load it to run it")


def _module_name(value: object) -> str:
    return str(getattr(value, "__module__", "") or "")


def _stdlib_tool(name: str, found: str) -> ToolError:
    return ToolError(
        f"tool {name!r}: {found} belongs to Python's standard library; wrap it in a function of your own, in a module "
        "beside this file"
    )
