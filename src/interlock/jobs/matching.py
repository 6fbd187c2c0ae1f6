"""Every job that matches a filter, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.ports.insight import JobInsight
    from interlock.ports.job_views import JobFilter

__all__ = ["all_ids"]

_PAGE = 1000


async def all_ids(insight: JobInsight, wanted: JobFilter) -> list[int]:
    """The IDs of all jobs that match, the oldest first, read page by page."""
    ids: list[int] = []
    page = await insight.numbers(wanted, limit=_PAGE)
    ids += page.ids
    while page.more is not None:
        page = await insight.numbers(wanted, limit=_PAGE, before=page.more)
        ids += page.ids
    return ids[::-1]
