"""Limits: ``app.limits``, or without an App ``Limits.from_url(url)``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.arguments import checked_key, checked_limit, checked_wait
from interlock.errors import MisuseError, NotFoundError
from interlock.limits.engine import LimitEngine
from interlock.limits.kinds import uses_of
from interlock.limits.views import limit_view
from interlock.ports.store import Capability
from interlock.service import Service

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import TracebackType

    from interlock.arguments import Wait
    from interlock.explanation import Explanation
    from interlock.limits.kinds import Limit
    from interlock.limits.reservation import Reservation
    from interlock.limits.sync import SyncLimits
    from interlock.limits.views import LimitView
    from interlock.ports.limits import Use
    from interlock.store_client import StoreClient
    from interlock.telemetry.limits import LimitMetrics

__all__ = ["Limits", "Starting"]

_DEFAULT_WAIT = 60.0


class Limits(Service[LimitEngine]):
    """Slots, rates and cooldowns across all processes that share a store.

    Limits are exact, even when processes crash. Several limits are taken together or not at all. Waiters are served
    first come, first served, and hold nothing while they wait.
    """

    needs = Capability.LIMITS
    _these = "These limits"

    def _new_engine(self, store_client: StoreClient) -> LimitEngine:
        return LimitEngine(store_client)

    @property
    def sync(self) -> SyncLimits:
        """The same for synchronous code: scripts, threads, plain functions."""
        from interlock.limits.sync import SyncLimits

        return SyncLimits(self)

    @property
    def metrics(self) -> LimitMetrics:
        """The metrics of these limits; register them with a Prometheus registry."""
        return self._opened.metrics

    async def reserve(self, *limits: Limit, **values: Any) -> Reservation:
        """Reserve a turn and return at once with the time of it. Nothing waits and nothing runs for it meanwhile.

        ``values`` fill the limits' keys. Start with :meth:`Reservation.start` when the time has come. A reservation
        that is not used is released by :meth:`Reservation.finish`, or with its process.
        """
        return await self._running.reserve(uses_of(limits, values), start=False)

    def acquire(self, *limits: Limit, wait: Wait = _DEFAULT_WAIT, **values: Any) -> Starting:
        """Wait for a turn, then start: ``async with limits.acquire(Slots("containers", 5)): …``.

        Raises :class:`LimitTimeoutError` if the turn does not come within ``wait``. The block is cancelled if the
        process loses its session, before the limit lets others start.
        """
        return Starting(self._running, uses_of(limits, values), checked_wait(wait))

    async def list(self, *, limit: int = 1000) -> Sequence[LimitView]:
        """List the limits in use, by key, as one snapshot."""
        return [limit_view(row) for row in await self._running.store.limits.list(limit=checked_limit(limit))]

    async def get(self, key: str) -> LimitView:
        """Return one limit by its full key, such as ``slots:containers`` or ``cooldown:account:a1``.

        Raises :class:`NotFoundError` if it is not in use.
        """
        rows = await self._running.store.limits.list(checked_key(key))
        if not rows:
            raise NotFoundError(f"The limit {key!r} is not in use.", remedy="See: interlock limits list.")
        return limit_view(rows[0])

    async def explain(self, key: str) -> Explanation:
        """Explain whether a limit has room, who uses it and who waits."""
        return await self._explain("limit", checked_key(key))


class Starting:
    """Work about to start under limits: an async context manager, and awaitable."""

    __slots__ = ("_engine", "_reservation", "_uses", "_wait")

    _reservation: Reservation

    def __init__(self, engine: LimitEngine, uses: tuple[Use, ...], wait: float | None) -> None:
        self._engine: LimitEngine | None = engine
        self._uses = uses
        self._wait = wait

    def __await__(self) -> Generator[Any, None, Reservation]:
        return self._begin().__await__()

    async def __aenter__(self) -> Reservation:
        self._reservation = reservation = await self._begin()
        reservation._enter()
        return reservation

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._reservation._leave(kind, error)

    async def _begin(self) -> Reservation:
        engine, self._engine = self._engine, None
        if engine is None:
            raise MisuseError("This acquisition was already used.", remedy="Call acquire() each time.")
        return await engine.take(self._uses, self._wait)
