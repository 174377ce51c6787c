"""First pass of loading a configuration: from its parsed text to its validated content, with the places of all faults.

Before the validation, operators, functions and tools get their names in the parsed text, because anchors of YAML name
them, too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic import ValidationError

from operad.configs.faults import Faults, meant_key, real_path
from operad.configs.schema import ConfigSpec, dotted_tool
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import did_you_mean

_DOTTED = re.compile(r"[^.\s]+(\.[^.\s]+)+")

Place = tuple[str, Path_, Any]
"""Kind of a reference (an operator, a step of a chain …), its path, and its value."""


def read_configuration(document: Document, faults: Faults) -> ConfigSpec | None:
    """Return the content of a file of experts; with faults, which are reported, the rest of it without them.

    Args:
        document: The file; operators and tools without a name get theirs.
        faults: Collection for the faults; later ones of the parts that are left out are ignored.

    Returns:
        The content; None if all of it depends on a faulty value.
    """
    name_operators(document)
    name_functions(document)
    name_tools(document)
    try:
        return ConfigSpec.model_validate(document.data)
    except ValidationError as error:
        faults.report_validation((), error)
        for path, message in unknown_operators(document):
            faults.report(path, "unknown-operator", message)
        rest, left_out = sound_part(document.data, error) or (None, ())
        faults.leave_out(left_out)
        return rest


def name_operators(document: Document) -> None:
    """Set the name of each operator and nested workflow: its own, its anchor's, its function's, or a number.

    If a file has one evaluator without a name, the name is ``evaluator``.
    """
    number, unnamed_evaluators, names = 0, list[dict[str, Any]](), set[str]()
    for kind, _, value in places(document.data):
        if isinstance(value, dict):
            number += 1
            operator = cast("dict[str, Any]", value)
            kind = "workflow" if "workflow" in operator else kind
            function_name = str(operator.get("function") or "").rpartition(".")[2]
            if kind == "evaluator" and not (operator.get("name") or function_name or id(operator) in document.anchors):
                unnamed_evaluators.append(operator)
            operator["name"] = operator.get("name") or document.anchors.get(
                id(operator), function_name or f"{kind}-{number}"
            )
            names.add(str(operator["name"]))
    if len(unnamed_evaluators) == 1 and "evaluator" not in names:
        unnamed_evaluators[0]["name"] = "evaluator"


def name_functions(document: Document) -> None:
    """Replace dotted names in chains, such as ``my_steps.bullets``, by functions, unless an operator has the name."""
    operators = [cast("dict[str, Any]", value) for _, _, value in places(document.data) if isinstance(value, dict)]
    known = {str(operator["name"]) for operator in operators}
    for chain in _chains(document.data):
        for number, item in enumerate(chain):
            if isinstance(item, str) and item not in known and _DOTTED.fullmatch(item):
                chain[number] = {"function": item, "name": item.rpartition(".")[2]}


def _chains(data: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield all chains of a file, also those of nested workflows."""
    for workflow in (*_mappings(data.get("experts")), *_mappings(data.get("operators"))):
        yield from _chains_of(workflow)


def _chains_of(workflow: dict[str, Any]) -> Iterator[list[Any]]:
    for chain in _as_list(workflow.get("workflow")):
        if isinstance(chain, list):
            yield cast("list[Any]", chain)
            for inner in _mappings(chain):
                yield from _chains_of(inner)


def name_tools(document: Document) -> None:
    """Replace dotted names of tools, such as ``my_module.search``, by local tools, unless a tool has the name."""
    lists = list(_lists_of_tools(document.data))
    known = {str(tool.get("name")) for tools in lists for tool in _mappings(tools)}
    for tools in lists:
        for number, tool in enumerate(tools):
            if isinstance(tool, str) and tool not in known and _DOTTED.fullmatch(tool):
                tools[number] = dotted_tool(tool)


def _lists_of_tools(value: Any) -> Iterator[list[Any]]:
    """Yield all lists of tools in a file; parameters of typed nodes and of users' classes are not searched."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _lists_of_tools(item)
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            if key == "tools" and isinstance(inner, list):
                yield cast("list[Any]", inner)
            if key != "params":
                yield from _lists_of_tools(inner)


def unknown_operators(document: Document) -> Iterator[tuple[Path_, str]]:
    """Yield the paths of unknown operators' names, each with an error message."""
    names = [str(operator["name"]) for operator in _mappings(document.data.get("operators"))]
    for kind, path, value in places(document.data):
        if kind != "operator" and isinstance(value, str) and value not in names:
            yield path, unknown_operator_message(value, names)


