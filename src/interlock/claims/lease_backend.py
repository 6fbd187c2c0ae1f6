"""The lease operations of the claim port."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.claims.claim import PendingClaim
from interlock.ports.claims import ClaimFinished, ClaimOutcome, ClaimState, ClaimStore, Held, Renewed
from interlock.ports.leases import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ClaimLeaseBackend"]

_MAX_UNANSWERED = 1000


class ClaimLeaseBackend:
    """Claims, as the shared lease machinery uses them. Claims have no queue and no turns."""

    def __init__(self, store: ClaimStore) -> None:
        self._store = store
        self._unanswered: dict[str, PendingClaim] = {}
        self.unconfirmed: dict[str, ClaimOutcome] = {}
        """By owner, the outcomes that the store has not confirmed yet."""

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Extend each lease."""
        return await self._store.renew(leases)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return no waiters."""
        return Turns((), math.inf)

    async def leave(self, request: PendingClaim) -> ClaimFinished:
        """Report the outcome, if there is one, else let others claim it at once."""
        why = "its claimant gave it up"
        abandoned = ClaimOutcome(request.key, request.owner, ClaimState.FAILED, None, why, 0.0, request.keep)
        return await self._store.finish(self.unconfirmed.get(request.owner, abandoned))

    def next_owners(self, left: ClaimFinished) -> Iterable[str]:
        """Return no waiters."""
        return ()

    def unanswered(self, request: PendingClaim) -> None:
        """Remember a request whose answer never came: it may be granted without anyone working on it."""
        self._unanswered[request.owner] = request
        while len(self._unanswered) > _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return the session's unanswered requests. The store is not asked, because it would need an index for that."""
        self._unanswered = {owner: request for owner, request in self._unanswered.items() if request.session == session}
        return [(request.key, owner) for owner, request in self._unanswered.items()]

    def rebuild_request(self, key: str, owner: str, session: str) -> PendingClaim:
        """Rebuild a request that only the store remembers."""
        return self._unanswered.get(owner) or PendingClaim(key, owner, session, 1.0, 0.0, 0.0)
