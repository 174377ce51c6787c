"""Several awaitables at once: results in order, the first error, and none left behind."""

import asyncio

import pytest

from operad.runtime.values.concurrently import concurrently


async def after(turns, result):
    for _ in range(turns):
        await asyncio.sleep(0)
    if isinstance(result, Exception):
        raise result
    return result


async def test_results_come_in_the_order_of_the_awaitables():
    assert await concurrently([after(3, "a"), after(1, "b")]) == ["a", "b"]
    assert await concurrently([]) == []


async def test_the_first_error_is_raised_and_the_others_are_cancelled():
    with pytest.raises(ValueError, match="second"):
        await concurrently([after(1000, "a"), after(2, ValueError("second")), after(1000, ValueError("late"))])


@pytest.mark.parametrize("by", ["the caller", "an error"])
async def test_a_cancelled_operator_finishes_its_cleanup_however_long_the_others_take(by):
    cleaned = []

    async def cleaning(turns):
        try:
            await asyncio.sleep(100)
        finally:
            await after(turns, None)
            cleaned.append(turns)

    wrong = [after(2, ValueError("no"))] if by == "an error" else []
    running = asyncio.ensure_future(concurrently([cleaning(1), cleaning(9), *wrong]))
    await after(2, None)
    if by == "the caller":
        running.cancel()
    with pytest.raises((ValueError, asyncio.CancelledError)):
        await running
    assert cleaned == [1, 9]
