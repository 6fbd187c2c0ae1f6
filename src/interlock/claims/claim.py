"""One claim as its claimant sees it: new, or already claimed by another process."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from interlock.claims.views import claim_view
from interlock.errors import LeaseLostError, MisuseError
from interlock.leases.owned_lease import OwnedLease
from interlock.ports.claims import ClaimState

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from interlock.arguments import Seconds
    from interlock.ports import claims as port
    from interlock.ports.claims import Claimed
    from interlock.sessions import Session

    class FinishesClaims(Protocol):
        """The part of the engine that a claim needs."""

        def monotonic(self) -> float: ...
        async def end(self, lease: ClaimLease) -> None: ...
        async def done(self, lease: ClaimLease, result: object) -> None: ...
        async def fail(self, lease: ClaimLease, error: str, retry_in: Seconds) -> None: ...
        def abandon(self, lease: ClaimLease) -> None: ...


__all__ = ["Claim", "ClaimLease", "PendingClaim"]


class PendingClaim(NamedTuple):
    """A request for a claim, with the caller's options."""

    key: str
    owner: str
    session: str
    ttl: float
    keep: float
    retry_in: float


class ClaimLease(OwnedLease):
    """The lease on a new claim."""

    _noun = "claim"
    _request: PendingClaim

    def __init__(self, engine: FinishesClaims, request: PendingClaim, session: Session, claimed: Claimed) -> None:
        super().__init__(request, session, engine.monotonic)
        self._engine = engine
        self.fence = claimed.fence
        self.attempt = claimed.attempt
        self._store_expiry = claimed.expires_at
        self.result: Any = None
        self._finishing = False
        """Whether its outcome is being reported, if necessary in the background."""

    async def done(self, result: object) -> None:
        """Mark it as done."""
        await self._engine.done(self, result)

    async def fail(self, error: str, retry_in: Seconds) -> None:
        """Mark it as failed."""
        await self._engine.fail(self, error, retry_in)

    def _finish(self, error: BaseException | None) -> Awaitable[None]:
        """Finish the claim as done or failed, because the block has ended."""
        if self._released or self._finishing:
            return _nothing()
        if error is None:
            return self._engine.end(self)
        return self._engine.fail(self, _describe(error), self._request.retry_in)

    def _abandon(self) -> None:
        """Let others claim it at once, because the block was cancelled."""
        if not self._released and not self._finishing:
            self._engine.abandon(self)


class Claim:
    """The answer to a request for a claim. Only a claim in state ``new`` is the caller's to work on."""

    def __init__(self, key: str, lease: ClaimLease | None, row: port.ClaimView | None) -> None:
        self.key = key
        self._lease = lease
        self.view = None if row is None else claim_view(row)
        """The claim as it was if it was not new, with its holder."""

    def __repr__(self) -> str:
        return f"<Claim {self.key!r} {self.state}>"

    @property
    def state(self) -> ClaimState:
        """``new``, ``in progress``, ``done`` or ``failed`` (and not due yet), at the time of the claim."""
        return ClaimState.NEW if self.view is None else self.view.state

    @property
    def new(self) -> bool:
        """Whether it is the caller's to work on."""
        return self._lease is not None

    @property
    def attempt(self) -> int:
        """The number of this attempt, or of the last one; 1 for the first."""
        return self._lease.attempt if self._lease is not None else self.view.attempt if self.view is not None else 0

    @property
    def fence(self) -> int:
        """Larger than the fence of every earlier holder; for writes to other systems."""
        return self._new().fence

    @property
    def result(self) -> Any:
        """The result of a claim that is done. Set it in the block of a new claim to keep it for others."""
        return self._lease.result if self._lease is not None else None if self.view is None else self.view.result

    @result.setter
    def result(self, result: Any) -> None:
        self._new().result = result

    @property
    def retry_at(self) -> datetime | None:
        """Failed: when it can be claimed again."""
        return None if self.view is None else self.view.retry_at

    @property
    def error(self) -> str:
        """Failed: the error."""
        return "" if self.view is None else self.view.error

    @property
    def lost(self) -> bool:
        """Whether the claim may have ended while it was held. Known without asking the store, and never too late."""
        return self._new().lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless the claim is certainly held."""
        self._new().ensure()

    async def done(self, result: object = None) -> None:
        """Mark the work as done, so that it is not repeated. ``result`` is kept with the claim.

        Raises :class:`LeaseLostError` if another process has claimed it meanwhile.
        """
        await self._open().done(result)

    async def fail(self, error: str = "", *, retry_in: Seconds = 0.0) -> None:
        """Mark the work as failed. It can be claimed again after ``retry_in``."""
        await self._open().fail(error, retry_in)

    def _open(self) -> ClaimLease:
        lease = self._new()
        if lease._released:
            raise MisuseError(f"The claim on {self.key!r} was already finished.", remedy="Finish it once.")
        return lease

    def _new(self) -> ClaimLease:
        if self._lease is None:
            raise MisuseError(
                f"The claim on {self.key!r} is {self.state}, so it is not yours to work on or finish.",
                remedy="Check `if claim.new:` first.",
            )
        return self._lease

    @property
    def lease(self) -> ClaimLease | None:
        """The lease of a new claim."""
        return self._lease


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _nothing() -> None:
    return None


def lost_claim(key: str, why: str) -> LeaseLostError:
    """Return the error for a claimant that no longer holds the claim."""
    return LeaseLostError(
        f"The claim on {key!r} was lost: {why}.", remedy="Another process may repeat what was done since then."
    )
