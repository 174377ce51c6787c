"""Content of MCP servers as texts and blobs for a model: results of tools, resources, prompts."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from operad.runtime.values.blob import Blob

if TYPE_CHECKING:
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        GetPromptResult,
        ReadResourceResult,
        TextResourceContents,
    )

Content = str | list[str | Blob]
"""Text; or texts and blobs, if there is a blob."""

MOST_BLOB = 10 * 2**20
"""Maximum size of a blob for a model, in bytes; larger ones are described."""


def result_content(result: CallToolResult) -> Content:
    """Return a tool's result; structured content is used only if there is no other content."""
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return _joined([_block(block) for block in result.content])


def resource_content(result: ReadResourceResult) -> Content:
    """Return the parts of a resource."""
    return _joined([_resource(part) for part in result.contents])


def prompt_content(result: GetPromptResult) -> Content:
    """Return the messages of a prompt; those of the assistant are marked if there are several messages."""
    parts: list[str | Blob] = []
    for message in result.messages:
        part = _block(message.content)
        marked = isinstance(part, str) and message.role == "assistant" and len(result.messages) > 1
        parts.append(f"Assistant: {part}" if marked else part)
    return _joined(parts)


def _block(block: ContentBlock) -> str | Blob:
    if block.type == "text":
        return block.text
    if block.type == "resource_link":
        return f"[{block.name}]({block.uri})"
    if block.type == "resource":
        return _resource(block.resource)
    return _blob(block.data, block.mime_type)


def _resource(part: TextResourceContents | BlobResourceContents) -> str | Blob:
    text: str | None = getattr(part, "text", None)
    data: Any = getattr(part, "blob", "")
    return text if text is not None else _blob(data, part.mime_type or "application/octet-stream", str(part.uri))


def _blob(encoded: str, media_type: str, name: str = "") -> str | Blob:
    """Return binary content; a description if it is larger than `MOST_BLOB`, or not base64."""
    if len(encoded) > MOST_BLOB * 4 // 3 + 4:
        return f"[{media_type}, {len(encoded) * 3 // 4:,} bytes: too large to be shown]"
    try:
        return Blob(data=b64decode(encoded, validate=True), media_type=media_type, name=name)
    except (binascii.Error, ValueError):
        return f"[{media_type}: not valid base64]"


def _joined(parts: Sequence[str | Blob]) -> Content:
    """Return texts as one text, unless blobs are between them."""
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else list(parts)
