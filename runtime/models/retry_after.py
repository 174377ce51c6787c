"""Time that an endpoint asks to wait before the next request."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import APIError


def retry_after(error: APIError) -> float | None:
    """Return the wait in seconds that the headers of an endpoint ask for; None without a usable header.

    ``Retry-After`` is defined in RFC 9110, section 10.2.3; ``retry-after-ms``, in milliseconds, is OpenAI's.
    """
    waits = (_number(header(error, "retry-after-ms")) / 1000, _seconds_until(header(error, "retry-after")))
    return next((seconds for seconds in waits if 0 < seconds < math.inf), None)


def _number(text: str) -> float:
    """Return the number in a text; NaN if there is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds_until(text: str) -> float:
    """Return the number of seconds in a text, or until the date in it; NaN if there is neither."""
    from email.utils import parsedate_to_datetime

    try:
        return float(text)
    except ValueError:
        try:
            return parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return math.nan


def header(error: APIError, name: str) -> str:
    """Return a header of the answer that is an error; empty if it has none."""
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    return str(headers.get(name, ""))
