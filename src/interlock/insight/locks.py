"""Locks as rows and pages: who holds a key, which job that is, and who waits, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.insight.views import Listing, LockHolder, LockPage, LockRow, LockWaiter
from interlock.locks.explain import explain, why_waits

if TYPE_CHECKING:
    from interlock.explanation import Explanation
    from interlock.insight.looking import Caller, Cast, Looking
    from interlock.locks.explain import Reason
    from interlock.ports.locks import LockView

__all__ = ["explain_a_lock", "lock_listing", "lock_page", "lock_row"]

_WAITERS_SHOWN = 5


def lock_row(view: LockView, cast: Cast) -> LockRow:
    """One key."""
    why = explain(view.key, view, cast.name)
    holder = None
    if view.holder is not None:
        held = view.holder
        holder = LockHolder(cast.who(held), held.fence, held.granted_at, held.expires_at)
    waiters: list[LockWaiter] = []
    ahead = 0
    for waiter in view.waiters:
        waiters.append(
            LockWaiter(
                ahead + 1,
                cast.who(waiter),
                waiter.asked_at,
                waiter.gives_up_at,
                waiter.live,
                why_waits(view, waiter, ahead, cast.name),
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


async def lock_listing(looking: Looking, limit: int, after: str) -> Listing[LockRow]:
    """Held and awaited keys by name."""
    views = await looking.locks.locks.list(limit=limit + 1, after=after, waiters=_WAITERS_SHOWN)
    shown = views[:limit]
    cast = await looking.cast(one for view in shown for one in _callers(view))
    more = shown[-1].key if len(views) > limit else None
    return Listing(tuple(lock_row(view, cast) for view in shown), more, views[0].seen_at if views else looking.now())


async def lock_page(looking: Looking, key: str, limit: int) -> LockPage:
    """One key."""
    view, why, cast = await _explained(looking, key, limit)
    row = None if view is None else lock_row(view, cast)
    at = looking.now() if view is None else view.seen_at
    return LockPage(key, row, str(why.reason), why.why, why, looking.seen(at, "locks"))


async def explain_a_lock(looking: Looking, key: str) -> Explanation[Reason]:
    """How a key stands."""
    return (await _explained(looking, key, None))[1]


async def _explained(
    looking: Looking, key: str, limit: int | None
) -> tuple[LockView | None, Explanation[Reason], Cast]:
    views = await looking.locks.locks.list(key, waiters=limit)
    view = views[0] if views else None
    cast = await looking.cast([] if view is None else _callers(view))
    return view, explain(key, view, cast.name), cast


def _callers(view: LockView) -> list[Caller]:
    return [*([] if view.holder is None else [view.holder]), *view.waiters]
