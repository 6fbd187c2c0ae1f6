"""Counts, limits, workers and activity."""

from __future__ import annotations

from collections import Counter

from interlock.ports.job_views import JobFilter, WorkerView
from interlock.ports.jobs import JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.insight.jobs import all_states
from interlock.testing.conformance.jobs.driver import SESSION, JobSuite, near, pace, slots

__all__ = ["FigureConformance"]


class FigureConformance(JobSuite):
    """Counts match the stored items."""

    async def test_jobs_are_counted_by_state_and_queue(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await all_states(b)
            await b.add(queue="other", name="m")
            counts = await b.store.insight.counts()

            stands = [await b.state(job_id) for job_id in ids]
            expected = {state: stands.count(state) for state in JobState}
            expected[JobState.READY] += 1
            assert counts.states == expected
            listed = Counter((view.queue, view.state) for view in await b.list_jobs(JobFilter()))
            for queue in counts.queues:
                unfinished = {state: listed[queue.queue, state] for state in JobState if not state.final}
                assert {state: getattr(queue, state) for state in unfinished} == unfinished
            for state in (JobState.HELD, JobState.PARKED, JobState.FETCHED, JobState.RUNNING):
                assert sum(getattr(queue, state) for queue in counts.queues) == expected[state] > 0
            assert counts.names == {"q": frozenset({"n"}), "other": frozenset({"m"})}
            assert (counts.lanes_running, counts.lanes_held, counts.lanes_parked) == (0, 1, 0)
            assert (counts.limits_used, counts.limits_full, counts.limits_waiting) == (1, 1, expected[JobState.WAITING])
            assert (counts.orphans, counts.seen_at) == (0, near(b.now))

    async def test_jobs_of_dead_workers_are_counted_until_they_are_rescued(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.add_many(3)
            await b.fetch("a", 2)
            await b.fetch("b", 1)
            await b.let_pass(SESSION + 1, "b")
            assert (await b.store.insight.counts()).orphans == 2
            await b.jobs.rescue()

            assert (await b.store.insight.counts()).orphans == 0

    async def test_an_empty_store_has_nothing_to_count(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            seen = b.store.insight
            counts = await seen.counts()

            assert set(counts.states.values()) == {0}
            assert not counts.queues
            assert not await seen.workers(limit=9)
            assert not await seen.limits(limit=9)
            assert (await seen.jobs(JobFilter(), limit=9)) == ([], None)
            assert (await seen.lanes(limit=9)) == ([], None)
            assert list((await seen.activity(1.0, 60)).changes) == []

    async def test_workers_are_told_while_they_live(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            began = b.now
            await b.jobs.register_worker("a", ["q", "other"], ["n", "m"], 7)
            await b.jobs.register_worker("b", ["q"], ["n"], 5)
            ids = await b.add_many(3)
            jobs = await b.fetch("a", 2)
            await b.started(jobs[0])
            b.clock.advance(1)
            first, second = await b.store.insight.workers(limit=10)

            assert first.worker == WorkerView("a", "host-a", 7, "test")
            assert (set(first.queues), set(first.names)) == ({"q", "other"}, {"n", "m"})
            assert (first.runners, first.fetched, first.running) == (7, 1, 1)
            assert (first.since, first.expires_at) == (near(began), near(began + SESSION))
            assert (second.worker.session, second.fetched, second.running) == ("b", 0, 0)
            assert [worker.worker.session for worker in await b.store.insight.workers("b", limit=1)] == ["b"]
            assert list(await b.store.insight.fetched("a", limit=10)) == ids[:2]
            await b.let_pass(SESSION + 1, "b")
            assert [worker.worker.session for worker in await b.store.insight.workers(limit=10)] == ["b"]

    async def test_a_worker_whose_event_loop_is_blocked_is_told(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.jobs.register_worker("a", ["q"], ["n"], 7)
            await b.jobs.register_worker("b", ["q"], ["n"], 5)
            await b.store.sessions.note_blocked("a", 2.5, "job 7 (n) at bot.py:3 in n")
            await b.store.sessions.note_blocked("gone", 2.5, "nobody")
            first, second = await b.store.insight.workers(limit=10)
            assert (first.blocked_since, first.blocked_by) == (near(b.now - 2.5), "job 7 (n) at bot.py:3 in n")
            assert (second.blocked_since, second.blocked_by) == (None, "")

            await b.store.sessions.note_blocked("a", None)
            assert [worker.blocked_since for worker in await b.store.insight.workers(limit=10)] == [None, None]

    async def test_limits_tell_who_has_their_room_and_who_waits_in_order(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            holders = [await b.add(uses=(slots(2, "s"),)) for _ in range(2)]
            await b.fetch()
            claimed_at = b.now
            waiting = [await b.add(uses=(slots(2, "s"),)) for _ in range(3)]
            assert await b.fetch() == []
            seen = b.store.insight
            (limit,) = await seen.limits(limit=10)
            users = await seen.limit_users("s", limit=2)

            assert limit == ("s", 2, 0.0, 2, 3, None, near(b.now))
            assert [limit] == list(await seen.limits("s", limit=1))
            assert [use.id for use in users.holders] == holders
            assert [(use.name, use.since, use.until) for use in users.holders] == [("n", near(claimed_at), None)] * 2
            assert {use.worker for use in users.holders} == {WorkerView("a", "host-a", 7, "test")}
            assert [(use.id, use.worker) for use in users.waiters] == [(job_id, None) for job_id in waiting[:2]]
            assert list(await seen.limits("other", limit=1)) == []

    async def test_a_pace_tells_which_starts_count_and_when_the_next_may_be(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            first = await b.add(uses=(pace(1, 100.0, "p"),))
            await b.done(await b.one())
            started = b.now
            waiting = await b.add(uses=(pace(1, 100.0, "p"),))
            assert await b.fetch() == []
            seen = b.store.insight
            (limit,) = await seen.limits(limit=10)
            users = await seen.limit_users("p", limit=10)

            assert limit == ("p", 1, 100.0, 1, 1, near(started + 100), near(b.now))
            assert [(use.id, use.name, use.since, use.until) for use in users.holders] == [
                (first, "n", near(started), near(started + 100))
            ]
            assert [use.id for use in users.waiters] == [waiting]
            await b.jobs.cancel(waiting, Attribution("ann", "no"))
            await b.let_pass(101)
            assert list(await seen.limits(limit=10)) == []

    async def test_limits_are_listed_by_key_page_by_page(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            for key in ("d", "a", "c", "b"):
                await b.add(uses=(slots(1, key),))
                await b.add(uses=(slots(1, key),))
            await b.fetch()
            seen = b.store.insight

            assert [limit.key for limit in await seen.limits(limit=3)] == ["a", "b", "c"]
            assert [limit.key for limit in await seen.limits(limit=3, after="c")] == ["d"]
            assert {limit[1:5] for limit in await seen.limits(limit=9)} == {(1, 0.0, 1, 1)}

    async def test_what_came_and_went_is_told_by_spans(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            await b.let_pass(60 - b.now % 60)
            begun = int(b.now // 10)
            for outcome in (Outcome.DONE, Outcome.FAILED, Outcome.DISCARDED):
                await b.add()
                await b.end(await b.one(), outcome)
                await b.let_pass(10)
            await b.add()
            await b.add(delay=100.0)
            told = await b.store.insight.activity(10.0, 6)

            assert told.seen_at == near(b.now)
            assert list(told.changes) == [
                (begun, 1, 1, 0),
                (begun + 1, 1, 0, 1),
                (begun + 2, 1, 0, 0),
                (begun + 3, 2, 0, 0),
            ]
            assert [change.span for change in (await b.store.insight.activity(10.0, 2)).changes] == [
                begun + 2,
                begun + 3,
            ]
            since = await b.store.insight.activity(10.0, 6, since=begun + 3)
            assert list(since.changes) == [(begun + 3, 2, 0, 0)]
