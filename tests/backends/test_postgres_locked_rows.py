"""Rows of Interlock's tables that another transaction keeps locked hold up only the jobs that they belong to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App
from interlock.jobs.jobs import engine_of
from interlock.ports.jobs import FetchRequest, FetchResult, JobState
from interlock.reasons import Reason
from interlock.testing import clock
from tests.backends.outages import Events, events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["events"]

LANES = 40
EACH = 3


class Stage:
    """An app whose jobs run only when they may."""

    def __init__(self, url: str) -> None:
        self.app = App(url, recheck_interval=0.5)
        self.may_end = asyncio.Event()
        self.started: set[str] = set()

        @self.app.job(lane="{lane}")
        async def work(lane: str, number: int) -> None:
            self.started.add(lane)
            await self.may_end.wait()

        self.work = work

    async def enqueue(self) -> dict[str, list[Any]]:
        """Some jobs in each lane."""
        lanes: dict[str, list[Any]] = {}
        for number in range(EACH):
            for lane in range(LANES):
                lanes.setdefault(f"lane-{lane}", []).append(await self.work.enqueue(lane=f"lane-{lane}", number=number))
        return lanes


@pytest.fixture
async def stage(complete_postgres_url: str) -> AsyncIterator[Stage]:
    stage = Stage(complete_postgres_url)
    async with stage.app:
        yield stage


@asynccontextmanager
async def locked(url: str, sql: str) -> AsyncIterator[int]:
    """Keep rows locked by a transaction of somebody else; gives the number of its backend."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "backup"})
    try:
        async with connection.transaction():
            assert await connection.fetch(sql), "there is nothing to lock"
            yield connection.get_server_pid()
    finally:
        await connection.close()


LANE_3 = "select from interlock.job_lane where lane = 'default/lane-3' for update"


async def test_one_locked_lane_holds_up_no_other(stage: Stage, complete_postgres_url: str, events: Events) -> None:
    lanes = await stage.enqueue()
    async with stage.app.worker(concurrency=LANES) as worker:
        await clock.until(lambda: len(stage.started) == LANES)
        async with locked(complete_postgres_url, LANE_3) as backend:
            stage.may_end.set()
            for lane, handles in lanes.items():
                if lane != "lane-3":
                    for handle in handles:
                        await handle.result(wait=30)
            first = lanes["lane-3"][0]
            assert not (await first.status()).state.final
            (blocked,) = events["job_acknowledgement_blocked"]
            assert (blocked.fields["id"], blocked.fields["lane"]) == (first.id, "lane-3")
            assert f"The row of lane 'lane-3' is locked by backend {backend} (backup, idle" in blocked.fields["error"]
            assert "lane-3" in worker.status().trouble
        for handle in lanes["lane-3"]:
            await handle.result(wait=30)
        assert len(events["job_acknowledgement_blocked_over"]) == 1
        assert worker.status().trouble == ""
    assert not events["job_acknowledgement_failed"]


async def test_a_locked_job_holds_up_no_other(stage: Stage, complete_postgres_url: str, events: Events) -> None:
    handles = [await stage.app.jobs.enqueue(stage.work.call(lane=f"lane-{number}", number=0)) for number in range(9)]
    async with stage.app.worker(concurrency=LANES):
        await clock.until(lambda: len(stage.started) == 9)
        async with locked(complete_postgres_url, f"select from interlock.job where id = {handles[4].id} for update"):
            stage.may_end.set()
            for handle in handles[:4] + handles[5:]:
                await handle.result(wait=30)
            assert not (await handles[4].status()).state.final
            (blocked,) = events["job_acknowledgement_blocked"]
            assert blocked.fields["id"] == handles[4].id
        await handles[4].result(wait=30)


async def test_a_lane_that_is_locked_before_its_job_is_fetched_holds_up_no_other(
    stage: Stage, complete_postgres_url: str
) -> None:
    engine = engine_of(stage.app.jobs)
    lanes = await stage.enqueue()
    await engine.jobs.fetch(FetchRequest(engine.session.id, ("default",), ("work",), 1, 1, 1))
    await engine.jobs.return_unstarted(engine.session.id)  # each lane has its row now, and its jobs are to be fetched
    stage.may_end.set()
    left = {lane: handles[EACH - 1] for lane, handles in lanes.items()}
    async with locked(complete_postgres_url, LANE_3), stage.app.worker(concurrency=LANES):
        for lane, handle in left.items():
            if lane != "lane-3":
                await handle.result(wait=30)
    async with stage.app.worker(concurrency=LANES):
        await left["lane-3"].result(wait=30)


async def test_a_locked_lane_of_a_dead_worker_holds_up_no_rescue(stage: Stage, complete_postgres_url: str) -> None:
    store = engine_of(stage.app.jobs).jobs
    lanes = await stage.enqueue()
    session = engine_of(stage.app.jobs).session.id
    batch = await store.fetch(FetchRequest(session, ("default",), ("work",), 1000, 1000, EACH))
    assert isinstance(batch, FetchResult)
    assert len(batch.jobs) == LANES * EACH
    connection = await asyncpg.connect(complete_postgres_url)
    await connection.execute("update interlock.job_fetched set session = 'dead'")
    await connection.close()

    async with locked(complete_postgres_url, LANE_3):
        rescued = {job.id: job for job in await store.rescue()}
        assert set(rescued) == {job.id for job in batch.jobs} - {handle.id for handle in lanes["lane-3"]}
        assert await store.rescue() == []
    of_lane_3 = {job.id: job for job in await store.rescue()}
    assert set(of_lane_3) == {handle.id for handle in lanes["lane-3"]}
    suspects = [job.id for job in (*rescued.values(), *of_lane_3.values()) if job.half is not None]
    assert sorted(suspects) == sorted(handles[0].id for handles in lanes.values()), "the first of each run"
    assert all(job.crashes == 0 for job in (*rescued.values(), *of_lane_3.values())), "none was alone"


