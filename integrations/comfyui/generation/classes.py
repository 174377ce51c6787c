"""Classes of a ComfyUI server in prompts: the choice of relevant classes, and their descriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

from operad.integrations.comfyui.formats.definitions import COMBO, Definitions, InputDefinition, NodeDefinition, accepts
from operad.runtime.values.text import shortened
from operad.runtime.values.words import similarity

BEST = 25
"""Number of classes to describe because the instruction uses their words."""

MOST_OFFERED = 50
"""Maximum number of classes to describe; of other classes, only the names are listed."""

MOST_LISTED = 14_000
"""Maximum number of characters of the list of names; ComfyUI's own classes take 11,600."""

ALWAYS = (
    "CheckpointLoaderSimple",
    "CLIPTextEncode",
    "EmptyLatentImage",
    "KSampler",
    "VAEDecode",
    "LoadImage",
    "SaveImage",
)
"""Classes that are always described if the server has them: those from a text to a picture."""

PROVIDERS = 3
"""Number of classes to describe because their outputs or inputs fit an offered class."""

ENDS = 5
"""Number of output classes to describe, the most similar to the instruction."""

MOST_OPTIONS = 12
"""Maximum number of options of an input to list."""

_MAX_LINE, _MAX_OPTION, _MAX_DESCRIPTION, _MAX_CLASS = 240, 60, 300, 2_000
"""Maximum characters of the line of a class, of an option, of a class's own words, and of its full text."""


def by_category(nearest: Iterable[str], definitions: Definitions, most: int = MOST_LISTED) -> str:
    """List the names of all classes for a model to choose from, one category in a line.

    >>> by_category([], Definitions.of({"Blur": {"input": {}, "category": "image"}}))
    'image: Blur'

    Args:
        nearest: Names that have precedence if not all fit.
        definitions: The classes of the server.
        most: Maximum number of characters; a last line states the number of names that do not fit.
    """
    known = definitions.classes
    paid = dict.fromkeys(name for name in known if known[name].category.startswith("api node"))
    found: dict[str, list[str]] = {}
    omitted = 0
    for name in dict.fromkeys([*nearest, *(known_name for known_name in known if known_name not in paid), *paid]):
        category = known[name].category or "other"
        size = len(name) + 2 + (0 if category in found else len(category) + 1)
        if size > most:
            omitted += 1
            continue
        most -= size
        found.setdefault(category, []).append(name)
    lines = [f"{category}: {', '.join(sorted(names))}" for category, names in sorted(found.items())]
    return "\n".join([*lines, *([f"({omitted} classes more are not listed)"] if omitted else [])])


def offered(words: str, definitions: Definitions, there: Collection[str] = ()) -> list[str]:
    """Return the names of the classes to describe, the most relevant first.

    These are the classes of the existing workflow, classes whose words are most similar to the instructions, common
    classes, and classes that supply the inputs or take the outputs of these.

    Args:
        words: The instructions.
        definitions: The classes of the server.
        there: Classes of the existing workflow.
    """
    known = definitions.classes
    scores = {name: similarity(words, f"{name} {each.description}") for name, each in known.items()}
    ranked = sorted(known, key=lambda name: -scores[name])
    ends = [name for name in ranked if known[name].output_node][:ENDS]
    found = dict.fromkeys(name for name in [*there, *ranked[:BEST], *ALWAYS, *ends] if name in known)

    @cache
    def giving(kind: str) -> Sequence[str]:
        return givers(kind, known, ranked, len(ranked))

    @cache
    def taking(kind: str) -> Sequence[str]:
        return [
            name for name in ranked if any(kind in link_type.split(",") for link_type in _required_links(known[name]))
        ]

    queue = list(found)
    for name in queue:
        added: list[str] = []
        for kind in dict.fromkeys(_required_links(known[name])):
            near = giving(kind)
            sources = [other for other in near if not _required_links(known[other])]  # such as loaders of models
            added += sources[:PROVIDERS]
            added += near[:PROVIDERS] if found.keys().isdisjoint(near) else []
        for kind in dict.fromkeys(known[name].outputs):
            added += taking(kind)[:PROVIDERS] if found.keys().isdisjoint(taking(kind)) else []
        for new_name in added:
            if new_name not in found and len(found) < MOST_OFFERED:
                found[new_name] = None
                queue.append(new_name)
    return list(found)[:MOST_OFFERED]


def givers(kind: str, known: Mapping[str, NodeDefinition], ranked: Iterable[str], most: int) -> list[str]:
    """Return the first classes with an output of a type, except outputs that fit any type.

    Args:
        kind: Type of the input that takes the output.
        known: Classes by name.
        ranked: Names of the classes in order of preference.
        most: Maximum number of classes.
    """
    found: list[str] = []
    for name in ranked:
        if any("*" not in output and accepts(kind, output) for output in known[name].outputs):
            found.append(name)
            if len(found) == most:
                break
    return found


def in_short(names: Iterable[str], definitions: Definitions) -> str:
    """Return a line for each class: the types of its required links, its outputs, and its own description."""
    return "\n".join(_line(name, each) for name in names if (each := definitions.get(name)) is not None)


def in_full(names: Iterable[str], definitions: Definitions) -> str:
    """Return a description of each class: its inputs with types, options and defaults, and its outputs."""
    return "\n".join(_description(name, each) for name in names if (each := definitions.get(name)) is not None)


def _required_links(definition: NodeDefinition) -> list[str]:
    inputs = (
        input_definition
        for input_definition in definition.inputs.values()
        if input_definition.required and not input_definition.is_widget
    )
    return [
        input_definition.type
        for input_definition in inputs
        if not input_definition.is_dynamic and "*" not in input_definition.type
    ]


def _line(name: str, definition: NodeDefinition) -> str:
    inputs = ", ".join(dict.fromkeys(_required_links(definition)))
    outputs = ", ".join(definition.outputs) or ("an output" if definition.output_node else "nothing")
    return shortened(f"{name}({inputs}) → {outputs}: {definition.description}", _MAX_LINE)


def _description(name: str, definition: NodeDefinition) -> str:
    lines = [f"{name}: {shortened(definition.description, _MAX_DESCRIPTION)}"]
    lines += [f"  {_input(input_definition)}" for input_definition in definition.inputs.values()]
    outputs = [
        kind if kind == called else f"{kind} ({called})"
        for kind, called in zip(definition.outputs, definition.names, strict=False)
    ]
    lines.append(f"  → {', '.join(outputs) or 'nothing'}{', an output node' if definition.output_node else ''}")
    return shortened("\n".join(lines), _MAX_CLASS)


def _input(definition: InputDefinition) -> str:
    """Return an input with its type, default and range; optional inputs are in brackets."""
    text = f"{definition.name}: {_type_text(definition)}"
    if definition.default is not None:
        text += f" = {shortened(repr(definition.default), _MAX_OPTION)}"
    if definition.min is not None or definition.max is not None:
        text += f", {definition.min} to {definition.max}"
    return text if definition.required else f"[{text}]"


def _type_text(definition: InputDefinition) -> str:
    if definition.type != COMBO or not definition.options:
        return definition.type
    shown_options = " | ".join(shortened(repr(option), _MAX_OPTION) for option in definition.options[:MOST_OPTIONS])
    omitted = len(definition.options) - MOST_OPTIONS
    return f"{shown_options} and {omitted} more" if omitted > 0 else shown_options
