"""Cost of a run, from the requests to models and their answers.

Tokens are estimated: four characters are a token, and a Chinese character is 0.7. The prompt of a request is its tools, the
schema of its answer and its messages, in this order. The part of a prompt with which an earlier request of the same run
began is cached if it has at least 1,024 tokens. In the price, a prompt token counts 1, a cached one 0.1, and a token of an
answer 4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CACHED_FROM = 1024
"""Minimum number of tokens of a cached beginning."""

CACHED_PRICE = 0.1
ANSWER_PRICE = 4

Request = Mapping[str, Any]


def tokens(text: str) -> float:
    """Return the estimated number of tokens of a text."""
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    return (len(text) - chinese) / 4 + chinese * 0.7


def text_of(request: Request) -> str:
    """Return the messages of a request as text."""
    parts: list[str] = []
    for message in request["messages"]:
        content = message.get("content") or ""
        calls = [
            f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ())
        ]
        shown = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        parts.append("\n".join([f"[{message['role']}]", *filter(None, [shown]), *calls]))
    return "\n\n".join(parts)


def schema_of(request: Request) -> Mapping[str, Any]:
    """Return the JSON Schema that the endpoint enforces; empty if there is none."""
    return request.get("response_format", {}).get("json_schema", {}).get("schema", {})


def form_of(request: Request) -> Mapping[str, Any]:
    """Return the JSON Schema of the answer to a request, also if the endpoint does not enforce it; empty if it has none."""
    _, stated, form = text_of(request).rpartition("this JSON Schema:\n")
    return schema_of(request) or (json.loads(form) if stated else {})


def prompt_of(request: Request) -> str:
    """Return a request as text: tools, schema and messages."""
    before = [json.dumps(each, ensure_ascii=False) for each in (request.get("tools"), schema_of(request)) if each]
    return "\n".join([*before, text_of(request)])


@dataclass(frozen=True)
class Cost:
    """Tokens and price of requests.

    Attributes:
        prompt: Tokens read.
        cached: Tokens read from the cache, a part of `prompt`.
        answer: Tokens written.
    """

    prompt: float = 0
    cached: float = 0
    answer: float = 0

    @property
    def tokens(self) -> float:
        """Tokens read and written."""
        return self.prompt + self.answer

    @property
    def price(self) -> float:
        """Price, in the price of a prompt token."""
        return self.prompt - self.cached * (1 - CACHED_PRICE) + self.answer * ANSWER_PRICE

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.prompt + other.prompt, self.cached + other.cached, self.answer + other.answer)


def cost_of(asked: Iterable[tuple[Request, str]]) -> Cost:
    """Return the cost of the requests of a run, with their answers, in their order."""
    total = Cost()
    earlier: list[str] = []
    for request, answer in asked:
        prompt = prompt_of(request)
        common = max((_common(prompt, each) for each in earlier), default=0)
        cached = tokens(prompt[:common])
        earlier.append(prompt)
        total += Cost(tokens(prompt), cached if cached >= CACHED_FROM else 0, tokens(answer))
    return total


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
