"""Claims in a dictionary. A claim past its retention counts as absent until it is deleted."""

from __future__ import annotations

import heapq
import math
from itertools import islice
from typing import TYPE_CHECKING

from interlock.backends.claim_texts import kept_error, why_not
from interlock.ports import claims as port
from interlock.ports.journal import Action, claim_data, new_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.backends.memory.messages import MemoryMessages
    from interlock.backends.memory.sessions import MemorySessions
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution, NewEntry
    from interlock.ports.sessions import SessionCard

__all__ = ["MemoryClaims"]

_REMOVED_ALONG = 2  # with each new claim, so that memory is bounded even if sweep() is never called
_REMOVED_AT_ONCE = 1000
_FORGOTTEN_KEPT = 3600.0


class _Claim:
    """The claim on one key, through all its attempts."""

    __slots__ = (
        "attempt",
        "born",
        "card",
        "claimed_at",
        "due",
        "error",
        "expires_at",
        "fence",
        "finished_at",
        "keep",
        "kept_until",
        "key",
        "owner",
        "result",
        "retry_at",
        "session",
        "state",
    )

    def __init__(self, key: str, born: int) -> None:
        self.key = key
        self.born = born
        """Makes entries of the calendar unique."""
        self.due = math.inf
        """When the calendar checks whether it can be deleted."""
        self.attempt = 0

    def take(self, request: port.ClaimRequest, card: SessionCard, fence: int, now: float) -> None:
        """Start an attempt."""
        self.owner, self.session, self.card = request.owner, request.session, card
        self.fence = fence
        self.attempt += 1
        self.state = port.ClaimState.IN_PROGRESS
        self.claimed_at = now
        self.finished_at: float | None = None
        self.retry_at: float | None = None
        self.error = ""
        self.result: str | None = None
        self.extend(request.lease, request.keep, now)

    def extend(self, lease: float, keep: float, now: float) -> None:
        """Start its lease anew."""
        self.keep = keep
        self.expires_at = now + lease
        self.kept_until = self.expires_at + keep


