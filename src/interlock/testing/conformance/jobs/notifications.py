"""Hints: that there may be something to fetch, and that a job has ended."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from interlock.ports.jobs import Outcome
from interlock.ports.journal import Attribution
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock, until
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["NewsConformance"]


class _Listener:
    """The notifications of one process."""

    def __init__(self) -> None:
        self.news = 0
        self.turns: list[str | None] = []

    def heard(self) -> None:
        """There may be something to fetch."""
        self.news += 1


class NewsConformance(JobSuite):
    """Workers of a queue and callers that wait for a job are notified."""

    @asynccontextmanager
    async def _two(self, url: str) -> AsyncIterator[tuple[JobDriver, JobDriver]]:
        """Two ways to one store, the second of which listens for session ``b``. One way twice if it has only one."""
        clock = VirtualClock()
        async with self.job_driver(url, clock) as mine:
            if Capability.PROCESSES in mine.store.capabilities:
                async with self.job_driver(url, clock) as theirs:
                    yield mine, theirs
            else:
                yield mine, mine

    async def _listen(self, b: JobDriver, queues: tuple[str, ...] = ("q",)) -> _Listener:
        """Subscribe, then fetch, then wait for a notification, as workers do."""
        listener = _Listener()
        await b.store.messages.listen("b", listener.turns.append, lambda *_: None)
        b.store.messages.watch(waiting=True)
        b.jobs.on_ready(queues, listener.heard)
        assert await b.fetch("b", queues=queues) == []
        return listener

    @pytest.mark.parametrize("lane", ["", "l"])
    async def test_whoever_works_on_a_queue_is_told_of_new_jobs(self, store_url: str, lane: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            told = await self._listen(theirs, ("other", "q"))
            for round_ in range(3):
                before = told.news
                await mine.add(lane=lane)
                await until(lambda before=before: told.news > before, what=f"news of job {round_}")  # type: ignore[misc]
                await theirs.done(*await theirs.fetch("b"))

    async def test_news_end_when_nobody_wants_them(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            told = await self._listen(theirs)
            other = _Listener()
            stop = theirs.jobs.on_ready(("q",), other.heard)
            stop()
            stop()
            await mine.add()
            await until(lambda: told.news, what="news for those who want them")

            assert other.news == 0

    async def test_news_of_a_job_for_a_lane_that_goes_on(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            for _ in range(2):
                await mine.add(lane="l")
            job = await mine.one()
            told = await self._listen(theirs)
            await mine.done(job)

            await until(lambda: told.news, what="news of the next in the lane")

    async def test_news_of_a_lane_that_goes_on_in_another_queue(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            await mine.add(lane="l")
            await mine.add(lane="l", queue="other")
            job = await mine.one()
            told = await self._listen(theirs, ("other",))
            await mine.done(job)

            await until(lambda: told.news, what="news in the queue of the next in the lane")

    async def test_news_of_a_slot_that_came_free(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            await mine.add(uses=(slots(1),))
            await mine.add(uses=(slots(1),), queue="other")
            job = await mine.one()
            assert await mine.fetch(queues=("other",)) == []
            told = await self._listen(theirs, ("other",))
            await mine.done(job)

            await until(lambda: told.news, what="news of the slot")

    @pytest.mark.parametrize(
        "how", ["handed back", "returned", "rescued", "released", "retried", "failed, retried", "cancelled"]
    )
    async def test_news_of_jobs_that_became_ready_in_other_ways(self, store_url: str, how: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            job_id = await mine.add(lane="l")
            await mine.add(lane="l")
            job = await mine.one()
            if how == "released":
                await mine.jobs.hold("l", Attribution("ann", "deploying"))
                await mine.end(job, Outcome.RETURNED)
            elif how in ("retried", "cancelled"):
                await mine.end(job, Outcome.RETRY, delay=60.0)
            elif how == "failed, retried":
                await mine.end(job, Outcome.FAILED)
                await mine.done(await mine.one())
            elif how == "rescued":
                await mine.store.sessions.end("a")
            told = await self._listen(theirs)
            if how == "handed back":
                await mine.jobs.return_unstarted("a")
            elif how == "returned":
                await mine.end(job, Outcome.RETURNED)
            elif how == "rescued":
                await mine.jobs.rescue()
            elif how == "released":
                await mine.jobs.release("l", ANN)
            elif how == "cancelled":
                await mine.jobs.cancel(job_id, Attribution("ann", "not wanted"))
            else:
                await mine.jobs.retry(job_id, Attribution("ann"))

            await until(lambda: told.news, what="news of the job")

    async def test_news_of_a_delayed_job_so_that_a_worker_knows_when_to_look(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            told = await self._listen(theirs)
            await mine.add(delay=10.0)

            await until(lambda: told.news, what="news of a job to come")

    @pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.DISCARDED, Outcome.CANCELLED])
    async def test_who_awaits_a_job_is_told_of_its_end(self, store_url: str, outcome: Outcome) -> None:
        async with self._two(store_url) as (mine, theirs):
            told = await self._listen(theirs)
            ids = [await mine.add() for _ in range(3)]
            (never,) = await mine.jobs.ids(1)
            first, second, third = await mine.fetch()
            await mine.end(first, outcome)

            ended = await theirs.jobs.watch_end("b", [*ids, never])
            assert sorted(ended) == [ids[0], never]
            await mine.end(second, Outcome.RETRY, delay=5.0)
            await mine.end(third, outcome)
            await until(lambda: f"b.j{ids[2]}" in told.turns, what="the end of the third")
            assert f"b.j{ids[1]}" not in told.turns
            assert list(await theirs.jobs.watch_end("b", ids)) == [ids[0], ids[2]]
            await mine.let_pass(5)
            await mine.end(await mine.one(), outcome)
            await until(lambda: f"b.j{ids[1]}" in told.turns, what="the end of the second")
            assert told.turns.count(f"b.j{ids[2]}") == 1

    async def test_who_awaits_a_job_is_told_when_people_or_crashes_end_it(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            told = await self._listen(theirs)
            cancelled, killer = await mine.add(delay=60.0), await mine.add()
            older, newer = [await mine.add(lane="l", coalesce=True, delay=5.0) for _ in range(2)]
            assert list(await theirs.jobs.watch_end("b", [cancelled, killer, older, newer])) == []
            await mine.jobs.cancel(cancelled, Attribution("ann", "not wanted"))
            await until(lambda: f"b.j{cancelled}" in told.turns, what="the cancelling")
            await mine.crashed(killer, 3)
            await until(lambda: f"b.j{killer}" in told.turns, what="the quarantine")
            await mine.let_pass(5)
            await mine.fetch()
            await until(lambda: f"b.j{older}" in told.turns, what="the older one's end")

            assert f"b.j{newer}" not in told.turns

    async def test_two_who_await_one_job_are_both_told(self, store_url: str) -> None:
        async with self._two(store_url) as (mine, theirs):
            told = await self._listen(theirs)
            others: list[str | None] = []
            await mine.store.messages.listen("c", others.append, lambda *_: None)
            mine.store.messages.watch(waiting=True)
            job_id = await mine.add()
            for session in "bc":
                assert list(await mine.jobs.watch_end(session, [job_id])) == []
                assert list(await mine.jobs.watch_end(session, [job_id])) == []
            await mine.done(await mine.one())

            await until(lambda: f"b.j{job_id}" in told.turns, what="one is notified")
            await until(lambda: f"c.j{job_id}" in others, what="the other is notified")
