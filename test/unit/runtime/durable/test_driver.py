"""What a process hears of the runs that it drives."""

import asyncio

import pytest

from operad.runtime.durable.driver import Held


@pytest.mark.parametrize("heard", ["lost", "cancelled"])
async def test_a_run_that_goes_on_ends_by_what_is_heard_of_it_and_one_that_ends_does_not(heard):
    about = {"lost": False, "cancelled": False, heard: True}

    async def ending():
        held = Held(asyncio.current_task())
        held.heed(**about)
        await asyncio.sleep(0.01)
        return held

    async def going_on():
        held = Held(asyncio.current_task())
        held.watched = True
        held.heed(**about)
        held.heed(lost=True, cancelled=True)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return held

    for run, expected in ((ending, (False, False)), (going_on, (about["lost"], about["cancelled"]))):
        held = await asyncio.ensure_future(run())
        assert (held.lost, held.cancelled) == expected
