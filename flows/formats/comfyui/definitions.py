"""Node classes of a ComfyUI server, of its answer at ``/object_info``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operad.operators.comfyui.reading import list_of, mapping_of
from operad.runtime.values.errors import Hints, Issue, did_you_mean

MAX_CLASSES = 50_000
"""The most classes that are read; servers with hundreds of custom nodes have some 10,000."""

MAX_SAID = 500
"""The most characters that are read of what a class says of itself, of each of its texts."""

COMBO = "COMBO"
"""The type of an input that takes one of its options, and of an output written as a list of them."""

_WIDGETS = {
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
    """An input of a class.

    Attributes:
        name: What it is called.
        type: Of what type: a name, ``*`` for any, several with commas.
        required: Whether the server refuses a node without it.
        options: What it takes, for a COMBO; empty where the server lists nothing.
        default: What it is set to at first; None where the server leaves that to the type.
        min: The least number.
        max: The greatest number.
        force_input: Whether only a link fills it, whatever its type.
        control: Whether the page shows a second widget after it, that says how its value changes after a run.
        upload: Whether the page adds an ``upload`` widget at the end of the node for it.
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
        return not self.force_input and not _WIDGETS.isdisjoint(self.type.split(","))

    @property
    def is_dynamic(self) -> bool:
        """True if inputs named ``name.something`` belong to it."""
        return self.type.startswith("COMFY_")

    @property
    def initial(self) -> Any:
        """Its value where none is set."""
        if self.default is not None:
            return self.default
        if self.type == COMBO:
            return self.options[0] if self.options else None
        return {"INT": 0, "FLOAT": 0, "STRING": "", "BOOLEAN": False}.get(self.type)


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A class.

    Attributes:
        inputs: Its inputs by name: those required, then those optional, in the order of the page.
        outputs: The types of its outputs.
        names: Their names.
        output_node: Whether it is an end that a run aims for, such as one that saves an image.
        says: What people are told of it: how the page calls it, where its menu has it, what it does.
        category: Where the page's menu has it, such as ``latent/transform``.
    """

    inputs: Mapping[str, InputDefinition] = field(default_factory=dict[str, InputDefinition])
    outputs: Sequence[str] = ()
    names: Sequence[str] = ()
    output_node: bool = False
    says: str = ""
    category: str = ""

    @property
    def widgets(self) -> Iterator[InputDefinition]:
        """The inputs that have a value on the node itself, in the order of the page."""
        return (each for each in self.inputs.values() if each.is_widget)

    def input(self, name: str) -> InputDefinition | None:
        """The input of that name, or the dynamic one that it belongs to."""
        found = self.inputs.get(name)
        if found is None and "." in name:
            outer = self.inputs.get(name.partition(".")[0])
            return outer if outer is not None and outer.is_dynamic else None
        return found


@dataclass(frozen=True, slots=True)
class Definitions:
    """The classes of a server.

    Attributes:
        classes: By name.
        issues: What of the answer could not be read and was left out.
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
        for name, entry in list(mapping_of(data).items())[:MAX_CLASSES]:
            if isinstance(mapping_of(entry).get("input"), dict):
                classes[name] = _class_of(mapping_of(entry), name, issues)
            else:
                issues.append(Issue("format", 'must be an object with "input"', name))
        if len(mapping_of(data)) > MAX_CLASSES:
            issues.append(Issue("size", f"only the first {MAX_CLASSES:,} classes were read"))
        return cls(classes, tuple(issues))

    def __bool__(self) -> bool:
        return bool(self.classes)

    def get(self, name: str) -> NodeDefinition | None:
        """The class of that name."""
        return self.classes.get(name)

    def near(self, name: str, hints: Hints) -> str:
        """Return the nearest name, as a hint; many files lack the same classes, so it is searched once."""
        if name in self._near:
            return self._near[name]
        if not hints.allow(name, self.classes):
            return ""
        hint = did_you_mean(name, self.classes)
        if len(self._near) < MAX_CLASSES:
            self._near[name] = hint
        return hint


def accepts(input_type: str, output_type: str) -> bool:
    """Return whether an input takes an output by the server's rule: any type in common, or a wildcard."""
    if input_type == output_type:
        return True
    takes, gives = _types(input_type), _types(output_type)
    return "*" in takes or "*" in gives or not takes.isdisjoint(gives)


def _types(types: str) -> set[str]:
    return {each.strip() for each in types.split(",")}


def type_of(written: Any) -> str:
    """The name of a type as it is written: a text, or the list of a COMBO's options; of anything else, the wildcard."""
    return written if isinstance(written, str) else COMBO if isinstance(written, list) else "*"


def _class_of(entry: Mapping[str, Any], name: str, issues: list[Issue]) -> NodeDefinition:
    inputs: dict[str, InputDefinition] = {}
    order = mapping_of(entry.get("input_order"))
    for section in ("required", "optional"):
        written = mapping_of(mapping_of(entry["input"]).get(section))
        listed = [each for each in list_of(order.get(section)) if isinstance(each, str) and each in written]
        for input_name in dict.fromkeys([*listed, *written]):
            found = _input_of(input_name, written[input_name], section == "required")
            if found is None:
                issues.append(Issue("format", f"{input_name}: must be [type, options]", name))
            else:
                inputs[input_name] = found
    outputs = [type_of(each) for each in list_of(entry.get("output"))]
    names = [str(each) for each in list_of(entry.get("output_name"))]
    names += outputs[len(names) :]
    told = [entry.get(key) for key in ("display_name", "category", "description")]
    called, category, does = (" ".join(each[:MAX_SAID].split()) if isinstance(each, str) else "" for each in told)
    says = "; ".join(filter(None, (called, category, does)))
    return NodeDefinition(inputs, outputs, names, entry.get("output_node") is True, says, category)


def _input_of(name: str, written: Any, required: bool) -> InputDefinition | None:
    kind: Any = next(iter(list_of(written)), None)
    if not isinstance(kind, str | list):
        return None
    options = mapping_of(list_of(written)[1] if len(list_of(written)) > 1 else None)
    listed = list_of(kind) if isinstance(kind, list) else list_of(options.get("options"))
    widget_type = options.get("widgetType")
    word = widget_type if isinstance(widget_type, str) else type_of(kind)
    return InputDefinition(
        name=name,
        type=f"{type_of(kind)},{word}" if word != type_of(kind) else word,
        required=required,
        options=listed,
        default=options.get("default"),
        min=_number(options.get("min")),
        max=_number(options.get("max")),
        force_input=options.get("forceInput") is True,
        control=bool(options.get("control_after_generate")) or (word == "INT" and name in ("seed", "noise_seed")),
        upload=any(options.get(f"{kind}_upload") is True for kind in ("image", "animated_image", "video", "file")),
    )


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
