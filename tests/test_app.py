"""One App: its parts share a store and a session, or live where they were told to."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlock import App, Claims, Cooldown, Limits, Locks, Settings, Slots
from interlock.backends.memory import MemoryStore
from interlock.errors import CapabilityError, LeaseLostError, MisuseError
from interlock.jobs import Outcome
from interlock.store_client import StoreClient
from interlock.testing.clock import until

if TYPE_CHECKING:
    from pathlib import Path

durable = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)
SHORT = Settings(session_ttl=1.0, stuck_work="report")


async def test_all_parts_of_an_app_share_one_session(store_url: str) -> None:
    async with App(store_url) as app:
        async with (
            app.locks.acquire("key") as lease,
            app.claims.claim("delivery") as claim,
            app.limits.acquire(Slots("one", 1)) as turn,
        ):
            assert claim.lease is not None
            assert lease._session is claim.lease._session is turn._session
        position = await app.cursors["notes"].move("page 1", after=None)
        assert await app.cursors["notes"].read() == position


async def test_locks_and_claims_can_live_elsewhere(tmp_path: Path, interlock_redis_url: str) -> None:
    durable, other = f"sqlite:///{tmp_path}/bot.db", f"sqlite:///{tmp_path}/claims.db"
    async with (
        App(durable, locks=interlock_redis_url, claims=other) as app,
        app.locks.acquire("key"),
        app.claims.claim("delivery"),
        app.limits.acquire(Slots("one", 1)),
    ):
        async with Locks.from_url(interlock_redis_url) as locks, Claims.from_url(other) as claims:
            assert [view.key for view in await locks.list()] == ["key"]
            assert [view.key for view in await claims.list()] == ["delivery"]
        async with Claims.from_url(durable) as claims, Limits.from_url(durable) as limits:
            assert list(await claims.list()) == []
            assert [view.key for view in await limits.list()] == ["slots:one"]


async def test_a_part_that_closes_early_leaves_the_others_at_work() -> None:
    store_client = StoreClient(MemoryStore(), Settings())
    locks, limits = Locks(store_client), Limits(store_client)
    async with locks, locks.acquire("key") as lease:
        async with limits:
            await limits.reserve(Cooldown("gap", 90))
        assert not lease.lost
        lease.ensure()


def test_an_app_can_be_opened_again_on_another_event_loop(store_url: str) -> None:
    app = App(store_url)

    async def use() -> None:
        async with app:
            async with app.locks.acquire("key"), app.limits.acquire(Slots("one", 1)):
                pass
            tasks = [asyncio.create_task(take()) for _ in range(5)]
            await asyncio.gather(*tasks)

    async def take() -> None:
        async with app.locks.acquire("key", wait=5):
            await asyncio.sleep(0)

    for _ in range(2):
        asyncio.run(use())


@pytest.mark.parametrize("part", ["lock", "claim", "limit"])
async def test_what_was_given_back_early_is_not_missed_when_the_session_is_lost(part: str) -> None:
    """The rest of the block goes on, and the process is not thought to be stuck."""
    async with App("memory://", settings=SHORT) as app:
        if part == "lock":
            async with app.locks.acquire("key") as lease:
                await lease.release()
                await _lose_session(app, relied_on=0)
        elif part == "claim":
            async with app.claims.claim("key") as claim:
                await claim.done()
                await _lose_session(app, relied_on=0)
        else:
            async with app.limits.acquire(Slots("one", 1)) as turn:
                await turn.finish()
                await _lose_session(app, relied_on=0)


async def test_losing_the_session_stops_nested_blocks_once() -> None:
    async with App("memory://", settings=SHORT) as app:
        ends = []
        try:
            async with app.locks.acquire("key"), app.claims.claim("delivery"), app.limits.acquire(Slots("one", 1)):
                await _lose_session(app)
                await asyncio.sleep(60)
        except LeaseLostError as error:
            ends.append(str(error))
        assert len(ends) == 1
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "the task is left cancelled"
        async with app.locks.acquire("key", wait=5), app.limits.acquire(Slots("one", 1), wait=5):
            pass


async def test_a_reservation_is_started_once() -> None:
    async with App("memory://") as app, app.limits.acquire(Slots("one", 1)):
        waiting = await app.limits.reserve(Slots("one", 1))
        first = asyncio.create_task(waiting.start(wait=30))
        await asyncio.sleep(0)
        with pytest.raises(MisuseError, match="being started"):
            await waiting.start(wait=30)
        first.cancel()


async def test_an_app_without_jobs_works_where_there_are_none(interlock_redis_url: str) -> None:
    async with App(interlock_redis_url) as app, app.locks.acquire("key"), app.limits.acquire(Slots("one", 1)):
        with pytest.raises(CapabilityError, match=r"redis offers no jobs.+postgresql"):
            await app.drain()
        with pytest.raises(CapabilityError):
            app.worker()
        assert not any("jobs" in family.name for family in app.metrics.collect())


@durable
async def test_jobs_are_a_part_like_the_others(store_url: str) -> None:
    app = App(store_url)

    @app.job()
    async def report(account: str) -> str:
        async with app.locks.acquire(account) as lease, app.limits.acquire(Slots("one", 1)):
            assert lease._session is app.jobs._running.session
        return account

    async with app:
        handle = await report.enqueue("a1")
        assert await app.drain() == {Outcome.DONE: 1}
        assert await handle.result(wait=5) == "a1"
        counted = {
            (sample.name, sample.labels.get("outcome", "")): sample.value
            for family in app.metrics.collect()
            for sample in family.samples
            if sample.labels.get("job") == "report"
        }
    assert counted["interlock_jobs_enqueued_total", ""] == 1
    assert counted["interlock_jobs_finished_total", "done"] == 1
    assert counted["interlock_jobs_duration_seconds_count", ""] == 1


@durable
def test_an_app_with_jobs_can_be_opened_again_on_another_event_loop(store_url: str) -> None:
    app = App(store_url)

    @app.job()
    async def report(number: int) -> int:
        return number

    async def use(number: int) -> None:
        async with app:
            handle = await report.enqueue(number)
            async with app.worker():
                assert await handle.result(wait=20) == number

    for number in range(2):
        asyncio.run(use(number))


def test_apps_without_jobs_do_not_pay_for_them() -> None:
    """Importing pydantic takes longer than all of Interlock."""
    code = "import sys, interlock; interlock.App('memory://'); sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def _lose_session(app: App, *, relied_on: int | None = None) -> None:
    """End the process's session in the store, and wait until the process has found out."""
    store_client = app.locks._store_client
    session = store_client.session
    assert relied_on in (None, session.at_work), "what would make the process exit is miscounted"
    await store_client.store.sessions.end(session.id)
    await until(lambda: session.lost, within=10)
    assert session.at_work == 0 or session.lost


