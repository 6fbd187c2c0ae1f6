"""Explanations of records: the state, who edits a record, who waits for it, and what may follow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, span
from interlock.locks.explain import who_holds, why_waits
from interlock.ports.record_insight import RecordSummary
from interlock.ports.records import lock_key, subject_key
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.journal import JournalEntry
    from interlock.ports.locks import Holder, LockView, Waiter
    from interlock.ports.records import StoredRecord
    from interlock.records.machine import Machine

    Names = Callable[[Holder | Waiter], str]

__all__ = ["RECENT", "entry_notes", "explain", "summary_of"]

RECENT = 20
"""How many of its last journal entries decide whether a record is contended."""
_CONTENDED = 3
_LATELY = 600.0


def summary_of(stored: StoredRecord | None) -> RecordSummary | None:
    """Return a record without its body."""
    if stored is None:
        return None
    _, id, _, version, status, _, fence, created_at, updated_at = stored  # noqa: A001
    return RecordSummary(id, version, status, fence, created_at, updated_at)


def entry_notes(entry: JournalEntry) -> dict[str, Any]:
    """Return the notes in an entry about a record: the values whose names begin with an underscore."""
    if entry.after is None or '"_' not in entry.after:
        return {}
    try:
        after: Any = json.loads(entry.after)
    except ValueError:
        return {}
    if not isinstance(after, dict):
        return {}
    return {name: value for name, value in cast("dict[str, Any]", after).items() if name.startswith("_")}


def explain(
    ref: tuple[str, str],
    record: RecordSummary | None,
    lock: LockView | None,
    machine: Machine | None,
    recent: Sequence[JournalEntry] = (),
    *,
    now: float = 0.0,
    name: Names | None = None,
) -> Explanation[Reason]:
    """Explain a record.

    ``lock`` is its lock if it is held or waited for, ``recent`` its last journal entries, the newest first. ``name``
    returns a better name for a caller than the store knows, such as that of a job.
    """
    kind, id = ref  # noqa: A001
    called = f"{kind} {id!r}"
    subject = Subject("record", subject_key(kind, id))
    data: dict[str, Any] = {"kind": kind, "id": id, "exists": record is not None}
    if record is None:
        lines = [_gone(called, recent)]
        return Explanation.of(subject, Reason.MISSING, "does not exist", lines, "", data)
    status = f" and the status {record.status!r}" if record.status else ""
    by = f" by {recent[0].actor}" if recent and recent[0].to_version == record.version else ""
    lines = [f"{called} has version {record.version}{status}, written at {as_text(record.updated_at)}{by}"]
    data |= {"version": record.version, "status": record.status, "fence": record.fence}
    data |= {"created_at": as_text(record.created_at), "updated_at": as_text(record.updated_at)}
    reason, why, remedy = Reason.FREE, "is free", ""
    if machine is not None:
        reason, why, remedy = _by_status(record.status, machine, lines, data)
    lost = _lost(recent, now)
    data |= {"recent_writes": len(recent), "recent_conflicts": lost}
    if lost:
        spell = f"in the last {_LATELY / 60:g} minutes"
        lines.append(f"{lost} of its last {len(recent)} writes lost to another write first and were repeated, {spell}")
    if reason is Reason.FREE and lost >= _CONTENDED:
        reason, why = Reason.CONTENDED, f"is free; {lost} of its last {len(recent)} writes lost first"
        remedy = f"queue instead of losing: set INTERLOCK_RECORD_STRATEGIES={kind}.update=pessimistic"
    waiting = [] if lock is None else [waiter for waiter in lock.waiters if waiter.live]
    if lock is None or (lock.holder is None and not waiting):
        return Explanation.of(subject, reason, why, lines, remedy, data)
    remedy = ""
    if lock.holder is not None:
        caller = lock.holder.caller if name is None else name(lock.holder)
        lines.append(f"It is being edited: {who_holds(lock.holder, name)}")
        reason, why = Reason.EDITED, f"has been edited by {caller} for {span(lock.seen_at - lock.holder.granted_at)}"
        data |= {"holder": lock.holder.caller, "edited_since": as_text(lock.holder.granted_at)}
        if waiting:
            key = lock_key(kind, id)
            remedy = f"To end the edit: {command('locks', 'release', key, options='--reason …')}"
    else:
        reason, why = Reason.PASSING, "is free and reserved for the first waiter"
    for ahead, waiter in enumerate(waiting):
        caller = waiter.caller if name is None else name(waiter)
        lines.append(f"{caller} {why_waits(lock, waiter, ahead, name)}")
    data["waiting"] = len(waiting) + lock.more_waiters
    if waiting:
        why += f"; {data['waiting']} {'waits' if data['waiting'] == 1 else 'wait'}"
    return Explanation.of(subject, reason, brief(why), lines, remedy, data)


def _by_status(status: str, machine: Machine, lines: list[str], data: dict[str, Any]) -> tuple[Reason, str, str]:
    """Say what may follow a status."""
    followers = [one for one in machine.transitions.get(status, ()) if one != status]
    data["next_statuses"] = followers
    if status not in machine.transitions:
        lines.append(f"Its machine has no status {status!r}: another version of the program wrote it")
        remedy = "finish the deployment, or add the status to the machine"
        return Reason.UNKNOWN_STATUS, f"has the status {status!r}, which its machine does not have", remedy
    if not followers:
        lines.append(f"{status!r} is a final status")
        return Reason.FINAL, "has a final status", ""
    lines.append(f"It can go to: {', '.join(followers)}")
    return Reason.FREE, "is free", ""


def _gone(called: str, recent: Sequence[JournalEntry]) -> str:
    if recent and recent[0].action.endswith(".delete"):
        return f"{called} was deleted by {recent[0].actor} at {as_text(recent[0].at)}."
    return f"{called} does not exist: it was never created, or was deleted."


def _lost(recent: Sequence[JournalEntry], now: float) -> int:
    """Count recent writes that lost to another write before they were made."""
    lost = 0
    for entry in recent:
        if entry.at >= now - _LATELY:
            notes = entry_notes(entry)
            lost += bool(notes.get("_starvation") or notes.get("_retries"))
    return lost
