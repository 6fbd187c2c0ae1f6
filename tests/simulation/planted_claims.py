"""Bugs to plant in claims and cursors, in the memory store and in the engine."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from interlock.backends.memory.claims import MemoryClaims
from interlock.backends.memory.cursors import MemoryCursors
from interlock.claims.claim import ClaimLease, PendingClaim
from interlock.claims.engine import ClaimEngine
from interlock.leases.renewer import LeaseRenewer
from interlock.leases.store_access import StoreAccess
from interlock.ports.claims import Claimed, ClaimFinished, ClaimState
from tests.simulation.planting import around, bugs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from interlock.ports.claims import ClaimAnswer, ClaimOutcome, ClaimRequest, ClaimView, Held
    from interlock.ports.cursors import Move
    from interlock.ports.journal import Attribution

__all__ = ["BUGS"]

BUGS, _breaks = bugs()


# -- the store -----------------------------------------------------------------------------------------------------


@_breaks("exclusive", "a claim is checked and marked in two steps")
def _(patch: pytest.MonkeyPatch) -> None:
    async def claim(original: Any, self: Any, request: ClaimRequest) -> ClaimAnswer:
        free = request.key not in self._claims
        await asyncio.sleep(0.001)
        found = self._claims.get(request.key)
        if free and found is not None and found.owner != request.owner:
            found.state, found.retry_at = ClaimState.FAILED, 0.0
        answer: ClaimAnswer = await original(self, request)
        return answer

    around(patch, MemoryClaims, "claim", claim)


@_breaks("claimable", "claims of dead holders are never to be had again")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryClaims, "_ends_at", lambda _original, _self, _claim: math.inf)


@_breaks("claimable", "claims of dead sessions last as long as their lease")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryClaims, "_ends_at", lambda _original, _self, claim: claim.expires_at)


@_breaks("exclusive", "live claims are taken over early")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryClaims, "_ends_at", lambda original, self, claim: original(self, claim) - 0.7)


@_breaks("finishes", "finishing does not check the owner")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, outcome: ClaimOutcome) -> ClaimFinished:
        claim = self._claims.get(outcome.key)
        if claim is not None:
            outcome = outcome._replace(owner=claim.owner)
        finished: ClaimFinished = await original(self, outcome)
        return finished

    around(patch, MemoryClaims, "finish", finish)


@_breaks("finishes", "what was done cannot be said once the lease has ended")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, outcome: ClaimOutcome) -> ClaimFinished:
        claim = self._claims.get(outcome.key)
        late = claim is not None and claim.state is ClaimState.IN_PROGRESS and self._ends_at(claim) <= self._now()
        return ClaimFinished(False, "it had expired") if late else await original(self, outcome)

    around(patch, MemoryClaims, "finish", finish)


@_breaks("finishes", "what was done is finished as failed by a later word")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, outcome: ClaimOutcome) -> ClaimFinished:
        claim = self._claims.get(outcome.key)
        if claim is not None and claim.owner == outcome.owner:
            claim.state = ClaimState.IN_PROGRESS
        finished: ClaimFinished = await original(self, outcome)
        return finished

    around(patch, MemoryClaims, "finish", finish)


@_breaks("retry", "what failed may be tried again at once")
def _(patch: pytest.MonkeyPatch) -> None:
    async def claim(original: Any, self: Any, request: ClaimRequest) -> ClaimAnswer:
        found = self._claims.get(request.key)
        if found is not None and found.state is ClaimState.FAILED:
            found.retry_at = 0.0
        answer: ClaimAnswer = await original(self, request)
        return answer

    around(patch, MemoryClaims, "claim", claim)


@_breaks("claimable", "what failed stays failed")
def _(patch: pytest.MonkeyPatch) -> None:
    async def claim(original: Any, self: Any, request: ClaimRequest) -> ClaimAnswer:
        found = self._claims.get(request.key)
        if found is not None and found.state is ClaimState.FAILED:
            found.retry_at += 1000.0
        answer: ClaimAnswer = await original(self, request)
        return answer

    around(patch, MemoryClaims, "claim", claim)


@_breaks("once", "what is done is not remembered")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, outcome: ClaimOutcome) -> ClaimFinished:
        finished: ClaimFinished = await original(self, outcome)
        if finished.done and outcome.state is ClaimState.DONE:
            self._claims.pop(outcome.key, None)
        return finished

    around(patch, MemoryClaims, "finish", finish)


@_breaks("once", "what is done is kept from when it was claimed, not from when it was done")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, outcome: ClaimOutcome) -> ClaimFinished:
        finished: ClaimFinished = await original(self, outcome)
        claim = self._claims.get(outcome.key)
        if finished.done and claim is not None:
            claim.kept_until = claim.claimed_at + outcome.keep
        return finished

    around(patch, MemoryClaims, "finish", finish)


@_breaks("exclusive", "renewing revives a claim that has ended")
def _(patch: pytest.MonkeyPatch) -> None:
    async def renew(original: Any, self: Any, leases: Sequence[Held]) -> Any:
        for key, owner, ttl in leases:
            claim = self._claims.get(key)
            if claim is not None and claim.owner == owner:
                claim.expires_at = self._now() + ttl
        return await original(self, leases)

    around(patch, MemoryClaims, "renew", renew)


@_breaks("exclusive", "asking again is another attempt")
def _(patch: pytest.MonkeyPatch) -> None:
    async def claim(original: Any, self: Any, request: ClaimRequest) -> ClaimAnswer:
        found = self._claims.get(request.key)
        again = found is not None and found.owner == request.owner and found.state is ClaimState.IN_PROGRESS
        answer: ClaimAnswer = await original(self, request)
        if again and found is not None and isinstance(answer, Claimed):
            found.attempt = answer.attempt + 1
            return answer._replace(attempt=found.attempt)
        return answer

    around(patch, MemoryClaims, "claim", claim)


@_breaks("exclusive", "who takes a claim over gets the fence of the one before")
def _(patch: pytest.MonkeyPatch) -> None:
    async def claim(original: Any, self: Any, request: ClaimRequest) -> ClaimAnswer:
        found = self._claims.get(request.key)
        fence = None if found is None else found.fence
        answer: ClaimAnswer = await original(self, request)
        if found is not None and isinstance(answer, Claimed):
            found.fence = fence
            return answer._replace(fence=found.fence)
        return answer

    around(patch, MemoryClaims, "claim", claim)


@_breaks("kept", "a claim in progress cannot be forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    async def forget(original: Any, self: Any, key: str, why: str, attribution: Attribution) -> ClaimView | None:
        claim = self._claims.get(key)
        view: ClaimView | None = await original(self, key, why, attribution)
        if claim is not None and claim.state is ClaimState.IN_PROGRESS:
            self._claims[key] = claim
        return view

    around(patch, MemoryClaims, "forget", forget)


@_breaks("moves", "a cursor is checked and moved in two steps")
def _(patch: pytest.MonkeyPatch) -> None:
    async def move(original: Any, self: Any, move: Move) -> Any:
        stands = self._moves.get(move.name)
        fits = move.expected == (stands[0][1].version if stands else 0)
        await asyncio.sleep(0.002)
        stands = self._moves.get(move.name)
        return await original(self, move._replace(expected=stands[0][1].version) if fits and stands else move)

    around(patch, MemoryCursors, "move", move)


@_breaks("moves", "a move that is repeated meets itself")
def _(patch: pytest.MonkeyPatch) -> None:
    async def move(original: Any, self: Any, move: Move) -> Any:
        self.tries = getattr(self, "tries", 0) + 1
        return await original(self, move._replace(id=f"{move.id}/{self.tries}"))

    around(patch, MemoryCursors, "move", move)


# -- the engine ----------------------------------------------------------------------------------------------------


@_breaks("exclusive", "the time of a claim is counted from the answer, not from the request")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, LeaseRenewer, "admit", lambda original, self, lease, _sent: original(self, lease, self._monotonic()))


@_breaks("exclusive", "a lost claim does not stop its body")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, ClaimLease, "_cancel", lambda _original, _self: None)


@_breaks("exclusive", "a lost session does not stop the bodies of claims")
def _(patch: pytest.MonkeyPatch) -> None:
    def lose(original: Any, self: Any, lease: Any, reason: str, why: str) -> None:
        if reason != "session":
            original(self, lease, reason, why)

    around(patch, ClaimEngine, "_lose", lose)


@_breaks("leaves nothing", "what a claim whose answer did not come may hold is not let go")
def _(patch: pytest.MonkeyPatch) -> None:
    def withdraw(original: Any, self: Any, request: Any) -> None:
        if not isinstance(request, PendingClaim) or self.owners.get(request.owner) is not None:
            original(self, request)

    around(patch, StoreAccess, "withdraw", withdraw)


@_breaks("leaves nothing", "a claim whose body was cancelled is not given up")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, ClaimEngine, "abandon", lambda _original, _self, _lease: None)


@_breaks("leaves nothing", "a outcome that was cut short is not made up for")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish_later(_original: Any, _self: Any, _lease: Any, _settlement: Any) -> None:
        return

    around(patch, ClaimEngine, "_finish_later", finish_later)


@_breaks("finishes", "claimants are told that it is done whatever the store says")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, *about: Any) -> None:
        try:
            await original(self, *about)
        except Exception:
            return

    around(patch, ClaimEngine, "_finish", finish)