class MemoryClaims:
    """Implements the claims port for everything in this process."""

    def __init__(
        self,
        clock: Clock,
        sessions: MemorySessions,
        messages: MemoryMessages,
        next_fence: Callable[[], int],
        record: Callable[[NewEntry], None],
    ) -> None:
        self._now = clock.now
        self._alive_until = sessions.alive_until
        self._cards = sessions.cards
        self._lost = messages.lost
        self._next_fence = next_fence
        self._record = record
        self._claims: dict[str, _Claim] = {}
        self._calendar: list[tuple[float, int, _Claim]] = []  # when to check whether a claim is still kept
        self._forgotten: dict[str, tuple[float, str]] = {}  # owner → when and why its claim was forgotten, oldest first

    async def claim(self, request: port.ClaimRequest) -> port.ClaimAnswer:
        """Claim a key if it is available, else return its current claim."""
        now = self._now()
        if self._alive_until.get(request.session, 0.0) <= now:
            return port.SessionEnded()
        claim = self._find(request.key, now)
        if claim is not None:
            live = self._ends_at(claim) > now
            if live and claim.owner == request.owner and claim.state is port.ClaimState.IN_PROGRESS:
                claim.extend(request.lease, request.keep, now)
                self._note(claim)
                return port.Claimed(claim.fence, claim.expires_at, claim.attempt)
            due = claim.state is port.ClaimState.FAILED and (claim.retry_at or 0.0) <= now
            if not due and (live or claim.state is not port.ClaimState.IN_PROGRESS):
                return port.Known(self._view(claim, now))
        fence = self._next_fence()
        if claim is None:
            claim = self._claims[request.key] = _Claim(request.key, fence)
        claim.take(request, self._cards[request.session], fence, now)
        self._note(claim)
        self._remove(now, _REMOVED_ALONG)
        return port.Claimed(fence, claim.expires_at, claim.attempt)

    async def renew(self, leases: Sequence[port.Held]) -> Sequence[port.Renewed]:
        """Extend the leases of live claims."""
        now = self._now()
        renewed = []
        for key, owner, ttl in leases:
            claim = self._find(key, now)
            mine = claim is not None and claim.owner == owner and claim.state is port.ClaimState.IN_PROGRESS
            if claim is None or not mine or self._ends_at(claim) <= now:
                renewed.append(port.Renewed(owner, None, self._why_not(claim, owner)))
            else:
                claim.extend(ttl, claim.keep, now)
                self._note(claim)
                renewed.append(port.Renewed(owner, claim.expires_at, ""))
        return renewed

    async def finish(self, outcome: port.ClaimOutcome) -> port.ClaimFinished:
        """Finish a claim as done or failed."""
        now = self._now()
        claim = self._find(outcome.key, now)
        mine = claim is not None and claim.owner == outcome.owner
        if claim is None or not mine or claim.state not in (port.ClaimState.IN_PROGRESS, outcome.state):
            return port.ClaimFinished(False, self._why_not(claim, outcome.owner))
        if claim.state is port.ClaimState.IN_PROGRESS:
            failed = outcome.state is port.ClaimState.FAILED
            claim.state = outcome.state
            claim.finished_at = now
            claim.retry_at = now + outcome.retry_in if failed else None
            claim.error = kept_error(outcome.error) if failed else ""
            claim.result = None if failed else outcome.result
            claim.kept_until = (claim.retry_at or now) + outcome.keep
            self._note(claim)
        return port.ClaimFinished(True, "")

    async def forget(self, key: str, why: str, attribution: Attribution) -> port.ClaimView | None:
        """Delete a claim and notify its owner."""
        now = self._now()
        claim = self._find(key, now)
        if claim is None:
            return None
        view = self._view(claim, now)
        self._record(new_entry(attribution, Action.CLAIM_FORGET, key, claim_data(view), from_version=view.fence))
        self._drop(claim)
        if claim.state is port.ClaimState.IN_PROGRESS:
            self._forgotten[claim.owner] = (now, why)
            self._lost(claim.session, claim.owner, why)
        return view

    async def list(
        self, key: str | None = None, wanted: port.ClaimFilter = port.EVERY_CLAIM, *, limit: int = 1000, after: str = ""
    ) -> Sequence[port.ClaimView]:
        """List claims that are still kept."""
        now = self._now()
        prefix, state = wanted
        keys = (
            sorted(name for name in self._claims if name.startswith(prefix) and name > after) if key is None else [key]
        )
        found = (claim for name in keys if (claim := self._claims.get(name)) and name.startswith(prefix))
        shown = (claim for claim in found if claim.kept_until > now and state in (None, claim.state))
        return [self._view(claim, now) for claim in islice(shown, limit)]

    def sweep(self) -> int:
        """Delete a bounded number of claims past their retention; return how many."""
        now = self._now()
        while self._forgotten:
            owner, (at, _) = next(iter(self._forgotten.items()))
            if at > now - _FORGOTTEN_KEPT:
                break
            del self._forgotten[owner]
        return self._remove(now, _REMOVED_AT_ONCE)

    # -- one claim -------------------------------------------------------------------------------------------------

    def _find(self, key: str, now: float) -> _Claim | None:
        """Return the claim on a key, if it is still kept."""
        claim = self._claims.get(key)
        if claim is not None and claim.kept_until <= now:
            self._drop(claim)
            return None
        return claim

    def _ends_at(self, claim: _Claim) -> float:
        """Return when its lease or its session expires."""
        return min(claim.expires_at, self._alive_until.get(claim.session, claim.claimed_at))

    def _why_not(self, claim: _Claim | None, owner: str) -> str:
        _, forgotten = self._forgotten.get(owner, (0.0, None))
        now_with, state = (claim.owner, claim.state) if claim is not None else (None, None)
        return why_not(owner, now_with, state, forgotten)

    def _view(self, claim: _Claim, now: float) -> port.ClaimView:
        return port.ClaimView(
            key=claim.key,
            state=claim.state,
            attempt=claim.attempt,
            fence=claim.fence,
            owner=claim.owner,
            session=claim.session,
            host=claim.card.host,
            pid=claim.card.pid,
            program=claim.card.program,
            claimed_at=claim.claimed_at,
            expires_at=self._ends_at(claim) if claim.state is port.ClaimState.IN_PROGRESS else None,
            finished_at=claim.finished_at,
            retry_at=claim.retry_at,
            error=claim.error,
            result=claim.result,
            kept_until=claim.kept_until,
            seen_at=now,
        )

    # -- the calendar of removals ----------------------------------------------------------------------------------

    def _note(self, claim: _Claim) -> None:
        """Schedule the check of a claim's retention. Renewals only postpone it and do not change the calendar."""
        if claim.kept_until < claim.due:
            claim.due = claim.kept_until
            heapq.heappush(self._calendar, (claim.due, claim.born, claim))

    def _remove(self, now: float, limit: int) -> int:
        removed = 0
        while self._calendar and self._calendar[0][0] <= now and removed < limit:
            due, _, claim = heapq.heappop(self._calendar)
            if due != claim.due or self._claims.get(claim.key) is not claim:
                continue
            if claim.kept_until <= now:
                self._drop(claim)
                removed += 1
            else:
                claim.due = math.inf
                self._note(claim)
        return removed

    def _drop(self, claim: _Claim) -> None:
        del self._claims[claim.key]
