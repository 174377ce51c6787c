"""Cards of node types for models: parameters, limits, allowed values and an example in drafted form."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from operad.flows.catalogue import NodeType, fields_for_generation
from operad.flows.generation.drafting import drafted
from operad.operators.conditions import OPERATORS
from operad.operators.node import summary
from operad.operators.variables import VariableType

_DECLARED = re.compile(r"\[(\w+), id of [\w ]+\]")
"""Pattern of a variable in declared form, which drafts write as ``id.variable``."""

_NOTATION = re.compile(r"[;.,]? [Vv]ariables as \{\{#id\.variable#\}\}\.?$")
"""Pattern of the notation of variables, which the rules of the prompt state once."""

SHARED = ("failure", "model_name")
"""Advanced parameters of several types, which are described once, after all cards."""


def cards(types: Mapping[str, NodeType], names: Iterable[str], params: Collection[str] = ()) -> str:
    """Return the cards of node types in the given order, each once.

        print(cards(NODE_TYPES, ["llm", "end"]))

    Args:
        types: Node types by name.
        names: Names of the types to show; unknown names are ignored.
        params: Advanced parameters to show, as ``type.parameter``, or ``parameter`` for all types.
    """
    shown = [types[name] for name in dict.fromkeys(names) if name in types]
    return "\n".join([*(brief(node_type, params) for node_type in shown), *_shared_params(shown, params)])


def brief(node_type: NodeType, params: Collection[str] = ()) -> str:
    """Return the card of a node type: summary, parameters (? marks optional ones), outputs, ports and an example.

    Args:
        node_type: The type.
        params: Advanced parameters to show, as ``type.parameter``.
    """
    return "\n".join([f"{node_type.type}: {summary(node_type)}", *(f"  {line}" for line in _lines(node_type, params))])


def _shared_params(shown: Sequence[NodeType], params: Collection[str]) -> Iterator[str]:
    """Yield a line for each parameter of `SHARED` that the shown types have."""
    for name in SHARED:
        types_with_param = [
            node_type
            for node_type in shown
            if name in node_type.params_type.model_fields and {name, f"{node_type.type}.{name}"} & set(params)
        ]
        if types_with_param:
            owners = "every type" if name in params else ", ".join(node_type.type for node_type in types_with_param)
            yield f"{name}?, a parameter of {owners}: {types_with_param[0].params_type.model_fields[name].description}"


def _lines(node_type: NodeType, params: Collection[str]) -> Iterator[str]:
    """Yield the lines of a card after the summary."""
    for line in inspect.cleandoc(node_type.__doc__ or "").partition("\n\n")[2].splitlines():
        yield _DECLARED.sub(r"id.\1", line)
    hints = get_type_hints(node_type.params_type, include_extras=True)
    shown = [name for name in fields_for_generation(node_type, params) if name not in SHARED]
    for name in shown:
        field = node_type.params_type.model_fields[name]
        description = _NOTATION.sub("", field.description or "").strip()
        allowed = _allowed_values(hints[name])
        values = f" One of: {', '.join(allowed)}." if allowed else ""
        yield f"{name}{'' if field.is_required() else '?'}: {description}{values}"
    if node_type.type == "if-else":
        yield _operators_by_type()
    if not node_type.gives.startswith("nothing"):
        yield f"gives {node_type.gives}"
    if node_type.ports_text:
        yield node_type.ports_text
    if node_type.example:
        example = {name: each for name, each in node_type.example.items() if name in shown}
        yield json.dumps(drafted(node_type, example), ensure_ascii=False, separators=(",", ":"))


def _operators_by_type() -> str:
    """Return the operators of conditions, by the type of the variable."""
    grouped: dict[str, list[str]] = {}
    for kind in (VariableType.STRING, VariableType.NUMBER, VariableType.BOOLEAN, VariableType.ARRAY_STRING):
        grouped.setdefault(", ".join(OPERATORS[kind]), []).append(kind.value.partition("[")[0])
    logic = 'logic: null or "and" for all conditions, "or" for one of them; operators: '
    return logic + "; ".join(f"{'/'.join(kinds)}: {listed}" for listed, kinds in grouped.items())


def _allowed_values(annotation: Any) -> list[str]:
    """Return the values of a `Literal` type; empty for other types."""
    if get_origin(annotation) is Annotated:
        return _allowed_values(get_args(annotation)[0])
    return [str(value) for value in get_args(annotation)] if get_origin(annotation) is Literal else []
