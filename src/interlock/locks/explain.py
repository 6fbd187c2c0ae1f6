"""Says in words who holds a key, who waits for it, why, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.locks import Holder, LockView, Wait, Waiter

__all__ = ["as_data", "deadlock_lines", "explain", "forced_why", "who_holds"]


def explain(view: LockView) -> list[str]:
    """One line for the key's holder, then one for each waiter in order."""
    lines = [_holder_line(view)]
    ahead = 0
    for waiter in view.waiters:
        lines.append(_waiter_line(view, waiter, ahead))
        ahead += waiter.live
    return lines


def who_holds(holder: Holder | None) -> str:
    """Who stands in the way, for the middle of a sentence."""
    if holder is None:
        return "it is free now, or was passed to somebody else meanwhile"
    return (
        f"held by {holder.party} ({holder.program}, process {holder.pid} on {holder.host}) "
        f"since {as_text(holder.granted_at)} with fence {holder.fence}"
    )


def deadlock_lines(cycle: Sequence[Wait]) -> tuple[str, ...]:
    """A cycle of waits, one sentence for each member."""
    return tuple(f"{wait.party} waits for {wait.key!r} held by {wait.holder}" for wait in cycle)


def forced_why(by: str, reason: str) -> str:
    """What the holder of a lease that was released by force is told."""
    return f"{by} released it by force: {reason}"


def as_data(view: LockView) -> dict[str, Any]:
    """The same for programs."""
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
    return {"key": view.key, "holder": holder, "waiters": waiters, "explain": explain(view)}


def _holder_line(view: LockView) -> str:
    if view.holder is None:
        since = "" if view.free_since is None else f" since {as_text(view.free_since)}"
        return f"{view.key!r} is free{since} and kept for the first in its queue"
    ends = view.holder.expires_at - view.seen_at
    return f"{view.key!r} is {who_holds(view.holder)}; unless renewed it ends in {ends:.1f} s"


def _waiter_line(view: LockView, waiter: Waiter, ahead: int) -> str:
    who = f"{waiter.party} ({waiter.program}, process {waiter.pid} on {waiter.host})"
    for_long = f"for {max(0.0, view.seen_at - waiter.asked_at):.1f} s"
    if not waiter.live:
        return f"{who} waited {for_long} and is gone: its process ended or its time to wait is over"
    until = "for ever" if waiter.gives_up_at is None else f"until {as_text(waiter.gives_up_at)}"
    place = "is next" if ahead == 0 else f"has {ahead} before it"
    if view.holder is None:
        remedy = "it should take the key within a moment"
    else:
        remedy = f"to end the wait: interlock locks release {view.key!r} --reason …"
    return f"{who} has waited {for_long}, {until}, and {place}; {remedy}"
