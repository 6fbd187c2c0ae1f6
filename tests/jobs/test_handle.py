"""Handles: what a job gave, how it stands, and waiting for its end without waiting for ever."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Discard, Jobs, JobState, Retry, Settings, Slots, current_job
from interlock.backends.memory import MemoryStore
from interlock.errors import (
    DeadlockError,
    InvalidArgumentError,
    JobCancelledError,
    JobFailedError,
    JobTimeoutError,
    MisuseError,
    NotFoundError,
    ResultGoneError,
    StoreUnavailableError,
)
from interlock.testing.clock import VirtualClock, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.jobs import Handle

stores = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


@dataclasses.dataclass
class Report:
    pages: int


async def fails(text: str) -> None:
    raise ValueError(text)


async def test_an_error_that_ends_in_a_full_stop_is_told_with_one() -> None:
    async with App("memory://") as app:
        on_failure = app.job(retry=Retry(attempts=1))(fails)
        async with app.worker():
            with pytest.raises(JobFailedError, match=r"ValueError: It broke\. Fix the cause"):
                await (await on_failure.enqueue("It broke.")).result(wait=10)


@stores
async def test_results_of_every_kind(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job()
        async def report(pages: int) -> Report:
            return Report(pages)

        @app.job()
        def plain() -> None: ...

        @app.job()
        async def discards() -> None:
            raise Discard("closed already")

        on_failure = app.job(retry=Retry.NEVER)(fails)
        done, none = await report.enqueue(7), await plain.enqueue()
        failed, discarded = await on_failure.enqueue("too big"), await discards.enqueue()
        cancelled = await report.options(delay=3600).enqueue(1)
        assert await app.jobs.cancel(cancelled, reason="wrong one", by="ann") is JobState.CANCELLED

        await app.drain()

        assert await done.result(wait=5) == Report(7), "of the type that was declared"
        assert await app.jobs.handle(done.id).result(wait=0) == Report(7)
        assert await none.result(wait=0) is None
        with pytest.raises(JobFailedError, match=r"failed: ValueError: too big\..+jobs retry") as error:
            await failed.result(wait=0)
        assert (error.value.job, error.value.state) == (failed.id, "failed")
        assert error.value.error == "ValueError: too big"
        assert "in fails" in error.value.trace
        with pytest.raises(JobCancelledError, match="discarded: closed already"):
            await discarded.result(wait=0)
        with pytest.raises(JobCancelledError, match=r"cancelled.+wrong one"):
            await cancelled.result(wait=0)
        status = await done.status()
        assert (status.state, status.attempt, status.name) == (JobState.DONE, 1, "report")
        assert status.started_at is not None
        assert status.finished_at is not None
        assert status.enqueued_at <= status.started_at <= status.finished_at


@stores
async def test_a_result_is_heard_of_at_once(store_url: str) -> None:
    """By message: a look now and then alone would take the 60 seconds that are set here."""
    async with App(store_url, recheck_interval=60) as app, App(store_url, recheck_interval=60) as other:
        if store_url == "memory://":
            other = app
        go_on = asyncio.Event()

        @app.job()
        async def report() -> str:
            await go_on.wait()
            return "done"

        handle = await report.enqueue()
        async with app.worker():
            waiting = [
                asyncio.create_task(jobs.handle(handle.id).result(wait=30)) for jobs in (app.jobs, other.jobs) * 2
            ]
            await until(_running(app, handle))
            go_on.set()
            assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == ["done"] * 4


async def test_a_message_that_is_lost_costs_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with App("memory://", recheck_interval=0.05) as app:

        @app.job()
        async def report() -> str:
            return "done"

        engine = app.jobs._running
        monkeypatch.setattr(engine, "turn", lambda _: None)
        handle = await report.enqueue()
        waiting = asyncio.create_task(handle.result(wait=30))
        await until(lambda: engine.end_watcher._waiters and not engine.end_watcher._unchecked)
        await app.drain()

        assert await asyncio.wait_for(waiting, 10) == "done"


async def test_waiting_outlasts_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Jobs(store, Settings(recheck_interval=60)) as jobs:

        @jobs.job()
        async def report() -> str:
            return "done"

        handle = await report.enqueue()
        ask, failures = store.jobs.watch_end, []

        async def away(session: str, ids: Sequence[int]) -> Sequence[int]:
            if len(failures) < 2:
                failures.append(ids)
                raise StoreUnavailableError("It is away.")
            return await ask(session, ids)

        monkeypatch.setattr(store.jobs, "watch_end", away)
        waiting = asyncio.create_task(handle.result(wait=30))
        await until(lambda: len(failures) == 2)
        await jobs.drain()

        assert await asyncio.wait_for(waiting, 10) == "done"


async def test_waiting_outlasts_a_session() -> None:
    async with App("memory://", session_ttl=1.0, recheck_interval=60, stuck_work="report") as app:

        @app.job()
        async def report() -> str:
            return "done"

        handle = await report.enqueue()
        waiting = asyncio.create_task(handle.result(wait=30))
        engine = app.jobs._running
        await until(lambda: engine.end_watcher._waiters and not engine.end_watcher._unchecked)
        first = engine.session
        await engine.store_client.store.sessions.end(first.id)
        await until(lambda: engine.session is not first, within=10)
        await until(lambda: not engine.end_watcher._unchecked)
        await app.drain()

        assert await asyncio.wait_for(waiting, 20) == "done"


@stores
async def test_a_wait_that_runs_out_says_why(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job()
        async def report() -> str:
            return "done"

        handle = await report.options(delay=3600).enqueue()
        for wait in (0, 0.05):
            with pytest.raises(JobTimeoutError, match="enqueued for later") as error:
                await handle.result(wait=wait)
        assert isinstance(error.value, TimeoutError)
        assert error.value.job == handle.id
        assert (await handle.status()).state is JobState.SCHEDULED, "it goes on"


@stores
async def test_who_stops_waiting_leaves_nothing_behind(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job()
        async def report() -> str:
            return "done"

        handle = await report.enqueue()
        ends = app.jobs._running.end_watcher
        first, second = (asyncio.create_task(handle.result(wait=30)) for _ in range(2))
        await until(lambda: len(ends._waiters.get(handle.id, ())) == 2)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not second.done(), "one who goes away takes nobody along"
        await app.drain()
        assert await second == "done"
        assert (ends._waiters, ends._unchecked, ends._checking) == ({}, {}, None)


@stores
async def test_closing_ends_the_waiting(store_url: str) -> None:
    jobs = Jobs.from_url(store_url)

    @jobs.job()
    async def report() -> str:
        return "done"

    async with jobs:
        waiting = asyncio.create_task((await report.enqueue()).result(wait=30))
        await until(lambda: jobs._running.end_watcher._waiters)
    with pytest.raises(MisuseError, match="closed"):
        await asyncio.wait_for(waiting, 5)


@stores
async def test_a_handle_follows_to_the_newest(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job(lane="one", coalesce=True)
        async def sync(version: int) -> int:
            return version

        handles = [await sync.enqueue(version) for version in range(5)]
        waiting = [asyncio.create_task(handle.result(wait=30)) for handle in handles]
        await app.drain()

        assert await asyncio.gather(*waiting) == [4] * 5
        assert [(await handle.status()).id for handle in handles] == [handles[-1].id] * 5
        first = await app.jobs.get(handles[0])
        assert first is not None
        assert (first.state, first.superseded_by) == (JobState.SUPERSEDED, handles[-1].id)


async def test_a_result_that_is_no_longer_kept() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    async with Jobs(store) as jobs:

        @jobs.job(keep_result=60)
        async def report() -> str:
            return "done"

        handle = await report.enqueue()
        await jobs.drain()
        assert await handle.result(wait=0) == "done"
        clock.advance(61)
        await store.jobs.prune(1000.0)
        with pytest.raises(ResultGoneError, match="no longer kept"):
            await handle.result(wait=0)
        clock.advance(1000)
        await store.jobs.prune(1000.0)
        with pytest.raises(ResultGoneError, match="is no longer kept"):
            await handle.result(wait=0)
        with pytest.raises(NotFoundError, match=f"Job {handle.id} does not exist"):
            await handle.status()


@stores
async def test_a_job_that_nobody_knows(store_url: str) -> None:
    async with App(store_url) as app:
        unknown = app.jobs.handle(2**62)
        for act in (
            unknown.status(),
            app.jobs.cancel(unknown, reason="x", by="ann"),
            app.jobs.retry(2**62, by="ann"),
            app.jobs.explain(unknown),
        ):
            with pytest.raises(NotFoundError, match="Job 4611686018427387904 does not exist"):
                await act
        with pytest.raises(NotFoundError):
            await app.jobs.get(unknown)
        with pytest.raises(NotFoundError):
            await app.lanes.get("nobody")
        assert not await app.lanes.release("nobody", by="ann")


# -- by hand -----------------------------------------------------------------------------------------------------------


@stores
async def test_a_failed_job_is_retried_by_hand(store_url: str) -> None:
    async with App(store_url) as app:
        broken = True

        @app.job(retry=Retry.NEVER)
        async def report() -> str:
            if broken:
                raise ValueError("broken")
            return "done"

        handle = await report.enqueue()
        await app.drain()
        assert (await handle.status()).state is JobState.FAILED
        broken = False
        assert await app.jobs.retry(handle, by="ann") is JobState.READY
        await app.drain()
        assert await handle.result(wait=5) == "done"


@stores
async def test_a_held_lane_waits_for_its_release(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job(lane="x#1")
        async def report() -> str:
            return "done"

        await app.lanes.hold("x#1", reason="audit", by="ann")
        handle, behind = await report.enqueue(), await report.enqueue()
        await app.drain()

        told = await app.jobs.explain(handle)
        assert told.reason == "lane-held"
        assert "held by ann" in str(told)
        assert "held by ann" in str(await app.jobs.explain(behind))
        assert (await app.lanes.explain("x#1")).reason == "lane-held"
        assert [(view.lane, view.held_by) for view in await app.lanes.list()] == [("x#1", "ann")]
        assert await app.lanes.release("x#1", by="bob")
        await app.drain()
        assert await behind.result(wait=5) == "done"


async def test_who_holds_and_releases_a_lane_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with App("memory://") as app:
        with caplog.at_level(logging.INFO, "interlock.operations"):
            await app.lanes.hold("x#1", reason="audit", by="ann")
            assert await app.lanes.release("x#1", by="bob")
            assert not await app.lanes.release("x#1", by="eve")
        with pytest.raises(InvalidArgumentError, match="Releasing a lane needs"):
            await app.lanes.release("x#1", by=" ")

    assert [(record.event, record.fields) for record in caplog.records if hasattr(record, "event")] == [
        ("lane_held", {"lane": "x#1", "by": "ann", "reason": "audit"}),
        ("lane_released", {"lane": "x#1", "by": "bob", "reason": ""}),
    ]


# -- inside a handler --------------------------------------------------------------------------------------------------


@stores
async def test_waiting_for_what_cannot_run_is_refused(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job(lane="one", limits=[Slots("containers", 5)])
        async def child() -> str:
            return "child"

        @app.job(lane="one", retry=Retry.NEVER)
        async def same_lane() -> str:
            return await (await child.options(limits=[]).enqueue()).result(wait=30)

        @app.job(limits=[Slots("containers", 5)], retry=Retry.NEVER)
        async def same_slots() -> str:
            # Of five slots four are free: without the delay the child could end before the handler asks for its result.
            return await (await child.options(lane=None, delay=3600).enqueue()).result(wait=30)

        @app.job(retry=Retry.NEVER)
        async def itself() -> Any:
            return await app.jobs.handle(current_job().id).result(wait=30)

        @app.job(lane="two", limits=[Slots("others", 1)])
        async def allowed() -> str:
            return await (await child.options(lane=None).enqueue()).result(wait=30)

        handles = [await job.enqueue() for job in (same_lane, same_slots, itself, allowed)]
        await app.drain()

        for handle, why in zip(handles, ("behind job .+ in the lane 'one'", "needs room in", "itself"), strict=False):
            with pytest.raises(JobFailedError, match=f"DeadlockError.+{why}"):
                await handle.result(wait=5)
        assert await handles[3].result(wait=5) == "child"


@stores
async def test_a_job_that_has_ended_is_not_waited_for_and_so_not_refused(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job(limits=[Slots("containers", 5)])
        async def child() -> str:
            return "child"

        @app.job(limits=[Slots("containers", 5)], retry=Retry.NEVER)
        async def parent() -> str:
            handle = await child.enqueue()
            while not (await handle.status()).state.final:
                await asyncio.sleep(0.01)
            return await handle.result(wait=30)

        handle = await parent.enqueue()
        await app.drain()

        assert await handle.result(wait=5) == "child"


async def test_two_jobs_that_wait_for_each_other() -> None:
    async with App("memory://") as app:
        ids: list[int] = []

        @app.job(retry=Retry.NEVER)
        async def waits(other: int) -> str:
            await until(lambda: len(ids) == 2)
            return str(await app.jobs.handle(ids[other]).result(wait=30))

        handles: list[Handle[str]] = [await waits.enqueue(1), await waits.enqueue(0)]
        ids.extend(handle.id for handle in handles)
        await app.drain(wait=30)

        for handle in handles:
            with pytest.raises(JobFailedError, match=r"DeadlockError|JobFailedError"):
                await handle.result(wait=5)


async def test_a_cycle_is_named() -> None:
    async with App("memory://") as app:
        ids: list[int] = []
        errors: list[DeadlockError] = []

        @app.job(retry=Retry.NEVER)
        async def waits(other: int) -> None:
            await until(lambda: len(ids) == 2)
            try:
                await app.jobs.handle(ids[other]).result(wait=30)
            except DeadlockError as error:
                errors.append(error)

        ids.extend([(await waits.enqueue(1)).id, (await waits.enqueue(0)).id])
        await app.drain(wait=30)

        (error,) = errors
        first, second = error.cycle
        one, two = ids if first.startswith(f"job {ids[0]}") else reversed(ids)
        assert first == f"job {one} (waits) waits for job {two} (waits)"
        assert second == f"job {two} waits for job {one}"


async def test_tasks_of_one_handler_wait_for_each_other_s_locks() -> None:
    async with App("memory://") as app:

        @app.job(retry=Retry.NEVER)
        async def report() -> int:
            async def one() -> None:
                async with app.locks.acquire("key", wait=20):
                    await asyncio.sleep(0)

            await asyncio.gather(*(one() for _ in range(3)))
            async with app.locks.acquire("key", wait=20):
                with pytest.raises(DeadlockError):
                    await app.locks.acquire("key", wait=20)
            return 3

        handle = await report.enqueue()
        await app.drain()

        assert await handle.result(wait=5) == 3


async def test_the_current_job() -> None:
    async with App("memory://") as app:
        seen: dict[str, Any] = {}

        @app.job(lane="one", queue="slow")
        async def report() -> None:
            job = current_job()
            seen.update(id=job.id, name=job.name, attempt=job.attempt, lane=job.lane, queue=job.queue, fence=job.fence)
            child = asyncio.create_task(_id_here())
            seen["child"] = await child

        @app.job(queue="slow")
        def plain() -> int:
            return current_job().id

        handle, other = await report.enqueue(), await plain.enqueue()
        await app.drain()

        assert seen.pop("fence") > 0
        assert seen == {
            "id": handle.id,
            "child": handle.id,
            "name": "report",
            "attempt": 1,
            "lane": "one",
            "queue": "slow",
        }
        assert await other.result(wait=5) == other.id
        with pytest.raises(MisuseError, match="No job is running here"):
            current_job()


async def _id_here() -> int:
    return current_job().id


def _running(app: App, handle: Handle[Any]) -> Any:
    async def running() -> bool:
        return (await app.jobs.handle(handle.id).status()).state is JobState.RUNNING

    return running
