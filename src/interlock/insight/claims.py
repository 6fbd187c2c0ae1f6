"""Claims as rows and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.claims.explain import explain
from interlock.insight.views import ClaimPage, ClaimRow, Listing
from interlock.ports.claims import ClaimFilter

if TYPE_CHECKING:
    from interlock.explanation import Explanation
    from interlock.insight.stores import Stores
    from interlock.ports.claims import ClaimState
    from interlock.reasons import Reason

__all__ = ["claim_listing", "claim_page", "explain_a_claim"]


async def claim_listing(
    stores: Stores, prefix: str, state: ClaimState | None, limit: int, after: str
) -> Listing[ClaimRow]:
    """Claims that are kept, by key."""
    views = await stores.claims.claims.list(None, ClaimFilter(prefix, state), limit=limit + 1, after=after)
    rows: list[ClaimRow] = []
    for view in views[:limit]:
        why = explain(view.key, view)
        rows.append(ClaimRow(view, str(why.reason), why.why))
    more = rows[-1].claim.key if len(views) > limit else None
    return Listing(tuple(rows), more, views[0].seen_at if views else stores.now())


async def claim_page(stores: Stores, key: str) -> ClaimPage:
    """One claim."""
    views = await stores.claims.claims.list(key, limit=1)
    view = views[0] if views else None
    why = explain(key, view)
    at = stores.now() if view is None else view.seen_at
    return ClaimPage(key, view, str(why.reason), why.why, why, stores.seen(at, "claims"))


async def explain_a_claim(stores: Stores, key: str) -> Explanation[Reason]:
    """Explain a claim."""
    views = await stores.claims.claims.list(key, limit=1)
    return explain(key, views[0] if views else None)
