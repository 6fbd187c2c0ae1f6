"""Keys, jobs that start after others, and expiry, as an app uses them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interlock import App, Retry, current_job
from interlock.errors import (
    DeadlockError,
    InvalidArgumentError,
    JobCancelledError,
    JobExpiredError,
    KeyConflictError,
    MisuseError,
    NotFoundError,
)
from interlock.ports.jobs import MAX_AFTER, JobState


async def test_a_second_enqueue_with_the_key_returns_the_first_job() -> None:
    async with App("memory://") as app:

        @app.job(key="report:{account}")
        async def report(account: str, target: int = 1) -> int:
            return target

        first, second = await report.enqueue("a"), await report.enqueue("a")
        other = await report.enqueue("b")
        many = await app.jobs.enqueue_many([report.call("a"), report.call("c"), report.call("c")])

        assert (first.created, second.created, other.created) == (True, False, True)
        assert second.id == first.id != other.id
        assert [handle.created for handle in many] == [False, True, False]
        assert many[2].id == many[1].id
        assert await app.jobs.drain() == {"done": 3}
        assert await second.result() == 1
        tally = app.jobs.metrics.of("report")
        assert (tally.enqueued, tally.existing) == (3, 3)
        with pytest.raises(KeyConflictError, match=f"Key report:a of job report belongs to job {first.id}"):
            await report.enqueue("a", target=2)


async def test_a_key_is_a_function_or_none_for_some_calls() -> None:
    async with App("memory://") as app:

        @app.job(key=lambda name: name or None)
        async def mail(name: str) -> None: ...

        handles = [await mail.enqueue(name) for name in ("", "", "a", "a")]
        fixed = [await mail.options(key="fixed", keep_key=0).enqueue("x") for _ in range(2)]

        assert [handle.created for handle in handles] == [True, True, True, False]
        assert [handle.created for handle in fixed] == [True, False]
        await app.jobs.drain()
        assert (await mail.options(key="fixed", keep_key=0).enqueue("x")).created


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": 7}, "Invalid key"),
        ({"key": "{nobody}"}, "'nobody', which is not a parameter"),
        ({"keep_key": -1}, "keep_key"),
        ({"expires": 0}, "Invalid expires"),
        ({"expires": datetime(2026, 1, 1)}, "aware datetime"),  # noqa: DTZ001
        ({"after": 7}, "Invalid after"),
        ({"after": ["x"]}, "not a job ID"),
        ({"after": range(1, MAX_AFTER + 2)}, "too many"),
        ({"after": [1], "if_failed": "explode"}, "Invalid if_failed"),
        ({"if_failed": "run"}, "without after"),
    ],
)
async def test_what_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    app = App("memory://")

    @app.job()
    async def report(account: str) -> None: ...

    with pytest.raises(InvalidArgumentError, match=words):
        report.options(**changes)


async def test_a_definition_does_not_start_after_others() -> None:
    app = App("memory://")
    with pytest.raises((MisuseError, InvalidArgumentError)):
        app.job(after=[1])  # type: ignore[call-arg]


async def test_a_handler_reads_the_results_of_those_it_waited_for() -> None:
    async with App("memory://") as app:

        @app.job()
        async def part(number: int) -> int:
            return number * number

        @app.job()
        async def whole() -> list[int]:
            return [await handle.result(wait=0) for handle in current_job().after]

        parts = await app.jobs.enqueue_many([part.call(number) for number in range(3)])
        merged = await whole.options(after=[parts[2], parts[0].id, parts[1], parts[1]]).enqueue()
        assert (await merged.status()).state is JobState.BLOCKED
        await app.jobs.drain()

        assert await merged.result() == [4, 0, 1]


async def test_a_job_that_started_after_nothing_has_waited_for_none() -> None:
    async with App("memory://") as app:

        @app.job()
        async def alone() -> int:
            return len(current_job().after)

        handle = await alone.enqueue()
        await app.jobs.drain()
        assert await handle.result() == 0


async def test_a_failure_cancels_what_waits_for_it() -> None:
    async with App("memory://") as app:

        @app.job(retry=Retry.NEVER)
        async def broken() -> None:
            raise OSError("disk full")

        @app.job()
        async def after() -> None: ...

        failing = await broken.enqueue()
        cancelled = await after.options(after=[failing]).enqueue()
        await app.jobs.drain()
        with pytest.raises(JobCancelledError, match=f"because job {failing.id} failed: OSError: disk full"):
            await cancelled.result()
        with pytest.raises(NotFoundError, match="unknown or no longer kept"):
            await after.options(after=[10**15]).enqueue()


async def test_a_handler_does_not_wait_for_one_that_starts_after_it() -> None:
    async with App("memory://") as app:

        @app.job()
        async def after() -> None: ...

        @app.job(retry=Retry.NEVER)
        async def first() -> str:
            following = await after.options(after=[current_job().id]).enqueue()
            try:
                await following.result(wait=5)
            except DeadlockError as error:
                return str(error)
            return ""

        handle = await first.enqueue()
        counts = await app.jobs.drain()
        assert "starts after" in await handle.result()
        assert counts == {"done": 2}


async def test_a_job_that_is_too_late_never_starts() -> None:
    started: list[str] = []
    async with App("memory://") as app:

        @app.job(expires=timedelta(hours=1))
        async def notify(who: str) -> None:
            started.append(who)

        in_time = await notify.enqueue("ann")
        late = await notify.options(expires=datetime.now(UTC) - timedelta(seconds=1)).enqueue("bob")
        never = await notify.options(expires=None).enqueue("eve")
        await app.jobs.drain()

        assert started == ["ann", "eve"]
        assert await in_time.result() is None
        assert await never.result() is None
        with pytest.raises(JobExpiredError, match="expired: not started by") as caught:
            await late.result()
        assert isinstance(caught.value, JobCancelledError)


@pytest.mark.parametrize("every_store_url", ["sqlite", "postgres"], indirect=True)
async def test_a_worker_returns_what_expires_while_its_runners_are_busy(store_url: str) -> None:
    started: list[int] = []
    async with App(store_url) as app:

        @app.job()
        async def slow() -> None:
            await asyncio.sleep(0.6)

        @app.job()
        async def quick(number: int) -> None:
            started.append(number)

        await slow.enqueue()
        late = await quick.options(expires=0.3).enqueue(1)
        plain = await quick.enqueue(2)
        async with app.jobs.worker(concurrency=1):
            with pytest.raises(JobExpiredError):
                await late.result(wait=20)
            await plain.result(wait=20)

        assert started == [2]
