"""One claim as its claimant sees it: new and to be settled, or somebody else's and only to be looked at."""

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

    class Settler(Protocol):
        """What a claim needs of the engine that granted it."""

        def monotonic(self) -> float: ...
        async def end(self, lease: ClaimLease) -> None: ...
        async def done(self, lease: ClaimLease, result: object) -> None: ...
        async def fail(self, lease: ClaimLease, error: str, retry_in: Seconds) -> None: ...
        def abandon(self, lease: ClaimLease) -> None: ...


__all__ = ["Claim", "ClaimLease", "ClaimRequest"]


class ClaimRequest(NamedTuple):
    """What a caller asked for."""

    key: str
    owner: str
    session: str
    ttl: float
    keep: float
    retry_in: float


class ClaimLease(OwnedLease):
    """The ownership of a claim that is new."""

    what = "claim"
    want: ClaimRequest

    def __init__(self, settler: Settler, want: ClaimRequest, session: Session, claimed: Claimed) -> None:
        super().__init__(want, session, settler.monotonic)
        self._settler = settler
        self.fence = claimed.fence
        self.attempt = claimed.attempt
        self.store_expiry = claimed.expires_at
        self.result: Any = None
        self.settling = False
        """How it ended is being said, and goes on being said in the background if need be."""

    async def done(self, result: object) -> None:
        """Mark it as done."""
        await self._settler.done(self, result)

    async def fail(self, error: str, retry_in: Seconds) -> None:
        """Mark it as failed."""
        await self._settler.fail(self, error, retry_in)

    def settle(self, error: BaseException | None) -> Awaitable[None]:
        """The block has ended: it is done, or it failed."""
        if self.released or self.settling:
            return _nothing()
        if error is None:
            return self._settler.end(self)
        return self._settler.fail(self, _words(error), self.want.retry_in)

    def abandon(self) -> None:
        """The block was stopped: others may try at once."""
        if not self.released and not self.settling:
            self._settler.abandon(self)


class Claim:
    """What became of a request for a claim. Only one whose state is ``new`` is the claimant's to work on."""

    def __init__(self, key: str, lease: ClaimLease | None, row: port.ClaimView | None) -> None:
        self.key = key
        self._lease = lease
        self.view = None if row is None else claim_view(row)
        """The claim as it was if it was not new, with its holder."""

    def __repr__(self) -> str:
        return f"<Claim {self.key!r} {self.state}>"

    @property
    def state(self) -> ClaimState:
        """``new``, ``in progress``, ``done`` or ``failed`` (and not due yet), as it was when it was claimed."""
        return ClaimState.NEW if self.view is None else self.view.state

    @property
    def new(self) -> bool:
        """Whether it is ours to work on."""
        return self._lease is not None

    @property
    def attempt(self) -> int:
        """Which attempt this is, or the last one was: 1 for the first."""
        return self._lease.attempt if self._lease is not None else self.view.attempt if self.view is not None else 0

    @property
    def fence(self) -> int:
        """Larger than that of everybody who held the claim before; for writes elsewhere."""
        return self._new().fence

    @property
    def result(self) -> Any:
        """What was left by the one who did it. In the block of a new claim: set it, to leave it for others."""
        return self._lease.result if self._lease is not None else None if self.view is None else self.view.result

    @result.setter
    def result(self, result: Any) -> None:
        self._new().result = result

    @property
    def retry_at(self) -> datetime | None:
        """Failed: from when on it may be claimed again."""
        return None if self.view is None else self.view.retry_at

    @property
    def error(self) -> str:
        """Failed: what went wrong."""
        return "" if self.view is None else self.view.error

    @property
    def lost(self) -> bool:
        """Whether the claim may have ended under its holder. Known without asking the store, and never too late."""
        return self._new().lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless the claim is held for certain."""
        self._new().ensure()

    async def done(self, result: object = None) -> None:
        """The work is done and is not to be repeated. ``result`` is kept with the claim for whoever asks.

        Raises :class:`LeaseLostError` if somebody else has claimed it meanwhile.
        """
        await self._open().done(result)

    async def fail(self, error: str = "", *, retry_in: Seconds = 0.0) -> None:
        """The work failed, and may be claimed again in so many seconds."""
        await self._open().fail(error, retry_in)

    def _open(self) -> ClaimLease:
        lease = self._new()
        if lease.released:
            raise MisuseError(f"The claim on {self.key!r} was settled already.", remedy="Settle it once.")
        return lease

    def _new(self) -> ClaimLease:
        if self._lease is None:
            raise MisuseError(
                f"The claim on {self.key!r} is {self.state}, and not yours to work on or settle.",
                remedy="Do so only `if claim.new:`.",
            )
        return self._lease

    @property
    def lease(self) -> ClaimLease | None:
        """What is owned, for the block."""
        return self._lease


def _words(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _nothing() -> None:
    return None


def lost_claim(key: str, why: str) -> LeaseLostError:
    """What a settler is told who no longer holds the claim."""
    return LeaseLostError(
        f"The claim on {key!r} was lost: {why}.", remedy="What was done since then may be done again by others."
    )
