"""Messages and values as texts for prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.model_text import as_text, plain
from operad.runtime.values.text import cut
from operad.runtime.values.value import Value

MOST_OF_AN_ITEM = 500
"""Maximum length of the excerpt of a map's item, in characters, that identifies the item beside its result."""


def as_json(value: object) -> str:
    """Return a value as JSON in several lines."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=plain)


def text_of(message: WorkflowMessage) -> str:
    """Return the text of a message; for a map, each item with its result; without a text, the outputs as JSON."""
    return "\n\n".join(pieces_of(message))


def pieces_of(message: WorkflowMessage, place: str = "") -> list[str]:
    """Return the text of a message in pieces: one for each item of a map, otherwise a single one.

    Args:
        place: Place of the map, to name the place of each item; empty to leave it out.
    """
    if not is_of_map(message):
        return [message.scratchpad or (as_json(message.outputs) if message.outputs else "")]
    return [
        f"Item{f' {item_place}' if item_place else ''}: {cut(as_text(part.item), MOST_OF_AN_ITEM)}\nResult: {text_of(part)}"
        if isinstance(part, WorkflowMessage)
        else f"Item{f' {item_place}' if item_place else ''} failed: {part}"
        for item_place, part in items_of(message, place)
    ]


def is_of_map(message: WorkflowMessage) -> bool:
    """Return True if the message is that of a map, with a part for each item."""
    return any(part.item is not None for part in message.parts)


def items_of(message: WorkflowMessage, place: str) -> Iterator[tuple[str, WorkflowMessage | str]]:
    """Yield for each item of a map's message its place and its message, or the text of its error.

    The place is empty without the place of the map, or if it is unknown which items failed.
    """
    listed = cast("list[Any]", message.outputs.get("items"))
    items = listed if isinstance(listed, list) else []  # pyright: ignore[reportUnnecessaryIsInstance]
    failed = {index: item for index, item in enumerate(items) if isinstance(item, Value)}
    if len(items) != len(message.parts) + len(failed):
        yield from (("", part) for part in message.parts)
        return
    parts = iter(message.parts)
    for index in range(len(items)):
        error: Any = failed.get(index)
        item_place = f"{place}[{index}]" if place else ""
        if error is None:
            yield item_place, next(parts)
        elif place:
            yield item_place, str(getattr(error, "error", error))