async def test_a_locked_lane_holds_up_neither_handing_back_nor_fetches(
    stage: Stage, complete_postgres_url: str, events: Events
) -> None:
    engine = engine_of(stage.app.jobs)
    lanes = await stage.enqueue()
    stage.may_end.set()
    await engine.jobs.fetch(FetchRequest(engine.session.id, ("default",), ("work",), 1000, 1000, EACH))
    async with stage.app.worker(concurrency=LANES) as worker:
        async with locked(complete_postgres_url, LANE_3):
            worker._coordinator.doubt()  # as after a fetch whose answer was lost
            worker._fetcher._signal.announce()
            for lane, handles in lanes.items():
                if lane != "lane-3":
                    for handle in handles:
                        await handle.result(wait=30)
            assert events["job_chore_failed"][0].fields["chore"] == "return"
        for handle in lanes["lane-3"]:
            await handle.result(wait=30)


@pytest.mark.full
async def test_two_shared_locks_on_a_lane_hold_up_no_other(stage: Stage, complete_postgres_url: str) -> None:
    handles = [await stage.app.jobs.enqueue(stage.work.call(lane=f"lane-{number}", number=0)) for number in range(9)]
    shared = LANE_3.replace("for update", "for share")
    async with stage.app.worker(concurrency=LANES):
        await clock.until(lambda: len(stage.started) == 9)
        async with locked(complete_postgres_url, shared), locked(complete_postgres_url, shared):
            stage.may_end.set()
            for handle in handles[:3] + handles[4:]:
                await handle.result(wait=60)
            assert not (await handles[3].status()).state.final
        await handles[3].result(wait=30)


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("job_ready", "select from interlock.job_ready where id = {id} for update"),
        ("job_ready", "update interlock.job_ready set limited = limited where id = {id} returning id"),
        ("job_lane", "select from interlock.job_lane where lane = 'default/lane-3' for update"),
    ],
)
async def test_the_transaction_that_keeps_a_job_from_starting_is_named(
    stage: Stage, complete_postgres_url: str, table: str, row: str
) -> None:
    engine = engine_of(stage.app.jobs)
    first, second = [await stage.work.enqueue(lane="lane-3", number=number) for number in range(2)]
    await engine.jobs.fetch(FetchRequest(engine.session.id, ("default",), ("work",), 1, 1, 1))
    await engine.jobs.return_unstarted(engine.session.id)  # the lane has its row now, and its head is ready
    async with locked(complete_postgres_url, row.format(id=first.id)) as backend, stage.app.worker():
        assert (await stage.app.jobs.get(first)).state is JobState.READY

        async def is_named() -> bool:
            return (await stage.app.jobs.explain(first)).reason is Reason.ROW_LOCKED

        await clock.until(is_named)  # a transaction is named once it has lasted for a second
        why = await stage.app.jobs.explain(first)
        assert why.why == f"is ready, but backend {backend} (backup) has locked a row of it"
        lock = why.data["row_lock"]
        assert (lock["table"], lock["pid"], lock["program"], lock["state"]) == (
            table,
            backend,
            "backup",
            "idle in transaction",
        )
        assert why.remedy == (
            f"commit or roll back that transaction, or end it: select pg_terminate_backend({backend})"
        )
        (line,) = (line for line in why.lines if f"interlock.{table} " in line)
        assert f"by backend {backend} (backup, user postgres, idle in transaction)" in line
        behind, lane = await stage.app.jobs.explain(second), await stage.app.lanes.explain("lane-3")
        assert (behind.reason, lane.reason) == (Reason.BEHIND, Reason.ROW_LOCKED)
        assert len([line for line in behind.lines if f"by backend {backend} (backup" in line]) == 1
        assert behind.remedy == lane.remedy == why.remedy
    assert (await stage.app.jobs.explain(first)).reason is not Reason.ROW_LOCKED


async def test_a_locked_row_of_a_running_job_is_named_too(stage: Stage, complete_postgres_url: str) -> None:
    handle = await stage.work.enqueue(lane="lane-3", number=0)
    async with stage.app.worker():
        await clock.until(lambda: bool(stage.started))
        async with locked(complete_postgres_url, f"select from interlock.job where id = {handle.id} for update") as pid:

            async def is_named() -> bool:
                return (await stage.app.jobs.explain(handle)).data["row_lock"] is not None

            await clock.until(is_named)
            why = await stage.app.jobs.explain(handle)
            assert why.reason is Reason.RUNNING
            assert any(f"by backend {pid} (backup" in line and "acknowledgement" in line for line in why.lines)
            stage.may_end.set()
        await handle.result(wait=30)
