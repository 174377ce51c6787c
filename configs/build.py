"""Objects of a configuration: its workflows of operators, with their policies."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from operad.configs.faults import Faults
from operad.configs.imports import Modules, node_type
from operad.configs.models import make_limits, model_of, with_defaults
from operad.configs.reading import unknown_operator_message
from operad.configs.schema import (
    ERRORS,
    NEEDS_NODES,
    BudgetSpec,
    CacheSpec,
    CheckSpec,
    ConfigSpec,
    ExpertSpec,
    FallbackSpec,
    FunctionSpec,
    GuardSpec,
    MapSpec,
    ModelSpec,
    OperatorSpec,
    PolicySpec,
    ReplacementSpec,
    RetrySpec,
    StepSpec,
    TypedSpec,
    WorkflowLikeSpec,
    WorkflowSpec,
)
from operad.configs.services import (
    Toolbox,
    make_outside,
    make_services,
    open_insights,
    open_library,
    open_memory,
    skills_in,
    unknown_workflow,
)
from operad.evaluators import Evaluator
from operad.flows.read_variables import Outputs, Reads
from operad.operators import NodeOperator, Operator, OperatorConfig, Services, VariableType
from operad.operators.named_params import positional, written_path
from operad.operators.node_params import Fault, NodeParams, param_faults
from operad.runtime.graph.build import INSTALL_AWEL, awel_is_installed
from operad.runtime.graph.edges import Port
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.models.model import Model
from operad.runtime.policies.cache import Cache
from operad.runtime.policies.policy import NO_POLICY, Budget, Policy, Retry, Timeout
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InvalidError, Issue, describe, did_you_mean
from operad.runtime.values.form_text import FormError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.map import Map
from operad.runtime.workflow.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

_AnySpec = OperatorSpec | TypedSpec | FunctionSpec | WorkflowSpec


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a workflow: an operator or a nested workflow, its definition and its policy.

    Attributes:
        nested: The nested workflow, also if a map runs it; None for operators.
    """

    operator: BaseOperator | Workflow
    spec: _AnySpec
    path: Path_
    policy: Policy
    nested: Workflow | None = None

    def place_of(self, fault: Fault) -> Path_:
        """Return the path of a fault in the parameters of a typed node; for other steps, the path of the definition."""
        does = cast("Any", self.operator)
        if isinstance(does, NodeOperator) and isinstance(self.spec, TypedSpec):
            return (*self.path, *_param_path(fault, does.params_type, self.spec.params))
        return self.path


def _node_params(params_type: type[NodeParams], given: Any, faults: Faults, path: Path_) -> NodeParams | None:
    """Return the parameters of a typed node; None after reporting their faults."""
    try:
        return params_type.model_validate(positional(params_type, given))
    except ValidationError as error:
        for fault in param_faults(error, params_type):
            faults.report((*path, *_param_path(fault, params_type, given)), fault.code, fault.what)
        return None


def _param_path(fault: Fault, params_type: type[NodeParams], params: Any) -> Path_:
    """Return the path of a fault in a typed node's parameters, as they are written, relative to the node."""
    parts = re.findall(r"\[(\d+)\]|([^.\[\]]+)", fault.where)
    path = [int(number) if number else name for number, name in parts]
    return ("params", *written_path(params_type, params, path))


@dataclass(frozen=True, slots=True)
class _Defaults:
    """Defaults of the enclosing workflow."""

    policy: Policy
    model: ModelSpec | None
    names: tuple[str, ...] = ()
    """Names of the enclosing workflows, outermost first."""


class _Broken(BaseOperator[Any]):
    """Stand-in for an operator that cannot be built, so that the rest of its workflow is still checked.

    Args:
        ports: Its ports, as far as they are known.
    """

    def __init__(self, id: str, ports: Sequence[str]) -> None:
        self._id = id
        self._ports = tuple(ports)

    def get_id(self) -> str:
        """Return the id."""
        return self._id

    @property
    def ports(self) -> Sequence[str]:
        """The ports."""
        return self._ports


def _operator_of(before: BaseOperator | Workflow | Port) -> object:
    """Return the operator of a port; otherwise the operator itself."""
    return before.operator if isinstance(before, Port) else before


def _for_each(spec: MapSpec, name: str, body: BaseOperator | Workflow, policy: Policy) -> Map:
    """Return a map that runs an operator or a workflow for each item, under a policy."""
    if policy or not isinstance(body, Workflow):
        wrapper = BuiltinWorkflow(name=name)
        wrapper.add_operator(body, policy=policy)
        body = wrapper
    return Map(name, body, over=spec.over, concurrency=spec.concurrency, on_error=spec.on_error)


