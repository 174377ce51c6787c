"""Translation of a node between Operad and Coze: its type, its parameters and the names of its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from operad.flows.formats.shapes import Fields, each_of, fields_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes import MAPPED
from operad.integrations.coze.nodes.containers import ENDS_EARLY, STARTS
from operad.integrations.coze.nodes.forms import FORMS, Form
from operad.integrations.coze.nodes.models import DEFAULT_CLASS, THOUGHTS
from operad.integrations.coze.nodes.plugins import (
    plugin_for,
    plugin_of,
    read_own,
    read_plugin,
    write_own,
    write_plugin,
)
from operad.operators.nodes import NODE_TYPES

MISREAD = (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration, RecursionError)
"""Errors that reading parameters raises if they have another form than Operad writes."""

NO_NAMES = Names({}, {})
"""No names, for checks whether a node can be read or written at all."""

UNREAD = "coze-"
"""Prefix of the type of a node whose parameters cannot be read, if Operad has a type of the same name as Coze."""

_PLUGIN_ICON = "icon-Plugin-v2.jpg"

_OUTPUTS: Mapping[str, Mapping[str, str]] = {
    "http-request": {"status_code": "statusCode"},
    "request": {"status_code": "statusCode"},
    "question-classifier": {"class_name": "classificationId"},
    "text2image": {"files": "data"},
    "knowledge-retrieval": {"result": "outputList"},
}


class Translated(NamedTuple):
    """Node in Coze's form.

    Attributes:
        type: Coze's type.
        icon: The file name of the icon.
        parameters: Coze's parameters.
    """

    type: str
    icon: str
    parameters: Fields


def read_node(node: Mapping[str, Any], names: Names) -> tuple[str, Any]:
    """Return Operad's type and parameters of a node of Coze; Coze's own if they have a form that Operad does not read."""
    coze_type, given = str(node["type"]), node.get("parameters")
    if coze_type == "loop" and ends_early(node):
        given = {**fields_of(given), ENDS_EARLY: True}
    try:
        if coze_type == "plugin" and (plugin := plugin_of(given)):
            return plugin.type, read_plugin(plugin, given, names)
        if coze_type == "plugin" and (kept_node := read_own(given)):
            return kept_node
    except MISREAD:
        pass
    for form in _forms(coze_type):
        try:
            params = form.read(given, names)
            failure = _failure(given, output_names(form.type, params, given))
            return form.type, {**params, "failure": failure} if failure else params
        except MISREAD:
            continue
    return f"{UNREAD}{coze_type}" if coze_type in NODE_TYPES else coze_type, given if given is not None else {}


def ends_early(node: Mapping[str, Any]) -> bool:
    """Return True if a break stands in a loop of Coze, or stood in it when it was read."""
    return ENDS_EARLY in node or any(each.get("type") == "break" for each in each_of(node.get("nodes")))


def _failure(given: Any, names: Mapping[str, str]) -> Fields:
    """Return what happens after an error by the parameter `settingOnError`; empty for the end of the run."""
    setting = fields_of(given.get("settingOnError"))
    retries = setting.get("retryTimes")
    made: Fields = {"retries": min(int(retries), 100), "wait": 0} if retries else {}
    kind = (setting.get("processType") or 2) if setting.get("switch") is True else 1
    if kind == 3:
        return {**made, "then": "branch"}
    if kind == 2:
        theirs = fields_of(json.loads(setting.get("dataOnErr") or "{}"))
        values: Fields = {}
        for ours, name in names.items():
            if name in theirs:
                first, _, part = ours.partition(".")
                value = theirs.pop(name)
                values[first] = {**values.get(first, {}), part: value} if part else value
        return {**made, "then": "values", "values": values | theirs}
    return {**made, "then": "end"} if made else {}


def _forms(coze_type: str) -> Iterator[Form]:
    """Yield the forms in which a type of Coze is read."""
    yield from (Form(operad_type, each.read) for operad_type, each in MAPPED.items() if each.type == coze_type)
    yield from FORMS.get(coze_type, ())


def with_default_class(params: Fields) -> Fields:
    """Return the parameters of a question-classifier with a last class for Coze's port ``default``."""
    return {**params, "classes": [*params["classes"], DEFAULT_CLASS]}