def unknown_operator_message(name: str, known: Iterable[str]) -> str:
    """Return the message on an unknown operator, with the nearest known name."""
    return f"no operator is called {name!r}{did_you_mean(name, known)}"


def places(data: dict[str, Any]) -> Iterator[Place]:
    """Yield each place where an operator may stand; its value is a name, a definition, or invalid."""
    for i, operator in enumerate(_as_list(data.get("operators"))):
        yield from _places_of_operator(operator, "operator", ("operators", i))
    for i, expert in enumerate(_as_list(data.get("experts"))):
        if isinstance(expert, dict):
            yield from _places_in_workflow(cast("dict[str, Any]", expert), ("experts", i))


def _places_in_workflow(workflow: dict[str, Any], path: Path_) -> Iterator[Place]:
    for i, chain in enumerate(_as_list(workflow.get("workflow"))):
        for k, item in enumerate(_as_list(chain)):
            place = (*path, "workflow", i, k)
            if isinstance(item, dict) and "operator" in item:
                yield from _places_of_operator(cast("dict[str, Any]", item)["operator"], "step", (*place, "operator"))
            else:
                yield from _places_of_operator(item, "step", place)
    evaluators = workflow.get("evaluator")
    if isinstance(evaluators, list):
        for i, evaluator in enumerate(_as_list(evaluators)):
            yield from _places_of_operator(evaluator, "evaluator", (*path, "evaluator", i))
    else:
        yield from _places_of_operator(evaluators, "evaluator", (*path, "evaluator"))
    yield from _places_of_fallback(workflow.get("policy"), (*path, "policy"))


def _places_of_operator(operator: Any, kind: str, path: Path_) -> Iterator[Place]:
    yield kind, path, operator
    yield from _places_of_fallback(operator, path)
    if isinstance(operator, dict) and "workflow" in operator:
        yield from _places_in_workflow(cast("dict[str, Any]", operator), path)


def _places_of_fallback(around: Any, path: Path_) -> Iterator[Place]:
    fallback: Any = cast("dict[str, Any]", around).get("fallback") if isinstance(around, dict) else None
    if isinstance(fallback, dict) and "operator" in fallback:
        operator = cast("dict[str, Any]", fallback)["operator"]
        yield from _places_of_operator(operator, "fallback", (*path, "fallback", "operator"))


def _mappings(items: Any) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", item) for item in _as_list(items) if isinstance(item, dict)]


def _as_list(items: Any) -> list[Any]:
    return cast("list[Any]", items) if isinstance(items, list) else []


_PASSES = 3
"""Maximum number of passes that remove faults: removing some may reveal others."""

_NEEDED = {"name", "function", "type", "class", "ports", "operator", "inputs", "over", "params", "workflow"}
"""Keys that other parts of a file depend on: without their values, these parts would seem faulty, too."""


def sound_part(data: Mapping[str, Any], error: ValidationError) -> tuple[ConfigSpec, list[Path_]] | None:
    """Return the content of a file without its faulty values, and the paths of these values.

    Returns:
        None if the rest of the file depends on a faulty value.
    """
    rest, changed = copy.deepcopy(data), list[Path_]()
    for _ in range(_PASSES):
        for problem in error.errors():
            path = real_path(problem["loc"], rest)
            mapping: Any = _value_at(rest, path[:-1])
            if len(path) < 2 or not isinstance(mapping, dict):
                return None
            if not _remove_fault(cast("dict[str, Any]", mapping), str(path[-1]), problem):
                return None
            changed.append(path)
        try:
            return ConfigSpec.model_validate(rest), changed
        except ValidationError as remaining:
            error = remaining
    return None


def _remove_fault(mapping: dict[str, Any], key: str, problem: Any) -> bool:
    """Remove a faulty value, rename a misspelt key, or fill in a missing instruction.

    Returns:
        False if other parts of the file depend on the key.
    """
    if problem["type"] == "missing":
        mapping.setdefault(key, "-")
        return key == "instruction"
    if problem["type"] == "extra_forbidden":
        value, meant = mapping.pop(key, None), meant_key(problem)
        if meant:
            mapping.setdefault(meant, value)
        return meant not in _NEEDED
    mapping.pop(key, None)
    return key not in _NEEDED


def _value_at(data: Any, path: Path_) -> Any:
    """Return the value at a path; None if there is none."""
    for part in path:
        if isinstance(data, dict):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            data = cast("list[Any]", data)[part]
        else:
            return None
    return data
