"""Locks as rows and pages: the holder of a key, its job, and the waiters in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.insight.views import Listing, LockHolder, LockPage, LockRow, LockWaiter
from interlock.locks.explain import explain, why_waits

if TYPE_CHECKING:
    from interlock.explanation import Explanation
    from interlock.insight.stores import Caller, CallerJobs, Stores
    from interlock.ports.locks import LockView
    from interlock.reasons import Reason

__all__ = ["explain_a_lock", "lock_listing", "lock_page", "lock_row"]

_WAITERS_SHOWN = 5


def lock_row(view: LockView, caller_jobs: CallerJobs) -> LockRow:
    """One key."""
    why = explain(view.key, view, caller_jobs.name)
    holder = None
    if view.holder is not None:
        held = view.holder
        holder = LockHolder(caller_jobs.who(held), held.fence, held.granted_at, held.expires_at)
    waiters: list[LockWaiter] = []
    ahead = 0
    for waiter in view.waiters:
        waiters.append(
            LockWaiter(
                ahead + 1,
                caller_jobs.who(waiter),
                waiter.asked_at,
                waiter.gives_up_at,
                waiter.live,
                why_waits(view, waiter, ahead, caller_jobs.name),
            )
        )
        ahead += waiter.live
    return LockRow(
        view.key,
        holder,
        tuple(waiters),
        len(waiters) + view.more_waiters,
        view.free_since,
        str(why.reason),
        why.why,
        view.seen_at,
    )


async def lock_listing(stores: Stores, limit: int, after: str) -> Listing[LockRow]:
    """Keys with a holder or waiters, by name."""
    views = await stores.locks.locks.list(limit=limit + 1, after=after, waiters=_WAITERS_SHOWN)
    shown = views[:limit]
    caller_jobs = await stores.find_jobs(one for view in shown for one in _callers(view))
    more = shown[-1].key if len(views) > limit else None
    return Listing(
        tuple(lock_row(view, caller_jobs) for view in shown), more, views[0].seen_at if views else stores.now()
    )


async def lock_page(stores: Stores, key: str, limit: int) -> LockPage:
    """One key."""
    view, why, caller_jobs = await _explained(stores, key, limit)
    row = None if view is None else lock_row(view, caller_jobs)
    at = stores.now() if view is None else view.seen_at
    return LockPage(key, row, str(why.reason), why.why, why, stores.seen(at, "locks"))


async def explain_a_lock(stores: Stores, key: str) -> Explanation[Reason]:
    """Explain a key."""
    return (await _explained(stores, key, None))[1]


async def _explained(
    stores: Stores, key: str, limit: int | None
) -> tuple[LockView | None, Explanation[Reason], CallerJobs]:
    views = await stores.locks.locks.list(key, waiters=limit)
    view = views[0] if views else None
    caller_jobs = await stores.find_jobs([] if view is None else _callers(view))
    return view, explain(key, view, caller_jobs.name), caller_jobs


def _callers(view: LockView) -> list[Caller]:
    return [*([] if view.holder is None else [view.holder]), *view.waiters]