def _step_of(
    body: BaseOperator | Workflow,
    spec: OperatorSpec | FunctionSpec | WorkflowSpec,
    path: Path_,
    policy: Policy,
    nested: Workflow | None = None,
) -> _Step:
    """Return an operator or a workflow as a step; if the definition has a `map`, as the body of the map."""
    if spec.map is None:
        return _Step(body, spec, path, policy, nested)
    return _Step(_for_each(spec.map, spec.name, body, policy), spec, path, NO_POLICY, nested)


def _is_read_issue(issue: Issue, step: _Step) -> bool:
    """Return True if an issue is about the variables that a typed node reads, or one of the node's own check."""
    does: object = step.operator
    if not isinstance(does, NodeOperator):
        return False
    return issue.code == "read-too-early" or issue in cast("NodeOperator[Any]", does).check({})


def _was_reported(issue: Issue, nested: Workflow) -> bool:
    """Return True if an issue of an operator is one of its nested workflow, reported when that one was built."""
    if "/" not in issue.where:
        return issue.code in ("no-operators", "cycle")
    same = (each for each in nested.graph().check() if (each.code, each.message) == (issue.code, issue.message))
    return any(issue.where.endswith(f"/{each.where}") for each in same)


def _path_of_issue(issue: Issue, step: _Step | None) -> Path_ | None:
    """Return the path of the value that an issue is about, if it is about one operator."""
    if step is None:
        return None
    written_by = isinstance(step.spec, OperatorSpec) and step.spec.written_by is not None
    function_key = ("written_by",) if written_by else ("function",)
    keys = {"never-runs": ("join",), "not-a-list": ("map", "over"), "parameter": function_key}
    if issue.code == "unknown-output" and isinstance(step.operator, Map) and "/" not in issue.where:
        return (*step.path, "map", "over")
    return (*step.path, *keys.get(issue.code, _key_of_instruction(issue)))


def _key_of_instruction(issue: Issue) -> tuple[str, ...]:
    """Return the key of an operator that an issue of a name in an instruction is about; empty for other issues."""
    return ("instruction",) if issue.code in ("unknown-name", "unknown-output") else ()


def _written_in(spec: OperatorSpec, path: Path_, modules: Modules, faults: Faults) -> dict[str, Any] | None:
    """Return `output_schema`, `instruction` and `check` of an operator, with the functions that the file names.

    Returns:
        The values by key; None after reporting a fault.
    """
    schema = _output_schema_of(spec, path, faults)
    instruction, check = spec.instruction, spec.check
    if spec.written_by is not None:
        instruction = _function_in(spec.name, spec.written_by, (*path, "written_by"), modules, faults)
    if isinstance(check, CheckSpec):
        check = _function_in(spec.name, check.function, (*path, "check", "function"), modules, faults)
    if schema is None or instruction is None or (check is None and spec.check is not None):
        return None
    return {"output_schema": schema, "instruction": instruction, "check": check}


def _function_in(operator: str, name: str, path: Path_, modules: Modules, faults: Faults) -> Any:
    """Return the function of an operator with a name; None after reporting a fault."""
    found = modules.function(FunctionSpec(name=operator, function=name))
    if isinstance(found, str):
        faults.report(path, "function", found)
        return None
    return found.function


def _output_schema_of(spec: OperatorSpec, path: Path_, faults: Faults) -> str | None:
    """Return the `output_schema` of an operator as text; None after reporting a fault."""
    schema, schema_path = spec.output_schema, (*path, "output_schema")
    try:
        return AnswerSchema.of(schema, faults.written).text
    except FormError as error:
        for fault in error.faults:
            faults.report((*schema_path, *fault.path), fault.code, fault.what)
    except InvalidError as error:
        for issue in error.issues:
            faults.report(schema_path, issue.code, issue.message)
    return None


def _params_of(spec: OperatorSpec, made_of: type[Operator], folder: Path) -> dict[str, Any]:
    """Return the arguments for the class of an operator; paths among them are relative to the folder of the file."""
    return {
        key: str(folder / os.path.expanduser(value)) if key in made_of.paths and isinstance(value, str) else value
        for key, value in spec.params.items()
    }


