"""Functions that take locks inside one another run again after a deadlock, a bounded number of times."""

from __future__ import annotations

import asyncio
import logging

import pytest

from interlock import Locks
from interlock.errors import DeadlockError, InvalidArgumentError


async def test_both_of_two_opposite_orders_get_there_in_under_a_second(store_url: str) -> None:
    async with Locks.from_url(store_url) as locks:
        both_hold = asyncio.Barrier(2)
        done = []
        first_time = {"x": True, "y": True}

        @locks.retry_on_deadlock(base_delay=0.01, jitter=0.005)
        async def move(source: str, target: str) -> None:
            async with locks.acquire(source):
                if first_time[source]:
                    first_time[source] = False
                    await both_hold.wait()
                async with locks.acquire(target):
                    done.append(source)

        async with asyncio.timeout(1):
            await asyncio.gather(move("x", "y"), move("y", "x"))

        assert sorted(done) == ["x", "y"]
        assert locks.metrics.deadlock_retries >= 1
        assert locks.metrics.outcomes["deadlock"] == locks.metrics.deadlock_retries


async def test_what_can_never_succeed_is_given_up_and_says_after_how_many(caplog: pytest.LogCaptureFixture) -> None:
    async with Locks.from_url("memory://") as locks:

        @locks.retry_on_deadlock(max_retries=2, base_delay=0.001, jitter=0)
        async def stuck() -> None:
            async with locks.acquire("key"), locks.acquire("key"):
                pass

        with caplog.at_level(logging.WARNING), pytest.raises(DeadlockError, match="after 2 retries") as caught:
            await stuck()

        assert len(caught.value.cycle) == 1
        retries = [record.fields for record in caplog.records if getattr(record, "event", "") == "deadlock_retry"]
        assert [(retry["attempt"], retry["delay"]) for retry in retries] == [(1, 0.001), (2, 0.002)]


async def test_other_errors_are_not_retried() -> None:
    async with Locks.from_url("memory://") as locks:
        calls = 0

        @locks.retry_on_deadlock()
        async def fails() -> None:
            nonlocal calls
            calls += 1
            raise KeyError

        with pytest.raises(KeyError):
            await fails()
        assert calls == 1


def test_figures_that_cannot_work_are_refused() -> None:
    locks = Locks.from_url("memory://")
    with pytest.raises(InvalidArgumentError):
        locks.retry_on_deadlock(max_retries=-1)
    with pytest.raises(InvalidArgumentError):
        locks.retry_on_deadlock(base_delay=float("nan"))
