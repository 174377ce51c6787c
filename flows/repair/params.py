"""Rules that give parameters their declared form: texts, pairs, names, choices; their meaning stays the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast, get_args, get_origin

from operad.flows.formats import shapes
from operad.flows.formats.shapes import list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.flows.repair.references import as_selector, by_node
from operad.flows.repair.state import Proposal, State, params_of, with_params
from operad.flows.repair.walk import fields_of, is_literal, is_record, params_type_of, plain
from operad.operators.conditions import fault_of
from operad.operators.named_params import in_lists
from operad.operators.variables import Selector, Text, VariableType, as_text

T = VariableType

_TYPE_ALIASES: Mapping[str, T] = {
    "str": T.STRING, "text": T.STRING, "paragraph": T.STRING, "text-input": T.STRING, "select": T.STRING, "url": T.STRING,
    "int": T.NUMBER, "integer": T.NUMBER, "float": T.NUMBER, "num": T.NUMBER, "bool": T.BOOLEAN, "checkbox": T.BOOLEAN,
    "dict": T.OBJECT, "json": T.OBJECT, "map": T.OBJECT, "image": T.FILE, "document": T.FILE, "pdf": T.FILE,
    "files": T.ARRAY_FILE, "file-list": T.ARRAY_FILE, "file_list": T.ARRAY_FILE, "images": T.ARRAY_FILE,
    "list": T.ARRAY_STRING, "array": T.ARRAY_STRING, "array[text]": T.ARRAY_STRING, "array[str]": T.ARRAY_STRING,
    "array[int]": T.ARRAY_NUMBER, "array[integer]": T.ARRAY_NUMBER, "array[float]": T.ARRAY_NUMBER,
    "array[dict]": T.ARRAY_OBJECT, "array[json]": T.ARRAY_OBJECT, "array[image]": T.ARRAY_FILE, "array[document]": T.ARRAY_FILE,
}  # fmt: skip
"""Names that models give to types of variables."""

_CHOICE_ALIASES = {"word": "docx", "doc": "docx", "ppt": "pptx", "powerpoint": "pptx", "markdown": "md", "htm": "html",
             "image": "png", "picture": "png", "column": "bar", "histogram": "bar", "&&": "and", "||": "or"}  # fmt: skip
"""Words that models write for the choices of a parameter."""

_PARAM_ALIASES = {
    "prompt": ("system", "user", "text"), "system_prompt": ("system",), "user_prompt": ("user",), "query": ("user",),
    "class": ("classes",), "categories": ("classes",), "code_content": ("code",), "conditions": ("cases",),
    "url": ("url",), "file": ("variable_selector",), "selector": ("variable_selector", "query_variable_selector"),
    "query_selector": ("query_variable_selector",), "variable_selector": ("query_variable_selector", "variable"),
    "content": ("md_text", "text", "template"), "text": ("md_text", "user"), "markdown": ("md_text",), "format": ("target_type",),
    "type": ("chart_type", "target_type"), "title": ("chart_title",), "x_axis": ("x_axisORcategories",),
    "x_axis_or_categories": ("x_axisORcategories",), "categories_or_x_axis": ("x_axisORcategories",),
    "input": ("iterator_selector", "variables"), "output": ("output_selector", "outputs"), "inputs": ("variables",),
    "iterator": ("iterator_selector",), "code": ("mermaid_code",), "mermaid": ("mermaid_code",),
}  # fmt: skip
"""Names that models give to parameters, with the parameters that they may mean."""


def names_of_params(state: State) -> Iterator[Proposal]:
    """Rename misnamed parameters, and add missing ones that may be empty."""
    for node, fields, missing in _declared(state):
        given = params_of(node)
        for key in [key for key in given if key not in fields]:
            if meant := _meant_by(key, missing):
                what = f"its parameter {key!r} is called {meant!r}"
                mended = {**{name: value for name, value in given.items() if name != key}, meant: given[key]}
                yield Proposal(
                    node.id, what, f"a {node.type} has {', '.join(fields)}", with_params(state.graph, node, mended)
                )
        empty = [name for name in missing if (node.type, name) in _MAY_BE_EMPTY]
        if empty and given.keys() <= set(fields):
            what = f"{', '.join(empty)}: an empty text, as it was left out"
            mended = {**given, **dict.fromkeys(empty, "")}
            yield Proposal(node.id, what, "it may be empty", with_params(state.graph, node, mended))


def unknown_params(state: State) -> Iterator[Proposal]:
    """Remove parameters that the type of their node does not have."""
    for node, fields, missing in _declared(state):
        given = params_of(node)
        for key in [key for key in given if key not in fields and not _meant_by(key, missing)]:
            what = f"its parameter {key!r} is left out, as there is none"
            mended = {name: value for name, value in given.items() if name != key}
            yield Proposal(
                node.id, what, f"a {node.type} has {', '.join(fields)}", with_params(state.graph, node, mended)
            )


def _declared(state: State) -> Iterator[tuple[NodeSpec, Collection[str], Sequence[str]]]:
    """Yield each node of a known type with the names of its type's parameters, and of those that it lacks."""
    for node in state.graph.nodes:
        params_type = params_type_of(node)
        if params_type is not None and (given := params_of(node)):
            fields = params_type.model_fields
            yield node, fields, [name for name, field in fields.items() if field.is_required() and name not in given]


