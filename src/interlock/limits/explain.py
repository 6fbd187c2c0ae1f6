"""Explanations of limits, as text and as data: who has started, who waits, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text
from interlock.explanation import Explanation, Subject, brief, command, ordinal, span
from interlock.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.ports.limits import LimitUser, LimitView, Turn

    Names = Callable[[LimitUser], str]

__all__ = ["as_data", "explain", "figure", "next_at", "who_is_before", "why_waits"]


def explain(key: str, view: LimitView | None, name: Names | None = None) -> Explanation[Reason]:
    """Explain a limit: one line for it, then one for each waiter in order.

    ``name`` returns a better name for a caller than the store knows, such as that of a job.
    """
    subject = Subject("limit", key)
    if view is None:
        lines = [f"The limit {key!r} is not in use: the next caller may start at once."]
        data: dict[str, Any] = {"key": key, "count": None, "per": None, "started": [], "waiting": []}
        return Explanation.of(subject, Reason.UNUSED, "is not in use", lines, "", data)
    name = name or _caller
    lines = [_limit_line(view, name)]
    figures = {(user.max_count, user.per) for user in (*view.started, *view.waiting)}
    remedy = ""
    if len(figures) > 1:
        known = " and ".join(figure(max_count, per) for max_count, per in sorted(figures))
        lines.append(f"Processes disagree about it ({known}); the smaller figure applies until they agree")
        remedy = "Finish the deployment, so that all processes use the same figure"
    ahead = 0
    for user in view.waiting:
        lines.append(_waiter_line(view, user, ahead, name))
        ahead += user.waits_for == view.key
    return Explanation.of(subject, _reason(view), _why(view, name), lines, remedy, _data(view))


def why_waits(view: LimitView, user: LimitUser, ahead: int) -> str:
    """Say why one in line waits, for a row of a table."""
    waited = f"has waited for {span(view.seen_at - user.asked_at)}"
    if user.at is not None and user.at > view.seen_at:
        return f"{waited}; its turn comes in {span(user.at - view.seen_at)}"
    if user.waits_for and user.waits_for != view.key:
        return brief(f"{waited} for the limit {user.waits_for!r}")
    if user.waits_for and len(view.started) >= view.max_count:
        return f"{waited}, {'first' if ahead == 0 else ordinal(ahead + 1)} in line"
    return f"{waited}; it may start now"


def who_is_before(view: LimitView | None, turn: Turn) -> str:
    """Say what prevented the start, for the middle of a sentence."""
    if turn.at is not None:
        return f"its turn comes at {as_text(turn.at)}"
    if view is None or not view.started:
        return "it has become free meanwhile"
    return f"{len(view.started)} of {view.max_count} are running, the first of them {_who(view.started[0], _caller)}"


def figure(max_count: int, per: float) -> str:
    """Say what a limit allows: ``5 at once``, ``1 every 90 s``, ``100 in any 60 s``."""
    if not per:
        return f"{max_count} at once"
    return f"1 every {per:g} s" if max_count == 1 else f"{max_count} in any {per:g} s"


def next_at(view: LimitView) -> float | None:
    """Return when a rate or cooldown allows the next start; None if that is now, or does not depend on time."""
    if not view.per:
        return None
    at = min((user.at for user in view.waiting if user.at is not None), default=0.0)
    at = max(at, 0.0 if len(view.started) < view.max_count else _oldest(view) + view.per)
    return at if at > view.seen_at else None


def as_data(view: LimitView) -> dict[str, Any]:
    """Return a limit as data."""
    return explain(view.key, view).data


def _data(view: LimitView) -> dict[str, Any]:
    return {
        "key": view.key,
        "count": view.max_count,
        "per": view.per,
        "started": [_user(user) for user in view.started],
        "waiting": [_user(user) for user in view.waiting],
        "seen_at": as_text(view.seen_at),
    }


def _reason(view: LimitView) -> Reason:
    if next_at(view) is not None:
        return Reason.TOO_SOON
    if not view.per and len(view.started) >= view.max_count:
        return Reason.FULL
    return Reason.PASSING if any(user.waits_for == view.key for user in view.waiting) else Reason.ROOM


def _why(view: LimitView, name: Names) -> str:
    taken = f"{len(view.started)} of {view.max_count} {'started' if view.per else 'running'}"
    waiting = "" if not view.waiting else f", {len(view.waiting)} {'waits' if len(view.waiting) == 1 else 'wait'}"
    if (at := next_at(view)) is not None:
        return f"{taken}{waiting}, room in {span(at - view.seen_at)}"
    first = next((user for user in view.waiting if user.waits_for == view.key), None)
    passing = first is not None and len(view.started) < view.max_count
    return brief(
        f"{taken}{waiting}; {name(first)} may start now" if passing and first is not None else f"{taken}{waiting}"
    )


def _limit_line(view: LimitView, name: Names) -> str:
    taken = len(view.started)
    if view.per:
        state = f"{taken} started in the last {view.per:g} s"
        if taken >= view.max_count:
            state += f", the next start is possible at {as_text(_oldest(view) + view.per)}"
    else:
        first = "; ".join(_who(user, name) for user in view.started[:3])
        holders = f": {first}{' and others' if taken > 3 else ''}" if taken else ""
        state = f"{taken} running{holders}"
    free = "" if view.waiting or taken >= view.max_count else "; the next caller may start now"
    return f"{view.key!r} allows {figure(view.max_count, view.per)}; {state}{free}"


def _waiter_line(view: LimitView, user: LimitUser, ahead: int, name: Names) -> str:
    waited = f"{_who(user, name)} has waited for {max(0.0, view.seen_at - user.asked_at):.1f} s"
    if user.at is not None and user.at > view.seen_at:
        return f"{waited}; its turn comes at {as_text(user.at)}, in {user.at - view.seen_at:.1f} s"
    if user.waits_for and user.waits_for != view.key:
        return f"{waited} for {user.waits_for!r}; see: {command('explain', 'limit', user.waits_for)}"
    if user.waits_for and len(view.started) >= view.max_count:
        position = "is next" if ahead == 0 else f"has {ahead} ahead of it"
        return f"{waited} and {position}; it starts when a running one finishes"
    return f"{waited}; it may start now"


def _oldest(view: LimitView) -> float:
    starts = sorted(user.at for user in view.started if user.at is not None)
    return starts[-view.max_count] if len(starts) >= view.max_count else view.seen_at


def _caller(user: LimitUser) -> str:
    return user.caller


def _who(user: LimitUser, name: Names) -> str:
    since = f" since {as_text(user.at)}" if user.started and user.at is not None else ""
    return f"{name(user)} ({user.program}, process {user.pid} on {user.host}){since}"


def _user(user: LimitUser) -> dict[str, Any]:
    data = user._asdict()
    data["asked_at"] = as_text(user.asked_at)
    data["at"] = None if user.at is None else as_text(user.at)
    return data