def _node_type_in_chains(name: str, modules: Modules) -> type[NodeOperator[Any]] | str:
    """Return a node type for a chain of operators, or an error message.

    Types that need other nodes around them are refused.
    """
    found = node_type(name, modules)
    if not isinstance(found, str) and (found.body_starts_with or found.type in NEEDS_NODES):
        return (
            f"nodes of type {name!r} need a workflow of typed nodes alone: write that as a workflow file, name it "
            "under `services: {workflows: …}`, and run it by a node of type 'sub-workflow'"
        )
    return found


_MakeOperator = Callable[[str | OperatorSpec, Path_, type[Operator], ModelSpec | None], "BaseOperator | None"]
"""Builds the operator that is named or defined at a path: its class, and the model of its expert."""


class _Policies:
    """Builder of policies from the sections of a file.

    Args:
        make_operator: Builds the operators that fallbacks name.
        modules: What may be opened.
    """

    def __init__(self, folder: Path, faults: Faults, make_operator: _MakeOperator, modules: Modules) -> None:
        self._folder = folder
        self._faults = faults
        self._make_operator = make_operator
        self._modules = modules
        self._caches: dict[tuple[str | None, float | None], Cache] = {}

    def of(
        self,
        spec: GuardSpec,
        path: Path_,
        default: Policy,
        model: ModelSpec | None,
        *,
        ports: Sequence[str] = (),
        base: type[Operator] = Operator,
    ) -> Policy:
        """Return the policy of the mapping at `path`; unset values come from `default`.

        Args:
            default: Policy for values that the mapping does not set.
            model: The operator's model, whose endpoint a fallback shares.
            ports: The operator's ports.
            base: Required class of a replacement operator.
        """
        fallback = self._fallback(spec.fallback, (*path, "fallback"), model, ports, base) if spec.fallback else None
        policy = Policy(
            retry=_retry(spec.retry) if spec.retry else None,
            timeout=Timeout(**spec.timeout.model_dump()) if spec.timeout else None,
            fallback=fallback,
        ).or_else(default)
        if ports and not _takes_a_port(policy.fallback):
            message = f"the operator has ports, but its fallback chooses none of: {', '.join(ports)}"
            self._faults.report((*path, "fallback" if spec.fallback else "ports"), "port", message)
        return policy if not isinstance(spec, PolicySpec) else self._with_cache(policy, spec, path)

    def _with_cache(self, policy: Policy, spec: PolicySpec, path: Path_) -> Policy:
        if spec.cache is None:
            return policy
        cache = self._cache(CacheSpec() if spec.cache is True else spec.cache, path) if spec.cache else None
        return replace(policy, cache=cache)

    def _cache(self, spec: CacheSpec, path: Path_) -> Cache:
        file = self._folder / Path(spec.path).expanduser() if spec.path else None
        if file and not self._modules.opens(file):
            return Cache(max_age=spec.max_age)
        if file and not file.parent.is_dir():
            self._faults.report((*path, "cache", "path"), "value", f"there is no folder {str(file.parent)!r}")
        key = (str(file) if file else None, spec.max_age)
        return self._caches.setdefault(key, Cache(file, max_age=spec.max_age))

    def _fallback(
        self, spec: FallbackSpec, path: Path_, model: ModelSpec | None, ports: Sequence[str], base: type[Operator]
    ) -> BaseOperator | Model | WorkflowMessage | None:
        if spec.operator is not None:
            return self._make_operator(spec.operator, (*path, "operator"), base, model)
        if spec.model is not None:
            return model_of(with_defaults(spec.model, model), (*path, "model"), self._faults)
        if base is not Operator:
            message = (
                "a message cannot replace a verdict: let an evaluator fall back to another one, or to another model"
            )
            self._faults.report(path, "value", message)
        if ports and spec.port is not None and spec.port not in ports:
            self._faults.report((*path, "port"), "unknown-port", _no_such_port(spec.port, ports))
        return _message(spec).changed(ports=(spec.port,) if spec.port else None)


def _rejected_to(spec: str | ReplacementSpec) -> Any:
    """Return the effect of a rejected result, for `Workflow(on_reject=…)`."""
    return spec if isinstance(spec, str) else _message(spec)


def _message(spec: FallbackSpec | ReplacementSpec) -> WorkflowMessage:
    text = json.dumps(spec.outputs, ensure_ascii=False) if spec.outputs else ""
    return WorkflowMessage(scratchpad=text if spec.text is None else spec.text, outputs=spec.outputs or {})


