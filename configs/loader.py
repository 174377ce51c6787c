"""Configuration file → experts that can run. All that is wrong with the file is found at once."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args

from pydantic import ValidationError

from operad.configs.document import Document, Path_, read_document
from operad.configs.schema import (
    ActionSpec,
    ConfigSpec,
    ExpertSpec,
    LocalToolSpec,
    McpToolSpec,
    ModelSpec,
    OperatorSpec,
    Spec,
)
from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.operators.mcp import McpTools
from operad.runtime.agent import Expert, Profile
from operad.runtime.errors import InputError, InvalidError, Issue, ToolError, describe, did_you_mean
from operad.runtime.model import Model, resolve_model
from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.tool import Tool
from operad.runtime.toolkit import Action, Toolkit
from operad.runtime.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow


@dataclass(frozen=True, slots=True)
class Configuration:
    """A loaded configuration file.

    Attributes:
        name: The file, as the user named it.
        spec: What it says.
        profiles: The experts that it configures, in its order.
        toolkit: The graph of its actions and tools.
    """

    name: str
    spec: ConfigSpec
    profiles: tuple[Profile, ...]
    toolkit: Toolkit
    _workflows: Mapping[str, Workflow] = field(repr=False)

    def expert(self, name: str | None = None, *, model: Model | None = None) -> Expert:
        """The expert of that name; without a name, the only one.

        Args:
            name: Its profile's name.
            model: The model to ask, whatever the file says. Without it, the file's; without that,
                what the environment names now, or the embedded model.

        Raises:
            InputError: There is no such expert, none at all, or more than one and no name.
        """
        names = [profile.name for profile in self.profiles]
        if not names:
            raise InputError(f"{self.name}: configures no experts; add one under `experts`")
        if name is None:
            if len(names) > 1:
                raise InputError(f"{self.name}: configures {len(names)} experts; choose one: {', '.join(names)}")
            name = names[0]
        if name not in names:
            raise InputError(
                f"{self.name}: no expert is called {name!r}{did_you_mean(name, names)}; there are: {', '.join(names)}"
            )
        spec = self.spec.experts[names.index(name)]
        return Expert(self.profiles[names.index(name)], self._workflows[name], self._reasoner(spec, model))

    def _reasoner(self, expert: ExpertSpec, model: Model | None) -> MonoModelReasoner | DualModelReasoner:
        asked = model or _model(expert.model or self.spec.model)
        rounds = expert.reasoner.max_rounds or self.spec.reasoner.max_rounds
        if (expert.reasoner.type or self.spec.reasoner.type) == "DUAL":
            return DualModelReasoner(asked, max_rounds=rounds)
        return MonoModelReasoner(asked, max_rounds=rounds)


def load(path: str | Path) -> Configuration:
    """Load a configuration file.

    Args:
        path: The file; or the name of a configuration that comes with this package, such as
            ``release_credits``.

    Raises:
        InputError: There is no such file, or it is not text.
        InvalidError: It cannot be used; every issue has its line and its path in the file.
    """
    with _found(path) as file:
        document = read_document(file)
        with _importable(file.resolve().parent):
            return _Loading(document).configuration()


@contextmanager
def _found(path: str | Path) -> Generator[Path, None, None]:
    own = files("operad.configs").joinpath(f"{path}.yaml")
    if not Path(path).exists() and Path(path).name == str(path) and own.is_file():
        with as_file(own) as file:
            yield file
    else:
        yield Path(path)


@contextmanager
def _importable(folder: Path) -> Generator[None, None, None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _model(spec: ModelSpec | None) -> Model | None:
    if spec is None:
        return None
    given = spec.model_dump(include={"temperature", "max_tokens", "tools"}, exclude_none=True)
    key = os.environ.get(spec.api_key_env)
    return resolve_model(spec.name, spec.base_url, key).model_copy(update=given)


class _Loading:
    """One file on its way to experts. Issues are collected; what they concern is left out."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._issues: dict[tuple[str, str, int], Issue] = {}
        self._tools: dict[str, Tool | McpTools | None] = {}
        self._actions: dict[str, Action | None] = {}
        self._operators: dict[str, tuple[OperatorSpec, Path_]] = {}
        self._toolkit = Toolkit()

    def configuration(self) -> Configuration:
        self._name_operators()
        try:
            spec = ConfigSpec.model_validate(self._document.data)
        except ValidationError as error:
            for problem in error.errors():
                self._report(problem["loc"], *_explain(problem, self._document.data))
            raise self._invalid() from error
        self._define(spec)
        workflows: dict[str, Workflow] = {}
        for number, expert in enumerate(spec.experts):
            if expert.profile.name in workflows:
                path = ("experts", number, "profile", "name")
                self._report(path, "duplicate-name", f"another expert is called {expert.profile.name!r} too")
            workflows[expert.profile.name] = self._workflow(spec, expert, ("experts", number))
        if self._issues:
            raise self._invalid()
        profiles = tuple(Profile(name=e.profile.name, description=e.profile.desc) for e in spec.experts)
        return Configuration(self._document.name, spec, profiles, self._toolkit, workflows)

    def _name_operators(self) -> None:
        """Give each operator a name: its own, its anchor's, or its place's."""
        data = self._document.data
        places = _mappings(data.get("operators"), "operator")
        for expert in cast("list[Any]", data.get("experts") or []):
            if isinstance(expert, dict):
                experts = cast("dict[str, Any]", expert)
                for chain in _lists(experts.get("workflow")):
                    places += _mappings(chain, "step")
                places += _mappings([experts.get("evaluator")], "evaluator")
        for number, (what, operator) in enumerate(places, 1):
            operator.setdefault("name", self._document.anchors.get(id(operator), f"{what}-{number}"))

    def _define(self, spec: ConfigSpec) -> None:
        for number, tool in enumerate(spec.tools):
            self._define_tool(tool, ("tools", number))
        for number, action in enumerate(spec.actions):
            self._define_action(action, ("actions", number))
        for number, chain in enumerate(spec.toolkit):
            actions = [self._action(ref, ("toolkit", number, i)) for i, ref in enumerate(chain)]
            self._toolkit.add_chain([action for action in actions if action])
        for number, operator in enumerate(spec.operators):
            path = ("operators", number)
            if operator.name in self._operators:
                self._report(path, "duplicate-name", f"another operator is called {operator.name!r} too")
            self._operators.setdefault(operator.name, (operator, path))

    def _define_tool(self, spec: LocalToolSpec | McpToolSpec, path: Path_) -> Tool | McpTools | None:
        if spec.name not in self._tools:
            try:
                self._tools[spec.name] = _tool(spec)
            except ToolError as error:
                self._tools[spec.name] = None
                self._report(path, "tool-module", str(error))
        return self._tools[spec.name]

    def _tool(self, ref: str | LocalToolSpec | McpToolSpec, path: Path_) -> Tool | McpTools | None:
        if not isinstance(ref, str):
            return self._define_tool(ref, path)
        if ref not in self._tools:
            self._report(path, "unknown-tool", f"no tool is called {ref!r}{did_you_mean(ref, self._tools)}")
        return self._tools.get(ref)

    def _define_action(self, spec: ActionSpec, path: Path_) -> Action | None:
        if spec.name not in self._actions:
            found = [self._tool(ref, (*path, "tools", i)) for i, ref in enumerate(spec.tools)]
            action = Action(
                name=spec.name,
                description=spec.desc,
                tools=tuple(tool for tool in found if tool is not None),
                id=spec.name,
            )
            self._actions[spec.name] = action
            self._toolkit.add_action(action)
        return self._actions[spec.name]

    def _action(self, ref: str | ActionSpec, path: Path_) -> Action | None:
        if not isinstance(ref, str):
            return self._define_action(ref, path)
        if ref not in self._actions:
            self._report(path, "unknown-action", f"no action is called {ref!r}{did_you_mean(ref, self._actions)}")
        return self._actions.get(ref)

    def _workflow(self, spec: ConfigSpec, expert: ExpertSpec, path: Path_) -> Workflow:
        platform = DbgptWorkflow if spec.plugin.workflow_platform == "DBGPT" else BuiltinWorkflow
        workflow = platform(expert.max_rounds, name=expert.profile.name)
        made: dict[str, Operator] = {}
        for number, chain in enumerate(expert.workflow):
            previous: Operator | None = None
            for i, ref in enumerate(chain):
                operator = self._operator(ref, (*path, "workflow", number, i), made, Operator)
                if operator:
                    workflow.add_operator(operator, [previous] if previous else None)
                    previous = operator
        if expert.evaluator is not None:
            workflow.set_evaluator(self._operator(expert.evaluator, (*path, "evaluator"), {}, Evaluator))
        if not self._issues:
            for issue in workflow.graph().check():
                self._report((*path, "workflow"), issue.code, issue.message)
        return workflow

    def _operator(
        self, ref: str | OperatorSpec, path: Path_, made: dict[str, Operator], base: type[Operator]
    ) -> Operator | None:
        if isinstance(ref, str) and ref not in self._operators:
            hint = did_you_mean(ref, self._operators)
            self._report(path, "unknown-operator", f"no operator is called {ref!r}{hint}")
            return None
        ref, path = self._operators[ref] if isinstance(ref, str) else self._operators.get(ref.name, (ref, path))
        if ref.name not in made:
            operator = self._make(ref, path, base)
            if operator is None:
                return None
            made[ref.name] = operator
        return made[ref.name]

    def _make(self, spec: OperatorSpec, path: Path_, base: type[Operator]) -> Operator | None:
        actions = [self._action(ref, (*path, "actions", i)) for i, ref in enumerate(spec.actions)]
        tools = [self._tool(ref, (*path, "tools", i)) for i, ref in enumerate(spec.tools)]
        own = tuple(tool for tool in tools if tool is not None)
        if own:
            actions.append(Action(name=f"use the tools of {spec.name}", tools=own, id=f"{spec.name}.tools"))
        try:
            config = OperatorConfig(
                instruction=spec.instruction,
                actions=tuple(action for action in actions if action),
                examples=tuple(spec.examples),
                output_schema=spec.output_schema,
                threshold=spec.threshold,
                hops=spec.hops,
                id=spec.name,
            )
        except ValidationError as error:
            for problem in error.errors():
                self._report((*path, *problem["loc"]), "value", problem["msg"])
            return None
        made_of = _class(spec.class_, base) if spec.class_ else base
        if isinstance(made_of, str):
            self._report((*path, "class"), "class", made_of)
            return None
        try:
            return made_of(config, toolkit=self._toolkit, **spec.params)
        except (TypeError, ValueError) as error:
            self._report((*path, "params"), "params", f"{spec.class_} does not take these: {error}")
            return None

    def _report(self, path: Sequence[int | str], code: str, message: str) -> None:
        path = _real_path(path, self._document.data)
        fault = (code, message, self._document.line(path))  # one fault, though aliases repeat it
        self._issues.setdefault(fault, Issue(code, message, self._document.where(path)))

    def _invalid(self) -> InvalidError:
        return InvalidError(f"{self._document.name} cannot be used", list(self._issues.values()))


