"""Claims as rows and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.claims.explain import explain
from interlock.insight.views import ClaimPage, ClaimRow, Listing

if TYPE_CHECKING:
    from interlock.claims.explain import Reason
    from interlock.explanation import Explanation
    from interlock.insight.looking import Looking
    from interlock.ports.claims import ClaimState

__all__ = ["claim_listing", "claim_page", "explain_a_claim"]


async def claim_listing(
    looking: Looking, prefix: str, state: ClaimState | None, limit: int, after: str
) -> Listing[ClaimRow]:
    """Claims that are kept, by key."""
    views = await looking.claims.claims.list(prefix=prefix, state=state, limit=limit + 1, after=after)
    rows: list[ClaimRow] = []
    for view in views[:limit]:
        why = explain(view.key, view)
        rows.append(ClaimRow(view, str(why.reason), why.why))
    more = rows[-1].claim.key if len(views) > limit else None
    return Listing(tuple(rows), more, views[0].seen_at if views else looking.now())


async def claim_page(looking: Looking, key: str) -> ClaimPage:
    """One claim."""
    views = await looking.claims.claims.list(key, limit=1)
    view = views[0] if views else None
    why = explain(key, view)
    at = looking.now() if view is None else view.seen_at
    return ClaimPage(key, view, str(why.reason), why.why, why, looking.seen(at, "claims"))


async def explain_a_claim(looking: Looking, key: str) -> Explanation[Reason]:
    """How it stands."""
    views = await looking.claims.claims.list(key, limit=1)
    return explain(key, views[0] if views else None)
