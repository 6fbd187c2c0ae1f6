"""Filters of lists: from the query parameters of a request, on a page and in the API alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from interlock.errors import InvalidArgumentError
from interlock.ports.claims import ClaimState
from interlock.ports.events import EventFilter
from interlock.ports.insight import LaneShow
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import JournalFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["FILTERS", "claim_state", "event_filter", "job_filter", "journal_filter", "lane_show"]

_MAX_DIGITS = 19
CLAIM_STATES = tuple(state for state in ClaimState if state is not ClaimState.NEW)
_GROUPS = {
    "open": tuple(state for state in JobState if not state.final),
    "stuck": (JobState.WAITING, JobState.HELD, JobState.PARKED),
    "failed": (JobState.FAILED, JobState.QUARANTINED),
}
"""Names for several states at once."""
FILTERS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("state", "name", "queue", "lane"),
    "lanes": ("show",),
    "locks": (),
    "claims": ("prefix", "state"),
    "events": ("source", "type", "actor", "delivery"),
    "records": ("kind", "status", "id"),
    "journal": ("kind", "key", "actor", "action", "since", "until", "job", "event"),
}
"""The query parameters of each page."""


def job_filter(request: Request) -> JobFilter:
    """Which jobs a request asks for: ``state`` may be given several times, or be the name of a group."""
    states: dict[JobState, None] = {}
    for given in request.query_params.getlist("state"):
        if not given:
            continue
        if given in _GROUPS:
            states |= dict.fromkeys(_GROUPS[given])
            continue
        try:
            states[JobState(given)] = None
        except ValueError:
            raise InvalidArgumentError(
                f"{given!r} is not a job state.", remedy=f"Valid values: {', '.join(JobState)}, {', '.join(_GROUPS)}."
            ) from None
    asked = {name: request.query_params.get(name, "").strip() for name in ("name", "queue")}
    return JobFilter(tuple(states), asked["name"], asked["queue"], request.query_params.get("lane", ""))


def event_filter(request: Request) -> EventFilter:
    """Which events a request asks for."""
    asked = request.query_params
    return EventFilter(**{name: asked.get(name, "").strip() for name in ("source", "type", "actor", "delivery")})


def journal_filter(request: Request) -> JournalFilter:
    """Which journal entries a request asks for."""
    asked = {name: request.query_params.get(name, "").strip() for name in FILTERS["journal"]}
    since, until = _time(asked["since"]), _time(asked["until"])
    causes = (_id("job", asked["job"]), _id("event", asked["event"]))
    return JournalFilter(asked["kind"], asked["key"], asked["actor"], asked["action"], since, until, *causes)


def _id(what: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS or not 0 < int(text) < 2**63:
        raise InvalidArgumentError(f"{text[:40]!r} is not the ID of a {what}.", remedy="Use a whole number.")
    return int(text)


def _time(text: str) -> float | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidArgumentError(
            f"Invalid time {text[:40]!r}.", remedy="Use a time such as 2026-01-31T12:00 (UTC)."
        ) from None


def claim_state(request: Request) -> ClaimState | None:
    """Which state of claims a request asks for; None for any."""
    given = request.query_params.get("state", "")
    if not given:
        return None
    try:
        return ClaimState(given)
    except ValueError:
        raise InvalidArgumentError(
            f"{given!r} is not a claim state.", remedy=f"Valid values: {', '.join(CLAIM_STATES)}."
        ) from None


def lane_show(request: Request) -> LaneShow:
    """Which lanes a request asks for."""
    show = request.query_params.get("show", "")
    try:
        return LaneShow(show)
    except ValueError:
        raise InvalidArgumentError(
            f"There are no lanes to show as {show!r}.", remedy=f"Use {', '.join(filter(None, LaneShow))}."
        ) from None
