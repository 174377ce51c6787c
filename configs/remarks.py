"""Remarks on a valid configuration: parts that have no effect, or another one than their author may expect."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from operad.configs.read_capabilities import is_inside
from operad.configs.reading import places
from operad.configs.schema import (
    ConfigSpec,
    FunctionSpec,
    OperatorSpec,
    SkillSpec,
    StepSpec,
    TypedSpec,
    WorkflowLikeSpec,
)
from operad.operators.instruction import Template
from operad.operators.skills import load_skills
from operad.runtime.graph.operator import HasGraph
from operad.runtime.values.document import Document
from operad.runtime.values.ids import as_name

_REFERENCE = re.compile(r"\{\{#[^#{}]+#\}\}")


def remarks_on(spec: ConfigSpec, document: Document, folder: Path) -> Iterator[str]:
    """Yield the remarks on a configuration, each with its line; `folder` is that of the file."""
    lines: dict[str, int] = {}
    used: set[str] = set()
    for kind, path, value in places(document.data):
        name = str(cast("dict[str, Any]", value)["name"]) if isinstance(value, dict) else str(value)
        if isinstance(value, dict):
            lines.setdefault(name, document.line(path))
        if kind != "operator":
            used.add(name)
    if spec.experts:
        for operator in spec.operators:
            if operator.name not in used:
                yield (
                    f"line {lines[operator.name]}: operator {operator.name!r} never runs: "
                    "no chain, evaluator or fallback names it"
                )
    yield from _on_instructions(document, lines)
    yield from dict.fromkeys(_on_skills(document, folder))
    yield from dict.fromkeys(
        f"line {lines[name]}: no chain follows port {port!r} of operator {name!r}; if it is chosen, nothing runs after it"
        for workflow in _workflows(spec)
        for name, port in _ports_without_successor(workflow, spec)
    )


def _on_skills(document: Document, folder: Path) -> Iterator[str]:
    """Yield the remarks on the skills in the folder of the file that have no faults."""
    for _, _, value in places(document.data):
        definition = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        for each in definition.get("skills") or ():
            spec = SkillSpec.model_validate({"path": each} if isinstance(each, str) else each)
            at = folder / os.path.expanduser(spec.path)
            if is_inside(at, folder):
                for skill in load_skills(at, scripts=spec.scripts):
                    yield from (note.replace(f"{folder}/", "") for note in skill.notes)


def _on_instructions(document: Document, lines: Mapping[str, int]) -> Iterator[str]:
    """Yield the remarks on instructions with references, and with names of operators in doubled braces."""
    told: set[str] = set()
    for _, _, value in places(document.data):
        definition = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        name, instruction = str(definition.get("name", "")), str(definition.get("instruction"))
        if name in told:
            continue
        told.add(name)
        if _REFERENCE.search(instruction):
            yield (
                f"line {lines[name]}: operator {name!r}: instructions take no {{{{#…#}}}}; "
                "write {name} for the answer of an operator before it"
            )
        if remark := _on_doubled(instruction, [as_name(each) for each in lines]):
            yield f"line {lines[name]}: operator {name!r}: {remark}"


def doubled(workflow: HasGraph, inputs: Collection[str]) -> Iterator[str]:
    """Yield the remarks on instructions with the name of an input in doubled braces, which are text.

    Args:
        inputs: Names of the inputs of the job.
    """
    pending, seen = [workflow], set[int]()
    while pending:
        graph = pending.pop(0).graph()
        for operator in (*graph.operators.values(), *graph.evaluators):
            if operator.names_operators and (remark := _on_doubled(operator.instruction, inputs)):
                yield f"operator {operator.get_id()!r}: {remark}"
            pending += [inner for inner in operator.runs_workflows or () if id(inner) not in seen]
            seen.update(map(id, operator.runs_workflows or ()))


def _on_doubled(instruction: str, names: Collection[str]) -> str:
    """Return a remark if an instruction has known names in doubled braces; empty otherwise."""
    found = [name for name in Template(instruction).escaped if name in names]
    if not found:
        return ""
    written = ", ".join(f"{{{{{name}}}}}" for name in found)
    return f"{written} in its instruction is text in braces; for the value, write {{{found[0]}}}"


def _workflows(spec: ConfigSpec) -> Iterator[WorkflowLikeSpec]:
    """Yield all workflows of a file, also nested ones."""
    pending: list[Any] = [*spec.experts, *spec.operators]
    while pending:
        each = pending.pop(0)
        if isinstance(each, StepSpec):
            pending.append(each.operator)
        elif isinstance(each, WorkflowLikeSpec):
            yield each
            pending += [item for chain in each.workflow for item in chain]


def _ports_without_successor(workflow: WorkflowLikeSpec, spec: ConfigSpec) -> Iterator[tuple[str, str]]:
    """Yield the operators and ports that no chain of a workflow follows, where chains follow only other ports."""
    named = {operator.name: operator for operator in spec.operators}
    operators: dict[str, OperatorSpec | FunctionSpec] = {}
    followed: dict[str, set[str]] = {}
    followed_by_all: set[str] = set()
    for chain in workflow.workflow:
        for number, item in enumerate(chain):
            ref = item.operator if isinstance(item, StepSpec) else item
            operator = named.get(ref) if isinstance(ref, str) else ref
            if operator is None:
                continue
            if isinstance(operator, OperatorSpec | FunctionSpec):
                operators[operator.name] = operator
            if not isinstance(operator, TypedSpec):
                followed_by_all.update(operator.inputs)
            if isinstance(item, StepSpec):
                followed.setdefault(operator.name, set()).add(item.port)
            elif number + 1 < len(chain):
                followed_by_all.add(operator.name)
    for name, ports in followed.items():
        if name in operators and name not in followed_by_all:
            yield from ((name, port) for port in operators[name].ports if port not in ports)
