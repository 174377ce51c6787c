"""Values and messages as text for models."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from operad.runtime.values.blob import Blob, Blobs, is_mixed
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.text import cut
from operad.runtime.values.value import Value


def as_text(value: Any) -> str:
    """Return a value as text for a model: text as it is, other values as JSON; see `told`."""
    return told(value)[0]


def told(value: Any) -> tuple[str, Blobs]:
    """Return a value, such as the result of a tool, as text for a model, and the blobs in it.

    Texts are as they are, other values JSON. Blobs are described by type and size; texts and blobs in a list are told one
    below the other.
    """
    blobs = Blobs()
    if isinstance(value, str):
        return value, blobs
    if isinstance(value, Blob) or is_mixed(value):
        parts: Sequence[str | Blob] = [value] if isinstance(value, Blob) else value
        blobs += [part for part in parts if isinstance(part, Blob)]
        return "\n".join(map(str, parts)), blobs
    try:
        return json.dumps(value, ensure_ascii=False, default=partial(plain, blobs=blobs)), blobs
    except TypeError:  # a key that is not text, such as a date
        blobs.clear()
        return json.dumps(plain(value, blobs), ensure_ascii=False, default=str), blobs


def with_note(note: str, result: Any) -> str | list[str | Blob]:
    """Return the result of a tool with a note for the model above it, and the blobs in it below."""
    text, blobs = told(result)
    return [f"{note}\n{text}", *blobs] if blobs else f"{note}\n{text}"


def plain(value: Any, blobs: Blobs | None = None) -> Any:
    """Return a pydantic model, a dataclass, a date and the like as plain values; other objects as `str`.

    Args:
        blobs: List to which blobs in the value are added, which are described then; None for their bytes.
    """
    found = None if blobs is None else Blobs()
    with suppress(ValueError):  # a circle, or a faulty serializer
        try:
            made = to_jsonable_python(value, by_alias=True, fallback=_of_library, context=cast("Any", found))
        except UnicodeDecodeError:
            made = _described(TypeAdapter(Any).dump_python(value, by_alias=True, warnings=False))
        if blobs is not None:
            blobs += found or ()
        return made
    return str(value)


def _of_library(value: Any) -> Any:
    """Return a number or an array of numpy, or a table of pandas, as plain values; other objects as `str`."""
    made: Any = None
    with suppress(Exception):  # other classes have methods of these names, too
        is_table = hasattr(value, "to_dict") and hasattr(value, "columns")
        made = value.to_dict(orient="records") if is_table else value.tolist()
    return cast("Any", made) if isinstance(made, list | bool | int | float | str) else str(value)


def _described(value: Any) -> Any:
    """Return plain values with a description in place of bytes that are not text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value):,} bytes that are not text>"
    return [plain(each) for each in cast("Collection[Any]", value)] if isinstance(value, Collection) else str(value)


_MOST_OF_AN_ITEM = 500
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
        f"Item{f' {item_place}' if item_place else ''}: {cut(as_text(part.item), _MOST_OF_AN_ITEM)}\nResult: {text_of(part)}"
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
