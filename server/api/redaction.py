"""Texts of a run for clients: without those of internal errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import takewhile
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from operad.runtime.events import Event, ThinkingStreamed, TokenStreamed
from operad.runtime.values.errors import describe, internal_text

T = TypeVar("T")

_HEAD = 80
"""Number of characters by which an internal text is found; of a long one, only the beginning may be repeated."""


class Redaction:
    """Removal of the texts of internal errors from all that clients get of a run, whatever the protocol.

    The text of an exception that is none of Operad's own (`internal_text`) may name addresses, paths and keys. It is
    replaced by the type of the exception and the id of the run, under which the log of the server has the text, wherever
    it is repeated: in errors, verdicts, lessons, prompts and results.

    Args:
        redacts: False to leave all texts as they are.
    """

    def __init__(self, run_id: str, *, redacts: bool) -> None:
        self._run_id = run_id
        self._redacts = redacts
        self._texts: dict[str, dict[str, list[str]]] = {}  # by the type of the exception, and by their heads
        self._lengths = set[int]()  # of the heads

    def learn(self, internal: str) -> bool:
        """Redact an internal text from now on; return True if it is a new one."""
        kind, _, text = internal.partition(": ")
        if not text or internal in self._texts.get(kind, {}).get(internal[:_HEAD], ()):
            return False
        escaped = (repr(internal), json.dumps(internal), json.dumps(internal, ensure_ascii=False))
        for each in {internal, *(each[1:-1] for each in escaped)}:
            self._texts.setdefault(kind, {}).setdefault(each[:_HEAD], []).append(each)
            self._lengths.add(len(each[:_HEAD]))
        return True

    def event(self, event: Event) -> Event:
        """Return an event for clients.

        After an internal error, text is not sent while it is written, because a model may repeat the error in pieces.
        """
        self.learn(getattr(event, "internal", ""))
        if not (self._redacts and self._texts):
            return event
        if isinstance(event, TokenStreamed | ThinkingStreamed):
            return replace(event, text="")
        return replace(self.of(event), **({"internal": ""} if hasattr(event, "internal") else {}))

    def error(self, error: BaseException) -> str:
        """Return the text of an error for clients."""
        self.learn(internal_text(error))
        return self.of(describe(error))

    def of(self, value: T) -> T:
        """Return a text, or a value with texts, for clients: without the internal texts that were learned."""
        return cast("T", self._without(value)) if self._redacts and self._texts else value

    def _without(self, value: Any) -> Any:
        match value:
            case str():
                return self._without_in_text(value)
            case None | bool() | int() | float() | bytes():
                return value
            case Mapping():
                return {key: self._without(each) for key, each in cast("Mapping[Any, Any]", value).items()}
            case list() | tuple():
                parts = [self._without(each) for each in cast("list[Any]", value)]
                return parts if isinstance(value, list) else tuple(parts)
            case Struct():
                return replace(value, **{name: self._without(getattr(value, name)) for name in value.__struct_fields__})
            case BaseModel():
                return value.model_copy(update={name: self._without(each) for name, each in value})
            case _ if is_dataclass(value) and not isinstance(value, type):
                return {each.name: self._without(getattr(value, each.name)) for each in fields(value)}
            case _:
                shown = str(value)
                return value if (cleaned := self._without_in_text(shown)) == shown else cleaned

    def _without_in_text(self, text: str) -> str:
        for kind, heads in self._texts.items():
            note, start = f"{kind}: internal error, described in the log of the server under run {self._run_id}", 0
            while (start := text.find(f"{kind}: ", start)) >= 0:
                found = [each for n in self._lengths for each in heads.get(text[start : start + n], ())]
                end = start + max((_common(each, text[start : start + len(each)]) for each in found), default=0)
                text = text[:start] + note + text[end:] if found else text
                start += len(note) if found else len(kind)
        return text


def _common(one: str, other: str) -> int:
    """Return the number of characters that are equal at the beginnings of two texts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
