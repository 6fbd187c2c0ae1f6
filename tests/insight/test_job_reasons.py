"""Why a job or a lane stands where it does: every reason, on every store that has jobs, in a list and on its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.ports.events import EventFilter
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import HandlerVersion, JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.ports.limits import Plan, Use
from interlock.reasons import REASONS, Reason
from interlock.testing.conformance.jobs.driver import SESSION, pace, slots

if TYPE_CHECKING:
    from tests.insight.conftest import Floor, Floors


async def told(b: Floor, job_id: int, reason: Reason) -> str:
    found, why = await b.why(job_id)
    assert found == reason
    return why


async def test_ready(floor: Floors) -> None:
    async with floor() as b:
        first, second, third = [await b.add() for _ in range(3)]
        assert await told(b, second, Reason.NO_WORKER) == "is ready, but no worker serves queue 'q'"
        await b.jobs.register_worker("a", ["q"], ["other"], 5)
        assert await told(b, second, Reason.UNKNOWN_NAME) == "is ready, but no worker of queue 'q' knows 'n'"
        await b.jobs.register_worker("b", ["q"], ["n"], 5)
        b.clock.advance(3)

        assert await told(b, first, Reason.READY) == "has been ready for 3.0 s and is the next"
        assert await told(b, third, Reason.READY) == "has been ready for 3.0 s and has 2 before it"


async def test_workers_with_blocked_event_loops(floor: Floors) -> None:
    async with floor() as b:
        running, ready = await b.add(), await b.add()
        for session in ("a", "b"):
            await b.jobs.register_worker(session, ["q"], ["n"], 5)
        await b.started(await b.one("a"))
        await b.store.sessions.note_blocked("a", 12.0, "job 1 (n) at bot.py:3 in n")
        why = await told(b, running, Reason.LOOP_BLOCKED)
        assert why == "runs in test@host-a:7, whose event loop is blocked"
        (line,) = [
            line for line in (await b.insight.explain("job", running)).lines if "blocked" in line and "by" in line
        ]
        assert "for 12.0 s, by job 1 (n) at bot.py:3 in n" in line
        assert (await b.insight.overview()).problems[0].ref == "a"
        await told(b, ready, Reason.READY)  # the other worker can take it

        await b.store.sessions.note_blocked("b", 1.0, "main")
        why = await told(b, ready, Reason.LOOP_BLOCKED)
        assert why == "is ready, but the event loops of its workers are blocked"
        await b.store.sessions.note_blocked("a", None)
        await told(b, running, Reason.RUNNING)
        await told(b, ready, Reason.READY)


async def test_later(floor: Floors) -> None:
    async with floor() as b:
        retried, snoozed = await b.add(), await b.add()
        await b.end(await b.one(), Outcome.RETRY, delay=30.0, error="ValueError: no\nmore of it")
        await b.end(await b.one(), Outcome.SNOOZED, delay=180.0, error="not yet")
        delayed = await b.add(delay=60.0)

        assert await told(b, delayed, Reason.DELAYED) == "is due in 60.0 s"
        assert await told(b, retried, Reason.TO_BE_RETRIED) == (
            "failed in attempt 1, next try in 30.0 s: ValueError: no more of it"
        )
        assert await told(b, snoozed, Reason.SNOOZED) == "was snoozed, is due again in 3.0 min: not yet"


async def test_what_is_overdue_waits_for_a_worker(floor: Floors) -> None:
    async with floor() as b:
        retried = await b.add()
        await b.end(await b.one(), Outcome.RETRY, delay=30.0, error="no")
        await b.add(uses=(pace(1, 30.0, "p"),))
        await b.done(await b.one())
        delayed, cooling = await b.add(delay=30.0), await b.add(uses=(pace(1, 30.0, "p"),))
        assert await b.fetch() == []
        await b.let_pass(40, "a", "b")

        for job_id in (retried, delayed, cooling):
            assert await told(b, job_id, Reason.NO_WORKER) == "is ready, but no worker serves queue 'q'"
            explanation = await b.insight.explain("job", job_id)
            assert explanation.remedy.startswith("start one")
            assert "in -" not in str(explanation)
        await b.jobs.register_worker("a", ["q"], ["other"], 5)
        assert await told(b, cooling, Reason.UNKNOWN_NAME) == "is ready, but no worker of queue 'q' knows 'n'"
        await b.jobs.register_worker("b", ["q"], ["n"], 5)
        assert await told(b, delayed, Reason.READY) == "has been ready for 10.0 s"


async def test_blocked_says_what_it_waits_for(floor: Floors) -> None:
    async with floor() as b:
        first, second = await b.add(name="build"), await b.add()
        last = await b.add(after=(first,))
        both = await b.add(after=(first, second))
        assert await told(b, last, Reason.BLOCKED) == f"waits for job {first} (ready)"
        assert await told(b, both, Reason.BLOCKED) == f"waits for job {first} (ready) and 1 more"
        await b.started(await b.one(names=("build",)))
        assert await told(b, last, Reason.BLOCKED) == f"waits for job {first} (running)"
        lines = (await b.insight.explain("job", last)).lines
        assert lines[0] == f"job {last} (n) starts after 1 other job has ended"
        assert lines[1].startswith(f"it waits for job {first} (build), which is running since ")


async def test_expired(floor: Floors) -> None:
    async with floor() as b:
        job_id = await b.add(expires=5.0, delay=60.0)
        await b.let_pass(6)
        await b.fetch()
        assert (await told(b, job_id, Reason.EXPIRED)).startswith("not started by ")


async def test_behind_says_what_the_head_waits_for(floor: Floors) -> None:
    async with floor() as b:
        head, middle, last = [await b.add(lane="l") for _ in range(3)]
        await b.end(await b.one(), Outcome.RETRY, delay=30.0, error="no")

        assert await told(b, last, Reason.BEHIND) == (
            f"is behind 2 in its lane: job {head} failed in attempt 1, next try in 30.0 s: no"
        )
        page = await b.insight.job(last)
        assert [row.job.id for row in page.ahead] == [head, middle]
        assert page.explanation.data["head_explained"]["reason"] == "to-be-retried"


async def test_a_limit_names_who_has_its_room(floor: Floors) -> None:
    async with floor() as b:
        holders = [await b.add(uses=(slots(2, "s"),)) for _ in range(2)]
        await b.fetch()
        first, second, third = [await b.add(uses=(slots(2, "s"),)) for _ in range(3)]
        assert await b.fetch() == []

        assert await told(b, first, Reason.LIMIT) == "waits for limit 's' (2 of 2), first in line"
        assert await told(b, second, Reason.LIMIT) == "waits for limit 's' (2 of 2), 2nd in line"
        assert await told(b, third, Reason.LIMIT) == "waits for limit 's' (2 of 2), 3rd in line"
        explanation = await b.insight.explain("job", first)
        assert sorted(explanation.data["holders"]) == holders
        assert f"its room is taken by jobs {holders[0]}, {holders[1]}" in explanation.lines


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
async def test_a_list_of_limits_has_one_row_for_jobs_and_reservations_of_a_key(floor: Floors, limit: int) -> None:
    async with floor() as b:
        for key in ("r", "s", "t"):
            await b.add(uses=(slots(1, key),))
        assert len(await b.fetch()) == 3
        for key in ("q", "r", "t"):
            await b.store.limits.ask(Plan(f"b.{key}", "b", "b", (Use(key, 1, 0.0),), start=True))

        found: list[tuple[str, str]] = []
        after: str | None = None
        while True:
            part = await b.insight.limits(limit=limit, after=after)
            assert 0 < len(part) <= limit
            found += [(row.key, row.counts) for row in part]
            if (after := part.more) is None:
                break

        both = "jobs and reservations"
        assert found == [("q", "reservations"), ("r", both), ("s", "jobs"), ("t", both)]


async def test_a_pace_tells_when_there_is_room(floor: Floors) -> None:
    async with floor() as b:
        await b.add(uses=(pace(1, 90.0, "p"),))
        await b.one()
        waiting = await b.add(uses=(pace(1, 90.0, "p"),))
        assert await b.fetch() == []

        why = await told(b, waiting, Reason.PACE)
        assert why.startswith("waits for limit 'p' (1 every 90 s), room in ")
        assert why.endswith(", first in line")


async def test_held_parked_and_set_aside(floor: Floors) -> None:
    async with floor() as b:
        parks = await b.add(lane="p", on_failure=OnFailure.PARK)
        stuck = await b.add(lane="p")
        await b.end(await b.one(), Outcome.FAILED, error="no")
        held = await b.add(lane="h")
        await b.jobs.hold("h", Attribution("ann", "deploying"))
        aside = await b.add()
        await b.end(await b.one(), Outcome.PARKED, error="its arguments changed")

        assert await told(b, held, Reason.LANE_HELD) == "is next in its lane, which is held by ann: deploying"
        assert (await told(b, stuck, Reason.LANE_PARKED)).startswith(
            "is next in its lane, which was parked after a failure: "
        )
        assert await told(b, aside, Reason.PARKED) == "was set aside until a person acts: its arguments changed"
        assert await told(b, parks, Reason.FAILED) == "no"


async def test_a_paused_queue(floor: Floors) -> None:
    async with floor() as b:
        await b.jobs.register_worker("a", ["q"], ["n"], 5)
        job_id = await b.add()
        behind = await b.add(lane="l", delay=60.0)
        await b.jobs.pause("q", Attribution("ann", "deploying"))

        assert await told(b, job_id, Reason.QUEUE_PAUSED) == "is in queue 'q', which is paused by ann: deploying"
        await told(b, behind, Reason.DELAYED)


async def test_running_and_whose_worker_is_gone(floor: Floors) -> None:
    async with floor() as b:
        await b.jobs.register_worker("a", ["q"], ["n"], 5)
        job_id = await b.add()
        job = await b.one("a")
        b.clock.advance(2)
        assert await told(b, job_id, Reason.FETCHED) == "was fetched 2.0 s ago by test@host-a:7 and has not started"
        await b.started(job)
        assert await told(b, job_id, Reason.RUNNING) == "runs for 2.0 s in test@host-a:7"
        await b.let_pass(SESSION + 1, "b")

        assert await told(b, job_id, Reason.WORKER_GONE) == "was given to test@host-a:7, which is gone or silent"


async def test_a_job_that_waits_for_a_lock_names_it_and_the_job_that_holds_it(floor: Floors) -> None:
    async with floor() as b:
        for session in "ab":
            await b.jobs.register_worker(session, ["q"], ["n"], 5)
        holder, waiter = await b.add(), await b.add()
        await b.started(await b.one("a"))
        await b.one("b")
        await b.granted("a1", "repo", caller=f"job:{holder}:1f2e")
        b.clock.advance(5)
        await b.waiting("b1", "repo", caller=f"job:{waiter}:1f2e")
        b.clock.advance(1)

        assert await told(b, waiter, Reason.LOCK) == (
            f"waits for lock 'repo': job {holder} (n) has held it for 6.0 s; runs for 6.0 s in test@host-b:7"
        )
        assert await told(b, holder, Reason.RUNNING) == "runs for 6.0 s in test@host-a:7"
        page = await b.insight.job(waiter)
        assert [lock.key for lock in page.waits] == ["repo"]
        assert page.explanation.remedy == "see who holds it: interlock explain lock repo"
        assert any(f"held by job {holder} (n) (test, process 7 on host-a)" in line for line in page.explanation.lines)
        lock = (await b.insight.lock("repo")).lock
        assert lock is not None
        assert lock.holder is not None
        assert (lock.holder.who.job, lock.waiters[0].who.job) == (holder, waiter)
        assert lock.waiters[0].why == f"has waited for 1.0 s and is next; job {holder} (n) holds it"


async def test_every_end(floor: Floors) -> None:
    async with floor() as b:
        done, failed, discarded = [await b.add() for _ in range(3)]
        for outcome in (Outcome.DONE, Outcome.FAILED, Outcome.DISCARDED):
            await b.end(await b.one(), outcome, error="" if outcome is Outcome.DONE else "why not")
        cancelled, killer = await b.add(), await b.add(queue="k", priority=100)
        await b.jobs.cancel(cancelled, Attribution("ann", "wrong"))
        for session in ("x", "y", "z"):
            await b.begin(session)
            await b.one(session, queues=("k",))
            await b.crash(session)
        older, newer = [await b.add(lane="c", coalesce=True) for _ in range(2)]
        await b.one()

        assert await told(b, done, Reason.DONE) == ""
        assert await told(b, failed, Reason.FAILED) == "why not"
        assert await told(b, discarded, Reason.DISCARDED) == "why not"
        assert "wrong" in await told(b, cancelled, Reason.CANCELLED)
        assert await told(b, killer, Reason.QUARANTINED) == "3 workers died while it was their only suspect"
        assert await told(b, older, Reason.SUPERSEDED) == f"gave way to job {newer} of its lane"


async def test_a_refused_job_waits_for_a_worker_of_another_version(floor: Floors) -> None:
    old, new = HandlerVersion("n", "0123456789ab", "1.0"), HandlerVersion("n", "cdef01234567", "2.0")
    async with floor() as b:
        await b.jobs.register_worker("a", ["q"], ["n"], 5, [old])
        await b.jobs.register_worker("b", ["q"], ["n"], 5, [new])
        refused = await b.add()
        version = json.dumps([old.fingerprint, old.version])
        await b.end(await b.one("a"), Outcome.UNREADABLE, result=version, error="'currency' is not known")

        assert "a version that can read its arguments" in await told(b, refused, Reason.UNREADABLE)


async def test_a_suspect_waits_for_those_that_it_must_not_run_beside(floor: Floors) -> None:
    async with floor() as b:
        ids = [await b.add() for _ in range(4)]
        await b.jobs.register_worker("b", ["q"], ["n"], 5)
        await b.fetch("a")
        await b.crash("a")
        half = await b.fetch("b")
        waiting = sorted(set(ids) - {job.id for job in half})
        page = await b.insight.job(waiting[0])

        named = ", ".join(str(job.id) for job in half)
        why = f"is a suspect of a crash, waits for jobs {named} in test@host-b:7"
        assert await told(b, waiting[0], Reason.SUSPECT) == why
        assert any("test, process 7 on host-a died while it had this job" in line for line in page.explanation.lines)
        suspicion = page.explanation.data["suspicion"]
        assert (suspicion["half"], suspicion["half_count"]) == (waiting, 2)
        assert (suspicion["other_half"], suspicion["other_count"]) == ([job.id for job in half], 2)
        assert [(one["same_group"], one["jobs"]) for one in suspicion["running"]] == [(True, [job.id for job in half])]
        await b.done(*half)
        assert await told(b, waiting[0], Reason.READY)


async def test_lanes_say_why_they_do_not_go_on(floor: Floors) -> None:
    async with floor() as b:
        await b.jobs.register_worker("a", ["q"], ["n"], 5)
        ids = {lane: [await b.add(lane=lane) for _ in range(2)] for lane in ("held", "runs", "waits")}
        await b.jobs.hold("held", Attribution("ann", "deploying"))
        jobs = {job.lane: job for job in await b.fetch()}
        await b.started(jobs["runs"])
        await b.end(jobs["waits"], Outcome.RETRY, delay=30.0, error="no")
        rows = {row.lane.lane: row for row in await b.insight.lanes()}

        assert rows["held"].why == "is held by ann: deploying"
        assert rows["runs"].why == f"job {ids['runs'][0]} runs for 0 ms in test@host-a:7"
        assert rows["waits"].why == f"job {ids['waits'][0]} failed in attempt 1, next try in 30.0 s: no"
        for lane, row in rows.items():
            page = await b.insight.lane(lane)
            assert (page.reason, page.why, page.lane is not None) == (row.reason, row.why, True)
            assert [job.job.id for job in page.jobs] == ids[lane]
        nobody = await b.insight.lane("nobody's")
        assert (nobody.lane, nobody.reason, nobody.jobs, nobody.why) == (None, Reason.IDLE, (), "empty")
        assert nobody.seen[0].at == b.now


async def test_what_ended_in_a_lane_is_told_too(floor: Floors) -> None:
    async with floor() as b:
        ids = [await b.add(lane="l") for _ in range(3)]
        for _ in range(2):
            await b.done(await b.one())
        page = await b.insight.lane("l")

        assert [row.job.id for row in page.jobs] == ids[2:]
        assert [row.job.id for row in page.ended] == [ids[1], ids[0]]


async def test_what_is_not_there_is_said_to_be_so(floor: Floors) -> None:
    async with floor() as b:
        for ask in (b.insight.job, b.insight.event):
            with pytest.raises(NotFoundError):
                await ask(4711)
        with pytest.raises(NotFoundError):
            await b.insight.worker("nobody")
        for wrong in (0, -1, True, "x", "1" * 30, 2**63):
            with pytest.raises(InvalidArgumentError):
                await b.insight.explain("job", wrong)
        for call in (
            b.insight.explain("wheel", "x"),
            b.insight.jobs(limit=0),
            b.insight.jobs(before="x"),
            b.insight.jobs(JobFilter(name="a\0b")),
            b.insight.jobs(JobFilter(lane="\udcff")),
            b.insight.jobs(JobFilter(("new",))),  # type: ignore[arg-type]
            b.insight.events(EventFilter(source="a\0b")),
            b.insight.locks(after="\0"),
            b.insight.lanes(show="other"),
            b.insight.activity(0.0, 60),
            b.insight.activity(600.0, 0),
        ):
            with pytest.raises(InvalidArgumentError):
                await call


async def test_a_job_page_tells_what_happened(floor: Floors) -> None:
    async with floor() as b:
        job_id = await b.add(arguments='{"a": 1}')
        await b.end(await b.one(), Outcome.RETRY, delay=1.0, error="ValueError: no", trace="Traceback …", ran=0.5)
        await b.let_pass(2)
        await b.end(await b.one(), Outcome.DONE, result='"ok"')
        page = await b.insight.job(job_id)

        assert [(moment.kind, moment.what) for moment in page.timeline] == [
            ("enqueued", "enqueued"),
            ("attempt", "attempt 1 failed, to be retried: ValueError: no"),
            ("attempt", "attempt 2 done"),
        ]
        assert page.timeline[1].attempt is not None
        assert page.timeline[1].attempt.trace == "Traceback …"
        assert (page.job.arguments, page.job.result, page.job.state) == ('{"a": 1}', '"ok"', JobState.DONE)
        (seen,) = page.seen
        assert (seen.store, seen.at) == (b.store.name, pytest.approx(b.now))
        assert {"jobs", "locks", "events"} <= set(seen.parts)


def test_every_reason_has_a_test() -> None:
    here = Path(__file__).read_text("utf-8")

    elsewhere = {Reason.ROW_LOCKED}  # only on PostgreSQL: tests/backends/test_postgres_locked_rows.py
    known = {reason for reason, info in REASONS.items() if {"job", "lane"} & set(info.subjects)} - elsewhere
    assert not [reason for reason in known if f"Reason.{reason.name}" not in here]
