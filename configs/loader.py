"""Configuration file → experts that can run. All that is wrong with the file is found at once."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from operad.configs.document import Document, Path_, read_document
from operad.configs.faults import explain, real_path
from operad.configs.schema import (
    ActionSpec,
    ConfigSpec,
    ExpertSpec,
    LocalToolSpec,
    McpToolSpec,
    ModelSpec,
    OperatorSpec,
)
from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.operators.mcp import McpTools
from operad.runtime.agent import Expert, Profile
from operad.runtime.errors import InputError, InvalidError, Issue, ToolError, describe, did_you_mean
from operad.runtime.model import Model, resolve_model
from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.schema import parse_output_schema
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

    def expert(
        self,
        name: str | None = None,
        *,
        model: Model | None = None,
        model_name: str | None = None,
        base_url: str | None = None,
    ) -> Expert:
        """The expert of that name; without a name, the only one.

        Args:
            name: Its profile's name.
            model: The model to ask, whatever the file says. Without it, the file's; without that,
                what the environment names now, or the embedded model.
            model_name: Instead of the name that the file gives the model.
            base_url: Instead of the endpoint that the file names.

        Raises:
            InputError: There is no such expert, none at all, or more than one and no name; or the
                variable that the file names for the key is not set.
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
        options = {key: value for key, value in (("name", model_name), ("base_url", base_url)) if value}
        asked = spec.model or self.spec.model
        if options:
            asked = (asked or ModelSpec()).model_copy(update=options)
        return Expert(
            self.profiles[names.index(name)], self._workflows[name], self._reasoner(spec, model or _model(asked))
        )

    def _reasoner(self, expert: ExpertSpec, model: Model | None) -> MonoModelReasoner | DualModelReasoner:
        rounds = expert.reasoner.max_rounds or self.spec.reasoner.max_rounds
        if (expert.reasoner.type or self.spec.reasoner.type) == "DUAL":
            return DualModelReasoner(model, max_rounds=rounds)
        return MonoModelReasoner(model, max_rounds=rounds)


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
        document = read_document(file, name=str(path))
        _make_importable(file.resolve().parent)
        return _Loading(document, file.resolve().parent).configuration()


@contextmanager
def _found(path: str | Path) -> Generator[Path, None, None]:
    own = {
        file.name.removesuffix(".yaml"): file
        for file in files("operad.configs").iterdir()
        if file.name.endswith(".yaml")
    }
    try:
        given = Path(path).exists()
    except OSError:  # too long for a path, for one
        given = True
    if not given and str(path) in own:
        with as_file(own[str(path)]) as file:
            yield file
    elif not given and (hint := did_you_mean(str(path), own)):
        raise InputError(f"{path}: no such file{hint}")
    else:
        yield Path(path)


