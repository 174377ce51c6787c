"""Notes: data that Coze has no place for, behind ``operad`` in descriptions, and data of archives, in ``extra``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from operad.flows.formats.coze.names import Names, normal_text
from operad.flows.formats.coze.nodes.models import DEFAULT_CLASS
from operad.flows.formats.coze.translation import Translated, read_node, with_default_class
from operad.flows.formats.shapes import Fields, fields_of, list_of
from operad.flows.node_graph import NodeSpec

NAME = "coze"
"""The name of the format, and the key in ``extra`` of what an archive said."""

_MARK = "operad "


# In descriptions


def write_note(note: Mapping[str, Any]) -> str:
    """Return the kept data as the line of a description; empty for none."""
    return _MARK + json.dumps(note, ensure_ascii=False, default=str) if note else ""


def read_note(node: Mapping[str, Any]) -> Fields:
    """Return the data in the description of a node."""
    for line in str(node.get("description", "")).split("\n"):
        if line.startswith(_MARK + "{"):
            try:
                return fields_of(json.loads(line.removeprefix(_MARK)))
            except (ValueError, RecursionError):
                return {}
    return {}


def with_note(description: Any, note: Mapping[str, Any]) -> str:
    """A description with what is kept, in the place of what was."""
    return "\n".join(filter(None, [without_note(description), write_note(note)]))


def without_note(description: Any) -> str:
    """A description without what is kept in it."""
    lines = str(description).split("\n")
    return "\n".join(line for line in lines if not line.startswith(_MARK + "{"))


def to_keep(spec: NodeSpec, written: Translated, names: Names) -> Fields:
    """Return the type and parameters of a node that do not come back from its written form."""
    back_type, back = read_node({"id": "", "type": written.type, "parameters": written.parameters}, names)
    mine, back = _normal(spec.type, spec.params), _normal(spec.type, back)
    if back_type != spec.type:
        return {"type": spec.type, "params": mine}
    if not (isinstance(mine, dict) and isinstance(back, dict)):
        return {} if mine == back else {"params": mine}
    mine, back = cast("Fields", mine), cast("Fields", back)
    kept: Fields = {}
    if differing := {key: value for key, value in mine.items() if key not in back or back[key] != value}:
        kept["params"] = differing
    if without := [key for key in back if key not in mine]:
        kept["without"] = without
    return kept


def restored(spec: NodeSpec, note: Mapping[str, Any]) -> NodeSpec:
    """A node with what its description keeps."""
    params, kept = spec.params, note.get("params", {})
    if isinstance(params, dict) and isinstance(kept, dict):
        without: Any = note.get("without", [])
        params = {**cast("Fields", params), **cast("Fields", kept)}
        params = {key: value for key, value in params.items() if key not in without}
    elif "params" in note:
        params = kept
    return replace(spec, type=str(note.get("type", spec.type)), params=params)


def _normal(node_type: str, params: Any) -> Any:
    """Parameters with references in texts, and the logic of cases, as they come back."""
    made = _normal_texts(params)
    for case in list_of(fields_of(made).get("cases")) if node_type == "if-else" else []:
        if isinstance(case, list) and len(case := cast("list[Any]", case)) == 2 and case[0] in ("and", None):
            case[0] = "and" if len(list_of(case[1])) > 1 else None
    return made


def _normal_texts(value: Any) -> Any:
    if isinstance(value, str):
        return normal_text(value)
    if isinstance(value, Mapping):
        return {key: _normal_texts(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_normal_texts(item) for item in cast("Sequence[Any]", value)]
    return value


# In extra


def said_of(spec: NodeSpec) -> Fields:
    """Return the data of an archive on a node beyond those that we write."""
    said = fields_of(spec.extra.get(NAME))
    return said if isinstance(said.get("type"), str) else {}


def still_holds(said: Mapping[str, Any], spec: NodeSpec, names: Names) -> bool:
    """Return whether a node is still as its archive has it."""
    kind, params = read_node(said, names)
    if kind == "question-classifier" and list_of(fields_of(spec.params).get("classes"))[-1:] == [DEFAULT_CLASS]:
        params = with_default_class(params)
    return (kind, params) == (spec.type, spec.params)


def beneath(kept: Mapping[str, Any], made: Any) -> Any:
    """Return the written node over the data of its archive."""
    if not kept or not isinstance(made, dict):
        return made
    fields = cast("Fields", made)
    over = {key: beneath(fields_of(kept.get(key)), value) for key, value in fields.items()}
    if isinstance(kept.get("llmParam"), list) and isinstance(fields.get("llmParam"), list):
        ours = {each["name"] for each in fields["llmParam"]}
        others = [each for each in kept["llmParam"] if fields_of(each).get("name") not in ours]
        over["llmParam"] = [*fields["llmParam"], *others]
    return {**kept, **over}
