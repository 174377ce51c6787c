"""Values that no node gives: literals of inputs, and variables of the user, the app and the system.

They are variables of the conversation in Operad: a literal is one that nothing assigns. At Coze they have no node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from operad.flows.formats.shapes import Fields, fields_of, is_selector, list_of, pairs_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.coze.inputs import coze_type, operad_type
from operad.operators.nodes.values import Conversation, ConversationParams
from operad.operators.variables import Selector, Text, VariableType

CONVERSATION = Conversation.type

_SOURCES = {"global_variable_user": "user", "global_variable_app": "app", "global_variable_system": "system"}
"""First words of the names that variables of the user, the app and the system have here, by Coze's sources."""


GLOBAL_IN_TEXT = re.compile(r'(?P<source>global_variable_\w+)\s*\["(?P<name>[^"{}]+)"\]')
"""Global variable in a text of an http node."""


def global_input(source: str, *path: str) -> Fields:
    """Return an input that takes a global variable."""
    return {"type": "string", "value": {"type": "ref", "content": {"source": source, "path": list(path)}}}


def identity(given: Any) -> tuple[str, str]:
    """Return the identity of a constant of an input, and the path of the part of it that the input takes.

    Raises:
        ValueError: The input takes another kind of value.
    """
    value = given["value"]
    fields = fields_of(value)
    if names := global_name(given):
        return json.dumps(names[:2]), "".join(f".{part}" for part in names[2:])
    kind = operad_type({"type": "string", **given})
    if fields.get("type") in ("ref", "object_ref") or (fields.get("type") != "literal" and fields and kind != "object"):
        raise ValueError(given)
    return json.dumps([kind, literal_value(given)], sort_keys=True), ""


def global_name(given: Any) -> tuple[str, ...]:
    """Return the first word and the path of a global variable that an input takes; empty for other inputs."""
    content = fields_of(fields_of(given.get("value")).get("content"))
    path = [str(each) for each in list_of(content.get("path"))]
    source = _SOURCES.get(str(content.get("source")), "")
    return (source, *path) if source and path else ()


def literal_value(given: Any) -> Any:
    """Return the value of a literal; numbers, booleans, lists and objects may be written as texts.

    Raises:
        ValueError: The text does not have the type.
    """
    value: Any = given["value"]
    if isinstance(value, dict) and cast("Fields", value).get("type") == "literal":
        value = cast("Fields", value).get("content")
    if not isinstance(value, str) or VariableType(operad_type({"type": "string", **given})) in _WRITTEN:
        return cast("Any", value)
    return json.loads(value)


_WRITTEN = (VariableType.STRING, VariableType.FILE)
"""Types whose values are texts."""


def constants_in(nodes: Iterable[Fields]) -> dict[str, Fields]:
    """Return the inputs of nodes that take constants, by the names of the variables that they become."""
    names: dict[str, str] = {}
    found: dict[str, Fields] = {}
    for name, given in _inputs_of([node.get("parameters") for node in nodes]):
        try:
            operad_type(given)
            key, part = identity(given)
            names_of_it = global_name(given)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if key not in names:
            prefix = "value_" if name.partition("_")[0] in _SOURCES.values() else ""
            first = "_".join(names_of_it[:2]) or prefix + name.replace(".", "_")
            unique, number = first, 2
            while unique in found:
                unique, number = f"{first}_{number}", number + 1
            names[key] = unique
            value = fields_of(given["value"])
            found[unique] = {
                "type": "object", "value": {**value, "content": {**value["content"], "path": [names_of_it[1]]}},
            } if part else dict(given)  # fmt: skip
    return found


def _inputs_of(value: Any) -> Iterator[tuple[str, Fields]]:
    """Yield the values of all inputs with their names, at any depth."""
    waiting: list[Any] = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            fields = cast("Fields", inner)
            for key in ("input", "left", "right"):
                if isinstance(given := fields.get(key), dict) and "value" in given:
                    yield str(fields.get("name") or "value"), {"type": "string", **cast("Fields", given)}
            waiting += reversed(list(fields.values()))
        elif isinstance(inner, str):
            for found in GLOBAL_IN_TEXT.finditer(inner):
                yield found["name"], global_input(found["source"], found["name"])
        elif isinstance(inner, list):
            waiting += reversed(cast("list[Any]", inner))


def conversation_of(constants: Mapping[str, Fields], specs: Sequence[NodeSpec]) -> list[NodeSpec]:
    """Return the node with the constants that nodes read or assign; no node if there are none."""
    used = {each.variable.partition(".")[0] for spec in specs for each in _selectors(spec.params)}
    variables = [
        [name, operad_type(given), _unknown(given) if global_name(given) else literal_value(given)]
        for name, given in constants.items()
        if name in used
    ]
    return [NodeSpec(CONVERSATION, CONVERSATION, {"variables": variables})] if variables else []


def _unknown(given: Any) -> str | None:
    """Return the first value of a global variable, which is not in the file."""
    return "" if operad_type(given) == VariableType.STRING else None


def _selectors(params: Any) -> Iterator[Selector]:
    """Yield the variables of the conversation that parameters name."""
    waiting: list[Any] = [params]
    while waiting:
        inner = waiting.pop()
        match inner:
            case [str() as variable, "conversation"]:
                yield Selector(variable, CONVERSATION)
            case str():
                yield from (each for each in Text(inner).selectors if each.node == CONVERSATION)
            case dict() | list():
                waiting += cast("list[Any]", list(inner.values()) if isinstance(inner, dict) else inner)
            case _:
                pass


def assigned_in(specs: Sequence[NodeSpec]) -> set[str]:
    """Return the names of the variables of the conversation that nodes assign."""
    assigners = [fields_of(spec.params).get("assignments") for spec in specs if spec.type == "assigner"]
    targets = [each[0] for assignments in assigners for each in pairs_of(assignments, 3) if is_selector(each[0])]
    return {variable for variable, node in targets if node == CONVERSATION}


def constants_of(specs: Sequence[NodeSpec]) -> dict[str, Fields]:
    """Return Coze's inputs for the variables of the conversation, by name; empty if one of them has no form at Coze."""
    try:
        params = [spec.params for spec in specs if spec.id == spec.type == CONVERSATION]
        variables = [each for one in params for each in ConversationParams.model_validate(one).variables]
    except ValueError:
        return {}
    assigned = assigned_in(specs)
    made: dict[str, Fields] = {}
    for name, kind, value in variables:
        word, _, rest = name.partition("_")
        source = next((source for source, each in _SOURCES.items() if each == word and rest), "")
        is_global = bool(source)
        if not is_global and (value is None or name in assigned):
            return {}
        content = {"source": source, "path": [rest], "blockID": "", "name": ""}
        literal = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        made[name] = {**coze_type(kind), "value": {"type": "ref", "content": content} if is_global else literal}
    return made
