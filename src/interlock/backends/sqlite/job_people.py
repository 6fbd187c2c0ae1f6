"""What people do to jobs and lanes: cancel, retry, hold, release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from interlock.backends.sqlite.job_finish import Ended, finish
from interlock.backends.sqlite.job_limits import wake
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cancel", "hold", "release", "retry"]

_CAN_COME_BACK = {JobState.FAILED, JobState.CANCELLED, JobState.DISCARDED, JobState.QUARANTINED}


def cancel(rows: JobRows, id: int, reason: str, by: str) -> JobState | None:  # noqa: A002
    """End a job, or ask for its end."""
    standing = rows.one(sql.standing, id=id)
    if standing is None:
        return _ended(rows, id)
    state, _, lane, _, session = standing
    why = f"cancelled by {by}: {reason}"
    if state == JobState.RUNNING:
        (fence,) = rows.one(sql.ask_to_end, id=id, why=why)
        rows.tell_taken(session, id, fence, why)
        return JobState.RUNNING
    keys = rows.withdraw([id])
    finish(rows, [Ended(id, JobState.CANCELLED, why)])
    wake(rows, keys)
    rows.advance([lane] if lane else ())
    return JobState.CANCELLED


def retry(rows: JobRows, id: int) -> JobState | None:  # noqa: A002
    """Make a job ready now."""
    standing = rows.one(sql.standing, id=id)
    if standing is None:
        state = _ended(rows, id)
        if state not in _CAN_COME_BACK:
            return state
        kind, lane = rows.one(sql.restore, id=id)
        rows.run(sql.forget_history, ids=json.dumps([id]))
        rows.run(sql.forget_results, ids=json.dumps([id]))
        position = None
    else:
        state, kind, lane, position, _ = standing
        if state not in (JobState.SCHEDULED, JobState.PARKED):
            return JobState(state)
        rows.withdraw([id])
        rows.run(sql.now_due, id=id)
    if lane is None:
        rows.offer([id], [kind])
    else:
        rows.place([id] if position is None else ())
        rows.advance([lane])
    return JobState(rows.one(sql.standing, id=id)[0])


def hold(rows: JobRows, lane: str, reason: str, by: str) -> None:
    """Let nothing of a lane start. Its head gives up its place in line, so that nobody waits for it there."""
    key = rows.lane(lane)
    rows.run(sql.hold, lane=key, by=by, reason=reason)
    head: Sequence[int] = rows.one(sql.head, lane=key) or ()
    rows.run(sql.take_back, ids=json.dumps(head))
    wake(rows, {name for (name,) in rows.all(sql.leave_lines, ids=json.dumps(head))})
    fetched = rows.all(sql.fetches_of_lane, lane=key)
    if fetched:
        rows.run(sql.mark_told, lane=key)
    for id, fence, session in fetched:  # noqa: A001
        rows.tell_taken(session, id, fence, f"held by {by}: {reason}")


def release(rows: JobRows, lane: str) -> bool:
    """Let a lane go on."""
    key = rows.lane(lane)
    if key is None or not rows.run(sql.release, lane=key):
        return False
    rows.advance([key])
    return True


def _ended(rows: JobRows, id: int) -> JobState | None:  # noqa: A002
    found = rows.one(sql.ended_state, id=id)
    return None if found is None else JobState(found[0])
