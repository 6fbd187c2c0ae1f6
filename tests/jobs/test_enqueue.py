"""Enqueuing: all or none, durable when it returns, once even if an answer is lost, and nothing for wrong arguments."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from interlock import App, Cooldown, Jobs, JobState, Retry, Settings, Slots
from interlock.backends.memory import MemoryStore
from interlock.errors import InvalidArgumentError, MisuseError, StoreUnavailableError
from interlock.jobs.ids import Ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.jobs import Job
    from interlock.ports.jobs import NewJob

stores = pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)


class Issue(BaseModel):
    repo: str
    number: int


def define(jobs: Jobs | App) -> Job[..., str]:
    @jobs.job(lane="{account}", limits=[Slots("all", 5), Cooldown("account", 90, key="{account}")])
    async def report(account: str, target: int = 5) -> str:
        return f"{account} {target}"

    return report


@stores
async def test_what_is_stored(store_url: str) -> None:
    async with App(store_url) as app:
        handle = await define(app).enqueue("a1", target=7)

        view = await app.jobs.get(handle)

        assert view is not None
        assert (view.id, view.name, view.queue, view.lane, view.priority) == (handle.id, "report", "default", "a1", 50)
        assert json.loads(view.arguments) == {"account": "a1", "target": 7}
        assert [use.key for use in view.uses] == ["cooldown:account:a1", "slots:all"]
        assert (view.state, view.attempt, view.options, view.result) == (JobState.READY, 0, "", None)


@stores
async def test_options_of_one_enqueue(store_url: str) -> None:
    async with App(store_url) as app:
        report = define(app)
        at = datetime.now(UTC) + timedelta(days=1)
        delayed = await report.options(priority=80, delay=3600, lane=None, queue="slow", limits=[]).enqueue("a1")
        timed = await report.options(at=at, retry=Retry.AGGRESSIVE, timeout=5).enqueue("a2")

        views = [await app.jobs.get(delayed), await app.jobs.get(timed)]

        one, two = views
        assert (one.priority, one.lane, one.queue, one.uses, one.state) == (80, "", "slow", (), JobState.SCHEDULED)
        assert abs(one.due_at - one.enqueued_at - timedelta(hours=1)) < timedelta(seconds=1)
        assert abs(two.due_at - at) < timedelta(milliseconds=1)
        assert json.loads(two.options)["timeout"] == 5
        assert json.loads(two.options)["retry"]["attempts"] == 5


@stores
async def test_many_are_accepted_in_their_order(store_url: str) -> None:
    async with Jobs.from_url(store_url) as jobs:
        seen: list[int] = []

        @jobs.job(lane="one")
        async def note(number: int) -> None:
            seen.append(number)

        handles = await jobs.enqueue_many(note.call(number) for number in range(60))
        assert len({handle.id for handle in handles}) == 60
        assert await jobs.enqueue_many([]) == []

        await jobs.drain()

        assert seen == list(range(60))


@stores
async def test_one_wrong_call_and_nothing_is_stored(store_url: str) -> None:
    async with App(store_url) as app:
        report: Any = define(app)

        for wrong in (
            lambda: report.enqueue("a", "7"),
            lambda: report.enqueue(),
            lambda: report.enqueue("a", unknown=1),
            lambda: report.enqueue(""),  # no lane comes of it
            lambda: report.enqueue("a\0"),
            lambda: app.jobs.enqueue_many([report.call("a"), "report"]),  # type: ignore[list-item]
        ):
            with pytest.raises(InvalidArgumentError):
                await wrong()

        assert list(await app.jobs.list()) == []


async def test_lanes_from_models() -> None:
    async with Jobs.from_url("memory://") as jobs:

        @jobs.job(lane="{issue.repo}#{issue.number}")
        async def triage(issue: Issue) -> int:
            return issue.number

        handle = await triage.enqueue(Issue(repo="acme/api", number=7))

        assert (await handle.status()).lane == "acme/api#7"
        await jobs.drain()
        assert await handle.result(wait=5) == 7


async def test_a_job_is_enqueued_where_it_was_defined() -> None:
    async with App("memory://") as one, App("memory://") as other:
        with pytest.raises(MisuseError, match="defined on other Jobs"):
            await other.jobs.enqueue_many([define(one).call("a")])


async def test_jobs_that_are_not_open() -> None:
    jobs = Jobs.from_url("memory://")

    with pytest.raises(MisuseError, match="not open"):
        await define(jobs).enqueue("a")


# -- lost answers ------------------------------------------------------------------------------------------------------


async def test_an_answer_that_was_lost_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Jobs(store) as jobs:
        report = define(jobs)
        accept, calls = store.jobs.enqueue, []

        async def lossy(new: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
            calls.append(again)
            existing = await accept(new, again=again)
            if len(calls) < 3:
                raise StoreUnavailableError("The answer was lost.")
            return existing

        monkeypatch.setattr(store.jobs, "enqueue", lossy)
        handle = await report.enqueue("a")

        assert calls == [False, True, True]
        assert [view.id for view in await jobs.list()] == [handle.id]
        assert jobs.metrics.of("report").enqueued == 1


async def test_an_outage_that_lasts_is_said_with_the_job_s_number(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Jobs(store, Settings(store_wait=0.1)) as jobs:
        report = define(jobs)

        async def away(new: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
            raise StoreUnavailableError("It is away.")

        monkeypatch.setattr(store.jobs, "enqueue", away)
        with pytest.raises(StoreUnavailableError, match=r"did not confirm job \d+.+twice is harmless"):
            await report.enqueue("a")


async def test_ids_are_asked_for_in_blocks_that_grow_with_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with Jobs(store) as jobs:
        report = define(jobs)
        ask, asked = store.jobs.ids, []

        async def counted(count: int) -> range:
            asked.append(count)
            await asyncio.sleep(0)
            return await ask(count)

        monkeypatch.setattr(store.jobs, "ids", counted)
        handles = await asyncio.gather(*(report.enqueue("a") for _ in range(250)))
        handles += await jobs.enqueue_many([report.call("a") for _ in range(5000)])

        assert len({handle.id for handle in handles}) == 5250
        assert len(asked) <= 4, "one block serves many"
        assert sum(asked) < 3 * 5250


async def test_a_block_of_ids_that_lasts_for_long_is_dropped() -> None:
    """So that the order of numbers is about that of time, also of processes that enqueue now and then."""
    now, last = 0.0, 0

    async def ask(count: int) -> range:
        nonlocal last
        last += count
        return range(last - count + 1, last + 1)

    ids = Ids(ask, lambda: now)
    assert await ids.take(2) == [1, 2]
    now = 9.0
    assert await ids.take(1) == [3]
    now = 11.0
    assert await ids.take(2) == [101, 102]