def write_node(spec: NodeSpec, names: Names) -> Translated:
    """Return a node in Coze's form; a node of a type that Coze lacks becomes a plugin that Coze cannot run."""
    try:
        made = translate(spec, names)
    except MISREAD:
        made = None
    return made or Translated("plugin", _PLUGIN_ICON, write_own(spec.type, spec.params))


def translate(spec: NodeSpec, names: Names) -> Translated | None:
    """Return a node in Coze's form; None if Coze has no type for it."""
    kind = MAPPED.get(spec.type)
    plugin = plugin_for(spec.type, fields_of(spec.params))
    if spec.type not in NODE_TYPES or not (kind or plugin) or (spec.type in ("start", "end") and spec.parent):
        return None
    try:
        params = NODE_TYPES[spec.type].params_type.model_validate(spec.params)
    except ValidationError:
        return None
    written = kind.write(params, names) if kind else write_plugin(plugin, params, names) if plugin else {}
    written = {**written, **_setting_on_error(spec, written)}
    return Translated(kind.type, kind.icon, written) if kind else Translated("plugin", _PLUGIN_ICON, written)


def _setting_on_error(spec: NodeSpec, written: Fields) -> Fields:
    """Return what happens after an error in Coze's form; the inverse of `_failure`."""
    failure = fields_of(fields_of(spec.params).get("failure"))
    values = dict(fields_of(failure.get("values")))
    data: Fields = {}
    for ours, name in output_names(spec.type, spec.params, written).items():
        first, _, part = ours.partition(".")
        if first in values and (not part or part in fields_of(values[first])):
            data[name] = fields_of(values[first])[part] if part else values.pop(first)
    kind = {"values": 2, "branch": 3}.get(str(failure.get("then")))
    retries = {"retryTimes": failure["retries"]} if failure.get("retries") else {}
    text = json.dumps({**data, **values}, ensure_ascii=False)
    made: Fields = {**({"processType": kind, "switch": True, "dataOnErr": text} if kind else {}), **retries}
    return {"settingOnError": made} if made else {}


def output_names(ours: str, params: Any, given: Any) -> Mapping[str, str]:
    """Return Coze's names of a node's outputs by Operad's, only those that differ.

    Args:
        ours: Operad's type of the node.
        params: Operad's parameters of the node.
        given: Coze's parameters of the node, if it was read from an archive.
    """
    fields = fields_of(params)
    try:
        names = _output_names(ours, fields, given)
    except MISREAD:
        names = {}
    return {**names, **(_ERROR_OUTPUTS if fields_of(fields.get("failure")).get("then") in ("branch", "values") else {})}


_ERROR_OUTPUTS = {"error_message": "errorBody.errorMessage", "error_type": "errorBody.errorCode"}


def _output_names(ours: str, params: Fields, given: Any) -> Mapping[str, str]:
    if plugin := plugin_for(ours, params):
        return dict([plugin.output])
    match ours:
        case "llm" if "output_schema" in params:
            return {f"structured_output.{name}": str(name) for name in given["node_outputs"] if name != THOUGHTS}
        case "llm":
            (name,) = [each for each in given["node_outputs"] if each != THOUGHTS or len(given["node_outputs"]) == 1]
            return {"text": str(name)}
        case "tool":
            return {f"json.{name}": str(name) for name in given["node_outputs"]}
        case "human-input" if "actions" in params and not params.get("inputs"):
            return {"action": "optionContent"}
        case "variable-aggregator" if "groups" in params:
            return {f"{group['name']}.output": str(group["name"]) for group in given["mergeGroups"]}
        case "variable-aggregator":
            (group,) = given["mergeGroups"]
            return {"output": str(group["name"])}
        case "iteration":
            (item,), (output,) = given["node_inputs"], given["node_outputs"]
            pairs = (("item", str(item["name"])), ("output", str(output)))
            return {operad_name: coze_name for operad_name, coze_name in pairs if operad_name != coze_name}
        case _:
            return _OUTPUTS.get(ours, {})


def is_readable_container(node: Mapping[str, Any]) -> bool:
    """Return True if a node of Coze is a container whose nodes Operad reads."""
    return "nodes" in node and read_node(node, NO_NAMES)[0] in STARTS
