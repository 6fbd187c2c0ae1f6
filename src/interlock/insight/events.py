"""Events as rows and pages, with the state of their jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from interlock.events.explain import explain_event
from interlock.insight.jobs import job_rows
from interlock.insight.views import EventPage, EventRow, Listing
from interlock.operations import unknown_event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.explanation import Explanation
    from interlock.insight.stores import Stores
    from interlock.ports.events import EventFilter, EventView
    from interlock.ports.job_views import JobView
    from interlock.reasons import Reason

__all__ = ["event_listing", "event_page", "event_rows", "explain_an_event", "jobs_of"]

_JOBS_OF_ALL = 500
"""How many jobs are read for a list of events."""


async def event_listing(stores: Stores, wanted: EventFilter, limit: int, before: int | None) -> Listing[EventRow]:
    """Events, the newest first."""
    views = await stores.store.events.list(wanted, limit=limit + 1, before=before)
    situations = await stores.situations(jobs_of(views[:limit]))
    rows = event_rows(views[:limit], {situation.job.id: situation.job for situation in situations})
    more = str(rows[-1].event.id) if len(views) > limit else None
    return Listing(rows, more, views[0].seen_at if views else stores.now())


def jobs_of(views: Sequence[EventView]) -> list[int]:
    """The jobs that events caused, a bounded number of them."""
    return list(dict.fromkeys(job for view in views for job in view.jobs))[:_JOBS_OF_ALL]


def event_rows(views: Sequence[EventView], jobs: Mapping[int, JobView]) -> tuple[EventRow, ...]:
    """Rows of events with the state of their jobs."""
    rows: list[EventRow] = []
    for view in views:
        known = [jobs[job] for job in view.jobs if job in jobs]
        why = explain_event(view, known)
        rows.append(EventRow(view, Counter(job.state for job in known), str(why.reason), why.why))
    return tuple(rows)


async def event_page(stores: Stores, number: int) -> EventPage:
    """One event with its payload."""
    view = await _find(stores, number)
    situations = await stores.situations(view.jobs[:_JOBS_OF_ALL])
    why = explain_event(view, [situation.job for situation in situations])
    jobs = await job_rows(stores, situations)
    return EventPage(view, str(why.reason), why.why, jobs, why, stores.seen(view.seen_at, "events", "jobs"))


async def explain_an_event(stores: Stores, number: int) -> Explanation[Reason]:
    """Explain an event."""
    view = await _find(stores, number)
    jobs: list[JobView] = [o.job for o in await stores.situations(view.jobs[:_JOBS_OF_ALL])]
    return explain_event(view, jobs)


async def _find(stores: Stores, number: int) -> EventView:
    view = await stores.store.events.get(number)
    if view is None:
        raise unknown_event(number)
    return view
