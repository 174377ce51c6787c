"""Reasoning that a model writes into its text, between tags, and that is not a part of the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "<|channel|>analysis<|message|>": "<|end|><|start|>assistant<|channel|>final<|message|>",
}
"""Closing tag by opening tag: of DeepSeek-R1 and Qwen, of prompts that ask for one, of Seed-OSS, of Magistral and of gpt-oss."""

_MOST_HELD = 200
"""Maximum number of characters, white space included, in which an opening tag may begin."""
_LONE_END = re.compile(r"^</(?:think|thinking|seed:think)>[ \t]*$", re.MULTILINE)

Kind = Literal["text", "thinking"]


def closing(tag: str) -> str:
    """Return the closing tag of an opening one."""
    return _TAGS.get(tag, "")


@dataclass(slots=True)
class ThinkingTags:
    """Splitter of a streamed text into reasoning and answer.

    Only a tag at the very beginning opens reasoning: text that mentions a tag further on is an answer.

    Attributes:
        opened: The opening tag; empty if the text has none.
    """

    opened: str = ""
    _state: Literal["begin", "thinking", "gap", "text"] = "begin"
    _held: str = ""
    _parts: list[tuple[Kind, str]] = field(default_factory=list[tuple[Kind, str]])

    def add(self, text: str) -> Iterator[tuple[Kind, str]]:
        """Yield the pieces that are known to be reasoning or answer after some more text."""
        self._held += text
        if self._state == "begin":
            self._begin()
        if self._state == "thinking":
            end = _TAGS[self.opened]
            inside, found, rest = self._held.partition(end)
            keep = 0 if found else _overlap(self._held, end)
            yield from self._piece("thinking", inside[: len(inside) - keep])
            self._held = rest if found else inside[len(inside) - keep :]
            if found:
                self._state = "gap"
        if self._state == "gap":  # blank lines after the closing tag
            self._held = self._held.lstrip()
            if self._held:
                self._state = "text"
        if self._state == "text":
            yield from self._piece("text", self._held)
            self._held = ""

    def end(self) -> Iterator[tuple[Kind, str]]:
        """Yield what was held back when the text ended."""
        if self._state != "gap":
            yield from self._piece("thinking" if self._state == "thinking" else "text", self._held)
        self._held = ""

    def parts(self) -> tuple[str, str]:
        """Return the whole reasoning and the whole answer.

        Some servers put the opening tag into the prompt. Then the text holds the closing tag alone, in a line of its own,
        and all before it is reasoning.
        """
        thinking = "".join(text for kind, text in self._parts if kind == "thinking")
        answer = "".join(text for kind, text in self._parts if kind == "text")
        if not self.opened and "</" in answer and (ends := [*_LONE_END.finditer(answer)]):
            self.opened = f"<{ends[-1][0].strip()[2:]}"
            return answer[: ends[-1].start()].strip(), answer[ends[-1].end() :].lstrip()
        return thinking.strip(), answer

    def _piece(self, kind: Kind, text: str) -> Iterator[tuple[Kind, str]]:
        if text:
            self._parts.append((kind, text))
            yield kind, text

    def _begin(self) -> None:
        start = self._held.lstrip()
        if opened := next((tag for tag in _TAGS if start.startswith(tag)), ""):
            self.opened, self._held, self._state = opened, start.removeprefix(opened), "thinking"
        elif len(self._held) > _MOST_HELD or not any(tag.startswith(start) for tag in _TAGS):
            self._state = "text"


def _overlap(text: str, end: str) -> int:
    """Return the length of the longest end of a text with which a tag begins."""
    return next((size for size in range(min(len(end) - 1, len(text)), 0, -1) if end.startswith(text[-size:])), 0)
