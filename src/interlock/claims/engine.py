"""The claim engine: makes, keeps and finishes claims in the same way for every store."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interlock.arguments import checked_seconds
from interlock.claims.claim import Claim, ClaimLease, PendingClaim, lost_claim
from interlock.claims.lease_backend import ClaimLeaseBackend
from interlock.errors import InvalidArgumentError, MisuseError, StoreUnavailableError
from interlock.leases.engine import LeaseEngine
from interlock.ports.claims import Claimed, ClaimFinished, ClaimOutcome, ClaimRequest, ClaimState, Known
from interlock.telemetry.claims import ClaimMetrics
from interlock.telemetry.log import emit
from interlock.values import encoded

if TYPE_CHECKING:
    from interlock.arguments import Seconds
    from interlock.ports.claims import ClaimAnswer
    from interlock.store_client import StoreClient

__all__ = ["ClaimEngine"]

_log = logging.getLogger("interlock.claims")
_MAX_RESULT_BYTES = 1024 * 1024
_MAX_ERROR = 2000
_MAX_LATE = 3  # claims that arrive too late to be used, before it counts as an outage


class ClaimEngine(LeaseEngine[PendingClaim, ClaimLease, ClaimFinished]):
    """The claims of one process in one store."""

    owner_tag = "c"
    plural = "Claims"

    def __init__(self, store_client: StoreClient) -> None:
        self._backend = ClaimLeaseBackend(store_client.store.claims)
        super().__init__(store_client, self._backend)
        self.metrics = ClaimMetrics(self.store.name, self._settings.metrics_prefix)
        self._claims = self.store.claims

    async def claim(self, key: str, ttl: float, keep: float, retry_in: float) -> Claim:
        """Claim the key, or return its state."""
        for _ in range(_MAX_LATE):
            if self._access.closed:
                raise MisuseError("These claims are closed.", remedy="Open them again.")
            session = await self._live_session()
            pending = PendingClaim(key, self._new_owner(session), session.id, ttl, keep, retry_in)
            request = ClaimRequest(key, pending.owner, session.id, ttl, keep)
            try:
                sent, answer = await self._ask(request)
            except BaseException:
                self._backend.unanswered(pending)  # it may be granted without our knowing
                self._access.withdraw(pending)
                raise
            if isinstance(answer, Claimed):
                lease = ClaimLease(self, pending, session, answer)
                self._renewer.admit(lease, sent)
                lease._granted_at = now = self.monotonic()
                if now < lease._deadline and now < session.deadline and not session.lost and not self._access.closed:
                    self._owners[pending.owner] = lease
                    self.metrics.count(ClaimState.NEW)
                    return Claim(key, lease, None)
                self._access.withdraw(pending)
                continue
            del self._owners[pending.owner]
            if isinstance(answer, Known):
                self.metrics.count(answer.view.state)
                return Claim(key, None, answer.view)
            session.lost = True
        raise StoreUnavailableError(f"The store answers too slowly for a ttl of {ttl:g} s.")

    async def _ask(self, request: ClaimRequest) -> tuple[float, ClaimAnswer]:
        async def attempt() -> tuple[float, ClaimAnswer]:
            sent = self.monotonic()
            return sent, await self._claims.claim(request)

        return await self._access.repeat(attempt)

    # -- finishing -------------------------------------------------------------------------------------------------

    async def done(self, lease: ClaimLease, result: object) -> None:
        """Mark a claim as done."""
        text = None if result is None else encoded("The result of a claim", result, max_bytes=_MAX_RESULT_BYTES)
        await self._finish(lease, ClaimState.DONE, text, "", 0.0)

    async def end(self, lease: ClaimLease) -> None:
        """Finish as done after the block has ended; as failed if its result cannot be stored."""
        try:
            await self.done(lease, lease.result)
        except InvalidArgumentError as error:
            await self.fail(lease, error.message, lease._request.retry_in)
            raise

    async def fail(self, lease: ClaimLease, error: str, retry_in: Seconds) -> None:
        """Mark a claim as failed."""
        seconds = checked_seconds("retry_in", retry_in)
        await self._finish(lease, ClaimState.FAILED, None, error.replace("\0", "")[:_MAX_ERROR], seconds)

    def abandon(self, lease: ClaimLease) -> None:
        """Let others claim it at once, in the background."""
        self._release(lease)
        self._access.withdraw(lease._request)

    async def _finish(self, lease: ClaimLease, state: ClaimState, result: str | None, error: str, wait: float) -> None:
        outcome = ClaimOutcome(lease.key, lease.owner, state, result, error, wait, lease._request.keep)
        lease._finishing = True
        self._backend.unconfirmed[lease.owner] = outcome
        try:
            finished = await self._access.repeat(lambda: self._claims.finish(outcome))
        except (StoreUnavailableError, asyncio.CancelledError):
            # The work was done: reporting that is retried for as long as the claim is held.
            self._access.spawn(self._finish_later(lease, outcome))
            raise
        except BaseException:
            del self._backend.unconfirmed[lease.owner]
            self.abandon(lease)
            raise
        self._finished(lease, state)
        if not finished.done:
            lease._loss = lease._loss or finished.why
            self.metrics.refused += 1
            raise lost_claim(lease.key, finished.why)

    async def _finish_later(self, lease: ClaimLease, outcome: ClaimOutcome) -> None:
        while not lease._released:
            try:
                await self._access.repeat(lambda: self._claims.finish(outcome))
            except StoreUnavailableError as error:
                emit(_log, logging.WARNING, "claim_finish_failed", key=lease.key, error=str(error))
                if lease.lost or self._access.closed:
                    break
            else:
                break
        self._finished(lease, outcome.state)

    def _finished(self, lease: ClaimLease, state: ClaimState) -> None:
        if not lease._released:
            self._release(lease)
            self.metrics.finished[state] += 1
        self._owners.pop(lease.owner, None)
        self._backend.unconfirmed.pop(lease.owner, None)

    def _has_unreported(self) -> bool:
        return bool(self._backend.unconfirmed)

    def _release(self, lease: ClaimLease) -> None:
        if not lease._released and not lease._loss:
            self._retire(lease)
        lease._released = True
        lease._untie()

    # -- hooks of the lease engine --------------------------------------------------------------------------------

    def _retire(self, lease: ClaimLease) -> None:
        self.metrics.holds.observe(self.monotonic() - lease._granted_at)

    def _lost(self, lease: ClaimLease, cause: str, why: str) -> None:
        self.metrics.losses[cause] = self.metrics.losses.get(cause, 0) + 1
        emit(_log, logging.ERROR, "claim_lost", key=lease.key, fence=lease.fence, cause=cause, why=why)

    def _renewal_failed(self, lease: ClaimLease, error: Exception) -> None:
        emit(_log, logging.WARNING, "claim_renewal_failed", key=lease.key, error=str(error))