def _takes_a_port(fallback: object) -> bool:
    """Return True if a fallback can choose a port; after one that cannot, all branches would run."""
    if isinstance(fallback, WorkflowMessage):
        return fallback.ports is not None
    if type(fallback) is Operator:
        return bool(fallback.ports)  # its own fallback is checked where it is defined
    own = fallback.policy if isinstance(fallback, BaseOperator) and not fallback.ports else None
    return own is None or _takes_a_port(own.fallback)


def _no_such_port(port: str, known: Sequence[str]) -> str:
    """Return the message on an unknown port, with the nearest known name."""
    return f"the operator has no port {port!r}{did_you_mean(port, known)}; it has: {', '.join(known) or 'none'}"


def make_budget(spec: BudgetSpec | None) -> Budget | None:
    """Return the budget that a file sets; None if it sets none."""
    return Budget(**spec.model_dump()) if spec else None


def _retry(spec: RetrySpec) -> Retry:
    on = tuple(ERRORS[name] for name in spec.on) if spec.on else None
    return Retry(attempts=spec.attempts, first_delay=spec.first_delay, max_delay=spec.max_delay, on=on)


_PLATFORMS: dict[str | None, type[Workflow]] = {None: Workflow, "DBGPT": DbgptWorkflow, "BUILTIN": BuiltinWorkflow}
_EXPLAINED_BY_GAPS = {"no-operators", "never-runs", "read-too-early"}  # issues that a missing operator may cause
NOT_AS_EVALUATOR = {"inputs", "ports", "join", "map", "check"}
"""Keys of operators that evaluators cannot have."""

_NOT_AS_FALLBACK = {"inputs", "join", "map"}
_CONFIG_KEYS = ("examples", "ports", "threshold", "hops", "code_mode", "memory", "max_turns")


class Built(NamedTuple):
    """Objects of a file.

    Attributes:
        workflows: Workflows of the experts, by the names of the experts.
        toolkit: The graph of the actions and tools.
        services: Services of the typed nodes.
    """

    workflows: Mapping[str, Workflow]
    leader_actions: tuple[Action, ...]
    toolkit: Toolkit
    services: Services


def build(spec: ConfigSpec, folder: Path, faults: Faults, modules: Modules) -> Built:
    """Build the objects of a file: the second pass of loading. Parts with faults, which are collected, are left out.

    Args:
        modules: Source of the classes and functions that the file names.
    """
    builder = _Builder(spec, folder, faults, modules)
    return Built(builder.workflows(), builder.leader_actions(), builder.toolkit, builder.services)


