"""Operations on jobs, lanes and queues: cancel, retry, hold, release, pause, resume.

Each writes its journal entry if it changes something.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.backends.sqlite.job_composition import await_again, detach_composition, wait_again
from interlock.backends.sqlite.job_finish import Ended, finish
from interlock.backends.sqlite.job_limits import wake
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.jobs import JobState, pause_cause
from interlock.ports.journal import Action

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from interlock.ports.journal import Attribution

__all__ = ["cancel", "hold", "pause", "release", "resume", "retry"]

_CAN_COME_BACK = {
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.DISCARDED,
    JobState.QUARANTINED,
    JobState.EXPIRED,
}


def cancel(
    rows: JobRows,
    id: int,  # noqa: A002
    attribution: Attribution,
    *,
    unless_fetched: bool = False,
) -> JobState | None:
    """Cancel a job, or ask its worker to."""
    standing = rows.one(sql.job_state, id=id)
    if standing is None:
        return _ended(rows, id)
    state, _, lane, _, session, attempts, _ = standing
    why = f"cancelled by {attribution.actor}: {attribution.reason}"
    before = {"state": state}
    if JobState(state).at_worker:
        if unless_fetched:
            return JobState(state)
        fence, asked = rows.one(sql.fence_and_cancel, id=id)
        if asked != why:
            rows.run(sql.request_cancel, id=id, why=why)
            after = {"state": state, "cancel_requested": True}
            rows.journal(Action.JOB_CANCEL, id, attribution, before, after, from_version=fence)
        rows.notify_interrupted(session, id, fence, why)
        return JobState(state)
    if unless_fetched and attempts is not None:
        return JobState(state)  # it has started before, and waits to go on
    keys = rows.detach([id])
    detach_composition(rows, [id])
    finish(rows, [Ended(id, JobState.CANCELLED, why)])
    wake(rows, keys)
    rows.advance_lanes([lane] if lane else ())
    rows.journal(Action.JOB_CANCEL, id, attribution, before, {"state": JobState.CANCELLED})
    return JobState.CANCELLED


def retry(rows: JobRows, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
    """Retry a job now."""
    standing = rows.one(sql.job_state, id=id)
    if standing is None:
        state = _ended(rows, id)
        if state not in _CAN_COME_BACK:
            return state
        kind, lane, options = rows.one(sql.restore, id=id)
        rows.run(sql.delete_history, ids=json.dumps([id]))
        rows.run(sql.delete_results, ids=json.dumps([id]))
        position = None
        await_again(rows, id)
    else:
        state, kind, lane, position, _, _, options = standing
        if state not in (JobState.SCHEDULED, JobState.PARKED):
            return JobState(state)
        rows.detach([id])
        rows.run(sql.make_due, id=id)
    if wait_again(rows, id, options):
        rows.changed_kinds.add(kind)
    elif lane is None:
        rows.make_ready([id], [kind])
    else:
        rows.assign_positions([id] if position is None else ())
        rows.advance_lanes([lane])
    after = JobState(rows.one(sql.job_state, id=id)[0])
    rows.journal(Action.JOB_RETRY, id, attribution, {"state": state}, {"state": after})
    return after


def hold(rows: JobRows, lane: str, attribution: Attribution) -> None:
    """Hold a lane. Its first job leaves the queue of its limit, so that no other waits behind it."""
    key, by, reason = rows.lane(lane), attribution.actor, attribution.reason
    before = _hold_data(rows, key)
    rows.run(sql.hold_lane, lane=key, by=by, reason=reason)
    after = {**before, "held_by": by, "held_reason": reason}
    if after != before:
        rows.journal(Action.LANE_HOLD, lane, attribution, before, after)
    head: Sequence[int] = rows.one(sql.first_of_lane, lane=key) or ()
    rows.run(sql.remove_ready, ids=json.dumps(head))
    wake(rows, {name for (name,) in rows.all(sql.leave_limit_queues, ids=json.dumps(head))})
    fetched = rows.all(sql.fetched_of_lane, lane=key)
    if fetched:
        rows.run(sql.mark_notified, lane=key)
    for id, fence, session in fetched:  # noqa: A001
        rows.notify_interrupted(session, id, fence, f"held by {by}: {reason}")


def release(rows: JobRows, lane: str, attribution: Attribution) -> bool:
    """Release a lane."""
    key = rows.lane(lane)
    before = _hold_data(rows, key)
    if key is None or not rows.run(sql.release_lane, lane=key):
        return False
    rows.advance_lanes([key])
    rows.journal(Action.LANE_RELEASE, lane, attribution, before, dict.fromkeys(before))
    return True


def pause(rows: JobRows, queue: str, attribution: Attribution) -> None:
    """Pause a queue. Its first jobs in the queues of limits stay there: other kinds do not wait behind them."""
    by, reason = attribution.actor, attribution.reason
    before, after = _pause_data(rows, queue), {"paused_by": by, "paused_reason": reason}
    if after == before:
        return
    rows.run(sql.pause_queue, queue=queue, by=by, reason=reason)
    rows.journal(Action.QUEUE_PAUSE, queue, attribution, before, after)
    fetched = rows.all(sql.fetched_of_queue, queue=queue)
    if fetched:
        rows.run(sql.mark_jobs_notified, ids=json.dumps([id for id, *_ in fetched]))  # noqa: A001
    for id, fence, session in fetched:  # noqa: A001
        rows.notify_interrupted(session, id, fence, pause_cause(queue, by, reason))


def resume(rows: JobRows, queue: str, attribution: Attribution) -> bool:
    """Resume a queue."""
    before = _pause_data(rows, queue)
    if not rows.run(sql.resume_queue, queue=queue):
        return False
    rows.journal(Action.QUEUE_RESUME, queue, attribution, before, dict.fromkeys(before))
    rows.changed_kinds.update(kind for kind, of, _ in rows.all(sql.namespace_kinds) if of == queue)
    return True


def _pause_data(rows: JobRows, queue: str) -> dict[str, Any]:
    """Return what the journal keeps of a queue: who paused it and why."""
    paused_by, reason, _ = rows.one(sql.queue_pause, queue=queue) or (None,) * 3
    return {"paused_by": paused_by, "paused_reason": reason}


def _hold_data(rows: JobRows, lane: str | None) -> dict[str, Any]:
    """Return what the journal keeps of a lane: who holds it and why, and which failure parked it."""
    held_by, held_reason, _, parked_reason, _ = rows.one(sql.lane_hold, lane=lane) or (None,) * 5
    return {"held_by": held_by, "held_reason": held_reason, "parked_reason": parked_reason}


def _ended(rows: JobRows, id: int) -> JobState | None:  # noqa: A002
    found = rows.one(sql.ended_state, id=id)
    return None if found is None else JobState(found[0])
