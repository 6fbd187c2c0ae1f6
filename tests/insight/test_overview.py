"""All of it at a glance: counts, problems, the pulse, what came and went; and locks that are in another store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from interlock.insight import data
from interlock.ports.events import NewEvent
from interlock.ports.jobs import JobState, OnFailure, Outcome
from interlock.testing.conformance.jobs.driver import SESSION, new_job, slots

if TYPE_CHECKING:
    from tests.insight.conftest import Floor, Floors


async def accept(b: Floor, delivery: str, jobs: int) -> NewEvent:
    event_id, *ids = await b.jobs.ids(1 + jobs)
    about = ("github", delivery, "issues.opened", "ann", '{"secret": "s3cret", "n": 7}')
    caused = tuple(new_job(job_id, arguments=json.dumps({"event": event_id})) for job_id in ids)
    event = NewEvent(event_id, *about, 3600.0, None, None, caused)
    await b.store.events.accept([event])
    return event


async def test_an_empty_store(floor: Floors) -> None:
    async with floor() as b:
        overview = await b.insight.overview()

        assert overview.problems == overview.queues == overview.workers == overview.failures == ()
        assert set(overview.totals.values()) == {0}
        assert overview.parts == {"jobs", "events", "locks", "limits", "claims", "journal", "records"}
        (seen,) = overview.seen
        assert (seen.store, seen.at) == (b.store.name, pytest.approx(b.now))
        for listing in (b.insight.jobs, b.insight.lanes, b.insight.locks, b.insight.limits, b.insight.events):
            part = await listing()  # type: ignore[operator]
            assert (part.rows, part.more, bool(part)) == ((), None, False)
            assert part.seen_at == pytest.approx(b.now)


async def test_the_overview_counts_everything(floor: Floors) -> None:
    async with floor() as b:
        await b.jobs.register_worker("a", ["q"], ["n"], 5)
        for _ in range(3):
            await b.add(uses=(slots(1, "s"),))
        await b.fetch()
        for _ in range(2):
            await b.add(lane="l")
        await b.granted("a1", "k")
        await b.waiting("b1", "k")
        await b.add()
        event = await accept(b, "d1", 2)
        overview = await b.insight.overview()

        states = {state: count for state, count in overview.totals.items() if count}
        assert states == {JobState.FETCHED: 1, JobState.WAITING: 2, JobState.READY: 4, JobState.BEHIND: 1}
        (queue,) = overview.queues
        assert (queue.queue.ready, queue.queue.fetched, queue.queue.waiting, queue.queue.workers) == (4, 1, 2, 1)
        assert [(worker.worker.session, worker.fetched, worker.runners) for worker in overview.workers] == [("a", 1, 5)]
        assert (overview.locks, overview.limits) == ((1, 1), (1, 1, 2))
        assert {row.reason for row in overview.waiting} == {"limit"}
        assert [(row.event.id, row.why) for row in overview.events] == [(event.id, "2 jobs: 2 ready")]
        assert json.loads(json.dumps(data(overview)))["totals"]["ready"] == 4


async def test_problems_come_with_what_to_do(floor: Floors) -> None:
    async with floor() as b:
        await b.add(queue="empty")
        await b.add(lane="l", on_failure=OnFailure.PARK)
        await b.end(await b.one(), Outcome.FAILED, error="no")
        await b.add()
        await b.end(await b.one(), Outcome.PARKED, error="no")
        await b.jobs.register_worker("a", ["q"], ["other"], 5)
        await b.add()
        await b.let_pass(120)
        overview = await b.insight.overview()
        problems = {(problem.kind, problem.ref): problem for problem in overview.problems}

        texts = [problem.text for problem in overview.problems]
        assert texts[0] == "no worker serves queue 'empty': 1 job has been ready for 2.0 min"
        assert texts[1] == "jobs are ready that no worker of queue 'q' knows: 'n'"
        assert problems["lane", "l"].text == "lane 'l' is parked after a failure: no"
        assert problems["jobs", "parked"].text == "1 job is set aside until a person acts"
        assert any("is late" in text for text in texts)
        assert all(problem.remedy for problem in overview.problems)
        assert [row.job.state for row in overview.failures] == [JobState.FAILED]
        assert (await b.insight.pulse())["problems"] == len(texts)
        assert {row.queue.queue: bool(row.why) for row in await b.insight.queues()} == {"empty": True, "q": True}


async def test_jobs_whose_workers_are_gone_are_a_problem(floor: Floors) -> None:
    async with floor() as b:
        await b.add()
        await b.one("a")
        await b.let_pass(SESSION + 1, "b")

        (problem,) = (await b.insight.overview()).problems
        assert "given to workers that are gone" in problem.text


async def test_what_is_due_and_nobody_is_there_for_is_a_problem(floor: Floors) -> None:
    async with floor() as b:
        await b.add(queue="due", delay=30.0)
        await b.add(queue="not-due", delay=90.0)
        await b.add(queue="limited", uses=(slots(1),))
        await b.one(queues=("limited",))
        await b.add(queue="limited", uses=(slots(1),))
        assert await b.fetch(queues=("limited",)) == []
        b.clock.advance(40)
        problems = {problem.ref: problem for problem in (await b.insight.overview()).problems}

        assert problems["due"].text == "no worker serves queue 'due': work has been due for 10.0 s"
        assert problems["due"].remedy.startswith("start a worker")
        assert problems["limited"].text == "no worker serves queue 'limited': 1 job waits for a limit"
        assert "not-due" not in problems
        assert {row.queue.queue for row in await b.insight.queues() if row.why} == {"due", "limited"}


async def test_the_pulse_changes_with_what_happens(floor: Floors) -> None:
    async with floor() as b:
        pulses = [await b.insight.pulse()]
        await b.add()
        pulses.append(await b.insight.pulse())
        assert await b.insight.pulse() == pulses[-1]
        await b.done(await b.one())
        pulses.append(await b.insight.pulse())
        await b.let_pass(10)
        pulses.append(await b.insight.pulse())

        assert len({pulse["version"] for pulse in pulses}) == len(pulses)
        assert [pulse["states"]["ready"] for pulse in pulses] == [0, 1, 0, 0]
        assert [pulse["accepted"] for pulse in pulses] == [0, 1, 1, 0]
        assert [pulse["done"] for pulse in pulses] == [0, 0, 1, 0]
        assert json.loads(json.dumps(pulses)) == pulses


async def test_spans_that_are_over_are_counted_once(floor: Floors, monkeypatch: pytest.MonkeyPatch) -> None:
    async with floor() as b:
        await b.let_pass(60 - b.now % 60)
        asked: list[int] = []
        ask = b.store.insight.activity

        async def counted(width: float, spans: int, *, since: int = 0) -> object:
            asked.append(since)
            return await ask(width, spans, since=since)

        monkeypatch.setattr(b.store.insight, "activity", counted)
        expected = []
        for n in range(4):
            for _ in range(n):
                await b.add()
                await b.done(await b.one())
            activity = await b.insight.activity(60.0, 6)
            expected = [*expected, n]
            assert [bucket.accepted for bucket in activity.buckets][-len(expected) :] == expected
            assert [bucket.done for bucket in activity.buckets][-len(expected) :] == expected
            assert [bucket.at % 10 for bucket in activity.buckets] == [0.0] * 6
            await b.let_pass(10)

        assert asked[0] == 0
        assert asked[-1] > asked[1] > 0, "what is over is not asked for again"


async def test_an_event_page_tells_what_it_caused(floor: Floors) -> None:
    async with floor() as b:
        event = await accept(b, "d1", 2)
        first, second = (job.id for job in event.jobs)
        await b.done(await b.one())
        page = await b.insight.event(event.id)

        assert [row.job.id for row in page.jobs] == [first, second]
        assert page.why == "2 jobs: 1 done, 1 ready"
        assert json.loads(page.event.payload or "")["n"] == 7
        job = await b.insight.job(first)
        assert job.event is not None
        assert (job.event.id, job.event.payload) == (event.id, None)
        assert (await b.insight.explain("event", event.id)).lines == page.explanation.lines
        (row,) = await b.insight.events()
        assert (row.states, row.why) == ({JobState.DONE: 1, JobState.READY: 1}, page.why)
        assert data(page)["event"]["payload"]["n"] == 7


async def test_a_job_that_names_an_event_which_did_not_cause_it_is_not_linked(floor: Floors) -> None:
    async with floor() as b:
        event = await accept(b, "d1", 1)
        for arguments in (
            f'{{"event": {event.id}}}',
            '{"event": "x"}',
            '{"event": true}',
            '["event"]',
            '{"event": 1e30}',
        ):
            job_id = await b.add(arguments=arguments)
            assert (await b.insight.job(job_id)).event is None


async def test_locks_in_another_store_are_told_apart(floor: Floors) -> None:
    async with floor(locks="memory://") as b:
        job_id = await b.add()
        await b.one("a")
        locks = b.insight._stores.locks
        from interlock.ports.locks import LockRequest
        from interlock.ports.sessions import SessionCard

        await locks.sessions.begin(SessionCard("z", "host-a", 7, "test"), SESSION)
        await locks.sessions.begin(SessionCard("y", "elsewhere", 9, "other"), SESSION)
        await locks.locks.ask(LockRequest("k", "z1", f"job:{job_id}:1f2e", "z", 60.0, 0.0, False))
        await locks.locks.ask(LockRequest("k", "y1", f"job:{job_id}:0000", "y", 60.0, 60.0, False))
        (row,) = await b.insight.locks()
        overview = await b.insight.overview()

        assert row.holder is not None
        assert (row.holder.who.job, row.holder.who.name) == (job_id, f"job {job_id} (n)")
        assert row.waiters[0].who.job is None, "a job of the same number in somebody else's store"
        assert overview.locks == (1, 1)
        assert [(seen.store, "locks" in seen.parts) for seen in overview.seen] == [
            (b.store.name, False),
            ("memory", True),
        ]
