"""Steps of a workflow that is being built from a configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from operad.configs.faults import Faults
from operad.configs.imports import Modules, node_type
from operad.configs.schema import (
    NEEDS_NODES,
    CheckSpec,
    FunctionSpec,
    MapSpec,
    ModelSpec,
    OperatorSpec,
    TypedSpec,
    WorkflowSpec,
)
from operad.operators import NodeOperator, Operator
from operad.operators.named_params import positional, written_path
from operad.operators.node_params import Fault, NodeParams, param_faults
from operad.runtime.graph.edges import Port
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.policies.policy import NO_POLICY, Policy
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InvalidError, Issue
from operad.runtime.values.form_text import FormError
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.workflow.map import Map
from operad.runtime.workflow.workflow import BuiltinWorkflow, Workflow

AnySpec = OperatorSpec | TypedSpec | FunctionSpec | WorkflowSpec


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a workflow: an operator or a nested workflow, its definition and its policy.

    Attributes:
        operator: The operator, or the nested workflow.
        spec: Its definition.
        path: Path of the definition in the file.
        policy: Policy of the step.
        nested: The nested workflow, also if a map runs it; None for operators.
    """

    operator: BaseOperator | Workflow
    spec: AnySpec
    path: Path_
    policy: Policy
    nested: Workflow | None = None

    def place_of(self, fault: Fault) -> Path_:
        """Return the path of a fault in the parameters of a typed node; for other steps, the path of the definition."""
        does = cast("Any", self.operator)
        if isinstance(does, NodeOperator) and isinstance(self.spec, TypedSpec):
            return (*self.path, *_param_path(fault, does.params_type, self.spec.params))
        return self.path


def node_params(params_type: type[NodeParams], given: Any, faults: Faults, path: Path_) -> NodeParams | None:
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
class Defaults:
    """Defaults of the enclosing workflow."""

    policy: Policy
    model: ModelSpec | None
    names: tuple[str, ...] = ()
    """Names of the enclosing workflows, outermost first."""


class Broken(BaseOperator[Any]):
    """Stand-in for an operator that cannot be built, so that the rest of its workflow is still checked.

    Args:
        id: Its id.
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


def operator_of(before: BaseOperator | Workflow | Port) -> object:
    """Return the operator of a port; otherwise the operator itself."""
    return before.operator if isinstance(before, Port) else before


def _for_each(spec: MapSpec, name: str, body: BaseOperator | Workflow, policy: Policy) -> Map:
    """Return a map that runs an operator or a workflow for each item, under a policy."""
    if policy or not isinstance(body, Workflow):
        wrapper = BuiltinWorkflow(name=name)
        wrapper.add_operator(body, policy=policy)
        body = wrapper
    return Map(name, body, over=spec.over, concurrency=spec.concurrency, on_error=spec.on_error)


def step_of(
    body: BaseOperator | Workflow,
    spec: OperatorSpec | FunctionSpec | WorkflowSpec,
    path: Path_,
    policy: Policy,
    nested: Workflow | None = None,
) -> Step:
    """Return an operator or a workflow as a step; if the definition has a `map`, as the body of the map."""
    if spec.map is None:
        return Step(body, spec, path, policy, nested)
    return Step(_for_each(spec.map, spec.name, body, policy), spec, path, NO_POLICY, nested)


def is_read_issue(issue: Issue, step: Step) -> bool:
    """Return True if an issue is about the variables that a typed node reads, or one of the node's own check."""
    does: object = step.operator
    if not isinstance(does, NodeOperator):
        return False
    return issue.code == "read-too-early" or issue in cast("NodeOperator[Any]", does).check({})


def was_reported(issue: Issue, nested: Workflow) -> bool:
    """Return True if an issue of an operator is one of its nested workflow, reported when that one was built."""
    if "/" not in issue.where:
        return issue.code in ("no-operators", "cycle")
    same = (each for each in nested.graph().check() if (each.code, each.message) == (issue.code, issue.message))
    return any(issue.where.endswith(f"/{each.where}") for each in same)


def path_of_issue(issue: Issue, step: Step | None) -> Path_ | None:
    """Return the path of the value that an issue is about, if it is about one operator."""
    if step is None:
        return None
    written_by = isinstance(step.spec, OperatorSpec) and step.spec.written_by is not None
    function_key = ("written_by",) if written_by else ("function",)
    keys = {"never-runs": ("join",), "not-a-list": ("map", "over"), "parameter": function_key}
    if issue.code == "unknown-output" and isinstance(step.operator, Map) and "/" not in issue.where:
        return (*step.path, "map", "over")
    return (*step.path, *keys.get(issue.code, key_of_instruction(issue)))


def key_of_instruction(issue: Issue) -> tuple[str, ...]:
    """Return the key of an operator that an issue of a name in an instruction is about; empty for other issues."""
    return ("instruction",) if issue.code in ("unknown-name", "unknown-output") else ()


def written_in(spec: OperatorSpec, path: Path_, modules: Modules, faults: Faults) -> dict[str, Any] | None:
    """Return `output_schema`, `instruction` and `check` of an operator, with the functions that the file names.

    Returns:
        The values by key; None after reporting a fault.
    """
    schema = output_schema_of(spec, path, faults)
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


def output_schema_of(spec: OperatorSpec, path: Path_, faults: Faults) -> str | None:
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


def params_of(spec: OperatorSpec, made_of: type[Operator], folder: Path) -> dict[str, Any]:
    """Return the arguments for the class of an operator; paths among them are relative to the folder of the file."""
    return {
        key: str(folder / os.path.expanduser(value)) if key in made_of.paths and isinstance(value, str) else value
        for key, value in spec.params.items()
    }


def node_type_in_chains(name: str, modules: Modules) -> type[NodeOperator[Any]] | str:
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