def _meant_by(key: str, missing: Sequence[str]) -> str:
    """Return the missing parameter that an unknown name means; empty if it means none."""
    aliases = [name for name in _PARAM_ALIASES.get(key.lower(), ()) if name in missing]
    return next(iter(aliases or get_close_matches(key, missing, n=1, cutoff=0.6)), "")


_MAY_BE_EMPTY = {("llm", "system"), ("llm", "user"), ("parameter-extractor", "instruction"), ("echarts", "chart_title")}


def texts(state: State) -> Iterator[Proposal]:
    """Convert null, numbers, lists of texts and objects to text where a text is needed."""
    for node in state.graph.nodes:
        lines = {name: _lines(value) for name, value in params_of(node).items() if _should_be_lines(node, name, value)}
        if lines:
            graph = with_params(state.graph, node, {**params_of(node), **lines})
            yield Proposal(node.id, f"{' and '.join(lines)}: lines of name: value", "a text of lines is needed", graph)

    def change(graph: NodeGraph) -> Callable[[Any, Any], Any]:
        def to_text(wanted: Any, given: Any) -> Any:
            if wanted not in (Text, str) or isinstance(given, str):
                return given
            if given is None:
                return ""
            if isinstance(given, bool | int | float):
                return as_text(given)
            if wanted is Text and isinstance(given, list) and _all_texts(given) and not as_selector(given, graph):
                return "\n".join(cast("list[str]", given))
            return json.dumps(given, ensure_ascii=False, indent=2) if isinstance(given, dict) else cast("Any", given)

        return to_text

    yield from by_node(state, change, "a value other than a text is written as a text", "a text is needed there")


def _should_be_lines(node: NodeSpec, name: str, value: Any) -> bool:
    """Return whether a value is an object of named values in place of a text with a line for each."""
    declared = params_type_of(node)
    is_text = name in ("headers", "params") and declared is not None and plain(fields_of(declared).get(name)) is Text
    values = shapes.fields_of(value).values()
    return is_text and isinstance(value, dict) and not any(isinstance(each, dict | list) for each in values)


