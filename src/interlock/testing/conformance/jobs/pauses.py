"""Queues that a person has paused."""

from __future__ import annotations

import asyncio

import pytest

from interlock.ports.jobs import JobState, Outcome
from interlock.ports.journal import Attribution, JournalFilter
from interlock.testing.clock import until
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobSuite, slots

__all__ = ["PauseConformance"]

_BOTH = ("q", "mail")
_PAUSE = Attribution("ann", "deploying")


class PauseConformance(JobSuite):
    """No job of a paused queue is fetched until it is resumed; everything else goes on."""

    async def test_nothing_of_a_paused_queue_is_fetched_and_others_go_on(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            mail = await b.add(queue="mail")
            await b.jobs.pause("mail", _PAUSE)
            later = await b.add(queue="mail")
            other = await b.add()

            assert await b.ids(queues=_BOTH) == [other]
            assert await b.fetch("b", queues=("mail",)) == []
            assert await b.states(mail, later) == [JobState.READY, JobState.READY]
            assert await b.jobs.resume("mail", ANN)
            assert await b.ids(queues=_BOTH) == [mail, later]
            assert not await b.jobs.resume("mail", ANN)

    async def test_a_paused_queue_needs_no_recheck_and_keeps_delayed_jobs(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job = await b.add(queue="mail", delay=10.0)
            await b.jobs.pause("mail", _PAUSE)
            await b.let_pass(20)
            batch = await b.batch(queues=_BOTH)
            assert not batch.jobs
            assert batch.recheck_in > 60
            await b.jobs.resume("mail", ANN)

            assert await b.ids(queues=_BOTH) == [job]

    async def test_lanes_and_fetches_of_single_lanes_respect_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(queue="mail", lane="l") for _ in range(3)]
            first = await b.one("a", queues=("mail",))
            await b.jobs.pause("mail", _PAUSE)
            await b.done(first)
            assert await b.fetch("b", queues=_BOTH, run=5) == []
            assert await b.fetch("b", queues=("mail",), lanes=("l",)) == []
            await b.jobs.resume("mail", ANN)

            assert await b.ids("b", queues=("mail",), lanes=("l",)) == [ids[1]]

    async def test_jobs_that_wait_for_a_limit_do_not_keep_those_of_other_queues_from_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            busy = await b.add(uses=(slots(1),))
            running = await b.one()
            mail = await b.add(queue="mail", uses=(slots(1),))
            assert await b.fetch("b", queues=_BOTH) == []
            await b.jobs.pause("mail", _PAUSE)
            other = await b.add(uses=(slots(1),))
            await b.done(running)
            found = await b.one("b", queues=_BOTH)
            assert (running.id, found.id) == (busy, other)
            await b.done(found)
            await b.jobs.resume("mail", ANN)

            assert await b.ids("b", queues=_BOTH) == [mail]

    async def test_sessions_that_have_fetched_its_jobs_are_told_and_return_them(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = [await b.add(queue="mail") for _ in range(3)]
            other = await b.add()
            jobs = await b.fetch("a", queues=_BOTH)
            taken: dict[str, str] = {}
            await b.store.messages.listen("a", lambda _: None, taken.__setitem__)
            b.store.messages.watch(waiting=True)
            await b.jobs.pause("mail", _PAUSE)
            await until(lambda: bool(taken), what="the session is notified")
            told = {f"a.{job.fence}.j{job.id}" for job in jobs if job.queue == "mail"}
            assert set(taken) <= told
            assert set(taken.values()) == {"paused mail by ann: deploying"}
            for job in jobs:
                await b.end(job, Outcome.RETURNED)

            assert await b.ids("b", queues=_BOTH) == [other]
            await b.jobs.resume("mail", ANN)
            assert await b.ids("b", queues=_BOTH) == ids

    async def test_readers_see_who_paused_it_since_when_and_why(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job = await b.add(queue="mail")
            since = b.now
            await b.jobs.pause("mail", _PAUSE)
            await b.jobs.pause("empty", Attribution("bob", "later"))
            b.clock.advance(1)
            await b.jobs.pause("mail", Attribution("eva", "longer"))
            found = {view.queue: view for view in await b.queues()}
            assert (found["empty"].paused_by, found["empty"].paused_reason, found["empty"].ready) == ("bob", "later", 0)
            assert (found["mail"].paused_by, found["mail"].paused_reason, found["mail"].ready) == ("eva", "longer", 1)
            assert found["mail"].paused_since == pytest.approx(since, abs=1e-3)
            (situation,) = await b.store.insight.situations([job])
            assert situation.pause is not None
            assert (situation.pause.by, situation.pause.reason) == ("eva", "longer")
            await b.jobs.resume("mail", ANN)
            (situation,) = await b.store.insight.situations([job])
            assert situation.pause is None
            assert next(view for view in await b.queues() if view.queue == "mail").paused_since is None

    async def test_each_change_has_one_entry_in_the_journal(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.jobs.pause("mail", _PAUSE)
            await b.jobs.pause("mail", _PAUSE)
            await b.jobs.pause("mail", Attribution("eva", "longer"))
            await b.jobs.resume("mail", Attribution("eva", "done"))
            await b.jobs.resume("mail", Attribution("eva", "again"))
            found = await b.store.journal.list(JournalFilter(subject_kind="queue", subject_key="mail"), limit=10)
            assert [(entry.action, entry.actor, entry.reason) for entry in reversed(found)] == [
                ("queue.pause", "ann", "deploying"),
                ("queue.pause", "eva", "longer"),
                ("queue.resume", "eva", "done"),
            ]

    async def test_no_fetch_that_races_with_a_pause_gives_jobs_after_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            paused_at = 0
            given: list[int] = []

            async def work(session: str, numbers: range) -> None:
                for number in numbers:
                    began = paused_at
                    batch = await b.batch(session, 2, queues=_BOTH, fetch_number=number)
                    if began:
                        given.extend(job.id for job in batch.jobs if job.queue == "mail")

            for turn in range(5):
                paused_at = 0
                await b.add_many(30, queue="mail")
                workers = [
                    asyncio.create_task(work(session, range(1 + 10 * turn, 11 + 10 * turn))) for session in "abc"
                ]
                await asyncio.sleep(0)
                await b.jobs.pause("mail", _PAUSE)
                paused_at = 1
                before = (await b.queue("mail")).fetched
                await asyncio.gather(*workers)
                assert (await b.queue("mail")).fetched == before
                await b.jobs.resume("mail", ANN)
            assert given == []
