"""Explanations of records: the state, who edits a record, who waits for it, and what may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, span
from interlock.locks.explain import who_holds, why_waits
from interlock.ports.records import lock_key, subject_key
from interlock.reasons import Reason

if TYPE_CHECKING:
    from interlock.ports.locks import LockView
    from interlock.ports.records import StoredRecord
    from interlock.records.engine import Ref
    from interlock.records.machine import Machine

__all__ = ["explain"]


def explain(
    ref: Ref, stored: StoredRecord | None, lock: LockView | None, machine: Machine | None
) -> Explanation[Reason]:
    """Explain a record. ``lock`` is its lock if it is held or waited for."""
    subject = Subject("record", subject_key(*ref))
    data: dict[str, Any] = {"kind": ref.kind, "id": ref.id, "exists": stored is not None}
    if stored is None:
        lines = [f"{ref} does not exist: it was never created, or was deleted."]
        return Explanation.of(subject, Reason.MISSING, "does not exist", lines, "", data)
    status = f" and the status {stored.status!r}" if stored.status else ""
    lines = [f"{ref} has version {stored.version}{status}, written at {as_text(stored.updated_at)}"]
    data |= {"version": stored.version, "status": stored.status, "fence": stored.fence}
    data |= {"created_at": as_text(stored.created_at), "updated_at": as_text(stored.updated_at)}
    if machine is not None:
        followers = [one for one in machine.transitions.get(stored.status, ()) if one != stored.status]
        data["next_statuses"] = followers
        lines.append(f"It can go to: {', '.join(followers)}" if followers else f"{stored.status!r} is a final status")
    waiting = [] if lock is None else [waiter for waiter in lock.waiters if waiter.live]
    if lock is None or (lock.holder is None and not waiting):
        final = machine is not None and stored.status in machine.final
        reason = Reason.FINAL if final else Reason.FREE
        return Explanation.of(subject, reason, "has a final status" if final else "is free", lines, "", data)
    remedy = ""
    if lock.holder is not None:
        lines.append(f"It is being edited: {who_holds(lock.holder)}")
        reason, why = Reason.EDITED, f"has been edited by {lock.holder.caller} for "
        why += span(lock.seen_at - lock.holder.granted_at)
        data["holder"] = lock.holder.caller
        if waiting:
            key = lock_key(*ref)
            remedy = f"To end the edit: {command('locks', 'release', key, options='--reason …')}"
    else:
        reason, why = Reason.PASSING, "is free and reserved for the first waiter"
    for ahead, waiter in enumerate(waiting):
        lines.append(f"{waiter.caller} {why_waits(lock, waiter, ahead)}")
    data["waiting"] = len(waiting) + lock.more_waiters
    return Explanation.of(subject, reason, brief(why), lines, remedy, data)
