"""Claims for synchronous code: ``app.sync.claims``, or alone ``Claims.from_url(url).sync``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from datetime import datetime
    from types import TracebackType

    from interlock.arguments import Seconds
    from interlock.claims.claim import Claim
    from interlock.claims.claims import Claims
    from interlock.claims.views import ClaimView
    from interlock.explanation import Explanation
    from interlock.operations import BulkResult
    from interlock.portal import Portal
    from interlock.ports.claims import ClaimState

__all__ = ["SyncClaim", "SyncClaims"]

_KEEP = 24 * 3600.0
_TTL = 60.0


class SyncClaim:
    """The answer to a request for a claim, for synchronous code; see :class:`Claim`.

    ``with app.sync.claims.claim(key) as claim:`` marks a new claim as done when the block ends and as failed when it
    raises. The block always runs, so check ``if claim.new:``. Without a block, call :meth:`done` or :meth:`fail`.
    """

    def __init__(self, portal: Portal, claim: Claim) -> None:
        self._portal = portal
        self._process = portal.process
        self._claim = claim

    def __repr__(self) -> str:
        return f"<Sync{repr(self._claim)[1:]}"

    @property
    def key(self) -> str:
        """The key that was claimed."""
        return self._claim.key

    @property
    def view(self) -> ClaimView | None:
        """The claim as it was if it was not new, with its holder."""
        return self._claim.view

    @property
    def state(self) -> ClaimState:
        """``new``, ``in progress``, ``done`` or ``failed`` (and not due yet), at the time of the claim."""
        return self._claim.state

    @property
    def new(self) -> bool:
        """Whether it is the caller's to work on."""
        return self._claim.new

    @property
    def attempt(self) -> int:
        """The number of this attempt, or of the last one; 1 for the first."""
        return self._claim.attempt

    @property
    def fence(self) -> int:
        """Larger than the fence of every earlier holder; for writes to other systems."""
        return self._claim.fence

    @property
    def result(self) -> Any:
        """The result of a claim that is done. Set it in the block of a new claim to keep it for others."""
        return self._claim.result

    @result.setter
    def result(self, result: Any) -> None:
        self._claim.result = result

    @property
    def retry_at(self) -> datetime | None:
        """Failed: when it can be claimed again."""
        return self._claim.retry_at

    @property
    def error(self) -> str:
        """Failed: the error."""
        return self._claim.error

    @property
    def lost(self) -> bool:
        """Whether the claim may have ended while it was held. Known without asking the store, and never too late."""
        return self._claim.lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless the claim is certainly held."""
        self._claim.ensure()

    def done(self, result: object = None) -> None:
        """Mark the work as done, so that it is not repeated; see :meth:`Claim.done`."""
        self._portal.run(lambda: self._claim.done(result), f"claim.done() of {self.key!r}")

    def fail(self, error: str = "", *, retry_in: Seconds = 0.0) -> None:
        """Mark the work as failed. It can be claimed again after ``retry_in``."""
        self._portal.run(lambda: self._claim.fail(error, retry_in=retry_in), f"claim.fail() of {self.key!r}")

    def __enter__(self) -> Self:
        if self._claim.lease is not None:
            self._portal.run(self._begin, "with claim")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease = self._claim.lease
        if lease is None or self._process != self._portal.process:  # forked: the parent finishes it
            return

        async def leave() -> None:
            await lease._leave(kind, error)

        self._portal.run(leave, "The end of the block")

    async def _begin(self) -> None:
        if self._claim.lease is not None:
            self._claim.lease._enter_thread()


class SyncClaims:
    """Each key once, for synchronous code; see :class:`Claims`."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._portal = claims.portal

    def claim(self, key: str, *, keep: Seconds = _KEEP, ttl: Seconds = _TTL, retry_in: Seconds = 0.0) -> SyncClaim:
        """Claim the key now, in one atomic step: ``with app.sync.claims.claim(key) as claim: …``."""

        async def make() -> Claim:
            return await self._claims.claim(key, keep=keep, ttl=ttl, retry_in=retry_in)

        async def undo(claim: Claim) -> None:
            if claim.lease is not None:
                claim.lease._abandon()

        what, instead = f"claims.claim({key!r})", "async with app.claims.claim(…)"
        return SyncClaim(self._portal, self._portal.run(make, what, instead=instead, undo=undo))

    def list(self, *, prefix: str = "", state: ClaimState | None = None, limit: int = 1000) -> Sequence[ClaimView]:
        """List the claims that are kept, by key."""
        return self._portal.run(lambda: self._claims.list(prefix=prefix, state=state, limit=limit), "claims.list()")

    def get(self, key: str) -> ClaimView:
        """Return one claim. Raises :class:`NotFoundError` if the key is new."""
        return self._portal.run(lambda: self._claims.get(key), f"claims.get({key!r})")

    def explain(self, key: str) -> Explanation:
        """Explain the state of a claim and what happens next."""
        return self._portal.run(lambda: self._claims.explain(key), f"claims.explain({key!r})")

    def forget(self, key: str, *, reason: str, by: str) -> ClaimView | None:
        """Make a key new again; see :meth:`Claims.forget`."""
        return self._portal.run(lambda: self._claims.forget(key, reason=reason, by=by), f"claims.forget({key!r})")

    def forget_all(self, *, prefix: str = "", state: ClaimState | None = None, reason: str, by: str) -> BulkResult[str]:
        """Make the key of every claim that matches new again."""
        return self._portal.run(
            lambda: self._claims.forget_all(prefix=prefix, state=state, reason=reason, by=by), "claims.forget_all()"
        )

    def matching(self, *, prefix: str = "", state: ClaimState | None = None) -> builtins.list[str]:
        """The keys of all claims that match."""
        return self._portal.run(lambda: self._claims.matching(prefix=prefix, state=state), "claims.matching()")
