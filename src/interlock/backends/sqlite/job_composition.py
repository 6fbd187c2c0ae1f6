"""What becomes of jobs that wait for others, and of jobs that expire."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interlock.backends.composition import failed_need
from interlock.backends.sqlite.job_finish import Ended, finish
from interlock.backends.sqlite.job_limits import wake
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.jobs import IfFailed, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "await_again",
    "continue_waiting",
    "detach_composition",
    "expire",
    "expire_again",
    "wait_again",
]

_MAX_SIGNALS = 100
_MAX_CONTINUED = 1000
"""How many jobs one fetch lets continue, and how many it ends because they have expired."""
_COUNTS_AS_DONE = (JobState.DONE, JobState.SUPERSEDED)


# -- waiting for others ------------------------------------------------------------------------------------------------


def continue_waiting(rows: JobRows) -> bool:
    """Let jobs continue that wait for others which have ended, in bounded steps; returns whether there may be more.

    Such a job takes its position and its time now, as a scheduled one does when it is due.
    """
    signals = rows.all(sql.after_signals, limit=_MAX_SIGNALS)
    budget = _MAX_CONTINUED
    touched: list[int] = []
    for (needs,) in signals:
        # It may have been cancelled by an earlier step of this loop.
        if rows.one(sql.is_unfinished, id=needs):
            rows.run(sql.delete_after_signal, needs=needs)
            continue
        waiting = _end_of(rows, needs, budget)
        touched += waiting
        budget -= len(waiting)
        if budget <= 0:
            break
        rows.run(sql.delete_after_signal, needs=needs)
    if touched:
        rows.run(sql.unpark_waiting, ids=json.dumps(touched))
        _unblock(rows, touched)
    return bool(signals) and rows.one(sql.after_signals, limit=1) is not None


def _end_of(rows: JobRows, needs: int, limit: int) -> list[int]:
    """Let jobs no longer wait for one that has ended; returns them."""
    state, superseded_by, error = rows.one(sql.needed_state, needs=needs) or (None, None, "")
    good = state in _COUNTS_AS_DONE
    found = rows.all(sql.waiting_jobs, needs=needs, failed_too=good, limit=limit)
    waiting = [id for id, _ in found]  # noqa: A001
    if state == JobState.SUPERSEDED:
        rows.run(sql.replace_after, needs=needs, superseded_by=superseded_by, ids=json.dumps(waiting))
        rows.run(sql.add_after_signals, ids=json.dumps([superseded_by]))
    kept: list[int] = []
    if not good:
        reason = failed_need(needs, state, error)
        gone = [id for id, if_failed in found if if_failed == IfFailed.CANCEL]  # noqa: A001
        rows.run(sql.delete_all_after, ids=json.dumps(gone))
        finish(rows, [Ended(id, JobState.CANCELLED, f"cancelled because {reason}") for id in gone])  # noqa: A001
        kept = [id for id, if_failed in found if if_failed == IfFailed.PARK]  # noqa: A001
        rows.run(sql.park_waiting, ids=json.dumps(kept), reason=reason)
        rows.run(sql.fail_after, needs=needs, ids=json.dumps(kept))
    held = set(kept)
    rows.run(sql.delete_after, needs=needs, ids=json.dumps([id for id in waiting if id not in held]))  # noqa: A001
    return waiting


def _unblock(rows: JobRows, ids: Sequence[int]) -> None:
    """Make those of some jobs ready, or schedule them, that wait for no other."""
    free = rows.all(sql.unblocked, ids=json.dumps(sorted(set(ids))))
    due = [row for row in free if row[3] <= rows.now]
    later = [row for row in free if row[3] > rows.now]
    rows.run(sql.make_due_now, ids=json.dumps([id for id, *_ in due]))  # noqa: A001
    rows.schedule([id for id, *_ in later], {kind for _, kind, *_ in later})  # noqa: A001
    rows.assign_positions([id for id, _, lane, _ in due if lane])  # noqa: A001
    unlaned = [(id, kind) for id, kind, lane, _ in due if not lane]  # noqa: A001
    rows.make_ready([id for id, _ in unlaned], {kind for _, kind in unlaned})  # noqa: A001
    rows.advance_lanes(dict.fromkeys(lane for _, _, lane, _ in due if lane))


def wait_again(rows: JobRows, id: int, options: str) -> bool:  # noqa: A002
    """Let a retried job wait again for those of its jobs that are unfinished; returns whether there are any."""
    if rows.one(sql.blocked, id=id):
        rows.run(sql.delete_ended_after, id=id)
    elif options:
        stored: Mapping[str, Any] = json.loads(options)
        if "after" in stored:
            if_failed = stored.get("if_failed", IfFailed.CANCEL.value)
            rows.run(sql.wait_again, id=id, needs=json.dumps(stored["after"]), if_failed=if_failed)
    return rows.one(sql.blocked, id=id) is not None


def await_again(rows: JobRows, id: int) -> None:  # noqa: A002
    """Let jobs that are parked because this one failed wait for it again: it is retried."""
    ids = [waiting for (waiting,) in rows.all(sql.await_again, needs=id)]
    if ids:
        rows.run(sql.unpark_waiting, ids=json.dumps(ids))


def detach_composition(rows: JobRows, ids: Sequence[int]) -> None:
    """Let jobs no longer wait for others."""
    if rows.one(sql.any_after):
        rows.run(sql.delete_all_after, ids=json.dumps(ids))


# -- expiry ------------------------------------------------------------------------------------------------------------


def expire(rows: JobRows) -> bool:
    """End jobs that have expired, wherever they wait, in bounded steps; returns whether there may be more.

    Jobs that are fetched are left to their workers; they expire here if they come back unstarted.
    """
    found = rows.all(sql.expired, limit=_MAX_CONTINUED)
    if not found:
        return False
    over = [(at, id, lane) for at, id, _, lane, can in found if can]  # noqa: A001
    ids = [id for _, id, _ in over]  # noqa: A001
    keys = rows.detach(ids)
    detach_composition(rows, ids)
    finish(rows, [Ended(id, JobState.EXPIRED, f"not started by {_text(at)}") for at, id, _ in over])  # noqa: A001
    rows.each(sql.delete_expiry, [(rows.namespace, at, id) for at, id, *_ in found])  # noqa: A001
    wake(rows, keys)
    rows.advance_lanes(dict.fromkeys(lane for _, _, lane in over if lane))
    return len(found) >= _MAX_CONTINUED


def expire_again(rows: JobRows, ids: Sequence[int]) -> None:
    """Let jobs that have come back unstarted expire again."""
    rows.run(sql.expire_again, ids=json.dumps(ids))


def _text(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
