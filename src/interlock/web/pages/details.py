"""The pages about one thing of a kind, such as a job, a lane, a queue, a lock, a schedule or a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.arguments import checked_key
from interlock.errors import NotFoundError
from interlock.web.pages.machines import draw
from interlock.web.pages.notices import notice_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from interlock.insight.insight import Insight
    from interlock.insight.record_rows import RecordPage
    from interlock.web.pages.faults import Fault
    from interlock.web.pages.site import Site

__all__ = ["KINDS", "Details", "key_of", "looked_up", "number_of", "record_of"]

_SHOWN_CHANGES = 12
KINDS = {
    "jobs": "job",
    "lanes": "lane",
    "locks": "lock",
    "limits": "limit",
    "claims": "claim",
    "events": "event",
    "schedules": "schedule",
    "workers": "worker",
}
"""Sections of the dashboard, and what one of each is called."""
_WORDS = {**KINDS, "queues": "queue"}
_SECTIONS = {"queues": "workers"}
"""The section that shows a list of them, if they have none of their own."""


class Details:
    """Pages about one thing of a kind."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def show(self, request: Request, kind: str, *, fault: Fault | None = None) -> Response:
        """The page; with a fault if an action on it was refused."""
        page = await looked_up(self.site.app.insight, kind, request)
        return await self.site.page(
            request,
            f"{_WORDS[kind]}.html",
            status=200 if fault is None else fault.status,
            title=_title(kind, request),
            at=_SECTIONS.get(kind, kind),
            page=page,
            seen_at=max((seen.at for seen in page.seen), default=None),
            said=notice_of(request),
            fault=fault,
        )

    async def journal_entry(self, request: Request) -> Response:
        """One journal entry, with the difference that the change made."""
        page = await self.site.app.insight.journal_page(number_of(request, "journal entry"))
        return await self.site.page(
            request,
            "journal_entry.html",
            title=f"Journal entry {page.entry.id}",
            at="journal",
            page=page,
            seen_at=page.seen[0].at,
        )

    async def record(self, request: Request) -> Response:
        """One record, with its machine."""
        page = await record_of(self.site.app.insight, request)
        machine = None if page.declared is None else page.declared.machine
        return await self.site.page(
            request,
            "record.html",
            title=f"{page.kind} {page.id[:80]}",
            at="records",
            page=page,
            drawing=None if machine is None else draw(machine, None if page.record is None else page.record.status),
            shown_changes=_SHOWN_CHANGES,
            begun="before" in request.query_params,
            seen_at=max((seen.at for seen in page.seen), default=None),
        )


async def record_of(insight: Insight, request: Request) -> RecordPage:
    """The record that a request names, for a page and the API alike; ``before`` selects older versions."""
    ref: str = request.path_params["ref"]
    if ref.endswith("/") and "key" in request.query_params:
        ref += request.query_params["key"]
    return await insight.record(ref, before=request.query_params.get("before") or None)


async def looked_up(insight: Insight, kind: str, request: Request) -> Any:
    """The thing that a request names, for a page and the API alike."""
    match kind:
        case "jobs":
            return await insight.job(number_of(request, "job"))
        case "events":
            return await insight.event(number_of(request, "event"))
        case "lanes":
            return await insight.lane(key_of(request))
        case "queues":
            return await insight.queue(key_of(request))
        case "locks":
            return await insight.lock(key_of(request))
        case "limits":
            return await insight.limit(key_of(request))
        case "schedules":
            return await insight.schedule(key_of(request))
        case "claims":
            return await insight.claim(key_of(request))
        case _:
            return await insight.worker(key_of(request))


def key_of(request: Request) -> str:
    """The name that the path carries, or the query, where a path could not."""
    return checked_key(request.path_params["ref"] or request.query_params.get("key", ""))


def number_of(request: Request, what: str) -> int:
    """The number that the path carries."""
    given: str = request.path_params["ref"]
    if not given.isascii() or not given.isdecimal() or len(given) > 19 or not 0 < int(given) < 2**63:
        raise NotFoundError(f"There is no {what} {given[:40]!r}.", remedy="They are called by number.")
    return int(given)


def _title(kind: str, request: Request) -> str:
    name = request.path_params["ref"] or request.query_params.get("key", "")
    return f"{_WORDS[kind].capitalize()} {name[:80]}"
