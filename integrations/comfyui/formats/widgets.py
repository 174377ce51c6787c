"""Names of the values in a node's ``widgets_values``.

The page writes the values as a list, in the order in which it shows the widgets. The names come from the node, if it
has them, or else from its class. Every seed is followed by a second value, which controls how the seed changes after a
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from operad.flows.formats.shapes import fields_of, list_of
from operad.flows.node_graph import NodeSpec
from operad.integrations.comfyui.formats.definitions import COMBO, InputDefinition, NodeDefinition
from operad.integrations.comfyui.formats.written import VIRTUAL, is_virtual, node_of, slots

_CONTROL_VALUES = {"fixed", "increment", "decrement", "randomize", "increment-wrap"}
_SEED_NAMES = {"seed", "noise_seed"}
_CLIENT_ONLY = {"control_after_generate", "control_filter_list", *_CONTROL_VALUES}
_BUTTON_LABELS = {"upload3dmodel", "uploadExtraResources", "clear", "refresh"}
"""Labels of buttons, which old versions of the page wrote into the list of values."""


def places(spec: NodeSpec, definition: NodeDefinition | None = None) -> Mapping[str, int | str]:
    """Return the index of each named value in ``widgets_values``, or its key if that is an object; empty if unknown."""
    values = node_of(spec).get("widgets_values")
    if isinstance(values, dict):
        return {name: name for name in fields_of(values)}
    value_list = list_of(values)
    if is_virtual(spec):
        return {VIRTUAL[spec.type]: 0} if VIRTUAL[spec.type] and value_list else {}
    named_values = fields_of(node_of(spec).get("widgets_values_named"))
    if list(named_values.values()) == list(value_list):
        return {name: index for index, name in enumerate(named_values) if name not in _CLIENT_ONLY}
    declared = [InputDefinition(name, COMBO, control=name in _SEED_NAMES) for name in _declared_widgets(spec)]
    found, end = _match_widgets(declared, value_list)
    if declared and end == len(value_list) and len(found) == len(declared):
        return found
    if definition is None:
        return {}
    found, end = _match_widgets(definition.widgets, value_list)
    if end < len(value_list) and any(each.upload for each in definition.inputs.values()):
        found["upload"] = end
    return found


def values_of(spec: NodeSpec, definition: NodeDefinition | None = None) -> dict[str, Any]:
    """Return the values of a node by name: those that the page wrote and whose names are known, then its parameters."""
    page_values = node_of(spec).get("widgets_values")
    values: dict[str, Any] = {}
    for name, place in places(spec, definition).items():
        values[name] = fields_of(page_values)[place] if isinstance(place, str) else list_of(page_values)[place]
    named_values = fields_of(node_of(spec).get("widgets_values_named"))
    values |= {name: value for name, value in named_values.items() if name not in _CLIENT_ONLY}
    if values.get("upload", "") is None:
        del values["upload"]
    return {**values, **fields_of(spec.params)}


def with_defaults(values: Mapping[str, Any], definition: NodeDefinition | None) -> dict[str, Any]:
    """Return the values in the order of the class, with defaults for required inputs that are not set."""
    if definition is None:
        return dict(values)
    known = {
        widget.name: values.get(widget.name, widget.initial)
        for widget in definition.widgets
        if widget.name in values or (widget.required and widget.initial is not None)
    }
    return {**known, **{name: value for name, value in values.items() if name not in known}}


def follows_control(definition: InputDefinition | None, name: str) -> bool:
    """Return True if the page shows a control after a widget, which sets how its value changes after a run."""
    return definition.control if definition is not None else name in _SEED_NAMES


def _declared_widgets(spec: NodeSpec) -> Iterator[str]:
    for slot in slots(spec, "inputs"):
        name = fields_of(slot.get("widget")).get("name")
        if isinstance(name, str):
            yield name


def _match_widgets(widgets: Iterable[InputDefinition], values: Any) -> tuple[dict[str, int | str], int]:
    """Return the index of each widget's value, and the number of values that all widgets take."""
    found: dict[str, int | str] = {}
    index = 0
    for widget in widgets:
        while index < len(values) and _is_button(values[index], widget):
            index += 1
        if index >= len(values):
            break
        found[widget.name] = index
        index += 1
        if widget.control and index < len(values) and _is_control(values[index]):
            index += 1
    return found, index


def _is_control(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value in _CONTROL_VALUES)


def _is_button(value: Any, widget: InputDefinition) -> bool:
    return isinstance(value, str) and value in _BUTTON_LABELS and widget.type not in ("STRING", COMBO)
