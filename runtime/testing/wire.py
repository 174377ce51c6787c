"""Form of a protocol in which a scripted endpoint answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from operad.runtime.testing.steps import CallTools, Refuse, Say

Answer = Say | CallTools | Refuse

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn of an endpoint.

    Attributes:
        endpoint: Number of the endpoint: it checks its own signatures alone.
        number: Number of the request, from 1.
    """

    endpoint: int
    number: int

    def is_signed(self, call_id: Any) -> bool:
        """Return True if the endpoint made a call after reasoning, which must come back with it."""
        return str(call_id).startswith(f"signed_{self.endpoint}_")


@dataclass(frozen=True, slots=True)
class Wire:
    """Protocol of an endpoint.

    Attributes:
        events: Function of an answer, a request and the `Turn`, that yields the events of a streamed answer.
        body: The same for an answer that is not streamed.
        is_piece: Function that returns True if an event holds a piece of the answer.
        fault: Function of a request and the `Turn`, that returns what the request lacks of earlier reasoning; empty if it
            lacks nothing.
        last: Data of the event that ends a stream; empty for none.
    """

    events: Callable[[Answer, Mapping[str, Any], Turn], Iterator[Event]]
    body: Callable[[Answer, Mapping[str, Any], Turn], Event]
    is_piece: Callable[[Event], bool]
    fault: Callable[[Mapping[str, Any], Turn], str]
    last: str = ""


def pieces(text: str) -> list[str]:
    """Return the words of a text, each with the space after it."""
    return re.findall(r"\S+\s*|\s+", text)


def thinking_of(answer: Answer) -> str:
    """Return the reasoning of an answer."""
    return "" if isinstance(answer, Refuse) else answer.thinking


def calls_of(answer: Answer, turn: Turn) -> list[tuple[str, str, str]]:
    """Return the tool calls of an answer, each with id, name and arguments."""
    if not isinstance(answer, CallTools):
        return []
    prefix = f"signed_{turn.endpoint}_{turn.number}" if answer.thinking else "call"
    return [
        (f"{prefix}_{index}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for index, (name, arguments) in enumerate(answer.pairs)
    ]


def signature(thinking: str) -> str:
    """Return the signature of reasoning."""
    return hashlib.sha256(thinking.encode()).hexdigest()[:16]


def tokens_of(answer: Answer, prompt: str) -> tuple[int, int]:
    """Return the number of tokens of a prompt and of an answer: the number of words."""
    written = f"{thinking_of(answer)} {answer.text} {' '.join(call[2] for call in calls_of(answer, Turn(0, 0)))}"
    return len(prompt.split()), len(written.split())
