"""Says in words, and as data, why a job or a lane waits, where it runs or how it ended, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, counted
from interlock.jobs.reasons import blocking, how_many, why_job, why_lane
from interlock.jobs.suspects import about_crashes, about_suspect, suspicion_data, what_it_waits_for, who
from interlock.locks.explain import held_for_short, who_holds
from interlock.ports.jobs import JobState, Outcome
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.locks.explain import Names
    from interlock.ports.insight import WorkerStatus
    from interlock.ports.job_views import JobSituation, JobView, LaneView, Need, QueuePause, RowLock
    from interlock.ports.locks import LockView

__all__ = ["Explanation", "explain_job", "explain_lane", "pause_line", "who"]

_MAX_NAMED = 5


_LOCKED_BY_ACKNOWLEDGEMENTS = ("job", "job_fetched")
"""Tables whose rows an acknowledgement locks and a fetch does not."""
_AT_WORK = (Reason.FETCHED, Reason.RUNNING, Reason.LOCK, Reason.LOOP_BLOCKED, Reason.WORKER_GONE)
_STARTS_NEXT = (Reason.READY, Reason.NO_WORKER, Reason.UNKNOWN_NAME, Reason.UNREADABLE, Reason.SUSPECT)
"""Nothing but a worker was missing, so that a pause of the queue is what prevents the start."""


class _Told(NamedTuple):
    reason: Reason
    lines: list[str]
    remedy: str


def explain_job(
    situation: JobSituation,
    head: JobSituation | None = None,
    *,
    failure: JobView | None = None,
    waits: Sequence[LockView] = (),
    name: Names | None = None,
    workers: Sequence[WorkerStatus] = (),
) -> Explanation[Reason]:
    """Why a job stands where it does; ``head`` is the situation of the job that its lane is at, if it is another.

    ``failure`` is the job that parked the lane, if it is parked and the asker knows. ``waits`` are the locks that the
    handler of a job that runs waits for, and ``name`` says what to call their holders. ``workers`` are the live ones.
    """
    job = situation.job
    if job.state is JobState.FETCHED:
        told = _running(situation) if waits else _fetched(situation, workers)
    else:
        told = _held(situation, failure) if job.state is JobState.HELD else _STATES[job.state](situation)
    if job.state.final and situation.parked_since is not None:
        told = _in_a_parked_lane(told, situation, failure)
    if waits and told.reason is Reason.RUNNING:
        told = _for_a_lock(told, waits, name)
    if told.reason is Reason.READY and job.attempts and job.attempts[-1].outcome == Outcome.UNREADABLE:
        told = _refused(told, job, workers)
    if told.reason in (Reason.FETCHED, Reason.RUNNING, Reason.READY):
        told = _with_blocked_loops(told, job, workers)
    if situation.pause is not None and told.reason in _STARTS_NEXT:
        told = _paused(told, job, situation.pause)
    if situation.row_lock is not None and not job.state.final and job.state is not JobState.BEHIND:
        told = _with_locked_row(told, job, situation.row_lock)
    lines = [*told.lines, *_in_general(situation, told.reason, failure)]
    remedy = told.remedy
    before: Explanation[Reason] | None = None
    if job.state is JobState.BEHIND and head is not None:
        before = explain_job(head, failure=failure, workers=workers)
        lines += before.lines[: len(before.lines) - bool(before.remedy)]
        remedy = before.remedy
    data = _job_data(situation, told.reason)
    data["head_explained"] = None if before is None else before.data
    data["awaited_locks"] = [view.key for view in waits]
    why = why_job(situation, told.reason, "" if before is None else before.why)
    if told.reason is Reason.LOCK:
        why = brief(f"waits for lock {waits[0].key!r}: {held_for_short(waits[0], name)}; {why}")
    return Explanation.of(Subject("job", str(job.id)), told.reason, why, lines, remedy, data)


def explain_lane(
    lane: str,
    view: LaneView | None,
    head: JobSituation | None = None,
    *,
    failure: JobView | None = None,
    waits: Sequence[LockView] = (),
    name: Names | None = None,
    workers: Sequence[WorkerStatus] = (),
) -> Explanation[Reason]:
    """Why a lane stands where it does; ``head`` is the situation of the job that it is at; for the rest see
    :func:`explain_job`."""
    subject = Subject("lane", lane)
    if view is None:
        lines = [f"lane {lane!r} is empty and not held"]
        return Explanation.of(subject, Reason.IDLE, "empty", lines, "", {"lane": lane, "depth": 0})
    depth = f"{counted(view.depth)} {'job' if view.depth == 1 else 'jobs'}"
    lines = [f"lane {lane!r} has {depth}" + (f" and is at job {view.head} ({view.name})" if view.head else "")]
    before = None if head is None else explain_job(head, failure=failure, waits=waits, name=name, workers=workers)
    if view.held_since is not None or view.parked_since is not None:
        reason, held, remedy = _hold(lane, view, failure)
        lines += held
        if before is not None and before.reason in _AT_WORK:
            lines += before.lines[:1]
    elif before is not None:
        reason, remedy = before.reason, before.remedy
        lines += before.lines[: len(before.lines) - bool(before.remedy)]
    else:
        # Its head was acknowledged between the two looks.
        reason, remedy = Reason(_WAITING_FOR.get(view.state, str(view.state))), ""
    data = view._asdict() | {
        "state": str(view.state),
        "since": as_text(view.since),
        "held_since": _time(view.held_since),
        "parked_since": _time(view.parked_since),
        "seen_at": as_text(view.seen_at),
        "worker": None if view.worker is None else view.worker._asdict(),
        "head_explained": None if before is None else before.data,
        "parked_by_job": None if failure is None else failure.id,
    }
    return Explanation.of(subject, reason, why_lane(view, before), lines, remedy, data)


# -- unfinished -------------------------------------------------------------------------------------------------------


def _ready(situation: JobSituation) -> _Told:
    job = situation.job
    waited = max(0.0, job.seen_at - job.due_at)
    lines = [f"{_job(job)} has been ready since {as_text(job.due_at)}, for {waited:.1f} s"]
    if not situation.workers:
        return _nobody(situation, lines)
    run = f"interlock run module:app --queues {job.queue}"
    workers = f"{situation.workers} {'worker takes' if situation.workers == 1 else 'workers take'}"
    first = "it is the next" if situation.ahead == 0 else f"{how_many(situation)} before it"
    if job.state is JobState.SCHEDULED:
        first = "and see that it is due when they next look for work"
    if situation.suspicion is not None:
        return _suspect(situation, [*lines, f"{workers} jobs like it from the queue {job.queue!r}"], run)
    lines.append(f"{workers} jobs like it from the queue {job.queue!r}, {first}")
    return _Told(Reason.READY, lines, f"wait for its turn, or start more workers: {run}")


def _refused(told: _Told, job: JobView, workers: Sequence[WorkerStatus]) -> _Told:
    """Some versions cannot read it, and live workers of another one can."""
    refusals = {a.trace: a.error for a in job.attempts if a.outcome == Outcome.UNREADABLE}
    lines = [told.lines[0], *(f"it was {trace}: {error}" for trace, error in refusals.items())]
    able = [
        f"{who(worker.worker)} (version {read.version}, {read.fingerprint})"
        for worker in workers
        if job.queue in worker.queues
        for read in worker.reads
        if read.name == job.name and not any(read.fingerprint in trace for trace in refusals)
    ]
    if not able:
        lines.append("no live worker is known to be of another version")
        return _Told(
            Reason.UNREADABLE, lines, "finish the deployment: start a worker whose handler takes these arguments"
        )
    lines.append(f"these workers can run it and look for it every few seconds: {'; '.join(able[:_MAX_NAMED])}")
    return _Told(Reason.UNREADABLE, lines, "wait; if they have no room, start more workers of their version")


def _suspect(situation: JobSituation, lines: list[str], run: str) -> _Told:
    """It is ready, but may have to wait for other suspects."""
    lines += about_suspect(situation) + what_it_waits_for(situation)
    in_the_way = blocking(situation)
    if not in_the_way or len({one.worker.session for one in in_the_way}) < situation.workers:
        return _Told(Reason.READY, lines, f"wait for its turn, or start more workers: {run}")
    see = f"interlock explain job {in_the_way[0].jobs[0]}"
    return _Told(Reason.SUSPECT, lines, f"wait until they have ended ({see}), or start another worker: {run}")


def _nobody(situation: JobSituation, lines: list[str]) -> _Told:
    """It could run, but there is no worker for it."""
    job = situation.job
    if not situation.workers_of_queue:
        line = f"no live worker serves its queue {job.queue!r}"
        run = f"interlock run module:app --queues {job.queue}"
        return _Told(Reason.NO_WORKER, [*lines, line], f"start one: {run}")
    known = f"{situation.workers_of_queue} {'works' if situation.workers_of_queue == 1 else 'work'}"
    line = f"{known} on its queue {job.queue!r}, but none knows a job called {job.name!r}"
    return _Told(Reason.UNKNOWN_NAME, [*lines, line], "finish the deployment, or start a worker whose app defines it")


def _later(situation: JobSituation) -> _Told:
    job = situation.job
    if job.due_at <= job.seen_at:
        return _ready(situation)
    due = f"at {as_text(job.due_at)}, in {job.due_at - job.seen_at:.1f} s"
    now = f"to retry it now: interlock jobs retry {job.id}"
    last = job.attempts[-1] if job.attempts else None
    if last is not None and last.outcome == Outcome.SNOOZED:
        why = f": {last.error}" if last.error else ""
        return _Told(Reason.SNOOZED, [f"{_job(job)} was snoozed and is due again {due}{why}"], now)
    if last is not None or job.attempt:
        tries = "one attempt" if job.attempt == 1 else f"{job.attempt} attempts"
        return _Told(
            Reason.TO_BE_RETRIED, [f"{_job(job)} has failed in {tries} and is tried again {due}", _failure(job)], now
        )
    return _Told(Reason.DELAYED, [f"{_job(job)} was enqueued for later and is due {due}"], now)


def _behind(situation: JobSituation) -> _Told:
    job = situation.job
    ahead = f"{how_many(situation)} {'other' if situation.ahead == 1 else 'others'}"
    lines = [f"{_job(job)} is behind {ahead} in its lane {job.lane!r}"]
    if situation.lane_head is not None:
        lines.append(f"the lane is at job {situation.lane_head}, which is {situation.lane_head_state or 'there'}")
        return _Told(Reason.BEHIND, lines, f"see what that job waits for: interlock explain job {situation.lane_head}")
    return _Told(Reason.BEHIND, lines, f"see what the lane waits for: {command('explain', 'lane', job.lane)}")


def _waiting(situation: JobSituation) -> _Told:
    job, key = situation.job, situation.waits_for
    line = "it is first in line" if situation.ahead == 0 else f"{how_many(situation)} before it in line"
    lines = [f"{_job(job)} waits for the limit {key!r}; {line}"]
    if situation.room_at is not None and situation.room_at > job.seen_at:
        lines.append(f"the next may start at {as_text(situation.room_at)}, in {situation.room_at - job.seen_at:.1f} s")
        return _Told(Reason.PACE, lines, "wait, or allow starts closer together")
    if not situation.holders and not situation.reserved and not situation.workers:
        return _nobody(situation, [*lines, "a slot has become free"])
    see = command("explain", "limit", key)
    if situation.reserved:
        held = "1 reservation holds" if situation.reserved == 1 else f"{situation.reserved} reservations hold"
        lines.append(f"{held} part of its room; see: {see}")
        if not situation.holders:
            return _Told(Reason.LIMIT, lines, "wait until one of them has ended, or raise the limit")
    if not situation.holders:
        lines.append("a slot has become free; it should start within a moment")
        return _Told(Reason.LIMIT, lines, "")
    named = ", ".join(map(str, situation.holders[:_MAX_NAMED]))
    more = " and others" if len(situation.holders) > _MAX_NAMED else ""
    lines.append(f"its room is taken by {'job' if len(situation.holders) == 1 else 'jobs'} {named}{more}")
    see = f"interlock explain job {situation.holders[0]}"
    return _Told(Reason.LIMIT, lines, f"wait until one of them has ended ({see}), or raise the limit")


def _blocked(situation: JobSituation) -> _Told:
    job = situation.job
    count = situation.needs_count
    lines = [f"{_job(job)} starts after {counted(count)} other {'job has' if count == 1 else 'jobs have'} ended"]
    lines += [f"it waits for {_need(need)}" for need in situation.needs]
    if count > len(situation.needs):
        lines.append(f"and for {counted(count - len(situation.needs))} more")
    if not situation.needs:
        return _Told(Reason.BLOCKED, [f"{_job(job)} waits for other jobs"], "")
    return _Told(Reason.BLOCKED, lines, f"see what that one waits for: interlock explain job {situation.needs[0].id}")


def _need(need: Need) -> str:
    if need.state is None:
        return f"job {need.id}, which is no longer kept"
    since = "" if need.since is None else f" since {as_text(need.since)}"
    if need.state.final:
        return f"job {need.id} ({need.name}), which has been {need.state}{since}"
    return f"job {need.id} ({need.name}), which is {need.state}{since if need.state.at_worker else ''}"


def _held(situation: JobSituation, failure: JobView | None = None) -> _Told:
    job = situation.job
    reason, lines, remedy = _hold(job.lane, situation, failure)
    return _Told(reason, [f"{_job(job)} is next in its lane {job.lane!r}", *lines], remedy)


def _parked(situation: JobSituation) -> _Told:
    job = situation.job
    lines = [f"{_job(job)} was set aside until a person acts: {job.error or 'no reason was given'}"]
    if job.lane and not situation.needs:
        lines.append(f"the lane {job.lane!r} waits with it")
    if situation.needs:
        failed = situation.needs[0]
        lines.append(f"it goes on waiting if job {failed.id} is retried")
        again = f"fix the cause, then retry that job: interlock jobs retry {failed.id}"
        return _Told(Reason.PARKED, lines, f"{again}; or run this one all the same: interlock jobs retry {job.id}")
    mend = f"fix the cause, then: interlock jobs retry {job.id}"
    return _Told(Reason.PARKED, lines, f"{mend}; or give it up: interlock jobs cancel {job.id} --reason …")


def _fetched(situation: JobSituation, workers: Sequence[WorkerStatus]) -> _Told:
    job = situation.job
    if not situation.workers:
        return _gone(situation)
    since = "" if job.fetched_at is None else f" at {as_text(job.fetched_at)}, {job.seen_at - job.fetched_at:.1f} s ago"
    lines = [f"{_job(job)} was fetched by {who(job.worker)}{since} {_attempt(job)}"]
    if situation.lane_head is not None:
        lines.append(f"it starts there after job {situation.lane_head}, which is before it in its lane {job.lane!r}")
    else:
        session = "" if job.worker is None else job.worker.session
        its = next((worker for worker in workers if worker.worker.session == session), None)
        busy = "" if its is None else f" ({its.running} of {its.runners} are running jobs)"
        lines.append(
            f"it waits for a free runner there{busy}, or has just started: workers report starts once a second"
        )
    return _Told(Reason.FETCHED, lines, f"wait; to take it back: interlock jobs cancel {job.id} --reason …")


def _running(situation: JobSituation) -> _Told:
    job = situation.job
    if not situation.workers:
        return _gone(situation)
    lasted = "" if job.fetched_at is None else f", for {max(0.0, job.seen_at - job.fetched_at):.1f} s"
    lines = [f"{_job(job)} runs in {who(job.worker)}{_since_fetch(job)}{lasted} {_attempt(job)}"]
    return _Told(Reason.RUNNING, lines, f"to stop it: interlock jobs cancel {job.id} --reason …")


def _gone(situation: JobSituation) -> _Told:
    """It was fetched, and no live worker could run it."""
    job = situation.job
    lines = [f"{_job(job)} was given to {who(job.worker)}{_since_fetch(job)} {_attempt(job)}, which is gone or silent"]
    start = f"interlock run module:app --queues {job.queue}"
    return _Told(Reason.WORKER_GONE, lines, f"start a worker that knows it, which takes it over: {start}")


def _since_fetch(job: JobView) -> str:
    return "" if job.fetched_at is None else f" since {as_text(job.fetched_at)}"


def _attempt(job: JobView) -> str:
    return f"(attempt {job.attempt}, fence {job.fence})"


def _for_a_lock(told: _Told, waits: Sequence[LockView], name: Names | None) -> _Told:
    lines = [f"its handler waits for the lock {view.key!r}, which is {who_holds(view.holder, name)}" for view in waits]
    see = f"see who holds it: {command('explain', 'lock', waits[0].key)}"
    return _Told(Reason.LOCK, [*told.lines, *lines], see)


def _paused(told: _Told, job: JobView, pause: QueuePause) -> _Told:
    line = pause_line(job.queue, pause)
    remedy = f"ask {pause.by}, or resume it: {command('queues', 'resume', job.queue)}"
    others = [] if told.reason is Reason.READY else told.lines[1:]
    return _Told(Reason.QUEUE_PAUSED, [told.lines[0], line, *others], remedy)


def _with_blocked_loops(told: _Told, job: JobView, workers: Sequence[WorkerStatus]) -> _Told:
    """One whose process makes no progress, or that every worker is too busy to fetch."""
    if job.state.at_worker:
        session = "" if job.worker is None else job.worker.session
        its = [worker for worker in workers if worker.worker.session == session]
    else:
        its = [worker for worker in workers if job.queue in worker.queues and job.name in worker.names]
    if not its or any(worker.blocked_since is None for worker in its):
        return told
    lines = [
        f"the event loop of {who(worker.worker)} has been blocked since {as_text(worker.blocked_since or 0.0)}, "
        f"for {max(0.0, job.seen_at - (worker.blocked_since or 0.0)):.1f} s, by {worker.blocked_by}; "
        "none of its other handlers goes on"
        for worker in its[:_MAX_NAMED]
    ]
    move = "make the handler that blocks a plain def, or move the blocking call to asyncio.to_thread"
    return _Told(Reason.LOOP_BLOCKED, [*told.lines, *lines], f"{move}; its stack is logged: event_loop_blocked")


def _with_locked_row(told: _Told, job: JobView, lock: RowLock) -> _Told:
    """Name the transaction that keeps a row of the job locked; it is the reason if nothing else prevents a fetch."""
    about = ", ".join(filter(None, (lock.program, lock.user and f"user {lock.user}", lock.state)))
    by = f"backend {lock.pid}{f' ({about})' if about else ''}"
    lasted = ""
    if lock.since is not None:
        lasted = f", whose transaction began {max(0.0, job.seen_at - lock.since):.1f} s ago, at {as_text(lock.since)}"
    skipped = not job.state.at_worker and lock.table not in _LOCKED_BY_ACKNOWLEDGEMENTS
    effect = "fetches skip it" if skipped else "its acknowledgement has to wait"
    line = f"its row in interlock.{lock.table} is locked by {by}{lasted}; {effect}"
    if told.reason is not Reason.READY or not skipped:
        return told._replace(lines=[*told.lines, line])
    end = f"select pg_terminate_backend({lock.pid})"
    return _Told(Reason.ROW_LOCKED, [*told.lines, line], f"commit or roll back that transaction, or end it: {end}")


# -- finished ---------------------------------------------------------------------------------------------------------


def _done(situation: JobSituation) -> _Told:
    job = situation.job
    kept = "" if job.result_kept_until is None else f"; its result is kept until {as_text(job.result_kept_until)}"
    return _Told(Reason.DONE, [f"{_job(job)} was done by {who(job.worker)} at {_ended(job)}{kept}"], "")


def _failed(situation: JobSituation) -> _Told:
    job = situation.job
    tries = "its only attempt" if job.attempt <= 1 else f"attempt {job.attempt}"
    lines = [f"{_job(job)} failed permanently at {_ended(job)}, in {tries}", _failure(job)]
    return _Told(Reason.FAILED, lines, f"fix the cause, then: interlock jobs retry {job.id}")


def _in_a_parked_lane(told: _Told, situation: JobSituation, failure: JobView | None) -> _Told:
    """One that a retry alone does not bring back to work."""
    job = situation.job
    if failure is not None and failure.id == job.id:
        parked = f"with that it parked its lane {job.lane!r}, where nothing starts until it is released"
    else:
        parked = f"{_parking(job.lane, situation, failure)}; nothing starts there"
    lines = [*told.lines, parked, "a retry puts it at the end of the lane, and does not release the lane"]
    release, retry = command("lanes", "release", job.lane), command("jobs", "retry", str(job.id))
    remedy = f"fix the cause, then release the lane: {release}; and if this job is still needed: {retry}"
    return _Told(told.reason, lines, remedy)


def _discarded(situation: JobSituation) -> _Told:
    job = situation.job
    why = f": {job.error}" if job.error else ""
    lines = [f"{_job(job)} was discarded by its handler at {_ended(job)}{why}"]
    return _Told(Reason.DISCARDED, lines, f"if it is still needed: interlock jobs retry {job.id}")


def _cancelled(situation: JobSituation) -> _Told:
    job = situation.job
    why = f": {job.error}" if job.error else ""
    lines = [f"{_job(job)} was cancelled at {_ended(job)}{why}"]
    return _Told(Reason.CANCELLED, lines, f"if it is still needed: interlock jobs retry {job.id}")


def _superseded(situation: JobSituation) -> _Told:
    job = situation.job
    lines = [f"{_job(job)} was superseded at {_ended(job)}: job {job.superseded_by} of its lane does its work"]
    return _Told(Reason.SUPERSEDED, lines, f"see the newer one: interlock explain job {job.superseded_by}")


def _quarantined(situation: JobSituation) -> _Told:
    job = situation.job
    lines = [
        f"{_job(job)} was quarantined at {_ended(job)}: {job.crashes} workers died while it was their only suspect"
    ]
    return _Told(
        Reason.QUARANTINED, lines, f"find out why they died (memory, signals), then: interlock jobs retry {job.id}"
    )


def _expired(situation: JobSituation) -> _Told:
    job = situation.job
    lines = [f"{_job(job)} expired at {_ended(job)}: {job.error}"]
    return _Told(Reason.EXPIRED, lines, f"if it is still needed: interlock jobs retry {job.id}")


_STATES: dict[JobState, Callable[[JobSituation], _Told]] = {
    JobState.READY: _ready,
    JobState.SCHEDULED: _later,
    JobState.BEHIND: _behind,
    JobState.WAITING: _waiting,
    JobState.BLOCKED: _blocked,
    JobState.HELD: _held,
    JobState.PARKED: _parked,
    JobState.RUNNING: _running,
    JobState.DONE: _done,
    JobState.FAILED: _failed,
    JobState.DISCARDED: _discarded,
    JobState.CANCELLED: _cancelled,
    JobState.SUPERSEDED: _superseded,
    JobState.QUARANTINED: _quarantined,
    JobState.EXPIRED: _expired,
}
_WAITING_FOR = {JobState.SCHEDULED: "delayed", JobState.WAITING: "limit"}


# -- parts of sentences -----------------------------------------------------------------------------------------------


def _in_general(situation: JobSituation, reason: Reason, failure: JobView | None) -> list[str]:
    """What holds besides: that it is a suspect, a hold on the lane, nobody there to run it when its time has come."""
    job = situation.job
    if job.state.final:
        return []
    lines: list[str] = []
    if reason not in (Reason.READY, Reason.SUSPECT):
        lines += about_suspect(situation)
    lines += about_crashes(job)
    if (situation.held_since is not None or situation.parked_since is not None) and job.state is not JobState.HELD:
        held = _hold(job.lane, situation, failure)[1][0]
        lines.append(f"{held}; no job of it starts until it is released" if job.lane else held)
    if situation.pause is not None and reason is not Reason.QUEUE_PAUSED and not job.state.at_worker:
        lines.append(f"{pause_line(job.queue, situation.pause)}; no job of it starts until it is resumed")
    ready = reason in (Reason.READY, Reason.SUSPECT, Reason.NO_WORKER, Reason.UNKNOWN_NAME, Reason.QUEUE_PAUSED)
    if not situation.workers and not ready and not job.state.at_worker:
        lines.append(f"also, no live worker runs jobs like it from the queue {job.queue!r}")
    return lines


def pause_line(queue: str, pause: QueuePause) -> str:
    """Say who paused a queue, since when and why."""
    return f"queue {queue!r} has been paused since {as_text(pause.since)} by {pause.by}: {pause.reason}"


def _hold(lane: str, hold: LaneView | JobSituation, failure: JobView | None) -> tuple[Reason, list[str], str]:
    """What keeps a lane's jobs from starting: a person's hold, a failure that parked it, or both."""
    release = command("lanes", "release", lane)
    parked = [] if hold.parked_since is None else [_parking(lane, hold, failure)]
    if hold.held_since is not None:
        held = f"lane {lane!r} is held by {hold.held_by} since {as_text(hold.held_since)}: {hold.held_reason}"
        return Reason.LANE_HELD, [held, *parked], f"ask {hold.held_by}, or release it: {release}"
    remedy = f"fix the cause, then release it: {release}"
    if failure is not None:
        again = command("jobs", "retry", str(failure.id))
        remedy = f"{remedy}; to have job {failure.id} done too, at the end of the lane: {again}"
    return Reason.LANE_PARKED, parked, remedy


def _parking(lane: str, hold: LaneView | JobSituation, failure: JobView | None) -> str:
    after = "a failure" if failure is None else f"{_job(failure)} failed"
    return (
        f"lane {lane!r} has been parked since {as_text(hold.parked_since or 0.0)} after {after}: {hold.parked_reason}"
    )


def _job(job: JobView) -> str:
    return f"job {job.id} ({job.name})"


def _failure(job: JobView) -> str:
    return f"it failed with {job.error}" if job.error else "it gave no reason"


def _ended(job: JobView) -> str:
    return as_text(job.finished_at or job.seen_at)


def _time(at: float | None) -> str | None:
    return None if at is None else as_text(at)


def _row_lock_data(lock: RowLock | None) -> dict[str, Any] | None:
    return None if lock is None else {**lock._asdict(), "since": _time(lock.since)}


def _job_data(situation: JobSituation, reason: Reason) -> dict[str, Any]:
    job = situation.job
    return {
        "id": job.id,
        "name": job.name,
        "state": str(job.state),
        "reason": str(reason),
        "queue": job.queue,
        "lane": job.lane,
        "attempt": job.attempt,
        "crashes": job.crashes,
        "suspicion": suspicion_data(situation),
        "row_lock": _row_lock_data(situation.row_lock),
        "due_at": as_text(job.due_at),
        "fetched_at": _time(job.fetched_at),
        "finished_at": _time(job.finished_at),
        "worker": None if job.worker is None else job.worker._asdict(),
        "error": job.error,
        "superseded_by": job.superseded_by,
        "ahead": situation.ahead,
        "lane_head": situation.lane_head,
        "held_by": situation.held_by,
        "held_reason": situation.held_reason,
        "held_since": _time(situation.held_since),
        "parked_since": _time(situation.parked_since),
        "parked_reason": situation.parked_reason,
        "queue_paused": None
        if situation.pause is None
        else {**situation.pause._asdict(), "since": as_text(situation.pause.since)},
        "waits_for": situation.waits_for,
        "needs": [
            {"id": need.id, "name": need.name, "state": need.state and str(need.state), "since": _time(need.since)}
            for need in situation.needs
        ],
        "needs_count": situation.needs_count,
        "holders": list(situation.holders),
        "room_at": _time(situation.room_at),
        "workers": situation.workers,
        "workers_of_queue": situation.workers_of_queue,
        "seen_at": as_text(job.seen_at),
    }