def _mappings(items: Any, what: str) -> list[tuple[str, dict[str, Any]]]:
    return [(what, cast("dict[str, Any]", item)) for item in _listed(items) if isinstance(item, dict)]


def _lists(items: Any) -> list[list[Any]]:
    return [cast("list[Any]", item) for item in _listed(items) if isinstance(item, list)]


def _listed(items: Any) -> list[Any]:
    return cast("list[Any]", items) if isinstance(items, list) else []


def _tool(spec: LocalToolSpec | McpToolSpec) -> Tool | McpTools:
    if isinstance(spec, McpToolSpec):
        return McpTools(name=spec.name, description=spec.desc, server=spec.mcp_transport_config)
    return Tool.load(spec.module_path, spec.name, spec.desc)


def _class(path: str, base: type[Operator]) -> type[Operator] | str:
    """The class of that dotted path, or what is wrong with it."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        return f"{path!r} has no module: write package.module.Class"
    try:
        module = importlib.import_module(module_path)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        return f"module {module_path!r} does not import: {describe(error)}"
    found = getattr(module, name, None)
    if found is None:
        return f"module {module_path!r} has no {name!r}{did_you_mean(name, vars(module))}"
    if not (isinstance(found, type) and issubclass(found, base)):
        return f"{path} is not a subclass of {base.__name__}"
    return found


def _explain(problem: Any, data: Any) -> tuple[str, str]:
    """A pydantic problem as our code and message."""
    path, value = problem["loc"], problem["input"]
    if problem["type"] == "extra_forbidden":
        known = sorted(_keys(ConfigSpec, path[:-1]))
        return "unknown-key", f"unknown key{did_you_mean(str(path[-1]), known)}; known: {', '.join(known) or 'none'}"
    if problem["type"] == "missing":
        return "missing-key", "this key is missing"
    shown = "" if isinstance(value, dict | list) else f", not {value!r}"[:120]
    return "value", f"{problem['msg']}{shown}"


def _keys(spec: type[Spec], path: Sequence[int | str]) -> set[str]:
    """The keys that may stand at `path`."""
    specs = {spec}
    for part in path:
        inner = [
            s.model_fields[name] for s in specs for name in s.model_fields if part in (name, s.model_fields[name].alias)
        ]
        if inner:
            specs = {found for info in inner for found in _specs(info.annotation)}
    return {info.alias or name for s in specs for name, info in s.model_fields.items()}


def _specs(annotation: Any) -> Iterator[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for argument in get_args(annotation):
        if isinstance(argument, type | UnionType) or get_args(argument):
            yield from _specs(argument)


def _real_path(path: Sequence[int | str], data: Any) -> Path_:
    """`path` without the names of union members that pydantic puts in."""
    real: list[int | str] = []
    for number, part in enumerate(path):
        if isinstance(data, dict) and (part in data or number == len(path) - 1):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            items = cast("list[Any]", data)
            data = items[part] if part < len(items) else None
        else:
            continue
        real.append(part)
    return tuple(real)
