"""Claims: ``app.claims``, or without an App ``Claims.from_url(url)``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.arguments import checked_key, checked_limit, checked_prefix, checked_seconds, checked_ttl
from interlock.claims.engine import ClaimEngine
from interlock.claims.sync import SyncClaims
from interlock.claims.views import claim_view
from interlock.errors import MisuseError, NotFoundError
from interlock.ports.claims import ClaimFilter
from interlock.ports.journal import Action
from interlock.ports.store import Capability
from interlock.service import Service

if TYPE_CHECKING:
    import builtins
    from collections.abc import Generator, Sequence
    from types import TracebackType

    from interlock.arguments import Seconds
    from interlock.claims.claim import Claim
    from interlock.claims.views import ClaimView
    from interlock.explanation import Explanation
    from interlock.operations import BulkResult
    from interlock.ports.claims import ClaimState
    from interlock.store_client import StoreClient
    from interlock.telemetry.claims import ClaimMetrics

__all__ = ["Claiming", "Claims"]

_KEEP = 24 * 3600.0
_TTL = 60.0


class Claims(Service[ClaimEngine]):
    """Each key once, in one store.

    Of all processes that claim a key, one gets a new claim. The others get its state: in progress, done, or failed with
    the time of the next attempt. A claim whose holder died can be claimed again within its session (15 s).
    """

    needs = Capability.CLAIMS
    _these = "These claims"

    def _new_engine(self, store_client: StoreClient) -> ClaimEngine:
        return ClaimEngine(store_client)

    @property
    def sync(self) -> SyncClaims:
        """The same for synchronous code: scripts, threads, plain functions."""
        return SyncClaims(self)

    @property
    def metrics(self) -> ClaimMetrics:
        """The metrics of these claims; register them with a Prometheus registry."""
        return self._opened.metrics

    def claim(self, key: str, *, keep: Seconds = _KEEP, ttl: Seconds = _TTL, retry_in: Seconds = 0.0) -> Claiming:
        """Claim the key in one atomic step.

        ``async with claims.claim(key) as claim:`` marks a new claim as done when the block ends and as failed when it
        raises; then it can be claimed again after ``retry_in``. The block always runs, so check ``if claim.new:``.
        ``claim = await claims.claim(key)`` leaves :meth:`Claim.done` and :meth:`Claim.fail` to the caller. The claim
        is renewed while its process lives. A finished claim is kept for ``keep``.
        """
        return Claiming(
            self._running,
            checked_key(key),
            checked_ttl(ttl),
            checked_ttl(keep, name="keep"),
            checked_seconds("retry_in", retry_in),
        )

    async def list(
        self, *, prefix: str = "", state: ClaimState | None = None, limit: int = 1000
    ) -> Sequence[ClaimView]:
        """List the claims that are kept, by key."""
        wanted = ClaimFilter(checked_prefix(prefix), state)
        rows = await self._running.store.claims.list(None, wanted, limit=checked_limit(limit))
        return [claim_view(row) for row in rows]

    async def get(self, key: str) -> ClaimView:
        """Return one claim. Raises :class:`NotFoundError` if the key is new."""
        rows = await self._running.store.claims.list(checked_key(key))
        if not rows:
            raise NotFoundError(f"No claim on {key!r} is kept.", remedy="See: interlock claims list.")
        return claim_view(rows[0])

    async def explain(self, key: str) -> Explanation:
        """Explain the state of a claim and what happens next."""
        return await self._explain("claim", checked_key(key))

    async def forget(self, key: str, *, reason: str, by: str) -> ClaimView | None:
        """Make a key new again. Its holder is stopped with the reason. Returns the claim; None if there was none."""
        row = await self._running.operations.forget_claim(key, by=by, reason=reason)
        return None if row is None else claim_view(row)

    async def forget_all(
        self, *, prefix: str = "", state: ClaimState | None = None, reason: str, by: str
    ) -> BulkResult[str]:
        """Make the key of every claim that matches new again; see :meth:`forget` and :meth:`matching`.

        A claim that is in another state when its turn comes is left alone.
        """
        wanted = ClaimFilter(prefix, state)
        return await self._running.operations.apply(Action.CLAIM_FORGET, wanted, by=by, reason=reason)

    async def matching(self, *, prefix: str = "", state: ClaimState | None = None) -> builtins.list[str]:
        """The keys of all claims that match; ``len()`` of it counts them before an operation on all."""
        return await self._running.operations.matching(ClaimFilter(prefix, state))


class Claiming:
    """A claim about to be made: an async context manager, and awaitable."""

    __slots__ = ("_claim", "_engine", "_options")

    _claim: Claim

    def __init__(self, engine: ClaimEngine, key: str, lease: float, keep: float, retry_in: float) -> None:
        self._engine: ClaimEngine | None = engine
        self._options = (key, lease, keep, retry_in)

    def __await__(self) -> Generator[Any, None, Claim]:
        return self._begin().__await__()

    async def __aenter__(self) -> Claim:
        self._claim = claim = await self._begin()
        if claim.lease is not None:
            claim.lease._enter()
        return claim

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._claim.lease is not None:
            await self._claim.lease._leave(kind, error)

    async def _begin(self) -> Claim:
        engine, self._engine = self._engine, None
        if engine is None:
            raise MisuseError("This claim was already made.", remedy="Call claim() each time.")
        return await engine.claim(*self._options)
