"""The pages that list details: the overview, jobs, lanes, locks, limits, claims, events and workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock.errors import InvalidArgumentError
from interlock.ports.claims import ClaimState
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.web.pages.charts import activity_chart

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from interlock.insight.insight import Insight
    from interlock.insight.views import Listing
    from interlock.ports.events import EventFilter
    from interlock.ports.journal import JournalFilter
    from interlock.web.pages.site import Site

__all__ = ["CLAIM_STATES", "LANES", "Lists", "event_filter", "job_filter", "listed"]

PAGE = 50
_MAX = 500
LANES = ("running", "waiting", "held", "parked")
CLAIM_STATES = tuple(state for state in ClaimState if state is not ClaimState.NEW)
_GROUPS = {
    "open": tuple(state for state in JobState if not state.final),
    "stuck": (JobState.WAITING, JobState.HELD, JobState.PARKED),
    "failed": (JobState.FAILED, JobState.QUARANTINED),
}
"""Names for several states at once."""
_FILTERS = {
    "jobs": ("state", "name", "queue", "lane"),
    "lanes": ("show",),
    "claims": ("prefix", "state"),
    "events": ("source", "type", "actor", "delivery"),
    "journal": ("kind", "key", "actor", "action"),
}
"""The query parameters of each page."""


class Lists:
    """Each method is a page."""

    def __init__(self, site: Site) -> None:
        self.site = site

    @property
    def insight(self) -> Insight:
        """Where the answers come from."""
        return self.site.app.insight

    async def overview(self, request: Request) -> Response:
        """How everything stands."""
        if "jobs" in self.insight.parts:
            overview, activity = await asyncio.gather(self.insight.overview(), self.insight.activity())
            chart = activity_chart(activity)
        else:
            overview, chart = await self.insight.overview(), None
        seen_at = max((seen.at for seen in overview.seen), default=None)
        return await self.site.page(
            request, "overview.html", title="Overview", at="", overview=overview, chart=chart, seen_at=seen_at
        )

    async def jobs(self, request: Request) -> Response:
        """Jobs, the newest first."""
        return await self._list(request, "jobs.html", "Jobs", await listed(self.insight, "jobs", request), "before")

    async def lanes(self, request: Request) -> Response:
        """Lanes by name."""
        return await self._list(request, "lanes.html", "Lanes", await listed(self.insight, "lanes", request), "after")

    async def locks(self, request: Request) -> Response:
        """Locks by key."""
        return await self._list(request, "locks.html", "Locks", await listed(self.insight, "locks", request), "after")

    async def limits(self, request: Request) -> Response:
        """Limits by key."""
        return await self._list(
            request, "limits.html", "Limits", await listed(self.insight, "limits", request), "after"
        )

    async def claims(self, request: Request) -> Response:
        """Claims by key."""
        return await self._list(
            request, "claims.html", "Claims", await listed(self.insight, "claims", request), "after"
        )

    async def events(self, request: Request) -> Response:
        """Events, the newest first."""
        return await self._list(
            request, "events.html", "Events", await listed(self.insight, "events", request), "before"
        )

    async def journal(self, request: Request) -> Response:
        """Journal entries, newest first."""
        return await self._list(
            request, "journal.html", "Journal", await listed(self.insight, "journal", request), "before"
        )

    async def workers(self, request: Request) -> Response:
        """Live workers and the queues they work on."""
        listing = await self.insight.workers(limit=_limit(request))
        return await self._list(request, "workers.html", "Workers", listing, "", queues=await self.insight.queues())

    async def _list(
        self, request: Request, template: str, title: str, listing: Listing[Any], cursor: str, **more: Any
    ) -> Response:
        at = title.lower()
        known = (*_FILTERS.get(at, ()), "limit")
        filters = [(name, value) for name, value in request.query_params.multi_items() if name in known]
        begun = any(name in request.query_params for name in ("before", "after"))
        return await self.site.page(
            request,
            template,
            title=title,
            at=at,
            listing=listing,
            seen_at=listing.seen_at,
            query=dict(filters),
            filters=filters,
            next=[*filters, (cursor, listing.more)] if listing.more and cursor else None,
            begun=begun,
            **more,
        )


async def listed(insight: Insight, kind: str, request: Request) -> Listing[Any]:
    """The list that a request asks for, on a page and in the API alike."""
    asked = request.query_params
    limit, before, after = _limit(request), asked.get("before") or None, asked.get("after") or None
    match kind:
        case "jobs":
            return await insight.jobs(job_filter(request), limit=limit, before=before)
        case "lanes":
            show = asked.get("show", "")
            if show and show not in LANES:
                raise InvalidArgumentError(
                    f"There are no lanes to show as {show!r}.", remedy=f"Use {', '.join(LANES)}."
                )
            return await insight.lanes(show=show, limit=limit, after=after)
        case "locks":
            return await insight.locks(limit=limit, after=after)
        case "limits":
            return await insight.limits(limit=limit, after=after)
        case "claims":
            return await insight.claims(
                prefix=asked.get("prefix", ""), state=_claim_state(request), limit=limit, after=after
            )
        case "journal":
            return await insight.journal(journal_filter(request), limit=limit, before=before)
        case _:
            return await insight.events(event_filter(request), limit=limit, before=before)


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
    from interlock.ports.events import EventFilter

    asked = request.query_params
    return EventFilter(**{name: asked.get(name, "").strip() for name in ("source", "type", "actor", "delivery")})


def journal_filter(request: Request) -> JournalFilter:
    """Which journal entries a request asks for."""
    from interlock.ports.journal import JournalFilter

    asked = {name: request.query_params.get(name, "").strip() for name in ("kind", "key", "actor", "action")}
    return JournalFilter(asked["kind"], asked["key"], asked["actor"], asked["action"])


def _claim_state(request: Request) -> ClaimState | None:
    given = request.query_params.get("state", "")
    if not given:
        return None
    try:
        return ClaimState(given)
    except ValueError:
        raise InvalidArgumentError(
            f"{given!r} is not a claim state.", remedy=f"Valid values: {', '.join(CLAIM_STATES)}."
        ) from None


def _limit(request: Request) -> int:
    given = request.query_params.get("limit", "")
    if not given:
        return PAGE
    if not given.isascii() or not given.isdecimal() or len(given) > 9 or not 1 <= int(given) <= _MAX:
        raise InvalidArgumentError(f"limit is {given[:20]!r}.", remedy=f"Use 1 to {_MAX}.")
    return int(given)
