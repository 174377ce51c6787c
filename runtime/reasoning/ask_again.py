"""The one way to ask a model again until its answer fits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class UnfitError(Exception):
    """An answer does not fit; the text says why, for the next attempt."""


async def until_fit(attempt: Callable[[str], Awaitable[T]], tries: int, fault: str = "") -> T:
    """Return the result of the first attempt whose answer fits.

    Args:
        attempt: Function that asks, and reads the answer. It is given the fault of the answer before, and raises
            `UnfitError` for an answer that does not fit. Other errors end the attempts.
        tries: Maximum number of attempts.
        fault: Fault of an answer before the first attempt; empty if there is none.

    Raises:
        UnfitError: No attempt gave an answer that fits; the text is the fault of the last one.
    """
    for _ in range(tries):
        try:
            return await attempt(fault)
        except UnfitError as unfit:
            fault = str(unfit) or "it does not fit"  # an empty fault stands for the first attempt
    raise UnfitError(fault)
