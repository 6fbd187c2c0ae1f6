"""Explanations of locks, as text and as data: who holds a key, who waits for it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, span
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.locks import Holder, LockView, Wait, Waiter

    Names = Callable[[Holder | Waiter], str]

__all__ = ["as_data", "deadlock_lines", "explain", "held_for_short", "who_holds", "why_waits"]


def explain(key: str, view: LockView | None, name: Names | None = None) -> Explanation[Reason]:
    """Explain a lock: one line for its holder, then one for each waiter in order.

    ``name`` returns a better name for a caller than the store knows, such as that of a job.
    """
    subject = Subject("lock", key)
    if view is None:
        lines = [f"The lock {key!r} is free and has no waiters."]
        data: dict[str, Any] = {"key": key, "holder": None, "waiters": []}
        return Explanation.of(subject, Reason.FREE, "is free", lines, "", data)
    name = name or _caller
    lines = [_holder_line(view, name)]
    ahead = 0
    for waiter in view.waiters:
        lines.append(_waiter_line(view, waiter, ahead, name))
        ahead += waiter.live
    reason = Reason.PASSING if view.holder is None else Reason.AWAITED if ahead else Reason.HELD
    remedy = ""
    if reason is Reason.AWAITED:
        remedy = f"To end the wait: {command('locks', 'release', key, options='--reason …')}"
    return Explanation.of(subject, reason, _why(view, ahead, name), lines, remedy, _data(view))


def why_waits(view: LockView, waiter: Waiter, ahead: int, name: Names | None = None) -> str:
    """Say why one waiter waits, for a row of a table."""
    if not waiter.live:
        return "is gone: its process ended or its time to wait is over"
    position = "is next" if ahead == 0 else f"has {ahead} ahead of it"
    if view.holder is None:
        waited = span(view.seen_at - waiter.asked_at)
        return f"has waited for {waited} and {position}; the lock is free and reserved for it"
    holder = (name or _caller)(view.holder)
    return brief(f"has waited for {span(view.seen_at - waiter.asked_at)} and {position}; {holder} holds it")


def who_holds(holder: Holder | None, name: Names | None = None) -> str:
    """Name the holder, for the middle of a sentence."""
    if holder is None:
        return "it is free now, or was granted to another caller meanwhile"
    return (
        f"held by {(name or _caller)(holder)} ({holder.program}, process {holder.pid} on {holder.host}) "
        f"since {as_text(holder.granted_at)} with fence {holder.fence}"
    )


def held_for_short(view: LockView, name: Names | None = None) -> str:
    """Name the holder and how long it has held the key, for a row of a table."""
    if view.holder is None:
        return "it is free"
    return f"{(name or _caller)(view.holder)} has held it for {span(view.seen_at - view.holder.granted_at)}"


def deadlock_lines(cycle: Sequence[Wait]) -> tuple[str, ...]:
    """Describe a cycle of waits, one sentence for each member."""
    return tuple(f"{wait.caller} waits for {wait.key!r} held by {wait.holder}" for wait in cycle)


def as_data(view: LockView) -> dict[str, Any]:
    """Return a lock as data."""
    return explain(view.key, view).data


def _data(view: LockView) -> dict[str, Any]:
    holder = None
    if view.holder is not None:
        holder = view.holder._asdict()
        holder["granted_at"] = as_text(view.holder.granted_at)
        holder["expires_at"] = as_text(view.holder.expires_at)
    waiters: list[dict[str, Any]] = []
    for waiter in view.waiters:
        data = waiter._asdict()
        data["asked_at"] = as_text(waiter.asked_at)
        data["gives_up_at"] = None if waiter.gives_up_at is None else as_text(waiter.gives_up_at)
        waiters.append(data)
    return {"key": view.key, "holder": holder, "waiters": waiters, "seen_at": as_text(view.seen_at)}


def _caller(one: Holder | Waiter) -> str:
    return one.caller


def _why(view: LockView, waiting: int, name: Names) -> str:
    queue = "" if not waiting else f"; {waiting} {'waits' if waiting == 1 else 'wait'}"
    if view.holder is None:
        first = next((waiter for waiter in view.waiters if waiter.live), None)
        return brief("is free" if first is None else f"is free and reserved for {name(first)}{queue}")
    return brief(f"has been held by {name(view.holder)} for {span(view.seen_at - view.holder.granted_at)}{queue}")


def _holder_line(view: LockView, name: Names) -> str:
    if view.holder is None:
        since = "" if view.free_since is None else f" since {as_text(view.free_since)}"
        return f"{view.key!r} has been free{since} and is reserved for the first waiter"
    ends = view.holder.expires_at - view.seen_at
    return f"{view.key!r} is {who_holds(view.holder, name)}; it expires in {ends:.1f} s"


def _waiter_line(view: LockView, waiter: Waiter, ahead: int, name: Names) -> str:
    who = f"{name(waiter)} ({waiter.program}, process {waiter.pid} on {waiter.host})"
    waited = f"for {max(0.0, view.seen_at - waiter.asked_at):.1f} s"
    if not waiter.live:
        return f"{who} waited {waited} and is gone: its process ended or its time to wait is over"
    until = "without a limit" if waiter.gives_up_at is None else f"until {as_text(waiter.gives_up_at)}"
    position = "is next" if ahead == 0 else f"has {ahead} ahead of it"
    taking = "; it should acquire the lock within a moment" if view.holder is None and ahead == 0 else ""
    return f"{who} has waited {waited}, {until}, and {position}{taking}"
