"""Results of tools: a long one is shown in pages, and an old one is shortened when a conversation becomes too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operad.runtime.models.messages import Blob, Message, Text, ToolResult
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import ToolError

MAX_RESULT = 16_000
"""Maximum number of characters of a result that are returned to the model at once."""

MAX_BEGINNING = 300
"""Maximum number of characters of a result that are left when the conversation is shortened."""

MAX_KEPT = 20_000_000
"""Maximum number of characters of all results of a conversation that are kept for reading."""

READ_MORE = "read_more"

NO_RESULTS: Mapping[str, str] = {}
"""Results of a conversation without calls of tools."""

_NOTE = 200
"""Number of characters left for the note below a page, so that a page is not cut again."""


class ToolResults:
    """Results of the tools of a conversation, and the tool that reads on in them.

        results = ToolResults()
        shown = results.enter("call_1", "word, " * 6_666 + "end.")
        print(shown.splitlines()[-1])  # [… 24,000 more characters; read on with read_more(id=1, offset=16000)]
        print(results.read_more(1, 39_996))  # end.

    The tool is offered from the beginning, because vendors keep what they have read, and some models their reasoning,
    only as long as the tools are the same.

    Args:
        kept: Results of an earlier conversation that goes on, by the ids of the calls; see `texts`.
    """

    def __init__(self, name: str = READ_MORE, kept: Mapping[str, str] = NO_RESULTS) -> None:
        self._texts = [*kept.values()]
        self._numbers = {call_id: number for number, call_id in enumerate(kept, 1)}
        self._room = MAX_KEPT - sum(map(len, self._texts))
        self.tool = Tool(
            name=name,
            description="Read on in a tool's result that was shown in part; `id` and `offset` are named below that part.",
            parameters={
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "description": "Number of the result."},
                    "offset": {"type": "integer", "description": "Number of characters to skip."},
                    "find": {"type": "string", "description": "Text to find after that; its line is shown first."},
                },
                "required": ["id", "offset"],
                "additionalProperties": False,
            },
            function=self.read_more,
        )

    @property
    def texts(self) -> Mapping[str, str]:
        """Whole texts of the results, by the ids of the calls, in their order."""
        return dict(zip(self._numbers, self._texts, strict=True))

    def enter(self, call_id: str, text: str) -> str:
        """Keep the result of a call, and return what the model is shown of it."""
        kept = text[: self._room]
        self._room -= len(kept)
        self._texts.append(kept)
        self._numbers[call_id] = number = len(self._texts)
        if len(text) <= MAX_RESULT:
            return text
        lost, end = len(text) - len(kept), _end_of_page(text, 0, MAX_RESULT)
        rest = f"; the last {lost:,} are lost, because the results are too long to be kept" if lost else ""
        where = f"; read on with {self._call(number, end)}" if len(kept) > end else ""
        return f"{text[:end]}\n[… {len(text) - end:,} more characters{rest}{where}]"

    def read_more(self, id: int, offset: int, find: str = "") -> str:
        """Return the part of a result that begins after `offset` characters, or with the line of a text after them.

        Raises:
            ToolError: There is no such result, it is not that long, or the text is not in it.
        """
        if not 0 < id <= len(self._texts):
            raise ToolError(f"there is no result {id}; there are {len(self._texts)}")
        text = self._texts[id - 1]
        if not 0 <= offset < len(text):
            raise ToolError(f"result {id} has {len(text):,} characters; offset must be less, and not negative")
        if find:
            found = text.find(find, offset)
            if found < 0:
                raise ToolError(f"{find!r:.200} is not in result {id} after {offset:,} characters")
            offset = max(offset, text.rfind("\n", 0, found) + 1, found - MAX_BEGINNING)
        end = _end_of_page(text, offset, MAX_RESULT - _NOTE)
        if end == len(text):
            return text[offset:]
        return f"{text[offset:end]}\n[… {len(text) - end:,} more characters; read on with {self._call(id, end)}]"

    def shortened(self, messages: Sequence[Message], keep: int) -> list[Message]:
        """Return a conversation with the beginnings of results, and without their images, except in the last messages.

        Args:
            keep: Number of messages at its end that stay as they are.
        """
        until = len(messages) - keep
        return [
            message.with_parts(
                self._beginning(part) if isinstance(part, ToolResult) else part for part in message.parts
            )
            if number < until and message.tool_results
            else message
            for number, message in enumerate(messages)
        ]

    def _beginning(self, result: ToolResult) -> ToolResult:
        """Return a result of which the beginning is left, with the call that reads the rest."""
        number, text, notes = self._numbers.get(result.id), result.text, list[str]()
        if number is not None and len(text) > 2 * MAX_BEGINNING:
            text = text[:MAX_BEGINNING]
            rest = len(self._texts[number - 1]) - MAX_BEGINNING
            notes += [
                f"{rest:,} characters no longer shown, to make room; {self._call(number, MAX_BEGINNING)} shows them"
            ]
        if images := sum(isinstance(part, Blob) for part in result.content):
            notes += [f"images no longer shown: {images}"]
        if not notes:
            return result
        return result.model_copy(update={"content": (Text(text=f"{text}\n[… {'; '.join(notes)}]"),)})

    def _call(self, number: int, offset: int) -> str:
        return f"{self.tool.name}(id={number}, offset={offset})"


def _end_of_page(text: str, start: int, most: int) -> int:
    """Return the end of a page of at most `most` characters: the end of a line, if one is near."""
    end = start + most
    if end >= len(text):
        return len(text)
    return text.rfind("\n", end - MAX_BEGINNING, end) + 1 or end
