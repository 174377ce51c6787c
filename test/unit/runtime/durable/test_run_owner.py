"""What a process hears of the runs that it drives."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from operad.runtime import InputError
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.ledger import Ledger
from operad.runtime.durable.run_owner import DrivenRun, leave, owner_of
from operad.runtime.workflow.run import Run


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(("lost", "cancelled"), [(True, False), (False, True)])
async def test_a_run_that_goes_on_ends_by_what_is_heard_of_it_and_one_that_ends_by_itself_does_not(
    lost, cancelled, watched
):
    async def run(driven_run: "asyncio.Future[DrivenRun]"):
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        driven_run.set_result(DrivenRun(task, cast("Run", None), None))
        driven_run.result().executing = watched
        driven_run.result().end_if(lost=lost, cancelled=cancelled)
        driven_run.result().end_if(lost=True, cancelled=True)  # it has been heard already
        await asyncio.sleep(0.01)

    future = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(run(future))
    with suppress(asyncio.CancelledError):
        await task
    driven_run = future.result()
    assert task.cancelled() is watched
    assert (driven_run.lost, driven_run.cancelled) == ((lost, cancelled) if watched else (False, False))


async def test_another_limit_for_the_same_database_is_an_error_that_names_both(tmp_path):
    url, ledger = database_url(tmp_path / "runs.sqlite"), Ledger(tmp_path / "runs.sqlite")
    try:
        owner = await owner_of(url, 3, ledger)
        assert await owner_of(url, 3.0, ledger) is owner
        with pytest.raises(
            InputError, match=r"runs\.sqlite with limit=3, so limit=10 has no effect; give every Ledger"
        ):
            await owner_of(url, 10, ledger)
    finally:
        leave(url, ledger)
    try:
        assert (await owner_of(url, 10, ledger)).executor.limit == 10
    finally:
        leave(url, ledger)
