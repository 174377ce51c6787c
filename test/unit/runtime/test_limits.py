import asyncio
import gc
import threading
from collections import Counter

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.runtime.policies.limits import LONGEST_HOLD_OFF, WINDOW, Limiter, Limits
from operad.runtime.testing import DeadlockError, run_on_fake_clock
from operad.runtime.values.errors import InvalidError


def now():
    return asyncio.get_running_loop().time()


async def begins(limiter, calls, seconds=0.0, tokens=0):
    """When each of so many calls, all made at once, is let in."""
    begun = []

    async def call(number):
        async with limiter.admitted():
            begun.append((number, now()))
            limiter.spent(tokens)
            await asyncio.sleep(seconds)

    await asyncio.gather(*map(call, range(calls)))
    assert [number for number, _ in begun] == list(range(calls))  # first come, first served
    return [when for _, when in begun]


def run(limits, *arguments, **named):
    return run_on_fake_clock(begins(Limiter(limits), *arguments, **named))


def test_without_limits_all_begin_at_once():
    assert run(Limits(), 5, seconds=10) == [0] * 5


def test_no_more_than_so_many_calls_at_once():
    assert run(Limits(concurrency=2), 5, seconds=10) == [0, 0, 10, 10, 20]


def test_requests_beyond_the_limit_begin_when_the_first_of_the_last_minute_is_a_minute_old():
    async def main():
        limiter = Limiter(Limits(requests_per_minute=3))
        first = await begins(limiter, 1)
        await asyncio.sleep(50)
        return first + await begins(limiter, 6)

    assert run_on_fake_clock(main()) == [0, 50, 50, 60, 110, 110, 120]


def test_a_call_is_let_in_while_the_tokens_of_the_last_minute_are_below_the_limit():
    assert run(Limits(tokens_per_minute=100, concurrency=1), 5, seconds=1, tokens=60) == [0, 1, 60, 61, 120]


def test_calls_under_way_may_exceed_the_tokens_and_the_next_wait_for_it():
    assert run(Limits(tokens_per_minute=100), 1, tokens=1000) == [0]

    async def main():
        limiter = Limiter(Limits(tokens_per_minute=100))
        await begins(limiter, 1, tokens=40)
        await asyncio.sleep(20)
        await begins(limiter, 1, tokens=1000)
        return await begins(limiter, 2)

    assert run_on_fake_clock(main()) == [80, 80]


def test_all_limits_hold_together():
    limits = Limits(concurrency=2, requests_per_minute=3, tokens_per_minute=100)
    assert run(limits, 6, seconds=5, tokens=40) == [0, 0, 5, 60, 60, 65]


@settings(max_examples=amount(15, 40))
@given(
    limit=st.integers(1, 4),
    concurrency=st.integers(1, 4),
    arrivals=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), min_size=1, max_size=20),
)
def test_in_no_minute_more_requests_begin_and_at_no_time_more_run(limit, concurrency, arrivals):
    begun, running, most = [], 0, 0

    async def call(limiter, after, seconds):
        nonlocal running, most
        await asyncio.sleep(after)
        async with limiter.admitted():
            begun.append(now())
            running += 1
            most = max(most, running)
            await asyncio.sleep(seconds)
            running -= 1

    async def main():
        limiter = Limiter(Limits(concurrency=concurrency, requests_per_minute=limit))
        await asyncio.gather(*(call(limiter, *arrival) for arrival in arrivals))

    run_on_fake_clock(main())
    assert len(begun) == len(arrivals)
    assert most <= concurrency
    assert max(sum(start <= other < start + WINDOW for other in begun) for start in begun) <= limit


def test_who_holds_off_holds_all_off():
    async def main():
        limiter = Limiter(Limits())
        limiter.hold_off(30)
        limiter.hold_off(20)
        limiter.hold_off(-1)
        limiter.hold_off(float("nan"))
        return await begins(limiter, 2)

    assert run_on_fake_clock(main()) == [30, 30]


def test_holding_off_keeps_back_those_that_wait_already():
    async def main():
        limiter = Limiter(Limits(requests_per_minute=1))
        waiting = asyncio.ensure_future(begins(limiter, 2))
        await asyncio.sleep(50)
        limiter.hold_off(30)
        return await waiting

    assert run_on_fake_clock(main()) == [0, 80]


def test_an_endpoint_cannot_hold_off_for_ever():
    async def main():
        limiter = Limiter(Limits())
        limiter.hold_off(float("inf"))
        return await begins(limiter, 1)

    assert run_on_fake_clock(main()) == [LONGEST_HOLD_OFF]


@pytest.mark.parametrize("who", [0, 1, 2])
def test_a_call_that_is_cancelled_makes_room_for_the_next(who):
    async def main():
        limiter = Limiter(Limits(concurrency=1))
        order = []

        async def call(number):
            async with limiter.admitted():
                order.append((number, now()))
                await asyncio.sleep(10)

        calls = [asyncio.ensure_future(call(number)) for number in range(4)]
        await asyncio.sleep(1)
        calls[who].cancel()
        await asyncio.wait(calls)
        return order

    later = [(1, 1), (2, 11), (3, 21)] if who == 0 else [(n, 10 * i) for i, n in enumerate({1, 2, 3} - {who}, 1)]
    assert run_on_fake_clock(main()) == [(0, 0), *later]


