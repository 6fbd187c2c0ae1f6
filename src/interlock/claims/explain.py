"""Explanations of claims, as text and as data: the state, the holder, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, span
from interlock.ports.claims import ClaimState
from interlock.reasons import Reason
from interlock.values import decoded

if TYPE_CHECKING:
    from interlock.ports.claims import ClaimView

__all__ = ["as_data", "explain", "what_next"]


def explain(key: str, view: ClaimView | None) -> Explanation[Reason]:
    """Explain a claim and what happens next."""
    subject = Subject("claim", key)
    if view is None:
        lines = [f"{key!r} is new: no claim on it is kept."]
        return Explanation.of(subject, Reason.NEW, "is new", lines, "", {"key": key, "state": None})
    who = f"{view.program}, process {view.pid} on {view.host}"
    tries = "its first attempt" if view.attempt == 1 else f"attempt {view.attempt}"
    forget = command("claims", "forget", key, options="--reason …")
    if view.state is ClaimState.DONE:
        reason, why = Reason.DONE, f"was done {_ago(view)}"
        line = f"{key!r} was done by {who} on {tries} at {_time(view.finished_at)}"
        remedy = f"To repeat it: {forget}"
    elif view.state is ClaimState.FAILED:
        due = _wait(view) <= 0
        reason = Reason.FAILED if due else Reason.FAILED_NOT_DUE
        again = "can be claimed again now" if due else f"can be claimed again in {span(_wait(view))}"
        said = f": {view.error}" if view.error else ""
        why, line = f"failed and {again}{said}", f"{key!r} failed in {who} on {tries}{said}"
        remedy = "" if due else f"To retry it now: {forget}"
    elif view.live:
        reason, why = (
            Reason.IN_PROGRESS,
            f"has been in progress for {span(view.seen_at - view.claimed_at)} in {_short(view)}",
        )
        line = f"{key!r} is in progress: {who} has been working on {tries} since {_time(view.claimed_at)}"
        remedy = f"To end it: {forget}"
    else:
        reason, why = Reason.HOLDER_GONE, f"its holder {_short(view)} is gone or silent; it can be claimed again"
        line = f"{key!r} is in progress: {who} started {tries} at {_time(view.claimed_at)} and is gone or silent"
        remedy = ""
    return Explanation.of(subject, reason, brief(why), [line, what_next(view)], remedy, _data(view))


def what_next(view: ClaimView) -> str:
    """Say what happens next."""
    if view.state is ClaimState.DONE:
        return f"It is not repeated before {_time(view.kept_until)}"
    if view.state is ClaimState.FAILED:
        wait = _wait(view)
        due = f"from {_time(view.retry_at)}, in {wait:.1f} s" if wait > 0 else "now"
        return f"It can be claimed again {due}"
    if view.live and view.expires_at is not None:
        return f"Unless it is renewed, another process can take it over in {view.expires_at - view.seen_at:.1f} s"
    return "The next claimant takes it over"


def as_data(view: ClaimView) -> dict[str, Any]:
    """Return a claim as data."""
    return explain(view.key, view).data


def _data(view: ClaimView) -> dict[str, Any]:
    data = view._asdict()
    data["state"] = str(view.state)
    data["result"] = None if view.result is None else decoded(view.result)
    for name in ("claimed_at", "expires_at", "finished_at", "retry_at", "kept_until", "seen_at"):
        data[name] = None if data[name] is None else _time(data[name])
    return {**data, "live": view.live}


def _ago(view: ClaimView) -> str:
    return "" if view.finished_at is None else f"{span(view.seen_at - view.finished_at)} ago by {_short(view)}"


def _short(view: ClaimView) -> str:
    return f"{view.program}@{view.host}:{view.pid}"


def _wait(view: ClaimView) -> float:
    """Return the seconds until a failed claim is due."""
    return (view.retry_at or 0.0) - view.seen_at


def _time(at: float | None) -> str:
    return as_text(at or 0.0)
