"""How claims are kept and given up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.claims.claim import ClaimRequest
from interlock.ports.claims import ClaimState, ClaimStore, Held, Renewed, Settled, Settlement
from interlock.ports.leases import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ClaimCustody"]


class ClaimCustody:
    """Claims, for what engines do alike. Nobody waits for one, so there are no turns."""

    def __init__(self, store: ClaimStore) -> None:
        self._store = store
        self.unsaid: dict[str, Settlement] = {}
        """By owner, how claims ended that the store has not confirmed yet."""

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give each its lease again."""
        return await self._store.renew(leases)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Nobody's."""
        return Turns((), math.inf)

    async def leave(self, want: ClaimRequest) -> Settled:
        """Say how it ended, if it did, else let others try at once."""
        why = "its claimant gave it up"
        given_up = Settlement(want.key, want.owner, ClaimState.FAILED, None, why, 0.0, want.keep)
        return await self._store.settle(self.unsaid.get(want.owner, given_up))

    def next_owners(self, left: Settled) -> Iterable[str]:
        """Nobody waits."""
        return ()

    async def belongings(self, session: str) -> Sequence[tuple[str, str]]:
        """Nothing: what nobody renews ends by itself, within its lease."""
        return ()

    def stray(self, key: str, owner: str, session: str) -> ClaimRequest:
        """Never asked for, as there are no belongings."""
        return ClaimRequest(key, owner, session, 1.0, 0.0, 0.0)
