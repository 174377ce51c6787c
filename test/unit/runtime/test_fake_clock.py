import asyncio
import selectors
import sys
import threading
import time
from contextlib import suppress

import pytest

from operad.runtime.models.messages import Message
from operad.runtime.testing import DeadlockError, FakeClockLoop, Hang, Say, ScriptedModel, run_on_fake_clock
from operad.runtime.values.errors import ModelError, RunningLoopError

HELLO = [Message.user("hello there")]
YEAR = 365 * 86400.0


def now():
    return asyncio.get_running_loop().time()


@pytest.fixture
def never_waits(monkeypatch):
    """Nothing may come from outside: the loop must not wait in real time at all."""
    real = selectors.DefaultSelector.select

    def select(self, timeout=None):
        assert timeout is not None
        assert timeout <= 0
        return real(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", select)


@pytest.mark.parametrize("seconds", [0.001, 3600.0, 1e5 + 0.1, YEAR, 100 * YEAR])
def test_a_sleep_takes_its_time_on_the_clock_and_no_real_wait(never_waits, seconds):
    async def main():
        await asyncio.sleep(seconds)
        return now()

    assert run_on_fake_clock(main()) == pytest.approx(seconds, abs=1e-6)


def test_work_takes_no_time_on_the_clock():
    async def main():
        time.sleep(0.01)
        await asyncio.sleep(0)
        return now()

    assert run_on_fake_clock(main()) == 0


def test_timers_are_due_in_the_order_of_their_times():
    seen = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        seen.append((now(), seconds))

    async def main():
        await asyncio.gather(*map(sleeper, (30, 10, 20, 0, 10)))

    run_on_fake_clock(main())
    assert seen == [(0, 0), (10, 10), (10, 10), (20, 20), (30, 30)]


def test_what_is_ready_goes_before_a_jump():
    async def main():
        timer = asyncio.ensure_future(asyncio.sleep(0.001))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not timer.done()
        await timer

    run_on_fake_clock(main())


def test_wait_for_gives_up_at_its_time():
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(3600), timeout=60)
        assert now() == 60
        return await asyncio.wait_for(asyncio.sleep(59, "in time"), timeout=60)

    assert run_on_fake_clock(main()) == "in time"


def test_a_timeout_block_gives_up_at_its_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(6)
        return now()

    assert run_on_fake_clock(main()) == 5


def test_a_thread_at_work_is_not_overtaken():
    async def main():
        done = await asyncio.wait_for(asyncio.to_thread(lambda: time.sleep(0.05) or "done"), timeout=10)
        return done, now()

    assert run_on_fake_clock(main()) == ("done", 0)


def test_a_thread_that_waits_for_the_loop_gets_what_it_waits_for():
    released = threading.Event()

    async def main():
        job = asyncio.ensure_future(asyncio.to_thread(released.wait, 60))
        await asyncio.sleep(10)
        released.set()
        assert await job
        return now()

    assert run_on_fake_clock(main(), patience=0.005) == 10


def test_a_thread_without_a_timer_beside_it_is_waited_for():
    async def main():
        return await asyncio.to_thread(lambda: time.sleep(0.02) or "done")

    assert run_on_fake_clock(main(), patience=0.0001) == "done"


def test_any_thread_may_call_soon():
    async def main():
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        threading.Timer(0.02, loop.call_soon_threadsafe, [called.set]).start()
        await called.wait()

    run_on_fake_clock(main())


def test_an_answer_over_http_is_not_overtaken_by_the_timeout_of_the_call():
    async def main():
        async with ScriptedModel([Say("one"), Say("two")]) as scripted:
            answers = [(await scripted.model.complete(HELLO)).text for _ in range(2)]
        return answers, now()

    assert run_on_fake_clock(main()) == (["one", "two"], 0)


def test_an_endpoint_that_says_nothing_is_given_up_at_its_time():
    async def main():
        async with ScriptedModel([Hang()]) as scripted:
            with pytest.raises(ModelError, match="was silent for 120 s"):
                await scripted.model.complete(HELLO)
        return now()

    assert run_on_fake_clock(main(), patience=0.05) >= 120


def test_a_process_is_waited_for():
    async def main():
        code = "import time; time.sleep(0.02); print('done')"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        return said.split()

    assert run_on_fake_clock(main()) == [b"done"]


def test_a_deadlock_is_an_error_that_names_who_waits_and_lets_all_clean_up():
    cleaned = []

    async def main():
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("main")

    with pytest.raises(DeadlockError, match=r"nothing is left that could wake one:\n  Task-\d+, in main .*test_fake"):
        run_on_fake_clock(main(), patience=0.001)
    assert cleaned == ["main"]


def test_a_task_that_will_not_be_cancelled_does_not_hang_the_end():
    async def stubborn():
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def main():
        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(1)
        return task

    with pytest.raises(DeadlockError, match="in stubborn"):
        run_on_fake_clock(main(), patience=0.001)


def test_at_the_end_tasks_are_cancelled_and_generators_and_threads_closed():
    closed = []

    async def generate():
        try:
            yield 1
        finally:
            closed.append("generator")

    async def straggler():
        try:
            await asyncio.sleep(3600)
        finally:
            closed.append("task")

    generator = generate()
    before = set(threading.enumerate())

    async def main():
        task = asyncio.ensure_future(straggler())
        await anext(generator)
        await asyncio.to_thread(int)
        return task

    run_on_fake_clock(main())
    assert (closed, set(threading.enumerate()) - before) == (["task", "generator"], set())


def test_an_error_of_a_task_that_is_cancelled_at_the_end_is_said(caplog):
    async def broken():
        try:
            await asyncio.sleep(3600)
        finally:
            raise ValueError("broken in the end")

    async def main():
        task = asyncio.ensure_future(broken())
        await asyncio.sleep(0)
        return task

    run_on_fake_clock(main())
    assert "broken in the end" in caplog.text


def test_the_error_of_main_comes_through():
    async def main():
        await asyncio.sleep(1)
        raise KeyError("the test's own")

    with pytest.raises(KeyError, match="the test's own"):
        run_on_fake_clock(main())


async def test_inside_a_running_loop_it_says_what_to_do():
    with pytest.raises(RunningLoopError, match="call run_on_fake_clock from a plain function"):
        run_on_fake_clock(asyncio.sleep(0))


def test_the_loop_serves_a_runner():
    async def main():
        await asyncio.to_thread(int)
        await asyncio.sleep(60)
        return now()

    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:  # pyright: ignore[reportAttributeAccessIssue]
        assert runner.run(main()) == 60