def _lines(named: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {as_text(value)}" for name, value in named.items())


def _all_texts(given: Any) -> bool:
    return all(isinstance(value, str) for value in given)


def pairs(state: State) -> Iterator[Proposal]:
    """Rewrite named values as ``[name, value]``: objects, flat lists, names alone, a single pair instead of a list."""

    def change(graph: NodeGraph) -> Callable[[Any, Any], Any]:
        def to_record(wanted: Any, given: Any) -> Any:
            if get_origin(wanted) is list:
                return _as_list(get_args(wanted)[0], given, graph)
            return _as_record(wanted, given, graph) if is_record(wanted) else given

        return to_record

    yield from by_node(state, change, "named values are written [name, value]", "the format has them so")


def _as_list(item: Any, given: Any, graph: NodeGraph) -> Any:
    """Return a value as a list of items of a declared type; unchanged if it has no known form."""
    if is_record(item):
        match given:
            case {"name": _} | {"variable": _} if len(cast("dict[str, Any]", given)) > 1:
                return [given]
            case {**named} if named:
                names = list(fields_of(item))
                return in_lists(list[item], cast("Any", named)) if len(names) == 2 else given
            case [str(), [str(), str()]] if len(fields_of(item)) == 2:
                return [given]
            case _:
                return given
    if item is Selector and isinstance(given, list | str) and given and as_selector(given, graph):
        return [given]
    if item in (str, Text) and isinstance(given, str):
        return [given]
    return (
        [_name_in(each) for each in list_of(given)] if item is str and isinstance(given, list) else cast("Any", given)
    )


def _name_in(value: Any) -> Any:
    """Return the name in an object that stands for a name; any other value unchanged."""
    fields = shapes.fields_of(value)
    return next((fields[key] for key in ("name", "class", "label", "value") if key in fields), value)


def _as_record(wanted: Any, given: Any, graph: NodeGraph) -> Any:
    """Return a value as the list that a declared named tuple is written as; unchanged if it has no known form."""
    fields = fields_of(wanted)
    names = list(fields)
    last = fields[names[-1]] if names else None
    match given:
        case {**given_fields}:
            named = cast("dict[str, Any]", given_fields)
            values = [
                next((named[key] for key in (name, *_KEY_ALIASES.get(name, ())) if key in named), None)
                for name in names
            ]
            return values if values[0] is not None and values[-1] is not None else given
        case [str() as name, str() as variable, str() as node] if (
            last is not T and len(names) == 2 and node in graph.by_id
        ):
            return [name, [variable, node]]
        case [str() as name, [[*_] as inner]] if len(names) == 2 and as_selector(inner, graph):
            return [name, inner]
        case [str() as name] if names[1:] == ["type"]:
            return [name, "string"]
        case str() if names == ["name", "type"]:
            return [given, "string"]
        case [[str(), str()] as inner] if len(names) == 2 and (found := as_selector(inner, graph)):
            return [found.variable, list(found)]
        case [str() as variable, str() as node] if names == ["name", "value"] and node in graph.by_id:
            return [variable, [variable, node]]  # the variable keeps its name
        case [str() as name, str() as kind] if names == ["description", "name", "type"]:
            return [name, name, kind]
        case _:
            return given


_KEY_ALIASES = {
    "name": ("variable", "key", "arg", "output"),
    "value": ("value_selector", "selector", "source", "variable_selector", "from"),
    "type": ("value_type", "kind", "variable_type"),
    "description": ("desc", "name"),
    "variable": ("variable_selector", "selector"),
    "operator": ("comparison_operator", "op"),
    "logic": ("logical_operator",),
}


def variable_types(state: State) -> Iterator[Proposal]:
    """Correct the spelling of types and choices: ``str``, ``Array[String]``, ``Word``."""
    kinds = {kind.value for kind in T}

    def change(graph: NodeGraph) -> Callable[[Any, Any], Any]:
        def to_word(wanted: Any, given: Any) -> Any:
            if not isinstance(given, str):
                return given
            if wanted is T and given not in kinds:
                name = re.sub(r"\s+", "", given.strip().lower())
                name = re.sub(r"^list[\[<(]?(\w*)[\]>)]?$|^array[<(](\w+)[>)]$|^(\w+)\[\]$", _array_type, name)
                return name if name in kinds else _TYPE_ALIASES[name].value if name in _TYPE_ALIASES else given
            if is_literal(wanted) and given not in get_args(wanted):
                name = given.strip().lower().removeprefix(".")
                name = _CHOICE_ALIASES.get(name, name)
                return name if name in get_args(wanted) else given
            return given

        return to_word

    yield from by_node(state, change, "types and choices are spelt as declared", "no other choice is similar")


def _array_type(found: re.Match[str]) -> str:
    """Return the name of the array type that a match such as ``list[str]`` or ``string[]`` means."""
    item = found[1] or found[2] or found[3]
    return f"array[{_TYPE_ALIASES[item].value if item in _TYPE_ALIASES else item}]" if item else "array"


def cases(state: State) -> Iterator[Proposal]:
    """Rewrite cases of an if-else as ``[logic, [conditions]]``: objects, single conditions, names without a node."""
    for node in state.graph.nodes:
        if node.type != "if-else" or not params_of(node):
            continue
        given = params_of(node).get("cases")
        if isinstance(given, list):
            mended = [_case_with_nodes(state, node, _case(value, state.graph)) for value in cast("list[Any]", given)]
            if mended != given:
                params = {**params_of(node), "cases": mended}
                what = "cases are written [logic, [conditions]]"
                yield Proposal(node.id, what, "the format has them so", with_params(state.graph, node, params))


def _case_with_nodes(state: State, node: NodeSpec, case: Any) -> Any:
    """Return a case in which each variable without a node has the only other node with such a variable."""
    match case:
        case [logic, [*conditions]]:
            return [logic, [_condition_with_node(state, node, condition) for condition in conditions]]
        case _:
            return case


def _condition_with_node(state: State, node: NodeSpec, condition: Any) -> Any:
    """Return a condition whose variable has no node with the only other node that has the variable."""
    match condition:
        case [str() as variable, str() as operator, *value] if operator not in state.graph.by_id:
            name = variable.strip("{}# ")
            holders = [each for each, outputs in state.checker.outputs.items() if name in outputs and each != node.id]
            return [[name, holders[0]], operator, *value] if len(holders) == 1 else cast("Any", condition)
        case _:
            return condition


def _case(given: Any, graph: NodeGraph) -> Any:
    """Return a case as ``[logic, [condition, …]]``; unchanged if it has no known form."""
    match given:
        case {**fields}:
            named = cast("dict[str, Any]", fields)
            return [named.get("logic") or named.get("logical_operator"), named.get("conditions", given)]
        case [None | str() as logic, [condition, *_] as inner] if as_selector(condition, graph) and isinstance(
            condition, list
        ):
            return [logic, [inner]]
        case [[selector, str(), *_], *_] if isinstance(selector, list) and as_selector(selector, graph):
            return [None, given]
        case [selector, str() as operator, *value] if isinstance(selector, list) and as_selector(selector, graph):
            return [None, [[selector, operator, *value]]]
        case [None | str() as logic, [*conditions]]:
            return [logic, [_condition(each, graph) for each in conditions]]
        case _:
            return given


def _condition(given: Any, graph: NodeGraph) -> Any:
    """Return a condition as ``[selector, operator, value]``; unchanged if it has no known form."""
    match given:
        case [str() as variable, str() as node, str() as operator, *rest] if node in graph.by_id:
            return [[variable, node], operator, *rest]
        case [[_, _] as selector, str() as attribute, str() as operator, value]:  # an attribute of the variable
            found = as_selector(selector, graph)
            return [[f"{found.variable}.{attribute}", found.node], operator, value] if found else given
        case _:
            return given


def comparisons(state: State) -> Iterator[Proposal]:
    """Replace comparisons of another type: ``=`` of a text, ``is`` of a number."""
    for node in state.graph.nodes:
        known = state.known(node)
        if node.type != "if-else" or known is None:
            continue
        cases = list_of(node.params["cases"])
        mended = [
            [logic, [_with_operator(state, condition) for condition in conditions]] for logic, conditions in cases
        ]
        if mended != cases:
            why = "the variable's type has no other comparison that means it"
            yield Proposal(node.id, "comparisons are those of the variables' types", why,
                           with_params(state.graph, node, {**node.params, "cases": mended}))  # fmt: skip


_TEXT_OPERATORS = {"=": "is", "==": "is", "≠": "is not", "!=": "is not", "equals": "is", "equal": "is", "not equals": "is not",
             "starts with": "start with", "ends with": "end with", "not in": "not contains", "includes": "contains",
             "is empty": "empty", "is not empty": "not empty", "exists": "not empty", "not exists": "empty", "not null": "not empty"}  # fmt: skip


_NUMBER_OPERATORS = {
    "is": "=",
    "==": "=",
    "equals": "=",
    "is not": "≠",
    "!=": "≠",
    "is empty": "empty",
    "is not empty": "not empty",
}


_FILE_OPERATORS = {"not empty": "exists", "is not empty": "exists", "empty": "not exists", "is empty": "not exists"}


def _with_operator(state: State, condition: Any) -> Any:
    """Return a condition with the operator that the type of its variable has for the same comparison."""
    selector, operator, *value = condition
    kind = state.type_of(Selector(*selector))
    words = _NUMBER_OPERATORS if kind is T.NUMBER else _FILE_OPERATORS if kind is T.FILE else _TEXT_OPERATORS
    if kind is None or not fault_of(operator, value[0] if value else None, kind):
        return condition
    meant = words.get(operator.strip().lower())
    return [selector, meant, *value] if meant else condition
