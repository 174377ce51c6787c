"""Differences between an archive's behaviour here and at Coze."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operad.flows.formats.fields import Declared, Owner, Remark, Use, remarks_on
from operad.flows.formats.shapes import Fields, each_of, fields_of, list_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.coze.fields import ANY_NODE, AROUND, NODES, PLUGIN
from operad.integrations.coze.nodes.plugins import plugin_of
from operad.integrations.coze.notes import archived_data
from operad.integrations.coze.translation import MISREAD
from operad.operators.nodes import NODE_TYPES


def remarks_of(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on a workflow that was read from an archive of Coze; none for any other."""
    for spec in graph.nodes:
        if (archived := archived_data(spec)) and spec.type in NODE_TYPES:
            yield from _node_remarks(spec, archived)


def _node_remarks(spec: NodeSpec, archived: Fields) -> Iterator[Remark]:
    title = archived.get("title")
    owner = Owner(spec.id, title if isinstance(title, str) else "")
    yield from remarks_on(archived, AROUND, owner, Use.NOTE)
    given = fields_of(archived.get("parameters"))
    if spec.type in NODES and archived.get("type") != "plugin":
        yield from remarks_on(_with_mappings(given, "llmParam", "fcParam"), ANY_NODE | NODES[spec.type], owner)
    elif archived.get("type") == "plugin":
        yield from remarks_on(given, ANY_NODE | PLUGIN, owner)
        yield from _input_remarks(given, owner)


def _input_remarks(given: Fields, owner: Owner) -> Iterator[Remark]:
    """Yield the remarks on inputs of a plugin that its node type in Operad does not have."""
    try:
        plugin = plugin_of(given)
    except MISREAD:
        return
    if plugin is None:
        return
    inputs = {str(given_input.get("name")): given_input for given_input in each_of(given.get("node_inputs"))}
    known = {*plugin.inputs.values(), *plugin.fixed}
    for name, given_input in inputs.items():
        used = any("{{" + name in str(other) for key, other in inputs.items() if key != name)
        if name not in known and not used and _value(given_input.get("input")) not in (None, ""):
            yield owner.remark(f"node_inputs.{name}", Declared(Use.LOSSY, "is not passed on"))


def _with_mappings(given: Fields, *lists: str) -> Fields:
    """Return parameters with the lists of named values under these keys as mappings, and literals as plain values."""
    found = dict(given)
    for key in lists:
        if isinstance(given.get(key), list):
            found[key] = {str(each.get("name")): _value(each.get("input")) for each in each_of(list_of(given[key]))}
        else:
            found[key] = {name: _value(each) for name, each in fields_of(given.get(key)).items()}
        if key not in given:
            del found[key]
    for key in ("batchSize", "concurrentSize", "loopCount"):
        if key in given:
            found[key] = _value(given[key])
    return found


def _value(given: Any) -> Any:
    """Return the plain value of a literal."""
    fields = fields_of(given)
    value = fields.get("value", given)
    return fields_of(value).get("content", value)
