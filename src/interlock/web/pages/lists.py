"""The overview, and the lists: jobs, lanes, locks, limits, claims, events, workers and the journal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock.errors import InvalidArgumentError
from interlock.web.pages.bulk import asked, offered
from interlock.web.pages.charts import activity_chart
from interlock.web.pages.filters import FILTERS, claim_state, event_filter, job_filter, journal_filter, lane_show
from interlock.web.pages.notices import notice_of
from interlock.web.pages.site import is_part

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from interlock.insight.insight import Insight
    from interlock.insight.record_rows import RecordKindRow
    from interlock.insight.views import Listing
    from interlock.web.pages.faults import Fault
    from interlock.web.pages.site import Site

__all__ = ["Lists", "listed", "record_list"]

PAGE = 50
_MAX = 500
_CURSORS = {
    "jobs": "before",
    "lanes": "after",
    "locks": "after",
    "limits": "after",
    "claims": "after",
    "events": "before",
    "schedules": "after",
    "journal": "before",
}
"""The query parameter that continues each list."""


class Lists:
    """The overview and the lists, as pages."""

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

    async def show(self, request: Request, kind: str, *, fault: Fault | None = None, act: str = "") -> Response:
        """A list; with a fault if an operation on it was refused."""
        more: dict[str, Any] = {}
        if kind == "workers":
            listing: Listing[Any] = await self.insight.workers(limit=_limit(request))
            more["queues"] = await self.insight.queues()
        else:
            listing = await listed(self.insight, kind, request)
            if kind == "limits":
                more["settings"] = await self.insight.limit_settings()
            if kind == "journal":
                more["sealing"] = await self.insight.journal_status()
        known = (*FILTERS.get(kind, ()), "limit")
        filters = [(name, value) for name, value in request.query_params.multi_items() if name in known]
        chosen = [(name, value) for name, value in filters if value and name != "limit"]
        act = act or request.query_params.get("act", "")
        cursor = _CURSORS.get(kind, "")
        return await self.site.page(
            request,
            f"{kind}.html",
            status=200 if fault is None else fault.status,
            title=kind.capitalize(),
            at=kind,
            listing=listing,
            seen_at=listing.seen_at,
            query=dict(filters),
            filters=filters,
            scope=filters if chosen else [*filters, ("all", "true")],
            acts=offered(kind, request),
            asked=await asked(self.site.app, kind, request, act) if act and not is_part(request) else None,
            next=[*filters, (cursor, listing.more)] if listing.more and cursor else None,
            begun=any(name in request.query_params for name in ("before", "after")),
            said=notice_of(request),
            fault=fault,
            **more,
        )

    async def records(self, request: Request) -> Response:
        """Kinds of records, or the records of one kind; if there is a single kind, its records."""
        asked = request.query_params
        kind = asked.get("kind", "")
        kinds: Listing[RecordKindRow] | None = None
        if not kind or not is_part(request):  # the live part of a list has no tabs with counts
            kinds = await self.insight.record_kinds()
            kind = kind or (kinds.rows[0].kind if len(kinds.rows) == 1 else "")
        listing: Listing[Any] = (
            kinds if kinds is not None and not kind else await record_list(self.insight, kind, request)
        )
        filters = [(name, asked[name]) for name in (*FILTERS["records"], "limit") if asked.get(name)]
        counts = next((row.statuses for row in (kinds or ()) if row.kind == kind), {})
        return await self.site.page(
            request,
            "records.html",
            title=f"{kind} records" if kind else "Records",
            at="records",
            kind=kind,
            kinds=() if kinds is None else kinds.rows,
            statuses=[(status, number) for status, number in counts.items() if status],
            listing=listing,
            seen_at=listing.seen_at,
            query=dict(filters),
            filters=filters,
            next=[*filters, ("after", listing.more)] if listing.more else None,
            begun="after" in asked,
        )


async def record_list(insight: Insight, kind: str, request: Request) -> Listing[Any]:
    """The records that a request asks for, on a page and in the API alike."""
    asked = request.query_params
    status, contains, after = (asked.get(name, "") for name in ("status", "id", "after"))
    return await insight.records(kind, status=status, contains=contains, limit=_limit(request), after=after or None)


async def listed(insight: Insight, kind: str, request: Request) -> Listing[Any]:
    """The list that a request asks for, on a page and in the API alike."""
    given = request.query_params
    limit, before, after = _limit(request), given.get("before") or None, given.get("after") or None
    match kind:
        case "jobs":
            return await insight.jobs(job_filter(request), limit=limit, before=before)
        case "lanes":
            return await insight.lanes(show=lane_show(request), limit=limit, after=after)
        case "locks":
            return await insight.locks(limit=limit, after=after)
        case "limits":
            return await insight.limits(limit=limit, after=after)
        case "schedules":
            return await insight.schedules(limit=limit, after=after)
        case "claims":
            return await insight.claims(
                prefix=given.get("prefix", ""), state=claim_state(request), limit=limit, after=after
            )
        case "journal":
            return await insight.journal(journal_filter(request), limit=limit, before=before)
        case _:
            return await insight.events(event_filter(request), limit=limit, before=before)


def _limit(request: Request) -> int:
    given = request.query_params.get("limit", "")
    if not given:
        return PAGE
    if not given.isascii() or not given.isdecimal() or len(given) > 9 or not 1 <= int(given) <= _MAX:
        raise InvalidArgumentError(f"limit is {given[:20]!r}.", remedy=f"Use 1 to {_MAX}.")
    return int(given)