class _Builder:
    """Builder of the workflows of a file. Faults are collected; parts with faults are left out.

    Args:
        modules: Source of the classes and functions that the file names.
    """

    def __init__(self, spec: ConfigSpec, folder: Path, faults: Faults, modules: Modules) -> None:
        self._spec = spec
        self._modules = modules
        self._folder = folder
        self._faults = faults
        self._platform = _PLATFORMS[spec.plugin.workflow_platform]
        if self._platform is DbgptWorkflow and not awel_is_installed():
            message = f"DBGPT needs dbgpt: {INSTALL_AWEL}; without a platform, the built-in engine runs the workflows"
            faults.report(("plugin", "workflow_platform"), "platform", message)
        faults.report_doubles(
            tool=[tool.name for tool in spec.tools],
            action=[action.name for action in spec.actions],
            operator=[operator.name for operator in spec.operators],
        )
        outside = make_outside(spec.services, folder, faults, ("services",))
        self._tools = Toolbox(spec, folder, faults, modules, outside)
        self._policies = _Policies(folder, faults, self._fallback, modules)
        self._library = open_library(spec.knowledgebase, folder, faults, modules)
        self.services = make_services(
            spec.services,
            outside,
            folder,
            faults,
            ("services",),
            modules,
            tools=self._tools.tools,
            knowledge={"knowledgebase": self._library} if self._library else {},
            platform=self._platform,
        )
        self._steps: dict[Workflow, dict[str, _Step]] = {}
        self._built: set[str] = set()
        self._fallbacks: list[str] = []  # names of the fallbacks that are being built, each that of the one before it
        self._operators: dict[str, tuple[_AnySpec, Path_]] = {}
        for number, operator in enumerate(spec.operators):
            self._operators.setdefault(operator.name, (operator, ("operators", number)))
        self.toolkit = self._tools.toolkit
        self._insights = open_insights(spec.env.insights, folder, faults, modules)

    def workflows(self) -> dict[str, Workflow]:
        """Return the experts' workflows, by the experts' names; unused operators are checked, too."""
        workflows: dict[str, Workflow] = {}
        for number, expert in enumerate(self._spec.experts):
            name, path = expert.profile.name, ("experts", number)
            if name in workflows:
                message = f"another expert is called {name!r} too"
                self._faults.report((*path, "profile", "name"), "duplicate-name", message)
            workflows[name] = self._build_expert(expert, path)
        for spec, path in self._operators.values():
            if spec.name not in self._built:
                step = self._step(spec, path, {}, _Defaults(NO_POLICY, self._spec.model))
                if step and step.nested:
                    self._check_reads(step.nested, None)
        return workflows

    def leader_actions(self) -> tuple[Action, ...]:
        """Return the actions of the leader."""
        refs = self._spec.leader.actions if self._spec.leader else []
        actions = [self._tools.action(ref, ("leader", "actions", number)) for number, ref in enumerate(refs)]
        if self._spec.leader and self._spec.leader.profile.name in (e.profile.name for e in self._spec.experts):
            message = f"an expert is called {self._spec.leader.profile.name!r} too"
            self._faults.report(("leader", "profile", "name"), "duplicate-name", message)
        if self._spec.leader and not self._spec.experts:
            self._faults.report(("leader",), "no-experts", "it has no experts; add them under `experts`")
        return tuple(action for action in actions if action)

    # Workflows

    def _build_expert(self, spec: ExpertSpec, path: Path_) -> Workflow:
        defaults = _Defaults(NO_POLICY, spec.model or self._spec.model)
        workflow = self._build_workflow(spec, spec.profile.name, path, defaults)
        self._check_reads(workflow, {})
        return workflow

    def _build_workflow(self, spec: WorkflowLikeSpec, name: str, path: Path_, defaults: _Defaults) -> Workflow:
        policy = self._policies.of(spec.policy, (*path, "policy"), defaults.policy, defaults.model)
        defaults = _Defaults(policy, defaults.model, defaults.names)
        workflow = self._platform(
            max_rounds=spec.max_rounds,
            on_reject=_rejected_to(spec.on_reject),
            name=name,
            limits=make_limits(spec.limits),
            budget=make_budget(spec.budget),
            insights=self._insights,
        )
        steps: dict[str, _Step] = {}
        predecessors_of: dict[str, list[BaseOperator | Workflow | Port]] = {}
        gaps: set[str] = set()  # operators whose predecessors are not all known; with "" if a step could not be built
        for number, chain in enumerate(spec.workflow):
            predecessor: BaseOperator | Workflow | Port | None = None
            after_gap = False
            for i, item in enumerate(chain):
                item_path = (*path, "workflow", number, i)
                is_step = isinstance(item, StepSpec)
                ref, ref_path = (item.operator, (*item_path, "operator")) if is_step else (item, item_path)
                step = self._step(ref, ref_path, steps, defaults)
                if step is None:
                    gaps.add("")
                    after_gap = True
                    continue
                if after_gap:
                    gaps.add(step.spec.name)
                after_gap = False
                workflow.add_operator(step.operator, join=step.spec.join, policy=step.policy)
                predecessors_of.setdefault(step.spec.name, []).extend([predecessor] if predecessor else [])
                predecessor = step.operator
                if is_step and self._has_port(step, item.port, last=i + 1 == len(chain), path=(*item_path, "port")):
                    predecessor = Port(step.operator, item.port)
        for name, predecessors in predecessors_of.items():
            before = self._ordered_predecessors(predecessors, steps[name], steps, gaps)
            workflow.add_operator(steps[name].operator, before)
        is_list = isinstance(spec.evaluator, list)
        evaluators = spec.evaluator if isinstance(spec.evaluator, list) else [spec.evaluator] if spec.evaluator else []
        evaluator_paths: dict[str, Path_] = {}
        for number, evaluator in enumerate(evaluators):
            ref_path = (*path, "evaluator", number) if is_list else (*path, "evaluator")
            evaluator_paths[evaluator if isinstance(evaluator, str) else evaluator.name] = ref_path
            self._add_evaluator(workflow, evaluator, ref_path, defaults)
        self._check_graph(workflow, path, steps, evaluator_paths, gaps)
        if not gaps:
            self._steps[workflow] = steps
        return workflow

    def _ordered_predecessors(
        self,
        predecessors: list[BaseOperator | Workflow | Port],
        step: _Step,
        steps: Mapping[str, _Step],
        gaps: set[str],
    ) -> list[BaseOperator | Workflow | Port]:
        """Return the predecessors of an operator: its `inputs` first, in their order, then others from chains."""
        if isinstance(step.spec, TypedSpec):
            return predecessors
        from_inputs: list[BaseOperator | Workflow | Port] = []
        for number, name in enumerate(step.spec.inputs):
            if name not in steps or name == step.spec.name:
                if gaps and name in self._operators and name != step.spec.name:
                    continue  # its name in a chain may be misspelt
                hint = did_you_mean(name, steps.keys() - {step.spec.name})
                message = f"no other operator of this workflow is called {name!r}{hint}"
                self._faults.report((*step.path, "inputs", number), "unknown-operator", message)
                continue
            operator = steps[name].operator
            from_inputs += [other for other in predecessors if _operator_of(other) is operator] or [operator]
        return [*from_inputs, *(other for other in predecessors if other not in from_inputs)]

    def _check_graph(
        self,
        workflow: Workflow,
        path: Path_,
        steps: dict[str, _Step],
        evaluator_paths: dict[str, Path_],
        gaps: set[str],
    ) -> None:
        """Report the issues of the whole graph at their places in the file, except those that a gap explains."""
        for issue in workflow.graph().check():
            operator_id, _, _ = issue.where.partition("/")
            step = steps.get(operator_id)
            if step and step.nested and _was_reported(issue, step.nested):
                continue
            if gaps and (operator_id in gaps or issue.code in _EXPLAINED_BY_GAPS):
                continue
            if issue.code == "fallback-port":
                continue  # already reported at the fallback
            if step and _is_read_issue(issue, step):
                continue  # reported by `_check_reads`, which knows more
            inside = self._steps.get(step.nested, {}) if step and step.nested else {}
            in_step = _path_of_issue(issue, inside.get(issue.where.rpartition("/")[2], step))
            judge = evaluator_paths.get(operator_id)
            place = (*judge, *_key_of_instruction(issue)) if judge else in_step or (*path, "workflow")
            self._faults.report(place, issue.code, issue.message)

    def _check_reads(self, workflow: Workflow, outer_outputs: Mapping[str, Outputs] | None) -> None:
        """Report the faults of variables that typed nodes read, also in nested workflows; see `Reads`."""
        if workflow not in self._steps:
            return
        steps, graph = self._steps[workflow], workflow.graph()
        reads = Reads(graph, outer_outputs)
        for node_id, fault in reads.faults:
            self._faults.report(steps[node_id].place_of(fault), fault.code, fault.what)
        for name, step in steps.items():
            if step.nested is None:
                continue
            outputs = {other: reads.outputs.get(other) for other in graph.before[name]} or outer_outputs
            if isinstance(step.operator, Map):
                outputs = {**(outputs or {}), name: {"item": VariableType.ANY, "index": VariableType.NUMBER}}
            self._check_reads(step.nested, outputs)

    def _has_port(self, step: _Step, port: str, *, last: bool, path: Path_) -> bool:
        """Return True if a chain can continue from this port of a step; otherwise report the reason at `path`."""
        ports = step.operator.ports if not isinstance(step.operator, Workflow) else ()
        may_have_undeclared_ports = (
            isinstance(step.spec, WorkflowSpec | FunctionSpec)
            or isinstance(step.operator, _Broken)
            or (isinstance(step.spec, OperatorSpec) and bool(step.spec.class_))
        )
        if last:
            self._faults.report(path, "port", f"the chain ends here, so port {port!r} has no successor; add one")
        elif isinstance(step.operator, Map):
            self._faults.report(path, "port", "an operator with `map` has no ports")
        elif port not in ports and (ports or not may_have_undeclared_ports):
            self._faults.report(path, "unknown-port", _no_such_port(port, ports))
        else:
            return True
        return False

    # Operators

    def _step(self, ref: str | _AnySpec, path: Path_, steps: dict[str, _Step], defaults: _Defaults) -> _Step | None:
        """Return the step that is named or defined at `path`; built and added to `steps` at its first mention."""
        found = self._find(ref, path)
        if found is None:
            return None
        spec, defined = found
        if spec.name in steps:
            if steps[spec.name].spec != spec:
                message = f"another operator is called {spec.name!r} too"
                self._faults.report(path, "duplicate-name", message)
            return steps[spec.name]
        step = self._build_nested(spec, defined, path, defaults) if isinstance(spec, WorkflowSpec) else None
        if isinstance(spec, OperatorSpec):
            step = self._build_operator(spec, defined, defaults)
        if isinstance(spec, TypedSpec):
            step = self._build_node(spec, defined, defaults)
        if isinstance(spec, FunctionSpec):
            step = self._build_function(spec, defined, defaults)
        if step is None and not isinstance(spec, WorkflowSpec):
            ports = () if isinstance(spec, TypedSpec) else spec.ports
            step = _Step(_Broken(spec.name, ports), spec, defined, NO_POLICY)
        if step is not None:
            steps[spec.name] = step
        return step

    def _find(self, ref: str | _AnySpec, path: Path_) -> tuple[_AnySpec, Path_] | None:
        """Return the definition referenced at `path`, and the path of the definition."""
        if not isinstance(ref, str):
            named = self._operators.get(ref.name)
            if named is not None and named[0] != ref:
                self._faults.report(path, "duplicate-name", f"another operator is called {ref.name!r} too")
            return named or (ref, path)
        if ref not in self._operators:
            self._faults.report(path, "unknown-operator", unknown_operator_message(ref, self._operators))
        return self._operators.get(ref)

    def _build_operator(self, spec: OperatorSpec, path: Path_, defaults: _Defaults) -> _Step | None:
        operator = self._make(spec, path, Operator, defaults.model)
        if operator is None:
            return None
        policy = self._policies.of(spec, path, defaults.policy, defaults.model, ports=spec.ports)
        return _step_of(operator, spec, path, policy)

    def _build_nested(self, spec: WorkflowSpec, defined: Path_, path: Path_, defaults: _Defaults) -> _Step | None:
        self._built.add(spec.name)
        if spec.name in defaults.names:
            message = "it contains itself: " + " → ".join([*defaults.names, spec.name])
            self._faults.report(path, "cycle", message)
            return None
        inner = _Defaults(defaults.policy, defaults.model, (*defaults.names, spec.name))
        workflow = self._build_workflow(spec, spec.name, defined, inner)
        policy = self._policies.of(spec, defined, NO_POLICY, defaults.model)
        return _step_of(workflow, spec, defined, policy, workflow)

    def _build_node(self, spec: TypedSpec, path: Path_, defaults: _Defaults) -> _Step | None:
        self._built.add(spec.name)
        node_class = _node_type_in_chains(spec.type, self._modules)
        if isinstance(node_class, str):
            self._faults.report((*path, "type"), "unknown-type", node_class)
            return None
        params = _node_params(node_class.params_type, spec.params, self._faults, path)
        if params is None:
            return None
        try:
            node = node_class(spec.name, params, services=self.services)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's class may raise anything
            self._faults.report((*path, "params"), "params", f"{spec.type} cannot be made: {describe(error)}")
            return None
        if node.type == "sub-workflow" and (unknown := unknown_workflow(node.params.workflow, self.services)):
            self._faults.report((*path, "params", "workflow"), "unknown-workflow", unknown)
        default = defaults.policy if node.policy is None else node.policy.or_else(defaults.policy)
        policy = self._policies.of(spec, path, default, defaults.model, ports=node.ports)
        return _Step(node, spec, path, policy)

    def _build_function(self, spec: FunctionSpec, path: Path_, defaults: _Defaults) -> _Step | None:
        operator = self._function_operator(spec, path)
        if operator is None:
            return None
        policy = self._policies.of(spec, path, defaults.policy, defaults.model, ports=operator.ports)
        return _step_of(operator, spec, path, policy)

    def _function_operator(self, spec: FunctionSpec, path: Path_) -> FunctionOperator[Any] | None:
        self._built.add(spec.name)
        operator = self._modules.function(spec)
        if isinstance(operator, str):
            self._faults.report((*path, "function"), "function", operator)
            return None
        return operator

    def _add_evaluator(
        self, workflow: Workflow, ref: str | OperatorSpec | FunctionSpec, path: Path_, defaults: _Defaults
    ) -> None:
        found = self._find(ref, path)
        if found is None:
            return
        spec, defined = found
        if not isinstance(spec, OperatorSpec | FunctionSpec):
            self._report_kind(spec, path)
            return
        by_class = isinstance(spec, OperatorSpec) and spec.class_
        refused = NOT_AS_EVALUATOR if by_class else NOT_AS_EVALUATOR | {"output_schema"}
        for key in sorted(refused & spec.model_fields_set):
            self._faults.report((*defined, key), "value", f"an evaluator cannot have {key!r}")
        default = replace(defaults.policy, fallback=None)  # the message of the default fallback is not a verdict
        policy = self._policies.of(spec, defined, default, defaults.model, base=Evaluator)
        if isinstance(spec, FunctionSpec):
            evaluator = self._function_operator(spec, defined)
        else:
            evaluator = self._make(spec.model_copy(update={"check": None}), defined, Evaluator, defaults.model)
        if evaluator:
            workflow.add_evaluator(evaluator, policy=policy)

    def _fallback(
        self, ref: str | OperatorSpec, path: Path_, base: type[Operator], model: ModelSpec | None
    ) -> Operator | None:
        found = self._find(ref, path)
        if found is None:
            return None
        spec, defined = found
        if not isinstance(spec, OperatorSpec):
            self._report_kind(spec, path)
            return None
        if not isinstance(ref, str) and spec.name not in self._operators:
            for key in sorted(_NOT_AS_FALLBACK & spec.model_fields_set):
                message = f"a fallback runs in the place of the operator that failed; it cannot have {key!r}"
                self._faults.report((*defined, key), "value", message)
        if spec.name in self._fallbacks:
            along = " → ".join([*self._fallbacks[self._fallbacks.index(spec.name) :], spec.name])
            message = f"the fallbacks could follow each other without end: {along}; remove one of them"
            self._faults.report(path, "fallback-cycle", message)
            return None
        operator = self._make(spec, defined, base, model)
        if operator is not None:
            self._fallbacks.append(spec.name)
            operator.policy = self._policies.of(spec, defined, NO_POLICY, model, ports=spec.ports, base=base)
            self._fallbacks.pop()
        return operator

    def _report_kind(self, spec: WorkflowSpec | TypedSpec | FunctionSpec, path: Path_) -> None:
        kinds = {WorkflowSpec: "workflow", TypedSpec: "typed node", FunctionSpec: "function"}
        self._faults.report(path, "value", f"expected an operator, got {kinds[type(spec)]} {spec.name!r}")

    def _make(self, spec: OperatorSpec, path: Path_, base: type[Operator], model: ModelSpec | None) -> Operator | None:
        """Return an instance of `base` or the operator's own class; `model` is the expert's. None after faults."""
        self._built.add(spec.name)
        built_model = model_of(with_defaults(spec.model, model), (*path, "model"), self._faults) if spec.model else None
        model_argument = {"model": built_model} if spec.model else {}
        actions = [self._tools.action(ref, (*path, "actions", i)) for i, ref in enumerate(spec.actions)]
        tools = tuple(tool for i, ref in enumerate(spec.tools) if (tool := self._tools.tool(ref, (*path, "tools", i))))
        skills = (
            skills_in(spec.skills, self._folder, self._faults, (*path, "skills"), self._modules) if spec.skills else ()
        )
        written = _written_in(spec, path, self._modules, self._faults)
        if written is None:
            return None
        try:
            config = OperatorConfig.model_validate(
                {name: getattr(spec, name) for name in _CONFIG_KEYS}
                | {
                    "actions": tuple(action for action in actions if action),
                    "tools": tools,
                    "skills": skills,
                    **written,
                }
                | {"id": spec.name or "-"}  # empty if the key `name` is misspelt
            )
        except ValidationError as error:
            self._faults.report_validation(path, error)
            return None
        operator_class = self._modules.operator_class(spec.class_, base) if spec.class_ else base
        if isinstance(operator_class, str):
            self._faults.report((*path, "class"), "class", operator_class)
            return None
        try:
            knowledge_argument = {"knowledge_base": self._library} if self._library and spec.knowledge else {}
            place, of_memory = (*path, "long_term_memory"), spec.long_term_memory
            memory = open_memory(of_memory, self._folder, self._faults, place, self._modules) if of_memory else None
            memory_argument = {"long_term_memory": memory} if memory else {}
            params = _params_of(spec, operator_class, self._folder)
            if spec.class_ and not self._modules.makes(spec.class_, spec.params):
                return None
            arguments: dict[str, Any] = {**knowledge_argument, **memory_argument, **model_argument, **params}
            return operator_class(config, toolkit=self._tools.toolkit, **arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's class may raise anything
            message = f"{spec.class_ or base.__name__} cannot be made with these: {describe(error)}"
            message += "; with `knowledge: false` it gets no knowledge_base" if "'knowledge_base'" in str(error) else ""
            self._faults.report((*path, "params"), "params", message)
            return None
