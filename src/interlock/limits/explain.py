"""Says in words who has a limit's room, who waits for it, why, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.clock import as_text

if TYPE_CHECKING:
    from interlock.ports.limits import LimitUser, LimitView, Turn

__all__ = ["as_data", "explain", "figure", "what_next", "who_is_before"]


def explain(view: LimitView) -> list[str]:
    """One line for the limit, then one for each that waits, in order."""
    lines = [_limit_line(view)]
    figures = {(user.most, user.per) for user in (*view.started, *view.waiting)}
    if len(figures) > 1:
        known = " and ".join(figure(most, per) for most, per in sorted(figures))
        lines.append(f"processes disagree about it ({known}); the smaller one holds until they agree")
    ahead = 0
    for user in view.waiting:
        lines.append(_waiter_line(view, user, ahead))
        ahead += user.waits_for == view.key
    return lines


def who_is_before(view: LimitView | None, turn: Turn) -> str:
    """What stood in the way, for the middle of a sentence."""
    if turn.at is not None:
        return f"its turn comes at {as_text(turn.at)}"
    if view is None or not view.started:
        return "it has come free meanwhile"
    return f"{len(view.started)} of {view.most} are at work, the first of them {_who(view.started[0])}"


def figure(most: int, per: float) -> str:
    """What a limit allows: ``5 at once``, ``1 every 90 s``, ``100 in any 60 s``."""
    if not per:
        return f"{most} at once"
    return f"1 every {per:g} s" if most == 1 else f"{most} in any {per:g} s"


def what_next(view: LimitView) -> str:
    """When the next one may start, in a few words."""
    room = view.most - len(view.started)
    if view.per:
        at = min((user.at for user in view.waiting if user.at is not None), default=0.0)
        at = max(at, 0.0 if room > 0 else _oldest(view) + view.per)
        return "now" if at <= view.seen_at else f"at {as_text(at)}, in {at - view.seen_at:.1f} s"
    if room <= 0:
        return "when one of those at work finishes"
    in_line = next((user for user in view.waiting if user.waits_for == view.key), None)
    return "now" if in_line is None else f"now: {in_line.party} is first in line"


def as_data(view: LimitView) -> dict[str, Any]:
    """The same for programs."""
    return {
        "key": view.key,
        "most": view.most,
        "per": view.per,
        "started": [_user(user) for user in view.started],
        "waiting": [_user(user) for user in view.waiting],
        "explain": explain(view),
    }


def _limit_line(view: LimitView) -> str:
    taken = len(view.started)
    if view.per:
        state = f"{taken} started in the last {view.per:g} s"
        if taken >= view.most:
            state += f", the next room comes at {as_text(_oldest(view) + view.per)}"
    else:
        holders = f": {'; '.join(map(_who, view.started[:3]))}{' and others' if taken > 3 else ''}" if taken else ""
        state = f"{taken} at work{holders}"
    free = "" if view.waiting or taken >= view.most else "; the next may start now"
    return f"{view.key!r} allows {figure(view.most, view.per)}; {state}{free}"


def _waiter_line(view: LimitView, user: LimitUser, ahead: int) -> str:
    waited = f"{_who(user)} has waited for {max(0.0, view.seen_at - user.asked_at):.1f} s"
    if user.at is not None and user.at > view.seen_at:
        return f"{waited}; its turn comes at {as_text(user.at)}, in {user.at - view.seen_at:.1f} s"
    if user.waits_for and user.waits_for != view.key:
        return f"{waited} for {user.waits_for!r}; see: interlock explain limit {user.waits_for!r}"
    if user.waits_for and len(view.started) >= view.most:
        place = "is next" if ahead == 0 else f"has {ahead} before it"
        return f"{waited} and {place}; it starts when one of those at work finishes"
    return f"{waited}; it may start now, and should do so within a moment"


def _oldest(view: LimitView) -> float:
    starts = sorted(user.at for user in view.started if user.at is not None)
    return starts[-view.most] if len(starts) >= view.most else view.seen_at


def _who(user: LimitUser) -> str:
    since = f" since {as_text(user.at)}" if user.started and user.at is not None else ""
    return f"{user.party} ({user.program}, process {user.pid} on {user.host}){since}"


def _user(user: LimitUser) -> dict[str, Any]:
    data = user._asdict()
    data["asked_at"] = as_text(user.asked_at)
    data["at"] = None if user.at is None else as_text(user.at)
    return data
