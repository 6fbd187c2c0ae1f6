"""The heart goes on beating whatever happens, and when it cannot, everybody is told in time."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks, Settings
from interlock import sessions as sessions_module
from interlock.backends.memory import MemoryStore
from interlock.backends.sqlite.sessions import SqliteSessions
from interlock.errors import LeaseLostError
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none
from interlock.testing.processes import Worker, report

if TYPE_CHECKING:
    from pathlib import Path


async def broken(*_: Any) -> Any:
    raise RuntimeError("broken, for the test")


async def test_a_failing_sweep_does_not_end_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_SWEEP_EVERY", 0.0)
    monkeypatch.setattr(SqliteSessions, "sweep", broken)
    async with (
        Locks.from_url(f"sqlite:///{tmp_path}/i.db", session_ttl=1.0) as locks,
        locks.acquire("key") as lease,
    ):
        first = lease._session.deadline
        await until(lambda: lease._session.deadline > first + 1, within=5, what="renewed after a sweep failed")
        lease.ensure()


async def test_closing_ends_also_when_the_session_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteSessions, "end", broken)
    locks = Locks.from_url(f"sqlite:///{tmp_path}/i.db", session_ttl=1.0)
    await locks.open()
    await asyncio.wait_for(locks.close(), 5)


async def test_a_session_that_cannot_be_renewed_stops_its_bodies_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Locks.from_url(f"sqlite:///{tmp_path}/i.db", session_ttl=1.0) as locks:
        with pytest.raises(LeaseLostError, match="session"):  # noqa: PT012
            async with locks.acquire("key") as lease:
                monkeypatch.setattr(SqliteSessions, "renew", broken)
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    view = await get_or_none(locks, "key")
                    assert view is not None, "the store must still honour it when the body is stopped"
                    assert view.holder is not None
                    assert view.holder.fence == lease.fence
                    raise
        monkeypatch.undo()
        async with locks.acquire("key", wait=10) as again:
            assert again.fence > lease.fence


async def test_bodies_are_stopped_even_if_the_heartbeat_itself_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Locks(store, Settings(session_ttl=1.0)) as locks:
        with monkeypatch.context() as patch, pytest.raises(LeaseLostError, match="session"):  # noqa: PT012
            async with locks.acquire("key"):
                patch.setattr(store.sessions, "renew", broken)
                patch.setattr(locks._store_client.keeper, "_tell", lambda *_: None)  # it finds out, and tells nobody
                await asyncio.sleep(10)


@pytest.mark.full
async def test_a_busy_event_loop_does_not_cost_a_process_its_session(tmp_path: Path) -> None:
    # Long enough for the heartbeat's thread to have its turn on a busy machine.
    async with Locks.from_url(f"sqlite:///{tmp_path}/i.db", session_ttl=3.0, stuck_work="report") as locks:
        async with locks.acquire("key") as lease:
            busy_until = lease._session.deadline + 1.5
            while locks._store_client.clock.monotonic() < busy_until:  # nothing else on this loop can run
                pass
            lease.ensure()
        assert locks.metrics.losses == {}


def work_that_ignores_everything(directory: str, stuck_work: str) -> None:
    async def work() -> None:
        settings = Settings(session_ttl=1.0, stuck_work=stuck_work)  # type: ignore[arg-type]
        async with Locks.from_url(f"sqlite:///{directory}/i.db", settings=settings) as locks:
            try:
                async with locks.acquire("key") as lease:
                    SqliteSessions.renew = broken  # type: ignore[method-assign]
                    report("stuck", pid=os.getpid())
                    while locks._store_client.clock.monotonic() < lease._session.deadline + 2:
                        pass
            except LeaseLostError:
                report("told")

    asyncio.run(work())


async def test_work_that_outlives_its_session_ends_the_process(tmp_path: Path) -> None:
    async with Worker.spawn("tests.test_sessions:work_that_ignores_everything", (str(tmp_path), "exit")) as worker:
        await worker.wait_for("stuck", timeout=20)
        assert await worker.wait(timeout=10) == 70


@pytest.mark.full
async def test_or_is_only_reported_where_that_was_asked_for(tmp_path: Path) -> None:
    async with Worker.spawn("tests.test_sessions:work_that_ignores_everything", (str(tmp_path), "report")) as worker:
        await worker.wait_for("stuck", timeout=20)
        await worker.wait_for("told", timeout=10)
        assert "work_overran_session" in worker.stderr


async def test_the_heartbeat_sweeps_while_there_is_more_and_renews_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_SWEEP_EVERY", 0.0)
    store = MemoryStore()
    left, renewals = [20_000], [0]
    renew = store.sessions.renew

    async def counted(id: str, seconds: float) -> bool:  # noqa: A002
        renewals[0] += 1
        return await renew(id, seconds)

    async def sweep() -> int:
        swept = min(1000, left[0])
        left[0] -= swept
        return swept

    monkeypatch.setattr(store.sessions, "renew", counted)
    monkeypatch.setattr(store.sessions, "sweep", sweep)
    async with Locks(store, Settings(session_ttl=2.0)) as locks, locks.acquire("key") as lease:
        await until(lambda: left[0] == 0, within=20, what="all is swept")
        swept_after = renewals[0]
        await until(lambda: renewals[0] > swept_after + 1, within=20, what="renewed after that")
        lease.ensure()

    assert swept_after <= 5  # one batch for each renewal would take twenty


async def test_a_sweep_that_never_ends_leaves_the_heartbeat_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_SWEEP_EVERY", 0.0)
    store = MemoryStore()

    async def sweep() -> int:
        await asyncio.sleep(0.001)
        return 1000

    monkeypatch.setattr(store.sessions, "sweep", sweep)
    async with Locks(store, Settings(session_ttl=2.0)) as locks, locks.acquire("key") as lease:
        first = lease._session.deadline
        await until(lambda: lease._session.deadline > first + 1, within=20, what="renewed between the sweeps")
        lease.ensure()


async def test_a_short_life_sweeps_more_than_one_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    left = [3000]

    async def sweep() -> int:
        swept = min(1000, left[0])
        left[0] -= swept
        return swept

    monkeypatch.setattr(store.sessions, "sweep", sweep)
    async with Locks(store, Settings()) as locks, locks.acquire("key"):
        pass

    assert left == [0]