def test_a_call_that_is_cancelled_as_it_is_let_in_takes_no_slot():
    async def main():
        limiter = Limiter(Limits(concurrency=1))

        async def call():
            async with limiter.admitted():
                await asyncio.sleep(10)

        first = asyncio.ensure_future(call())
        await asyncio.sleep(1)
        second, third = asyncio.ensure_future(call()), asyncio.ensure_future(call())
        await asyncio.sleep(0)
        first.cancel()
        for _ in range(6):
            await asyncio.sleep(0)
            second.cancel()
        await third
        return now()

    assert run_on_fake_clock(main()) == 11


def test_a_call_that_fails_frees_its_slot():
    async def main():
        limiter = Limiter(Limits(concurrency=1))
        with pytest.raises(KeyError):
            async with limiter.admitted():
                raise KeyError("of the call")
        return await begins(limiter, 1)

    assert run_on_fake_clock(main()) == [0]


def test_one_that_waits_for_a_call_does_not_poll():
    async def main():
        limiter = Limiter(Limits(concurrency=1))
        async with limiter.admitted(), limiter.admitted():
            pass

    with pytest.raises(DeadlockError):
        run_on_fake_clock(main(), patience=0.001)


def test_what_is_older_than_a_minute_is_forgotten():
    async def main():
        limiter = Limiter(Limits(requests_per_minute=10_000, tokens_per_minute=10**9))
        for _ in range(10):
            await begins(limiter, 100, tokens=1)
            await asyncio.sleep(30)
        return len(limiter._begun), len(limiter._spent), len(limiter._queue), len(limiter._inside), limiter._tokens

    assert run_on_fake_clock(main()) == (200, 200, 0, 0, 200)


def in_thread(main):
    """Run a coroutine on a real loop in a thread of its own."""
    thread = threading.Thread(target=asyncio.run, args=(main,))
    thread.start()
    return thread


def test_threads_with_loops_of_their_own_share_the_slots():
    limiter = Limiter(Limits(concurrency=3))
    lock, seen, inside, most = threading.Lock(), Counter(), 0, 0

    async def call(thread):
        nonlocal inside, most
        async with limiter.admitted():
            with lock:
                inside += 1
                most = max(most, inside)
                seen[thread] += 1
            await asyncio.sleep(0)
            with lock:
                inside -= 1

    async def main(thread):
        await asyncio.gather(*(call(thread) for _ in range(200)))

    threads = [in_thread(main(number)) for number in range(2)]
    for thread in threads:
        thread.join()
    assert (seen, inside) == ({0: 200, 1: 200}, 0)
    assert 1 <= most <= 3


def test_one_loop_wakes_another():
    limiter = Limiter(Limits(concurrency=1))
    entered, leave, order = threading.Event(), threading.Event(), []

    async def holder():
        async with limiter.admitted():
            entered.set()
            await asyncio.to_thread(leave.wait)
            order.append("out")

    async def waiter():
        entered.wait()
        asyncio.get_running_loop().call_soon(leave.set)
        async with limiter.admitted():
            order.append("in")

    threads = [in_thread(holder()), in_thread(waiter())]
    for thread in threads:
        thread.join()
    assert order == ["out", "in"]


@pytest.fixture
def dead():
    """An event loop that will end in the middle of its tasks, and doesn't complain of it."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    return loop


@pytest.mark.parametrize("calls", [1, 2])
def test_a_loop_that_was_closed_in_the_middle_of_calls_blocks_nobody_for_good(dead, calls):
    limiter = Limiter(Limits(concurrency=1))
    tasks = [dead.create_task(begins(limiter, 1, seconds=3600)) for _ in range(calls)]
    dead.run_until_complete(asyncio.sleep(0.001))

    async def main():
        mine = asyncio.ensure_future(begins(limiter, 2))
        await asyncio.sleep(10)
        assert not mine.done()
        dead.close()
        return await mine

    first, second = run_on_fake_clock(main())
    assert 10 <= first <= second <= 11
    assert not any(task.done() for task in tasks)


def test_a_loop_that_is_closed_when_its_turn_has_come_blocks_nobody_for_good(dead):
    limiter = Limiter(Limits(concurrency=1))

    async def main():
        async with limiter.admitted():
            task = dead.create_task(begins(limiter, 1))
            await asyncio.to_thread(dead.run_until_complete, asyncio.sleep(0.001))
            mine = asyncio.ensure_future(begins(limiter, 1))
            await asyncio.sleep(0)
        await asyncio.sleep(10)
        dead.close()
        assert not task.done()
        return await mine

    [when] = run_on_fake_clock(main())
    assert 10 <= when <= 11


def test_a_limiter_is_one_for_an_endpoint_and_its_limits_while_somebody_holds_it():
    limits = Limits(concurrency=2)
    one = Limiter.of("https://one.example/v1", limits)
    assert Limiter.of("https://one.example/v1", Limits(concurrency=2)) is one
    assert Limiter.of("https://two.example/v1", limits) is not one
    assert Limiter.of("https://one.example/v1", Limits(concurrency=3)) is not one
    one._begun.append(1.0)
    del one
    newer = [Limiter.of(f"https://{n}.example/v1", limits) for n in range(64)]  # the newest are kept in any case
    gc.collect()
    assert newer
    assert not Limiter.of("https://one.example/v1", limits)._begun


def test_limits_below_one_are_errors_all_at_once():
    with pytest.raises(InvalidError) as error:
        Limits(concurrency=0, requests_per_minute=5, tokens_per_minute=-1)
    assert [(issue.code, issue.where) for issue in error.value.issues] == [
        ("limits", "Limits.concurrency"),
        ("limits", "Limits.tokens_per_minute"),
    ]
    assert "must be a whole number of at least 1, or None for no limit, not -1" in str(error.value)
