"""Node classes of a ComfyUI server, read from its answer at ``/object_info``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operad.flows.formats.json_text import read_json
from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.near_names import Hints

MAX_CLASSES = 50_000
"""Maximum number of classes that are read; servers with hundreds of custom nodes have about 10,000."""

MAX_SAID = 500
"""Maximum number of characters that are read of each text that describes a class."""

COMBO = "COMBO"
"""Type of an input that takes one of several options, and of an output that is written as a list of options."""

_WIDGET_TYPES = {
    "INT",
    "FLOAT",
    "STRING",
    "BOOLEAN",
    COMBO,
    "COLOR",
    "WEBCAM",
    "AUDIO_RECORD",
    "LOAD_3D",
    "LOAD_3D_ANIMATION",
    "COMFY_DYNAMICCOMBO_V3",
}


@dataclass(frozen=True, slots=True)
class InputDefinition:
    """Input of a node class.

    Attributes:
        name: The name.
        type: The type: a name, ``*`` for any type, or several names with commas.
        required: True if the server refuses a node without the input.
        options: The options of a COMBO; empty if the server lists none.
        default: The initial value; None if the server gives none.
        min: The smallest number allowed.
        max: The largest number allowed.
        force_input: True if only a link can fill the input, whatever its type.
        control: True if the page shows a second widget after it, which sets how the value changes after a run.
        upload: True if the page adds an ``upload`` widget for it at the end of the node.
    """

    name: str
    type: str
    required: bool = True
    options: Sequence[Any] = ()
    default: Any = None
    min: float | None = None
    max: float | None = None
    force_input: bool = False
    control: bool = False
    upload: bool = False

    @property
    def is_widget(self) -> bool:
        """True if a value can be set on the node itself."""
        return not self.force_input and not _WIDGET_TYPES.isdisjoint(self.type.split(","))

    @property
    def is_dynamic(self) -> bool:
        """True if inputs named ``name.something`` belong to it."""
        return self.type.startswith("COMFY_")

    @property
    def initial(self) -> Any:
        """Value if none is set; None if there is no default for the type."""
        if self.default is not None:
            return self.default
        if self.type == COMBO:
            return self.options[0] if self.options else None
        return {"INT": 0, "FLOAT": 0, "STRING": "", "BOOLEAN": False}.get(self.type)


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """Node class of a ComfyUI server.

    Attributes:
        inputs: The inputs by name: required ones, then optional ones, each in the order of the page.
        outputs: The types of the outputs.
        names: The names of the outputs.
        output_node: True if the class produces a result of a run, such as one that saves an image.
        description: The description for people: display name, category and purpose.
        category: The place in the page's menu, such as ``latent/transform``.
    """

    inputs: Mapping[str, InputDefinition] = field(default_factory=dict[str, InputDefinition])
    outputs: Sequence[str] = ()
    names: Sequence[str] = ()
    output_node: bool = False
    description: str = ""
    category: str = ""

    @property
    def widgets(self) -> Iterator[InputDefinition]:
        """Inputs that have a value on the node itself, in the order of the page."""
        return (each for each in self.inputs.values() if each.is_widget)

    def input(self, name: str) -> InputDefinition | None:
        """Return the input of a name, or the dynamic input that a name such as ``mode.width`` belongs to, or None."""
        found = self.inputs.get(name)
        if found is None and "." in name:
            outer = self.inputs.get(name.partition(".")[0])
            return outer if outer is not None and outer.is_dynamic else None
        return found


@dataclass(frozen=True, slots=True)
class Definitions:
    """Node classes of a ComfyUI server.

    Attributes:
        classes: The classes by name.
        issues: The entries of the server's answer that could not be read and were left out.
    """

    classes: Mapping[str, NodeDefinition] = field(default_factory=dict[str, NodeDefinition])
    issues: Sequence[Issue] = ()
    _near: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False, compare=False)

    @classmethod
    def of(cls, data: Any) -> Definitions:
        """Return the classes of a server's parsed answer at ``/object_info``, without broken entries."""
        if not isinstance(data, dict):
            return cls(issues=(Issue("format", "must be an object of classes, as of /object_info"),))
        issues: list[Issue] = []
        classes: dict[str, NodeDefinition] = {}
        for name, entry in list(fields_of(data).items())[:MAX_CLASSES]:
            if isinstance(fields_of(entry).get("input"), dict):
                classes[name] = _node_definition(fields_of(entry), name, issues)
            else:
                issues.append(Issue("format", 'must be an object with "input"', name))
        if len(fields_of(data)) > MAX_CLASSES:
            issues.append(Issue("size", f"only the first {MAX_CLASSES:,} classes were read"))
        return cls(classes, tuple(issues))

    def __bool__(self) -> bool:
        return bool(self.classes)

    def get(self, name: str) -> NodeDefinition | None:
        """Return the class of a name; None if the server does not have it."""
        return self.classes.get(name)

    def near(self, name: str, hints: Hints) -> str:
        """Return a hint with the nearest class name; it is cached, because many files lack the same classes."""
        if name in self._near:
            return self._near[name]
        if not hints.allow(name, self.classes):
            return ""
        hint = did_you_mean(name, self.classes)
        if len(self._near) < MAX_CLASSES:
            self._near[name] = hint
        return hint


