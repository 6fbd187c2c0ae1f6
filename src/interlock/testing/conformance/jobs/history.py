"""What is kept of jobs that have ended, and for how long."""

from __future__ import annotations

import pytest

from interlock.ports.job_views import JobFilter, WorkerView
from interlock.ports.jobs import MAX_ATTEMPTS_KEPT, JobState, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.jobs.driver import JobSuite, near

__all__ = ["HistoryConformance"]


class HistoryConformance(JobSuite):
    """Every attempt can be read, results for their time, and nothing is kept for ever."""

    async def test_a_done_job_is_kept_with_its_result_and_attempt(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(keep_result=100.0, arguments='{"a":1}', lane="l", priority=3)
            job = await b.one("b")
            b.clock.advance(5)
            await b.end(job, Outcome.DONE, ran=4.0, result='{"ok":"ü"}')
            view = await b.view(job_id)

            assert (view.state, view.result, view.attempt) == (JobState.DONE, '{"ok":"ü"}', 1)
            assert (view.arguments, view.lane, view.priority, view.fence) == ('{"a":1}', "l", 3, job.fence)
            assert view.finished_at == near(b.now)
            assert view.result_kept_until == near(b.now + 100)
            (attempt,) = view.attempts
            assert (attempt.number, attempt.outcome, attempt.fence, attempt.error) == (1, "done", job.fence, "")
            assert type(attempt.outcome) is str
            assert attempt.worker == WorkerView("b", "host-b", 7, "test")
            assert (attempt.started_at, attempt.ended_at) == (near(b.now - 4), near(b.now))

    async def test_every_attempt_is_kept_with_times_worker_error_and_trace(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            told = []
            outcomes = (Outcome.RETRY, Outcome.SNOOZED, Outcome.RETURNED, Outcome.RETRY, Outcome.FAILED)
            for number, outcome in enumerate(outcomes):
                session = "abc"[number % 3]
                job = await b.one(session)
                b.clock.advance(2)
                await b.end(job, outcome, ran=1.5, error=f"E: {number} ü", trace=f"Traceback {number}\n  line")
                if outcome is not Outcome.RETURNED:
                    told.append((outcome, job.fence, session, f"E: {number} ü", f"Traceback {number}\n  line", b.now))
            view = await b.view(job_id)

            assert (view.state, view.error, view.attempt) == (JobState.FAILED, "E: 4 ü", 3)
            kept = [(a.outcome, a.fence, a.worker.session, a.error, a.trace, a.ended_at) for a in view.attempts]
            assert kept == [(*some, near(at)) for *some, at in told]
            assert [a.started_at for a in view.attempts] == [near(at - 1.5) for *_, at in told]
            assert [a.number for a in view.attempts if a.outcome != "snoozed"] == [1, 2, 3]

    async def test_the_attempts_of_an_unfinished_job_can_be_read(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add(lane="l")
            await b.end(await b.one(), Outcome.RETRY, delay=5.0, error="busy", trace="t")
            view = await b.view(job_id)

            assert (view.state, view.error, view.attempt) == (JobState.SCHEDULED, "busy", 1)
            assert [(attempt.outcome, attempt.error, attempt.trace) for attempt in view.attempts] == [
                ("retry", "busy", "t")
            ]

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DISCARDED, Outcome.CANCELLED])
    async def test_the_reason_of_an_end_is_kept(self, store_url: str, outcome: Outcome) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.end(await b.one(), outcome, error="nothing to do")
            view = await b.view(job_id)

            assert (view.state, view.error, view.result) == (JobState(outcome.value), "nothing to do", None)
            assert view.attempts[-1].outcome == outcome

    async def test_of_very_many_attempts_the_first_and_the_last_are_kept(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            for number in range(MAX_ATTEMPTS_KEPT + 8):
                await b.end(await b.one(), Outcome.RETRY, error=str(number))
            view = await b.view(job_id)
            errors = [int(attempt.error) for attempt in view.attempts]

            assert view.attempt == MAX_ATTEMPTS_KEPT + 8
            assert len(errors) <= MAX_ATTEMPTS_KEPT
            assert errors[0] == 0
            assert errors[1:] == list(range(MAX_ATTEMPTS_KEPT + 9 - len(errors), MAX_ATTEMPTS_KEPT + 8))
            assert len(errors) > MAX_ATTEMPTS_KEPT // 2

    async def test_a_result_is_kept_for_its_time_and_no_longer(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            short, long = await b.add(keep_result=10.0), await b.add(keep_result=1000.0)
            for job in await b.fetch():
                await b.end(job, Outcome.DONE, result="7")
            ended = b.now
            await b.let_pass(9.9)
            assert (await b.view(short)).result == "7"
            await b.let_pass(0.2)
            assert (await b.view(short)).result is None
            while await b.jobs.prune(1e9):
                pass
            view = await b.view(short)

            assert (view.state, view.result) == (JobState.DONE, None)
            assert view.result_kept_until == near(ended + 10)
            assert (await b.view(long)).result == "7"

    async def test_a_job_without_a_result_is_done_without_one(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            none, null = await b.add(), await b.add()
            jobs = await b.fetch()
            await b.end(jobs[0], Outcome.DONE)
            await b.end(jobs[1], Outcome.DONE, result="null")

            assert ((await b.view(none)).result, (await b.view(null)).result) == (None, "null")

    async def test_history_is_removed_when_it_is_old(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            old = [await b.add() for _ in range(5)]
            for job, outcome in zip(await b.fetch(), (Outcome.DONE, Outcome.FAILED, *[Outcome.DONE] * 3), strict=True):
                await b.end(job, outcome, result="1" if outcome is Outcome.DONE else None)
            await b.let_pass(1000)
            young = await b.add()
            await b.done(await b.one())
            unfinished = [await b.add(), await b.add(delay=1e7), await b.add(lane="l")]
            await b.one()
            assert await b.jobs.prune(1001) == 0
            assert await b.jobs.prune(500) > 0
            while await b.jobs.prune(500):
                pass

            assert [await b.store.insight.get(job_id) for job_id in old] == [None] * 5
            assert await b.state(young) is JobState.DONE
            await b.let_pass(1000)
            while await b.jobs.prune(1):
                pass
            assert sorted(view.id for view in await b.list_jobs(JobFilter())) == unfinished

    async def test_history_is_removed_a_bounded_amount_at_a_time(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            ids = await b.add_many(30)
            await b.done(*await b.fetch())
            await b.let_pass(1000)
            removed = 0
            while count := await b.jobs.prune(10, limit=7):
                removed += count
                assert removed < 1000

            assert removed >= 30
            assert [await b.store.insight.get(ids[n]) for n in (0, 15, 29)] == [None] * 3

    async def test_a_job_retried_by_hand_leaves_the_history_and_comes_back_to_it(self, store_url: str) -> None:
        async with self.job_driver(store_url) as b:
            job_id = await b.add()
            await b.end(await b.one(), Outcome.FAILED, error="no")
            await b.let_pass(1000)
            await b.jobs.retry(job_id, Attribution("ann"))
            while await b.jobs.prune(10):
                pass
            assert [view.id for view in await b.list_jobs(JobFilter())] == [job_id]
            await b.end(await b.one(), Outcome.DONE, result="1")
            view = await b.view(job_id)

            assert (view.state, view.result, view.finished_at) == (JobState.DONE, "1", near(b.now))
            assert len(await b.list_jobs(JobFilter())) == 1