def _make_importable(folder: Path) -> None:
    """Let the modules beside a configuration be imported, now and while its experts run; others of the name win."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _shadowed(module_path: str, folder: Path) -> str:
    """What is wrong where another module is imported in the place of the one beside the file."""
    top = module_path.partition(".")[0]
    beside = next((path for path in (folder / top, folder / f"{top}.py") if path.exists()), None)
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if beside is None or loaded is None or Path(loaded).resolve().is_relative_to(folder):
        return ""
    return f"module {top!r} beside this file is hidden by {loaded}, which has the same name; rename one"


def _model(spec: ModelSpec | None) -> Model | None:
    if spec is None:
        return None
    given = spec.model_dump(include={"temperature", "max_tokens", "tools"}, exclude_none=True)
    key = os.environ.get(spec.api_key_env)
    if key is None and "api_key_env" in spec.model_fields_set:
        raise InputError(
            f"the environment variable {spec.api_key_env} is not set; `model.api_key_env` names it for the key"
        )
    return resolve_model(spec.name, spec.base_url, key).model_copy(update=given)


class _Loading:
    """One file on its way to experts. Issues are collected; what they concern is left out."""

    def __init__(self, document: Document, folder: Path) -> None:
        self._document = document
        self._folder = folder
        self._issues: dict[tuple[str, str, int], Issue] = {}
        self._tools: dict[str, Tool | McpTools | None] = {}
        self._actions: dict[str, Action | None] = {}
        self._operators: dict[str, tuple[OperatorSpec, Path_]] = {}
        self._built: set[str] = set()
        self._toolkit = Toolkit()

    def configuration(self) -> Configuration:
        self._name_operators()
        try:
            spec = ConfigSpec.model_validate(self._document.data)
        except ValidationError as error:
            for problem in error.errors():
                self._report(problem["loc"], *explain(problem))
            self._report_unknown_operators()
            raise self._invalid() from error
        self._define(spec)
        workflows: dict[str, Workflow] = {}
        for number, expert in enumerate(spec.experts):
            if expert.profile.name in workflows:
                path = ("experts", number, "profile", "name")
                self._report(path, "duplicate-name", f"another expert is called {expert.profile.name!r} too")
            workflows[expert.profile.name] = self._workflow(spec, expert, ("experts", number))
        for operator, path in self._operators.values():
            if operator.name not in self._built:
                self._make(operator, path, Operator)
        if self._issues:
            raise self._invalid()
        profiles = tuple(Profile(name=e.profile.name, description=e.profile.desc) for e in spec.experts)
        return Configuration(self._document.name, spec, profiles, self._toolkit, workflows)

    def _name_operators(self) -> None:
        """Give each operator a name: its own, its anchor's, or its place's."""
        data = self._document.data
        places = _mappings(data.get("operators"), "operator")
        for expert in _listed(data.get("experts")):
            if isinstance(expert, dict):
                experts = cast("dict[str, Any]", expert)
                for chain in _lists(experts.get("workflow")):
                    places += _mappings(chain, "step")
                places += _mappings([experts.get("evaluator")], "evaluator")
        for number, (what, operator) in enumerate(places, 1):
            operator["name"] = operator.get("name") or self._document.anchors.get(id(operator), f"{what}-{number}")

    def _report_unknown_operators(self) -> None:
        """Where the file does not have its shape, what can be said of its workflows all the same."""
        data = self._document.data
        names = [str(operator["name"]) for _, operator in _mappings(data.get("operators"), "")]
        for number, (_, expert) in enumerate(_mappings(data.get("experts"), "")):
            for i, chain in enumerate(_lists(expert.get("workflow"))):
                for k, ref in enumerate(chain):
                    if isinstance(ref, str) and ref not in names:
                        path = ("experts", number, "workflow", i, k)
                        self._report(path, "unknown-operator", _nobody_is_called(ref, names))

    def _define(self, spec: ConfigSpec) -> None:
        self._report_doubles("tool", [tool.name for tool in spec.tools])
        self._report_doubles("action", [action.name for action in spec.actions])
        self._report_doubles("operator", [operator.name for operator in spec.operators])
        for number, tool in enumerate(spec.tools):
            self._define_tool(tool, ("tools", number))
        for number, action in enumerate(spec.actions):
            self._define_action(action, ("actions", number))
        for number, chain in enumerate(spec.toolkit):
            actions = [self._action(ref, ("toolkit", number, i)) for i, ref in enumerate(chain)]
            self._toolkit.add_chain([action for action in actions if action])
        for number, operator in enumerate(spec.operators):
            path = ("operators", number)
            self._operators.setdefault(operator.name, (operator, path))

    def _report_doubles(self, what: str, names: list[str]) -> None:
        for number, name in enumerate(names):
            if name in names[:number]:
                self._report((f"{what}s", number), "duplicate-name", f"another {what} is called {name!r} too")

    def _define_tool(self, spec: LocalToolSpec | McpToolSpec, path: Path_) -> Tool | McpTools | None:
        if spec.name not in self._tools:
            self._tools[spec.name] = None
            try:
                self._tools[spec.name] = self._load_tool(spec)
            except ToolError as error:
                self._report(path, "tool-module", str(error))
        return self._tools[spec.name]

    def _load_tool(self, spec: LocalToolSpec | McpToolSpec) -> Tool | McpTools:
        if isinstance(spec, McpToolSpec):
            return McpTools(name=spec.name, description=spec.desc, server=spec.mcp_transport_config)
        tool = Tool.load(spec.module_path, spec.name, spec.desc)
        if hidden := _shadowed(spec.module_path, self._folder):
            raise ToolError(hidden)
        return tool

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
        complete = True
        for number, chain in enumerate(expert.workflow):
            previous: Operator | None = None
            for i, ref in enumerate(chain):
                operator = self._operator(ref, (*path, "workflow", number, i), made, Operator)
                if operator is None:
                    complete = False
                    continue
                workflow.add_operator(operator, [previous] if previous else None)
                previous = operator
        if expert.evaluator is not None:
            workflow.set_evaluator(self._operator(expert.evaluator, (*path, "evaluator"), {}, Evaluator))
        if complete:
            for issue in workflow.graph().check():
                self._report((*path, "workflow"), issue.code, issue.message)
        return workflow

    def _operator(
        self, ref: str | OperatorSpec, path: Path_, made: dict[str, Operator], base: type[Operator]
    ) -> Operator | None:
        if isinstance(ref, str) and ref not in self._operators:
            self._report(path, "unknown-operator", _nobody_is_called(ref, self._operators))
            return None
        ref, path = self._operators[ref] if isinstance(ref, str) else self._operators.get(ref.name, (ref, path))
        if ref.name not in made:
            operator = self._make(ref, path, base)
            if operator is None:
                return None
            made[ref.name] = operator
        return made[ref.name]

    def _make(self, spec: OperatorSpec, path: Path_, base: type[Operator]) -> Operator | None:
        self._built.add(spec.name)
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
                self._report((*path, *problem["loc"]), *explain(problem))
            return None
        try:
            parse_output_schema(spec.output_schema)
        except InvalidError as error:
            for issue in error.issues:
                self._report((*path, "output_schema"), issue.code, issue.message)
            return None
        made_of = _class(spec.class_, base) if spec.class_ else base
        made_of = _shadowed(spec.class_, self._folder) or made_of
        if isinstance(made_of, str):
            self._report((*path, "class"), "class", made_of)
            return None
        try:
            return made_of(config, toolkit=self._toolkit, **spec.params)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's class may raise anything
            self._report((*path, "params"), "params", f"{spec.class_} cannot be made with these: {describe(error)}")
            return None

    def _report(self, path: Sequence[int | str], code: str, message: str) -> None:
        path = real_path(path, self._document.data)
        fault = (code, message, self._document.line(path))  # one fault, though aliases repeat it
        self._issues.setdefault(fault, Issue(code, message, self._document.where(path)))

    def _invalid(self) -> InvalidError:
        return InvalidError(f"{self._document.name} cannot be used", list(self._issues.values()))


def _nobody_is_called(name: str, known: Iterable[str]) -> str:
    return f"no operator is called {name!r}{did_you_mean(name, known)}"


def _mappings(items: Any, what: str) -> list[tuple[str, dict[str, Any]]]:
    return [(what, cast("dict[str, Any]", item)) for item in _listed(items) if isinstance(item, dict)]


def _lists(items: Any) -> list[list[Any]]:
    return [cast("list[Any]", item) for item in _listed(items) if isinstance(item, list)]


def _listed(items: Any) -> list[Any]:
    return cast("list[Any]", items) if isinstance(items, list) else []


def _class(path: str, base: type[Operator]) -> type[Operator] | str:
    """The class of that dotted path, or what is wrong with it."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        return f"{path!r} has no module: write package.module.Class"
    try:
        module = importlib.import_module(module_path)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything
        return f"module {module_path!r} does not import: {describe(error)}"
    found = getattr(module, name, None)
    if found is None:
        return f"module {module_path!r} has no {name!r}{did_you_mean(name, vars(module))}"
    if not (isinstance(found, type) and issubclass(found, base)):
        return f"{path} is not a subclass of {base.__name__}"
    return found
