"""Binary content: images, recordings and documents that a tool returns to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pydantic import Field

from operad.runtime.values.value import Value


class Blob(Value):
    """An image, a recording or a document, as a result of a tool or a part of one.

        @tool
        def chart() -> Blob:
            "Draw a chart."
            return Blob(data=Path("chart.png").read_bytes(), media_type="image/png")

    A tool may also return a list of texts and blobs. Models that cannot see it read its type and size.

    Attributes:
        data: Its bytes.
        media_type: Its type, such as ``image/png``.
        name: Its name; may be empty.
    """

    data: bytes = Field(repr=False)
    media_type: str
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        return f"[{name}{self.media_type}, {len(self.data):,} bytes]"


def blob_parts(value: Any) -> Sequence[str | Blob]:
    """Return the texts and blobs of a tool's result; none if it holds no blob."""
    if isinstance(value, Blob):
        return [value]
    if not isinstance(value, list | tuple):
        return []
    parts = cast("Sequence[Any]", value)
    is_mixed = any(isinstance(part, Blob) for part in parts) and all(isinstance(part, str | Blob) for part in parts)
    return list(parts) if is_mixed else []