@pytest.mark.parametrize("part", ["lock", "claim"])
async def test_who_takes_from_itself_is_told_and_goes_on(part: str) -> None:
    async with App("memory://") as app:

        async def work() -> str:
            with pytest.raises(LeaseLostError):  # noqa: PT012
                if part == "lock":
                    async with app.locks.acquire("key"):
                        await app.locks.force_release("key", reason="test", by="itself")
                else:
                    async with app.claims.claim("key"):
                        await app.claims.forget("key", reason="test", by="itself")
            await asyncio.sleep(0.01)
            return "went on"

        assert await asyncio.create_task(work()) == "went on"


@pytest.mark.parametrize("part", ["claim", "limit"])
async def test_a_lost_body_may_clean_up_by_itself(part: str) -> None:
    async with App("memory://", settings=SHORT) as app:
        with pytest.raises(LeaseLostError, match="session"):  # noqa: PT012
            if part == "claim":
                async with app.claims.claim("key") as claim:
                    try:
                        await _lose_session(app)
                        await asyncio.sleep(60)
                    finally:
                        with contextlib.suppress(LeaseLostError):
                            await claim.fail("stopped")
            else:
                async with app.limits.acquire(Slots("one", 1)) as turn:
                    try:
                        await _lose_session(app)
                        await asyncio.sleep(60)
                    finally:
                        with contextlib.suppress(LeaseLostError):
                            await turn.finish()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