def accepts(input_type: str, output_type: str) -> bool:
    """Return True if an input takes an output by the server's rule: they share a type, or one is a wildcard."""
    if input_type == output_type:
        return True
    takes, gives = _type_names(input_type), _type_names(output_type)
    return "*" in takes or "*" in gives or not takes.isdisjoint(gives)


def _type_names(types: str) -> set[str]:
    return {each.strip() for each in types.split(",")}


def type_of(written: Any) -> str:
    """Return the name of a type: a text as it is, COMBO for a list of options, and the wildcard for anything else."""
    return written if isinstance(written, str) else COMBO if isinstance(written, list) else "*"


def _node_definition(entry: Mapping[str, Any], name: str, issues: list[Issue]) -> NodeDefinition:
    """Return the definition of a class; add an issue for each input that cannot be read."""
    inputs: dict[str, InputDefinition] = {}
    order = fields_of(entry.get("input_order"))
    for section in ("required", "optional"):
        written = fields_of(fields_of(entry["input"]).get(section))
        listed = [each for each in list_of(order.get(section)) if isinstance(each, str) and each in written]
        for input_name in dict.fromkeys([*listed, *written]):
            found = _input_definition(input_name, written[input_name], section == "required")
            if found is None:
                issues.append(Issue("format", f"{input_name}: must be [type, options]", name))
            else:
                inputs[input_name] = found
    outputs = [type_of(each) for each in list_of(entry.get("output"))]
    names = [str(each) for each in list_of(entry.get("output_name"))]
    names += outputs[len(names) :]
    texts = [entry.get(key) for key in ("display_name", "category", "description")]
    title, category, purpose = (" ".join(each[:MAX_SAID].split()) if isinstance(each, str) else "" for each in texts)
    description = "; ".join(filter(None, (title, category, purpose)))
    return NodeDefinition(inputs, outputs, names, entry.get("output_node") is True, description, category)


def _input_definition(name: str, written: Any, required: bool) -> InputDefinition | None:
    """Return the definition of an input; None if it cannot be read."""
    kind: Any = next(iter(list_of(written)), None)
    if not isinstance(kind, str | list):
        return None
    options = fields_of(list_of(written)[1] if len(list_of(written)) > 1 else None)
    listed = list_of(kind) if isinstance(kind, list) else list_of(options.get("options"))
    widget_type = options.get("widgetType")
    widget_kind = widget_type if isinstance(widget_type, str) else type_of(kind)
    return InputDefinition(
        name=name,
        type=f"{type_of(kind)},{widget_kind}" if widget_kind != type_of(kind) else widget_kind,
        required=required,
        options=listed,
        default=options.get("default"),
        min=_number(options.get("min")),
        max=_number(options.get("max")),
        force_input=options.get("forceInput") is True,
        control=bool(options.get("control_after_generate"))
        or (widget_kind == "INT" and name in ("seed", "noise_seed")),
        upload=any(options.get(f"{kind}_upload") is True for kind in ("image", "animated_image", "video", "file")),
    )


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_definitions(text: str, name: str = "definitions") -> Definitions:
    """Return the node classes in a server's answer at ``/object_info``.

    Args:
        text: The answer, as JSON.
        name: The name of the answer, for errors.

    Raises:
        InvalidError: The answer is not JSON, or has no classes.
    """
    found = Definitions.of(read_json(text, name))
    if not found:
        raise InvalidError(
            name,
            [
                *found.issues[:20],
                Issue("format", "tells of no class; give what a server answers at /object_info", name),
            ],
        )
    return found
