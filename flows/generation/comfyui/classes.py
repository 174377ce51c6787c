"""The classes of a ComfyUI server as a model is told of them: which of them may be of use, in a line each and in full."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

from operad.flows.formats.comfyui.definitions import COMBO, Definitions, InputDefinition, NodeDefinition, accepts
from operad.runtime.knowledge.similarity import similarity

BEST = 25
"""Number of classes that are described because the instruction uses their words."""

MOST_OFFERED = 50
"""Maximum number of classes that are described; the names of others are listed."""

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
"""Classes that are described whatever the words, where the server has them: from a text to a picture."""

PROVIDERS = 3
"""Number of classes that are described because their outputs or inputs fit an offered class."""

ENDS = 5
"""Number of output classes that are described, the nearest ones."""

MOST_OPTIONS = 12
"""Number of options of an input that are listed."""

_LINE, _OPTION, _SAYS, _DOC = 240, 60, 300, 2_000
"""The longest line of a class, option, words of a class, and full text of a class, in characters."""


def by_category(nearest: Iterable[str], definitions: Definitions, most: int = MOST_LISTED) -> str:
    """List the names of classes, a category a line. Which classes a job needs is the model's to say.

    >>> by_category([], Definitions.of({"Blur": {"input": {}, "category": "image"}}))
    'image: Blur'

    Args:
        nearest: The names that come first, if not all fit.
        definitions: The classes of the server.
        most: Characters that the list may take; the number of names that do not fit is told.
    """
    known = definitions.classes
    paid = dict.fromkeys(name for name in known if known[name].category.startswith("api node"))
    found: dict[str, list[str]] = {}
    left = 0
    for name in dict.fromkeys([*nearest, *(each for each in known if each not in paid), *paid]):
        category = known[name].category or "other"
        size = len(name) + 2 + (0 if category in found else len(category) + 1)
        if size > most:
            left += 1
            continue
        most -= size
        found.setdefault(category, []).append(name)
    lines = [f"{category}: {', '.join(sorted(names))}" for category, names in sorted(found.items())]
    return "\n".join([*lines, *([f"({left} classes more are not listed)"] if left else [])])


def offered(words: str, definitions: Definitions, there: Collection[str] = ()) -> list[str]:
    """Return the names of the classes that are described, because they may be of use; the nearest first.

    These are those whose own words are the nearest, those of which most pictures are made, those that are there
    already, and those that give what these take and take what these give.

    Args:
        words: What is asked for.
        definitions: The classes of the server.
        there: The classes of the workflow that is there.
    """
    known = definitions.classes
    alike = {name: similarity(words, f"{name} {each.says}") for name, each in known.items()}
    ranked = sorted(known, key=lambda name: -alike[name])
    ends = [name for name in ranked if known[name].output_node][:ENDS]
    found = dict.fromkeys(name for name in [*there, *ranked[:BEST], *ALWAYS, *ends] if name in known)

    @cache
    def giving(kind: str) -> Sequence[str]:
        return givers(kind, known, ranked, len(ranked))

    @cache
    def taking(kind: str) -> Sequence[str]:
        return [name for name in ranked if any(kind in each.split(",") for each in _taken(known[name]))]

    queue = list(found)
    for name in queue:
        new: list[str] = []
        for kind in dict.fromkeys(_taken(known[name])):
            near = giving(kind)
            new += [each for each in near if not _taken(known[each])][:PROVIDERS]  # such as load a model
            new += near[:PROVIDERS] if found.keys().isdisjoint(near) else []
        for kind in dict.fromkeys(known[name].outputs):
            new += taking(kind)[:PROVIDERS] if found.keys().isdisjoint(taking(kind)) else []
        for each in new:
            if each not in found and len(found) < MOST_OFFERED:
                found[each] = None
                queue.append(each)
    return list(found)[:MOST_OFFERED]


def givers(kind: str, known: Mapping[str, NodeDefinition], ranked: Iterable[str], most: int) -> list[str]:
    """The first classes that give what an input of some type takes; those that give anything are left out.

    Args:
        kind: The type of the input.
        known: The classes by name.
        ranked: Their names, the nearest first.
        most: How many to find.
    """
    found: list[str] = []
    for name in ranked:
        if any("*" not in each and accepts(kind, each) for each in known[name].outputs):
            found.append(name)
            if len(found) == most:
                break
    return found


def in_short(names: Iterable[str], definitions: Definitions) -> str:
    """A line for each class: what it must be given by others, what it gives, what it says of itself."""
    return "\n".join(_line(name, each) for name in names if (each := definitions.get(name)) is not None)


def in_full(names: Iterable[str], definitions: Definitions) -> str:
    """Each class with its inputs, their types, options and defaults, and its outputs."""
    return "\n".join(_doc(name, each) for name in names if (each := definitions.get(name)) is not None)


def _taken(definition: NodeDefinition) -> list[str]:
    """The types that a class must be given by others."""
    inputs = (each for each in definition.inputs.values() if each.required and not each.is_widget)
    return [each.type for each in inputs if not each.is_dynamic and "*" not in each.type]


def _line(name: str, definition: NodeDefinition) -> str:
    takes = ", ".join(dict.fromkeys(_taken(definition)))
    gives = ", ".join(definition.outputs) or ("an output" if definition.output_node else "nothing")
    return _cut(f"{name}({takes}) → {gives}: {definition.says}", _LINE)


def _doc(name: str, definition: NodeDefinition) -> str:
    lines = [f"{name}: {_cut(definition.says, _SAYS)}"]
    lines += [f"  {_input(each)}" for each in definition.inputs.values()]
    outputs = [
        kind if kind == called else f"{kind} ({called})"
        for kind, called in zip(definition.outputs, definition.names, strict=False)
    ]
    lines.append(f"  → {', '.join(outputs) or 'nothing'}{', an output node' if definition.output_node else ''}")
    return _cut("\n".join(lines), _DOC)


def _input(definition: InputDefinition) -> str:
    text = f"{definition.name}: {_kind(definition)}"
    if definition.default is not None:
        text += f" = {_cut(repr(definition.default), _OPTION)}"
    if definition.min is not None or definition.max is not None:
        text += f", {definition.min} to {definition.max}"
    return text if definition.required else f"[{text}]"


def _kind(definition: InputDefinition) -> str:
    if definition.type != COMBO or not definition.options:
        return definition.type
    told = " | ".join(_cut(repr(each), _OPTION) for each in definition.options[:MOST_OPTIONS])
    left = len(definition.options) - MOST_OPTIONS
    return f"{told} and {left} more" if left > 0 else told


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
