"""Data that Coze has no place for, kept in descriptions, and data of archives, kept in ``extra``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from operad.flows.formats.overlay import merged
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.coze.names import Names, normal_text
from operad.integrations.coze.nodes.forms import read_text
from operad.integrations.coze.nodes.models import DEFAULT_CLASS
from operad.integrations.coze.translation import (
    UNREAD,
    Translated,
    read_node,
    translate,
    with_default_class,
    write_node,
)

NAME = "coze"
"""Name of the format, and key of an archive's data in ``extra``."""

_MARK = "operad "


# In descriptions


def write_note(note: Mapping[str, Any]) -> str:
    """Return the line of a description that keeps this data; empty for no data."""
    return _MARK + json.dumps(note, ensure_ascii=False, default=str) if note else ""


def read_note(node: Mapping[str, Any]) -> Fields:
    """Return the data that the description of a node keeps."""
    for line in str(node.get("description", "")).split("\n"):
        if line.startswith(_MARK + "{"):
            try:
                return fields_of(json.loads(line.removeprefix(_MARK)))
            except (ValueError, RecursionError):
                return {}
    return {}


def with_note(description: Any, note: Mapping[str, Any]) -> str:
    """Return a description that keeps this data in the place of older data."""
    return "\n".join(filter(None, [without_note(description), write_note(note)]))


def without_note(description: Any) -> str:
    """Return a description without the line that keeps data."""
    lines = str(description).split("\n")
    return "\n".join(line for line in lines if not line.startswith(_MARK + "{"))


def data_to_keep(spec: NodeSpec, written: Translated, names: Names) -> Fields:
    """Return the type and the parameters of a node that reading its written form would not give back."""
    type_read_back, params_read_back = read_node(
        {"id": "", "type": written.type, "parameters": written.parameters}, names
    )
    params, params_read_back = _normal_params(spec.type, spec.params), _normal_params(spec.type, params_read_back)
    if type_read_back != spec.type:
        return {"type": spec.type, "params": params}
    if not (isinstance(params, dict) and isinstance(params_read_back, dict)):
        return {} if params == params_read_back else {"params": params}
    params, params_read_back = cast("Fields", params), cast("Fields", params_read_back)
    kept: Fields = {}
    if differing := {
        key: value for key, value in params.items() if key not in params_read_back or params_read_back[key] != value
    }:
        kept["params"] = differing
    if without := [key for key in params_read_back if key not in params]:
        kept["without"] = without
    return kept


def restored(spec: NodeSpec, note: Mapping[str, Any]) -> NodeSpec:
    """Return a node with the type and the parameters that its description keeps."""
    params, kept = spec.params, note.get("params", {})
    if isinstance(params, dict) and isinstance(kept, dict):
        without: Any = note.get("without", [])
        params = {**cast("Fields", params), **cast("Fields", kept)}
        params = {key: value for key, value in params.items() if key not in without}
    elif "params" in note:
        params = kept
    return replace(spec, type=str(note.get("type", spec.type)), params=params)


def _normal_params(node_type: str, params: Any) -> Any:
    """Return parameters with references and the logic of cases in the form that reading gives."""
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


def archived_data(spec: NodeSpec) -> Fields:
    """Return the data that a node has from its archive; empty if Operad writes the same data by itself."""
    archived = fields_of(spec.extra.get(NAME))
    return archived if isinstance(archived.get("type"), str) else {}


def is_unchanged(said: Mapping[str, Any], spec: NodeSpec, names: Names) -> bool:
    """Return True if a node has not changed since its archive was read; `said` is the data from the archive."""
    kind, params = read_node(said, names)
    if kind == "question-classifier" and list_of(fields_of(spec.params).get("classes"))[-1:] == [DEFAULT_CLASS]:
        params = with_default_class(params)
    return (kind, params) == (spec.type, spec.params)


