"""Translation of a node between Operad and Coze: its type, its parameters and the names of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from operad.flows.formats.shapes import Fields, fields_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.coze.names import Names
from operad.integrations.coze.nodes import MAPPED
from operad.integrations.coze.nodes.containers import STARTS
from operad.integrations.coze.nodes.forms import FORMS, Form
from operad.integrations.coze.nodes.models import DEFAULT_CLASS
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
    for form in _forms(coze_type):
        try:
            return form.type, form.read(given, names)
        except MISREAD:
            continue
    try:
        if coze_type == "plugin" and (plugin := plugin_of(given)):
            return plugin.type, read_plugin(plugin, given, names)
        if coze_type == "plugin" and (kept_node := read_own(given)):
            return kept_node
    except MISREAD:
        pass
    return f"{UNREAD}{coze_type}" if coze_type in NODE_TYPES else coze_type, given if given is not None else {}


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
    if kind:
        return Translated(kind.type, kind.icon, kind.write(params, names))
    return Translated("plugin", _PLUGIN_ICON, write_plugin(plugin, params, names)) if plugin else None


def output_names(ours: str, params: Any, given: Any) -> Mapping[str, str]:
    """Return Coze's names of a node's outputs by Operad's, only those that differ.

    Args:
        ours: Operad's type of the node.
        params: Operad's parameters of the node.
        given: Coze's parameters of the node, if it was read from an archive.
    """
    if ours in ("llm", "variable-aggregator"):
        try:
            (name,) = given["node_outputs"] if ours == "llm" else [group["name"] for group in given["mergeGroups"]]
        except MISREAD:
            return {}
        return {"text" if ours == "llm" else "output": str(name)}
    if ours == "iteration":
        try:
            (item,), (output,) = given["node_inputs"], given["node_outputs"]
            pairs = (("item", str(item["name"])), ("output", str(output)))
            return {operad_name: coze_name for operad_name, coze_name in pairs if operad_name != coze_name}
        except MISREAD:
            return {}
    if plugin := plugin_for(ours, fields_of(params)):
        return dict([plugin.output])
    return _OUTPUTS.get(ours, {})


def is_readable_container(node: Mapping[str, Any]) -> bool:
    """Return True if a node of Coze is a container whose nodes Operad reads."""
    return "nodes" in node and read_node(node, NO_NAMES)[0] in STARTS
