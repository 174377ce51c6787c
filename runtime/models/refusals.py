"""Reasons for which endpoints refuse a request: too many tokens, a content filter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FILTER_CODES = ("content_filter", "content_policy_violation")
"""Error codes of endpoints for requests that a content filter refuses."""

_TOO_LONG = re.compile(
    r"(context|prompt|input) (length|size|window)|(prompt|input|request|messages?) (is |are )?too (long|large)"
    r"|exceed\w*.{0,40}token|token.{0,40}(exceed|too large|too many)|too many .{0,20}tokens"
    r"|tokens? .{0,30}must be <=|exceed\w* .{0,30}(context|prompt|input)|超长",
    re.IGNORECASE,
)
"""Messages of servers without a code for it: vLLM, DeepSeek, OpenRouter, Moonshot, Together, LM Studio, Qwen, xAI, Zhipu."""


def is_too_long(error: Mapping[str, Any], message: str, status: int | None = None) -> bool:
    """Return True if an endpoint refuses a request for the number of its tokens: by its code, or else its message."""
    code = error.get("code")
    is_said = error.get("type") == "exceed_context_size_error" or code == "context_length_exceeded"
    may_be = status in (None, 400, 413, 422) and code != "rate_limit_exceeded"  # which counts tokens, too
    return is_said or (may_be and bool(_TOO_LONG.search(message)))