def changed_params(archived: Fields, spec: NodeSpec, written: Translated, names: Names) -> Any:
    """Return the parameters of a changed node in Coze's form: those of its archive, with the changes, as far as they fit.

    Args:
        archived: The data of the node from its archive.
        spec: The node.
        written: The node as Operad writes it by itself.
        names: The names of nodes and outputs.
    """
    kept = fields_of(archived.get("parameters")) if archived.get("type") == written.type else {}
    fresh = merge_params(kept, written.parameters)
    kind, params = read_node(archived, names) if kept else ("", dict[str, Any]())
    was = write_node(replace(spec, params=params), names)
    if (kind, was.type) != (spec.type, written.type) or not isinstance(fresh, dict):
        return fresh
    before, after = fields_of(was.parameters), fields_of(written.parameters)
    more = {"node_inputs": inputs} if (inputs := _united(kept.get("node_inputs"), after.get("node_inputs"))) else {}
    wanted = read_node({"id": "", "type": written.type, "parameters": fresh}, names)
    for given in (kept, {**kept, **more}):  # a changed text may name variables as Operad does
        made = merged(given, before, after)
        if read_node({"id": "", "type": written.type, "parameters": made}, names) == wanted:
            return made
    return cast("Any", fresh)


def kept_node(archived: Fields, spec: NodeSpec, names: Names) -> Fields:
    """Return the data from the archive of a node of which at most texts were changed; empty for any other node.

    A changed text keeps the names that the archive has for its variables.
    """
    if not archived or is_unchanged(archived, spec, names):
        return archived
    kind, params = read_node(archived, names)
    if spec.type.removeprefix(UNREAD) == archived["type"] and not translate(spec, names):
        return {**archived, "parameters": spec.params}
    changed = dict(_changed_texts(params, spec.params))
    given = fields_of(archived.get("parameters"))
    if kind != spec.type or not changed:
        return {}

    marks = [f"{{{{{each.get('name')}}}}}" for each in each_of(given.get("node_inputs"))]
    own = {there: mark for mark in marks if (there := read_text(mark, given, names)) != mark}

    def written(value: Any) -> Any:
        if isinstance(value, str):
            shown = {mark: read_text(mark, given, names) for mark in re.findall(r"\{\{[^{}]*\}\}", value)}
            new = changed.get(_replaced(value, shown))
            return value if new is None else _replaced(new, own | {there: mark for mark, there in shown.items()})
        if isinstance(value, dict):
            return {key: written(each) for key, each in cast("Fields", value).items()}
        return [written(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value

    made = {**archived, "parameters": written(given)}
    is_it = read_node(made, names) == (spec.type, spec.params)
    return made if is_it and "{{#" not in json.dumps(made["parameters"]) else {}


def _replaced(text: str, by: Mapping[str, str]) -> str:
    """Return a text with all of these parts replaced at once."""
    parts = sorted(by, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, parts)), lambda found: by[found[0]], text) if parts else text


def _changed_texts(was: Any, now: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts that differ between two values of the same form, line by line where both have as many."""
    if isinstance(was, str) and isinstance(now, str) and was != now:
        yield was, now
        lines = was.split("\n"), now.split("\n")
        if 1 < len(lines[0]) == len(lines[1]):
            yield from _changed_texts(*lines)
        pairs = [each.partition(": ")[::2] for each in (was, now)]
        if pairs[0][1] and pairs[0][0] == pairs[1][0]:
            yield pairs[0][1], pairs[1][1]
    elif isinstance(was, list | tuple) and isinstance(now, list | tuple):
        for each, other in zip(cast("list[Any]", was), cast("list[Any]", now), strict=False):
            yield from _changed_texts(each, other)
    elif isinstance(was, dict) and isinstance(now, dict):
        for key, each in cast("Fields", was).items():
            yield from _changed_texts(each, cast("Fields", now).get(key))


def _united(kept: Any, made: Any) -> list[Any]:
    names = {fields_of(each).get("name") for each in list_of(kept)}
    return [*list_of(kept), *(each for each in list_of(made) if fields_of(each).get("name") not in names)]


def merge_params(kept: Mapping[str, Any], made: Any) -> Any:
    """Return the parameters `made` by Operad, and the other fields that the archive has (`kept`)."""
    if not kept or not isinstance(made, dict):
        return made
    fields = cast("Fields", made)
    both = {key: merge_params(fields_of(kept.get(key)), value) for key, value in fields.items()}
    if isinstance(kept.get("llmParam"), list) and isinstance(fields.get("llmParam"), list):
        made_names = {each["name"] for each in fields["llmParam"]}
        others = [each for each in kept["llmParam"] if fields_of(each).get("name") not in made_names]
        both["llmParam"] = [*fields["llmParam"], *others]
    return {**kept, **both}
