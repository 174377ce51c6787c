"""Names of a node's ``widgets_values``.

The page writes them as a list, in the order in which it shows them. Names come from the node itself where it tells
them, or else from its class. A second value follows every seed: how it changes after a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from operad.flows.formats.comfyui.definitions import COMBO, InputDefinition, NodeDefinition
from operad.flows.formats.comfyui.written import node_of, slots
from operad.flows.node_graph import NodeSpec
from operad.operators.comfyui.reading import list_of, mapping_of

_CONTROL = {"fixed", "increment", "decrement", "randomize", "increment-wrap"}
_SEEDS = {"seed", "noise_seed"}
_CLIENT_ONLY = {"control_after_generate", "control_filter_list", *_CONTROL}
_BUTTONS = {"upload3dmodel", "uploadExtraResources", "clear", "refresh"}
"""Value that old pages wrote in the place of a button: its label."""


def places(spec: NodeSpec, definition: NodeDefinition | None = None) -> Mapping[str, int | str]:
    """Return the place of each named value in ``widgets_values``: an index; a key, where it is an object."""
    values = node_of(spec).get("widgets_values")
    if isinstance(values, dict):
        return {name: name for name in mapping_of(values)}
    listed = list_of(values)
    named = mapping_of(node_of(spec).get("widgets_values_named"))
    if list(named.values()) == list(listed):
        return {name: place for place, name in enumerate(named) if name not in _CLIENT_ONLY}
    told = [InputDefinition(name, COMBO, control=name in _SEEDS) for name in _told(spec)]
    found, end = _walk(told, listed)
    if told and end == len(listed) and len(found) == len(told):
        return found
    if definition is None:
        return {}
    found, end = _walk(definition.widgets, listed)
    if end < len(listed) and any(each.upload for each in definition.inputs.values()):
        found["upload"] = end
    return found


def values_of(spec: NodeSpec, definition: NodeDefinition | None = None) -> dict[str, Any]:
    """The values of a node by name: those of its parameters, then what else the page wrote and can be named."""
    written = node_of(spec).get("widgets_values")
    values: dict[str, Any] = {}
    for name, place in places(spec, definition).items():
        values[name] = mapping_of(written)[place] if isinstance(place, str) else list_of(written)[place]
    named = mapping_of(node_of(spec).get("widgets_values_named"))
    values |= {name: value for name, value in named.items() if name not in _CLIENT_ONLY}
    if values.get("upload", "") is None:
        del values["upload"]
    return {**values, **mapping_of(spec.params)}


def with_defaults(values: Mapping[str, Any], definition: NodeDefinition | None) -> dict[str, Any]:
    """Return the values in the order of the class, with the defaults of required ones that are not set."""
    if definition is None:
        return dict(values)
    found = {
        each.name: values.get(each.name, each.initial)
        for each in definition.widgets
        if each.name in values or (each.required and each.initial is not None)
    }
    return {**found, **{name: value for name, value in values.items() if name not in found}}


def follows_control(definition: InputDefinition | None, name: str) -> bool:
    """Return whether the page shows a control of the value's change after each run behind that widget."""
    return definition.control if definition is not None else name in _SEEDS


def _told(spec: NodeSpec) -> Iterator[str]:
    for each in slots(spec, "inputs"):
        name = mapping_of(each.get("widget")).get("name")
        if isinstance(name, str):
            yield name


def _walk(widgets: Iterable[InputDefinition], values: Any) -> tuple[dict[str, int | str], int]:
    """The places of the widgets, in their order, and where the values that they take end."""
    found: dict[str, int | str] = {}
    place = 0
    for widget in widgets:
        while place < len(values) and _is_button(values[place], widget):
            place += 1
        if place >= len(values):
            break
        found[widget.name] = place
        place += 1
        if widget.control and place < len(values) and _is_control(values[place]):
            place += 1
    return found, place


def _is_control(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value in _CONTROL)


def _is_button(value: Any, widget: InputDefinition) -> bool:
    return isinstance(value, str) and value in _BUTTONS and widget.type not in ("STRING", COMBO)
