"""Messages of a conversation with a model, in terms that no vendor defines: roles, parts, and what each came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from operad.runtime.values.value import Record


class Origin(Record):
    """Data that the system which made a message or a part needs back unchanged, such as a signature of its reasoning.

    The data are opaque: they are sent back to the same system by the same codec, dropped anywhere else, and never shown.

    Attributes:
        codec: Name and version of the code that wrote the data and can read them: ``responses/1``.
        system: The system that can check them: ``openai``, or the host of an endpoint.
        model: Name of the model, as the system gives it.
    """

    codec: str
    system: str
    model: str = ""
    data: Mapping[str, JsonValue] = {}


class _Part(Record):
    """Base class of the parts of a message."""

    model_config = ConfigDict(hide_input_in_errors=True)  # an endpoint's text may contain the key

    origin: Origin | None = Field(default=None, repr=False)


class Text(_Part):
    """Text."""

    kind: Literal["text"] = "text"
    text: str


class Blob(_Part):
    """An image, a recording or a document.

    Attributes:
        media_type: Its type, such as ``image/png``.
        name: Its name; may be empty.
    """

    model_config = ConfigDict(val_json_bytes="base64")  # as `Record` writes them

    kind: Literal["blob"] = "blob"
    data: bytes = Field(repr=False)
    media_type: str
    name: str = ""


class Thinking(_Part):
    """Reasoning of a model before its answer; the text may be a summary, or empty if the vendor does not show it."""

    kind: Literal["thinking"] = "thinking"
    text: str = ""


class ToolCall(_Part):
    """A tool call of a model.

    Attributes:
        id: Id that the result refers to.
        name: The tool's name, as the model wrote it.
        arguments: JSON text, as the model wrote it; it may be invalid.
    """

    kind: Literal["call"] = "call"
    id: str
    name: str
    arguments: str = ""


class ToolResult(_Part):
    """Result of a tool call.

    Attributes:
        content: Texts and images.
        error: True if the call failed, and the content says why.
    """

    kind: Literal["result"] = "result"
    id: str
    name: str
    content: tuple[Text | Blob, ...]
    error: bool = False

    @property
    def text(self) -> str:
        """The texts."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


class Opaque(_Part):
    """A part that only its vendor understands, such as a call of a tool that the vendor runs itself.

    Attributes:
        shown: Its kind, for display.
    """

    kind: Literal["opaque"] = "opaque"
    shown: str = ""


Part = Annotated[Text | Blob | Thinking | ToolCall | ToolResult | Opaque, Field(discriminator="kind")]
"""A part of a message."""


class Message(Record):
    """A message of a conversation.

        conversation = [Message.system("Be brief."), Message.user("Who made the Moon?")]

    Attributes:
        role: Its author. Results of tools are the user's.
        origin: What the system that wrote the whole message needs back.
    """

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]
    origin: Origin | None = Field(default=None, repr=False)

    @classmethod
    def system(cls, text: str) -> Message:
        """Return a message of the system."""
        return cls(role="system", parts=(Text(text=text),))

    @classmethod
    def user(cls, *parts: Text | Blob | ToolResult | str) -> Message:
        """Return a message of the user."""
        return cls(role="user", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))

    @classmethod
    def assistant(cls, text: str) -> Message:
        """Return a message of the model."""
        return cls(role="assistant", parts=(Text(text=text),))

    @property
    def text(self) -> str:
        """The texts, without thinking and results of tools."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        """The reasoning before the answer."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Thinking) and part.text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results of tools."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    def with_parts(self, parts: Iterable[Part]) -> Message:
        """Return the message with other parts."""
        return Message(role=self.role, parts=tuple(parts), origin=self.origin)


def own_data(value: Message | Part, codec: str, system: str) -> Mapping[str, Any] | None:
    """Return the opaque data of a message or part if a codec made them with the same system; otherwise None."""
    origin = value.origin
    return origin.data if origin is not None and (origin.codec, origin.system) == (codec, system) else None


def shown_messages(messages: Sequence[Message]) -> tuple[Mapping[str, Any], ...]:
    """Return messages for display, in the form of chat completions, with the lengths of blobs in place of their data."""
    return tuple(shown for message in messages for shown in _shown(message))


def _shown(message: Message) -> Iterable[Mapping[str, Any]]:
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": result.id, "content": _content(result.content)}
    rest = [part for part in message.parts if isinstance(part, Text | Blob)]
    if not rest and message.tool_results:
        return
    shown: dict[str, Any] = {"role": message.role, "content": _content(rest)}
    if thinking := message.thinking:
        shown["thinking"] = thinking
    if message.tool_calls:
        shown["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    yield shown


def _content(parts: Sequence[Text | Blob]) -> Any:
    if any(isinstance(part, Blob) for part in parts):
        return [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {"type": part.media_type, "bytes": len(part.data), **({"name": part.name} if part.name else {})}
            for part in parts
        ]
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))
