"""Binary content: images, recordings and documents that a tool returns to a model."""

from __future__ import annotations

from typing import Any, cast

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from operad.runtime.values.value import Value


class Blob(Value):
    """An image, a recording or a document, as a result of a tool or a part of one.

        @tool
        def chart() -> Blob:
            "Draw a chart."
            return Blob(data=Path("chart.png").read_bytes(), media_type="image/png")

    A tool may also return a list of texts and blobs, or a value with blobs in it. Models that do not take a blob read its
    type and size.

    Attributes:
        media_type: Its type, such as ``image/png``.
        name: Its name; may be empty.
    """

    data: bytes = Field(repr=False)
    media_type: str
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        return f"[{name}{self.media_type}, {len(self.data):,} bytes]"

    @model_serializer(mode="wrap")
    def _serialized(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        """Return the fields; for a model, which is shown the blob itself, its description."""
        if isinstance(info.context, Blobs):
            info.context.append(self)
            return str(self)
        return handler(self)


class Blobs(list[Blob]):
    """Blobs in a value that is told to a model, in their order; the context of its serialization."""


def is_mixed(value: Any) -> bool:
    """Return True for a list of texts and blobs, which are told one below the other."""
    if not isinstance(value, list | tuple):
        return False
    parts = cast("list[Any]", value)
    return any(isinstance(part, Blob) for part in parts) and all(isinstance(part, str | Blob) for part in parts)
