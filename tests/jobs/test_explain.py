"""Every reason why a job or a lane can wait, or has ended: in words, as data, and with what to do about it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Cooldown, Retry, Slots, Snooze
from interlock.jobs.explain import explain_job, explain_lane
from interlock.ports.insight import WorkerStatus
from interlock.ports.job_views import (
    Attempt,
    JobSituation,
    JobView,
    LaneView,
    Need,
    QueuePause,
    RowLock,
    RunningSuspects,
    Suspicion,
    WorkerView,
)
from interlock.ports.jobs import HandlerVersion, JobState
from interlock.ports.locks import Holder, LockView
from interlock.reasons import REASONS, Reason
from interlock.testing.clock import until

if TYPE_CHECKING:
    from interlock import Handle

NOW = 1_800_000_000.0
WORKER = WorkerView("s1", "host1", 42, "bot.py")
JOB = JobView(
    id=7,
    name="report",
    queue="slow",
    lane="",
    priority=50,
    state=JobState.READY,
    attempt=0,
    crashes=0,
    enqueued_at=NOW - 100,
    due_at=NOW - 90,
    fetched_at=None,
    finished_at=None,
    worker=None,
    fence=0,
    error="",
    superseded_by=None,
    uses=(),
    arguments="{}",
    options="",
    result=None,
    result_kept_until=None,
    attempts=(),
    seen_at=NOW,
)
OUTLOOK = JobSituation(
    job=JOB,
    ahead=0,
    lane_head=None,
    lane_head_state=None,
    held_by="",
    held_reason="",
    held_since=None,
    parked_since=None,
    parked_reason="",
    waits_for="",
    holders=(),
    room_at=None,
    workers=2,
    workers_of_queue=3,
)
LANE = LaneView("x#1", JobState.READY, 7, "report", 3, NOW - 90, None, "", "", None, None, "", NOW)


def situation(state: JobState, job: dict[str, Any] | None = None, **rest: Any) -> JobSituation:
    return OUTLOOK._replace(job=JOB._replace(state=state, **(job or {})), **rest)


def suspicion(*running: RunningSuspects) -> Suspicion:
    return Suspicion((7, 8, 9), 4, (3, 4), 4, running)


def running(
    session: str = "s1", *, same_half: bool = False, same_group: bool = True, jobs: tuple[int, ...]
) -> RunningSuspects:
    return RunningSuspects(WORKER._replace(session=session), same_half, same_group, jobs, len(jobs))


def attempt(outcome: str, error: str = "") -> Attempt:
    return Attempt(1, outcome, NOW - 50, NOW - 40, WORKER, 3, error, "")


WAITING = [
    (
        situation(JobState.READY),
        Reason.READY,
        ["ready since", "90.0 s", "2 workers take", "it is the next", "--queues slow"],
    ),
    (situation(JobState.READY, ahead=1200), Reason.READY, ["1,200 before it"]),
    (
        situation(JobState.READY, {"attempts": (attempt("unreadable", "'currency' is not known"),)}),
        Reason.UNREADABLE,
        ["'currency' is not known", "no live worker is known to be of another version", "finish the deployment"],
    ),
    (situation(JobState.READY, ahead=10_000), Reason.READY, ["10,000 or more before it"]),
    (
        situation(JobState.READY, row_lock=RowLock("job_ready", 4711, "psql", "ann", "idle in transaction", NOW - 60)),
        Reason.ROW_LOCKED,
        [
            "its row in interlock.job_ready is locked by backend 4711 (psql, user ann, idle in transaction)",
            "whose transaction began 60.0 s ago",
            "fetches skip it",
            "commit or roll back that transaction, or end it: select pg_terminate_backend(4711)",
        ],
    ),
    (
        situation(JobState.READY, workers=0, row_lock=RowLock("job_lane", 4711, "", "", "", None)),
        Reason.UNKNOWN_NAME,
        ["its row in interlock.job_lane is locked by backend 4711; fetches skip it", "deployment"],
    ),
    (
        situation(JobState.READY, pause=QueuePause("ann", "deploying", NOW - 30)),
        Reason.QUEUE_PAUSED,
        [
            "queue 'slow' has been paused since",
            "by ann: deploying",
            "ask ann, or resume it: interlock queues resume slow",
        ],
    ),
    (
        situation(JobState.READY, workers=0, workers_of_queue=0, pause=QueuePause("ann", "deploying", NOW - 30)),
        Reason.QUEUE_PAUSED,
        ["by ann: deploying", "no live worker serves its queue 'slow'"],
    ),
    (
        situation(JobState.READY, workers=0, workers_of_queue=0),
        Reason.NO_WORKER,
        ["no live worker serves its queue 'slow'", "start one: interlock run"],
    ),
    (
        situation(JobState.READY, workers=0),
        Reason.UNKNOWN_NAME,
        ["3 work on its queue", "none knows a job called 'report'", "deployment"],
    ),
    (
        situation(JobState.READY, {"crashes": 2}),
        Reason.READY,
        ["2 workers have died while it was the only suspect", "quarantined after 3"],
    ),
    (
        situation(JobState.READY, {"attempts": (attempt("crashed"),)}, suspicion=suspicion()),
        Reason.READY,
        [
            "it is a suspect: bot.py, process 42 on host1 died while it had this job, which was noticed at",
            "8 suspects of that crash are left, in two halves: jobs 7, 8, 9 and 1 more; and jobs 3, 4 and 2 more",
            "no suspect that it would have to wait for runs",
            "start more workers",
        ],
    ),
    (
        situation(JobState.READY, suspicion=suspicion(running(jobs=(3,)), running("w2", same_group=False, jobs=(50,)))),
        Reason.SUSPECT,
        [
            "it is a suspect: a worker died while it had this job",
            "it waits for job 3 of the other half in bot.py, process 42 on host1",
            "it waits for job 50 of another crash in bot.py, process 42 on host1",
            "suspects of two halves never share a process: another worker may take it meanwhile",
            "wait until they have ended (interlock explain job 3), or start another worker",
        ],
    ),
    (
        situation(JobState.READY, suspicion=suspicion(running(jobs=(3,)), running("w2", same_half=True, jobs=(8,)))),
        Reason.READY,
        ["of its half, job 8 already run in bot.py", "it waits for job 3 of the other half"],
    ),
    (
        situation(JobState.WAITING, waits_for="slots:x", suspicion=Suspicion((7,), 1, (), 0, ())),
        Reason.LIMIT,
        ["it is a suspect: a worker died while it had this job", "no other suspect of that crash is left"],
    ),
    (
        situation(JobState.RUNNING, {"fetched_at": NOW}, suspicion=Suspicion((7, 8), 2, (), 0, ())),
        Reason.RUNNING,
        ["2 suspects of that crash are left and run side by side: jobs 7, 8"],
    ),
    (
        situation(JobState.SCHEDULED, {"due_at": NOW + 30}),
        Reason.DELAYED,
        ["enqueued for later", "in 30.0 s", "jobs retry 7"],
    ),
    (
        situation(
            JobState.SCHEDULED,
            {"due_at": NOW + 30, "attempt": 2, "error": "OSError: x", "attempts": (attempt("retry"),)},
        ),
        Reason.TO_BE_RETRIED,
        ["failed in 2 attempts", "in 30.0 s", "it failed with OSError: x", "jobs retry 7"],
    ),
    (
        situation(JobState.SCHEDULED, {"due_at": NOW + 30, "attempts": (attempt("snoozed", "not yet"),)}),
        Reason.SNOOZED,
        ["was snoozed and is due again", "in 30.0 s", "not yet"],
    ),
    (
        situation(JobState.SCHEDULED, {"attempt": 1, "attempts": (attempt("retry"),)}, workers=0, workers_of_queue=0),
        Reason.NO_WORKER,
        ["ready since", "no live worker serves its queue 'slow'", "start one: interlock run"],
    ),
    (situation(JobState.SCHEDULED, workers=0), Reason.UNKNOWN_NAME, ["none knows a job called 'report'"]),
    (situation(JobState.SCHEDULED), Reason.READY, ["ready since", "2 workers take", "when they next look"]),
    (
        situation(JobState.WAITING, {}, waits_for="slots:c", holders=(1, 2), ahead=4),
        Reason.LIMIT,
        ["waits for the limit 'slots:c'", "4 before it in line", "taken by jobs 1, 2", "explain job 1"],
    ),
    (
        situation(JobState.WAITING, {}, waits_for="slots:c", holders=tuple(range(1, 9))),
        Reason.LIMIT,
        ["first in line", "jobs 1, 2, 3, 4, 5 and others"],
    ),
    (situation(JobState.WAITING, {}, waits_for="slots:c"), Reason.LIMIT, ["a slot has become free"]),
    (
        situation(JobState.WAITING, {}, waits_for="cooldown:a", room_at=NOW - 8, workers=0, workers_of_queue=0),
        Reason.NO_WORKER,
        ["a slot has become free", "no live worker serves its queue 'slow'", "start one: interlock run"],
    ),
    (
        situation(JobState.WAITING, {}, waits_for="cooldown:a", room_at=NOW + 12),
        Reason.PACE,
        ["'cooldown:a'", "the next may start at", "in 12.0 s"],
    ),
    (
        situation(JobState.HELD, {"lane": "x#1"}, held_by="ann", held_reason="audit", held_since=NOW - 60),
        Reason.LANE_HELD,
        ["lane 'x#1' is held by ann since", "audit", "ask ann", "lanes release 'x#1'"],
    ),
    (
        situation(JobState.HELD, {"lane": "x#1"}, parked_reason="job 5 failed", parked_since=NOW - 60),
        Reason.LANE_PARKED,
        ["lane 'x#1' has been parked since", "after a failure: job 5 failed", "fix the cause", "lanes release 'x#1'"],
    ),
    (
        situation(JobState.PARKED, {"lane": "x#1", "error": "arguments no longer fit"}),
        Reason.PARKED,
        [
            "set aside until a person acts: arguments no longer fit",
            "lane 'x#1' waits with it",
            "jobs retry 7",
            "cancel 7",
        ],
    ),
    (
        situation(JobState.FETCHED, {"worker": WORKER, "fetched_at": NOW - 5, "attempt": 2, "fence": 9}),
        Reason.FETCHED,
        [
            "was fetched by bot.py, process 42 on host1 at",
            "5.0 s ago",
            "attempt 2, fence 9",
            "waits for a free runner there, or has just started",
            "jobs cancel 7",
        ],
    ),
    (
        situation(JobState.FETCHED, {"worker": WORKER, "lane": "x#1"}, lane_head=3, lane_head_state=JobState.RUNNING),
        Reason.FETCHED,
        ["it starts there after job 3, which is before it in its lane 'x#1'"],
    ),
    (
        situation(JobState.FETCHED, {"worker": WORKER, "fetched_at": NOW - 5, "attempt": 1}, workers=0),
        Reason.WORKER_GONE,
        ["given to bot.py, process 42 on host1 since", "gone or silent", "which takes it over: interlock run"],
    ),
    (
        situation(JobState.RUNNING, {"worker": WORKER, "fetched_at": NOW - 5, "attempt": 2, "fence": 9}),
        Reason.RUNNING,
        ["runs in bot.py, process 42 on host1 since", "for 5.0 s", "attempt 2, fence 9", "jobs cancel 7"],
    ),
    (
        situation(JobState.RUNNING, {"worker": WORKER, "fetched_at": NOW - 5, "attempt": 1}, workers=0),
        Reason.WORKER_GONE,
        ["given to bot.py, process 42 on host1 since", "gone or silent", "which takes it over: interlock run"],
    ),
    (
        situation(JobState.RUNNING, {"worker": WORKER, "fetched_at": NOW - 5, "crashes": 1}),
        Reason.RUNNING,
        ["a worker has died while it was the only suspect"],
    ),
    (
        situation(JobState.SCHEDULED, {"due_at": NOW + 1}, workers=0),
        Reason.DELAYED,
        ["also, no live worker runs jobs like it"],
    ),
    (
        situation(
            JobState.RUNNING, {"lane": "x#1", "fetched_at": NOW}, held_by="ann", held_reason="audit", held_since=NOW - 6
        ),
        Reason.RUNNING,
        ["lane 'x#1' is held by ann", "no job of it starts until it is released"],
    ),
]
BLOCKED = [
    (
        situation(
            JobState.BLOCKED,
            needs=(Need(12, "build", JobState.RUNNING, NOW - 60), Need(13, "mail", JobState.READY, NOW - 90)),
            needs_count=3,
        ),
        Reason.BLOCKED,
        ["starts after 3 other jobs", "job 12 (build), which is running since 2027-01-15T07:59", "explain job 12"],
    ),
    (
        situation(JobState.BLOCKED, needs=(Need(12, "", None, None),), needs_count=1),
        Reason.BLOCKED,
        ["1 other job has ended", "which is no longer kept"],
    ),
    (
        situation(
            JobState.PARKED,
            {"error": "job 12 failed: disk full"},
            needs=(Need(12, "build", JobState.FAILED, NOW),),
            needs_count=1,
        ),
        Reason.PARKED,
        ["job 12 failed: disk full", "jobs retry 12", "jobs retry 7"],
    ),
]
ENDED = [
    (
        situation(JobState.EXPIRED, {"finished_at": NOW - 1, "error": "not started by 2027-01-15T07:59:00Z"}),
        Reason.EXPIRED,
        ["expired at", "not started by 2027", "jobs retry 7"],
    ),
    (
        situation(JobState.DONE, {"worker": WORKER, "finished_at": NOW - 1, "result_kept_until": NOW + 60}),
        Reason.DONE,
        ["was done by bot.py, process 42 on host1", "result is kept until"],
    ),
    (
        situation(JobState.FAILED, {"finished_at": NOW - 1, "attempt": 3, "error": "OSError: x"}),
        Reason.FAILED,
        ["failed permanently", "attempt 3", "it failed with OSError: x", "jobs retry 7"],
    ),
    (
        situation(JobState.DISCARDED, {"finished_at": NOW - 1, "error": "closed"}),
        Reason.DISCARDED,
        ["discarded by its handler", "closed", "jobs retry 7"],
    ),
    (
        situation(JobState.CANCELLED, {"finished_at": NOW - 1, "error": "cancelled by ann: wrong"}),
        Reason.CANCELLED,
        ["was cancelled", "cancelled by ann: wrong", "jobs retry 7"],
    ),
    (
        situation(JobState.SUPERSEDED, {"finished_at": NOW - 1, "superseded_by": 9}),
        Reason.SUPERSEDED,
        ["superseded", "job 9 of its lane does its work", "explain job 9"],
    ),
    (
        situation(JobState.QUARANTINED, {"finished_at": NOW - 1, "crashes": 3, "error": "killed"}),
        Reason.QUARANTINED,
        ["quarantined", "3 workers died while it was their only suspect", "jobs retry 7"],
    ),
]


@pytest.mark.parametrize(("seen", "reason", "words"), [*WAITING, *BLOCKED, *ENDED], ids=lambda value: str(value)[:20])
def test_each_reason_in_words_and_as_data(seen: JobSituation, reason: Reason, words: list[str]) -> None:
    told = explain_job(seen)

    assert told.reason is reason
    for part in words:
        assert part in str(told)
    assert "job 7 (report)" in told.lines[0]
    assert told.data["reason"] == reason.value
    assert told.data["explain"] == list(told.lines)
    assert told.remedy in ("", told.lines[-1])
    assert told.subject == ("job", "7")
    assert told.data["why"] == told.why
    assert bool(told.why) is (reason is not Reason.DONE)
    assert len(told.why) <= 160
    assert json.loads(json.dumps(told.data)) == told.data


def test_every_state_has_its_words() -> None:
    told = {seen.job.state for seen, _, _ in [*WAITING, *BLOCKED, *ENDED]}

    assert told == set(JobState) - {JobState.BEHIND}
    reasons = {reason for _, reason, _ in [*WAITING, *BLOCKED, *ENDED]}
    known = {reason for reason, info in REASONS.items() if "job" in info.subjects}
    assert reasons == known - {Reason.BEHIND, Reason.LOCK, Reason.LOOP_BLOCKED}


@pytest.mark.parametrize(("seen", "reason", "words"), WAITING, ids=lambda value: str(value)[:20])
def test_a_job_behind_its_head_says_what_that_one_waits_for(
    seen: JobSituation, reason: Reason, words: list[str]
) -> None:
    behind = situation(JobState.BEHIND, {"id": 8, "lane": "x#1"}, ahead=2, lane_head=7, lane_head_state=seen.job.state)

    told = explain_job(behind, seen)

    assert told.reason is Reason.BEHIND
    assert "job 8 (report) is behind 2 others in its lane 'x#1'" in told.lines[0]
    assert f"the lane is at job 7, which is {seen.job.state}" in str(told)
    for part in words:
        assert part in str(told)
    assert told.data["head_explained"]["reason"] == reason.value
    assert told.remedy == explain_job(seen).remedy


def test_a_fetched_job_says_how_many_runners_of_its_worker_are_busy() -> None:
    fetched = situation(JobState.FETCHED, {"worker": WORKER, "fetched_at": NOW - 5})
    others = WorkerStatus(WORKER._replace(session="s2"), ("slow",), ("report",), 9, 0, 9, NOW, NOW)
    its = WorkerStatus(WORKER, ("slow",), ("report",), 4, 7, 3, NOW, NOW)

    told = explain_job(fetched, workers=[others, its])

    assert told.why == "was fetched 5.0 s ago by bot.py@host1:42 and has not started"
    assert "waits for a free runner there (3 of 4 are running jobs)" in told.lines[1]
    blocked = explain_job(fetched, workers=[its._replace(blocked_since=NOW - 3, blocked_by="job 3")])
    assert (blocked.reason, blocked.why) == (
        Reason.LOOP_BLOCKED,
        "was fetched by bot.py@host1:42, whose event loop is blocked",
    )


def test_a_fetched_job_whose_handler_waits_for_a_lock_has_started() -> None:
    holder = Holder("o", "vm:1", "s1", "host1", 42, "bot.py", 3, NOW - 9, NOW + 9)
    lock = LockView("repo", holder, (), None, NOW)

    told = explain_job(situation(JobState.FETCHED, {"worker": WORKER, "fetched_at": NOW - 5}), waits=[lock])

    assert told.reason is Reason.LOCK
    assert "its handler waits for the lock 'repo'" in str(told)


def test_a_job_behind_a_head_that_is_gone_meanwhile() -> None:
    told = explain_job(situation(JobState.BEHIND, {"lane": "x#1"}, ahead=1))

    assert "behind 1 other in its lane" in str(told)
    assert "explain lane 'x#1'" in told.remedy


@pytest.mark.parametrize(
    ("seen", "reason", "words"),
    [case for case in WAITING if case[0].held_since is None],
    ids=lambda value: str(value)[:20],
)
def test_a_lane_says_what_its_head_waits_for(seen: JobSituation, reason: Reason, words: list[str]) -> None:
    told = explain_lane("x#1", LANE._replace(state=seen.job.state), seen)

    assert told.reason is reason
    assert told.lines[0] == "lane 'x#1' has 3 jobs and is at job 7 (report)"
    for part in words:
        assert part in str(told)
    assert json.loads(json.dumps(told.data)) == told.data
    assert (told.data["head"], told.data["head_explained"]["reason"]) == (7, reason.value)


def test_a_held_lane() -> None:
    held = {"held_by": "ann", "held_reason": "audit", "held_since": NOW - 60}

    empty = explain_lane("x#1", LANE._replace(state=JobState.HELD, head=None, depth=0, **held))
    at_work = explain_lane(
        "x#1",
        LANE._replace(state=JobState.RUNNING, depth=1, **held),
        situation(JobState.RUNNING, {"lane": "x#1", "worker": WORKER, "fetched_at": NOW - 5}, **held),
    )

    assert empty.reason is at_work.reason is Reason.LANE_HELD
    assert empty.lines[0] == "lane 'x#1' has 0 jobs"
    assert "held by ann since 2027-01-15T07:59:00.000+00:00: audit" in str(empty)
    assert "runs in bot.py" in str(at_work)
    assert empty.remedy == at_work.remedy == "ask ann, or release it: interlock lanes release 'x#1'"


def test_a_parked_lane() -> None:
    parked = {"parked_reason": "job 5 (report) failed: OSError: x", "parked_since": NOW - 60}

    told = explain_lane("x#1", LANE._replace(state=JobState.HELD, **parked), situation(JobState.HELD, **parked))

    assert told.reason is Reason.LANE_PARKED
    assert "parked since 2027-01-15T07:59:00.000+00:00 after a failure: job 5 (report) failed" in str(told)
    assert "fix the cause" in told.remedy


def test_an_idle_lane() -> None:
    told = explain_lane("x#1", None)

    assert (told.reason, told.remedy) == (Reason.IDLE, "")
    assert told.lines == ("lane 'x#1' is empty and not held",)


def test_a_lane_whose_head_has_ended_meanwhile() -> None:
    for state in JobState:
        if not state.final and state is not JobState.BEHIND:
            assert explain_lane("x#1", LANE._replace(state=state), None).lines


# -- of real jobs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)
async def test_reasons_of_real_jobs(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job(retry=Retry(delay=3600, max_delay=3600))
        async def fails() -> None:
            raise OSError("disk full")

        @app.job()
        async def snoozes() -> None:
            raise Snooze(3600, "not yet")

        @app.job(lane="parks", on_failure="park", retry=Retry.NEVER)
        async def parks() -> None:
            raise OSError("disk full")

        @app.job(limits=[Slots("one", 1)])
        async def waits() -> None:
            await go_on.wait()

        @app.job(limits=[Cooldown("gap", 3600)])
        async def paced() -> None: ...

        @app.job(lane="busy")
        async def busy() -> None: ...

        go_on = asyncio.Event()
        retried, snoozed = await fails.enqueue(), await snoozes.enqueue()
        failed, parked = await parks.enqueue(), await parks.enqueue()
        delayed = await busy.options(delay=3600, lane=None).enqueue()
        first = await paced.enqueue()
        unseen = await busy.options(queue="nobody", lane=None).enqueue()
        await app.lanes.hold("busy", reason="audit", by="ann")
        held, behind = await busy.enqueue(), await busy.enqueue()

        async def reason(handle: Handle[None]) -> str:
            return str((await app.jobs.explain(handle)).reason)

        async with app.worker():
            holder = await waits.enqueue()
            await until_reason(app, holder, Reason.RUNNING)
            waiting = await waits.enqueue()
            await until_reason(app, waiting, Reason.LIMIT)
            await until_reason(app, first, Reason.DONE)
            second = await paced.enqueue()
            await until_reason(app, second, Reason.PACE)
            await until_reason(app, parked, Reason.LANE_PARKED)
            await until_reason(app, snoozed, Reason.SNOOZED)
            await until_reason(app, retried, Reason.TO_BE_RETRIED)
            assert f"job {holder.id}" in str(await app.jobs.explain(waiting))
            assert await reason(failed) == "failed"
            assert [await reason(handle) for handle in (held, behind)] == ["lane-held", "behind"]
            assert await reason(delayed) == "delayed"
            assert (await app.lanes.explain("parks")).reason is Reason.LANE_PARKED
            go_on.set()
            await waiting.result(wait=20)
        assert await reason(unseen) == "no-worker"
        assert "disk full" in str(await app.jobs.explain(retried))
        assert "not yet" in str(await app.jobs.explain(snoozed))
        assert "held by ann" in str(await app.jobs.explain(behind))
        assert "disk full" in str(await app.lanes.explain("parks"))


@pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)
async def test_a_parked_lane_names_the_job_that_failed_and_all_that_is_to_be_done(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job(lane="api#1", on_failure="park", retry=Retry.NEVER)
        async def deploy(well: bool) -> None:
            if not well:
                raise OSError("disk full")

        early = await deploy.enqueue(well=True)
        await app.drain()
        failed, held, behind = [await deploy.enqueue(well=well) for well in (False, True, True)]
        await app.drain()

        release, retry = "interlock lanes release 'api#1'", f"interlock jobs retry {failed.id}"
        told = [
            await app.lanes.explain("api#1"),
            await app.insight.explain("lane", "api#1"),
            *[await app.jobs.explain(job) for job in (held, behind)],
            *[await app.insight.explain("job", job.id) for job in (held, behind)],
        ]
        for why in told:
            assert f"after job {failed.id} (deploy) failed: " in str(why)
            assert f"{release}; to have job {failed.id} done too, at the end of the lane: {retry}" in why.remedy
        assert told[0].data["parked_by_job"] == failed.id
        for why in (await app.jobs.explain(failed), await app.insight.explain("job", failed.id)):
            assert why.reason == Reason.FAILED
            assert "parked its lane 'api#1', where nothing starts until it is released" in str(why)
            assert "at the end of the lane, and does not release the lane" in str(why)
            assert f"release the lane: {release}; and if this job is still needed: {retry}" in why.remedy
        assert (await app.jobs.explain(early)).remedy == ""

        await app.jobs.retry(failed, by="ann")
        assert "after a failure: " in str(await app.lanes.explain("api#1")), "it is not failed any more"


def test_one_that_ended_in_a_lane_that_another_parked() -> None:
    parked = {"parked_reason": "OSError: x", "parked_since": NOW - 60}
    other = JOB._replace(id=5, lane="x#1", state=JobState.FAILED, error="OSError: x", finished_at=NOW - 60)

    told = explain_job(situation(JobState.CANCELLED, {"lane": "x#1", "error": "ann: no"}, **parked), failure=other)

    assert "lane 'x#1' has been parked since 2027-01-15T07:59:00.000+00:00 after job 5 (report) failed" in str(told)
    assert told.remedy.endswith(
        "interlock lanes release 'x#1'; and if this job is still needed: interlock jobs retry 7"
    )


@pytest.mark.parametrize("every_store_url", ["memory", "sqlite", "postgres"], indirect=True)
async def test_a_job_that_no_worker_knows(store_url: str) -> None:
    async with App(store_url) as app:

        @app.job()
        async def known() -> None: ...

        @app.job()
        async def unknown() -> None: ...

        handle = await unknown.enqueue()
        assert (await app.jobs.explain(handle)).reason is Reason.NO_WORKER
        del app.jobs._definitions["unknown"]
        async with app.worker():
            await until_reason(app, handle, Reason.UNKNOWN_NAME)


async def until_reason(app: App, handle: Handle[None], reason: Reason) -> None:
    seen: list[str] = []

    async def so() -> bool:
        told = await app.jobs.explain(handle)
        seen[:] = told.lines
        return told.reason is reason

    try:
        await until(so, within=20)
    except AssertionError:
        raise AssertionError(f"not {reason}: {seen}") from None


def test_a_refused_job_names_the_versions_that_refused_it_and_the_workers_that_can_take_it() -> None:
    refusal = attempt("unreadable", "'currency' is not known")._replace(trace="refused by version 1.0 (0123456789ab)")
    refused = situation(JobState.READY, {"attempts": (refusal,), "error": "'currency' is not known"})
    old_reads, new_reads = (
        HandlerVersion("report", "0123456789ab", "1.0"),
        HandlerVersion("report", "cdef01234567", "2.0"),
    )
    old = WorkerStatus(WORKER, ("slow",), ("report",), 1, 0, 0, NOW, NOW, reads=(old_reads,))
    new = old._replace(worker=WorkerView("s2", "host2", 43, "bot.py"), reads=(new_reads,))

    told = explain_job(refused, workers=[old, new])
    assert told.reason is Reason.UNREADABLE
    assert "refused by version 1.0 (0123456789ab): 'currency' is not known" in str(told)
    assert "process 43 on host2 (version 2.0, cdef01234567)" in str(told)
    assert "process 42" not in str(told)
    assert "finish the deployment" in str(explain_job(refused, workers=[old]))
