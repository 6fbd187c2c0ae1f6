"""Says in words how a claim stands, who has it, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.ports.claims import ClaimState
from interlock.values import decoded

if TYPE_CHECKING:
    from interlock.ports.claims import ClaimView

__all__ = ["as_data", "explain", "forgotten_why", "what_next"]


def explain(view: ClaimView) -> list[str]:
    """What the claim is, and what happens next."""
    who = f"{view.program}, process {view.pid} on {view.host}"
    tries = "its first attempt" if view.attempt == 1 else f"attempt {view.attempt}"
    if view.state is ClaimState.DONE:
        return [
            f"{view.key!r} was done by {who} on {tries} at {_time(view.settled_at)}",
            f"{what_next(view)}; to have it done again: {_forget(view)}",
        ]
    if view.state is ClaimState.FAILED:
        why = f": {view.error}" if view.error else ""
        again = f"; to have it tried at once: {_forget(view)}" if _wait(view) > 0 else ""
        return [f"{view.key!r} failed in {who} on {tries}{why}", f"{what_next(view)}{again}"]
    if view.live:
        return [
            f"{view.key!r} is in progress: {who} works on {tries} since {_time(view.claimed_at)}",
            f"{what_next(view)}; to end it: {_forget(view)}",
        ]
    return [
        f"{view.key!r} is in progress: {who} began {tries} at {_time(view.claimed_at)} and is gone or silent",
        what_next(view),
    ]


def what_next(view: ClaimView) -> str:
    """What happens next, in a few words."""
    if view.state is ClaimState.DONE:
        return f"it is not repeated before {_time(view.kept_until)}"
    if view.state is ClaimState.FAILED:
        wait = _wait(view)
        due = f"from {_time(view.retry_at)}, in {wait:.1f} s," if wait > 0 else "now"
        return f"whoever claims it {due} may try again"
    if view.live and view.expires_at is not None:
        return f"unless it is renewed, others may take it over in {view.expires_at - view.seen_at:.1f} s"
    return "whoever claims it next takes it over"


def forgotten_why(by: str, reason: str) -> str:
    """What the holder of a claim that was forgotten is told."""
    return f"{by} had it forgotten: {reason}"


def as_data(view: ClaimView) -> dict[str, Any]:
    """The same for programs."""
    data = view._asdict()
    data["state"] = str(view.state)
    data["result"] = None if view.result is None else decoded(view.result)
    for name in ("claimed_at", "expires_at", "settled_at", "retry_at", "kept_until", "seen_at"):
        data[name] = None if data[name] is None else _time(data[name])
    return {**data, "live": view.live, "explain": explain(view)}


def _wait(view: ClaimView) -> float:
    """Seconds until one that failed is due."""
    return (view.retry_at or 0.0) - view.seen_at


def _forget(view: ClaimView) -> str:
    return f"interlock claims forget {view.key!r} --reason …"


def _time(at: float | None) -> str:
    return as_text(at or 0.0)
