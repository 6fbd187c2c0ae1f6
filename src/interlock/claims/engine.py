"""Takes, keeps and settles claims: the part of claims that is the same for every store."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interlock.arguments import checked_seconds
from interlock.claims.claim import Claim, ClaimLease, ClaimRequest, lost_claim
from interlock.claims.lease_backend import ClaimCustody
from interlock.errors import InvalidArgumentError, MisuseError, StoreUnavailableError
from interlock.leases.engine import LeaseEngine
from interlock.ports.claims import Claimed, ClaimState, ClaimWant, Known, Settled, Settlement
from interlock.telemetry.claims import ClaimMetrics
from interlock.telemetry.log import emit
from interlock.values import encoded

if TYPE_CHECKING:
    from interlock.arguments import Seconds
    from interlock.ports.claims import ClaimAnswer
    from interlock.store_client import StoreClient

__all__ = ["ClaimEngine"]

_log = logging.getLogger("interlock.claims")
_MOST_RESULT = 1024 * 1024
_MOST_ERROR = 2000
_MOST_LATE = 3  # claims heard of too late to use, before it is called an outage


class ClaimEngine(LeaseEngine[ClaimRequest, ClaimLease, Settled]):
    """The claims of one process in one store."""

    mark = "c"
    these = "Claims"

    def __init__(self, store_client: StoreClient) -> None:
        self._custody = ClaimCustody(store_client.store.claims)
        super().__init__(store_client, self._custody)
        self.metrics = ClaimMetrics(self.store.name, self._settings.metrics_prefix)
        self._claims = self.store.claims

    async def claim(self, key: str, ttl: float, keep: float, retry_in: float) -> Claim:
        """Claim the key, or hear how it stands."""
        for _ in range(_MOST_LATE):
            if self._reach.closed:
                raise MisuseError("These claims are closed.", remedy="Open them again.")
            session = await self._live_session()
            request = ClaimRequest(key, self._new_owner(session), session.id, ttl, keep, retry_in)
            want = ClaimWant(key, request.owner, session.id, ttl, keep)
            try:
                sent, answer = await self._ask(want)
            except BaseException:
                self._custody.unheard(request)  # it may be ours without our knowing
                self._reach.let_go(request)
                raise
            if isinstance(answer, Claimed):
                lease = ClaimLease(self, request, session, answer)
                self._warden.admit(lease, sent)
                lease.granted = now = self.monotonic()
                if now < lease.deadline and now < session.deadline and not session.lost and not self._reach.closed:
                    self._owners[request.owner] = lease
                    self.metrics.count(ClaimState.NEW)
                    return Claim(key, lease, None)
                self._reach.let_go(request)
                continue
            del self._owners[request.owner]
            if isinstance(answer, Known):
                self.metrics.count(answer.view.state)
                return Claim(key, None, answer.view)
            session.lost = True
        raise StoreUnavailableError(f"Its answers come too late for a lease of {ttl:g} s.")

    async def _ask(self, want: ClaimWant) -> tuple[float, ClaimAnswer]:
        async def attempt() -> tuple[float, ClaimAnswer]:
            sent = self.monotonic()
            return sent, await self._claims.claim(want)

        return await self._reach.repeat(attempt)

    # -- settling --------------------------------------------------------------------------------------------------

    async def done(self, lease: ClaimLease, result: object) -> None:
        """Mark a claim as done."""
        text = None if result is None else encoded("The result of a claim", result, most_bytes=_MOST_RESULT)
        await self._settle(lease, ClaimState.DONE, text, "", 0.0)

    async def end(self, lease: ClaimLease) -> None:
        """The block has ended well; but if what it left cannot be kept, it has not."""
        try:
            await self.done(lease, lease.result)
        except InvalidArgumentError as error:
            await self.fail(lease, error.message, lease.want.retry_in)
            raise

    async def fail(self, lease: ClaimLease, error: str, retry_in: Seconds) -> None:
        """Mark a claim as failed."""
        seconds = checked_seconds("retry_in", retry_in)
        await self._settle(lease, ClaimState.FAILED, None, error.replace("\0", "")[:_MOST_ERROR], seconds)

    def abandon(self, lease: ClaimLease) -> None:
        """Let others try at once, in the background."""
        self._release(lease)
        self._reach.let_go(lease.want)

    async def _settle(self, lease: ClaimLease, state: ClaimState, result: str | None, error: str, wait: float) -> None:
        settlement = Settlement(lease.key, lease.owner, state, result, error, wait, lease.want.keep)
        lease.settling = True
        self._custody.unsaid[lease.owner] = settlement
        try:
            settled = await self._reach.repeat(lambda: self._claims.settle(settlement))
        except (StoreUnavailableError, asyncio.CancelledError):
            # What was done was done: to say so is tried for as long as the claim is ours.
            self._reach.spawn(self._settle_later(lease, settlement))
            raise
        except BaseException:
            del self._custody.unsaid[lease.owner]
            self.abandon(lease)
            raise
        self._settled(lease, state)
        if not settled.done:
            lease.lost_why = lease.lost_why or settled.why
            self.metrics.refused += 1
            raise lost_claim(lease.key, settled.why)

    async def _settle_later(self, lease: ClaimLease, settlement: Settlement) -> None:
        while not lease.released:
            try:
                await self._reach.repeat(lambda: self._claims.settle(settlement))
            except StoreUnavailableError as error:
                emit(_log, logging.WARNING, "claim_settle_failed", key=lease.key, error=str(error))
                if lease.lost or self._reach.closed:
                    break
            else:
                break
        self._settled(lease, settlement.state)

    def _settled(self, lease: ClaimLease, state: ClaimState) -> None:
        if not lease.released:
            self._release(lease)
            self.metrics.settled[state] += 1
        self._owners.pop(lease.owner, None)
        self._custody.unsaid.pop(lease.owner, None)

    def _unsaid(self) -> bool:
        return bool(self._custody.unsaid)

    def _release(self, lease: ClaimLease) -> None:
        if not lease.released and not lease.lost_why:
            self._retire(lease)
        lease.released = True
        lease.untie()

    # -- what engines do each in their own way ---------------------------------------------------------------------

    def _retire(self, owned: ClaimLease) -> None:
        self.metrics.holds.observe(self.monotonic() - owned.granted)

    def _lost(self, owned: ClaimLease, reason: str, why: str) -> None:
        self.metrics.losses[reason] = self.metrics.losses.get(reason, 0) + 1
        emit(_log, logging.ERROR, "claim_lost", key=owned.key, fence=owned.fence, reason=reason, why=why)

    def _renewal_failed(self, owned: ClaimLease, error: Exception) -> None:
        emit(_log, logging.WARNING, "claim_renewal_failed", key=owned.key, error=str(error))
