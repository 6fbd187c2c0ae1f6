"""Limits: ``app.limits``, or without an App ``Limits.from_url(url)``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.arguments import checked_key, checked_limit, checked_wait
from interlock.errors import InvalidArgumentError, MisuseError, NotFoundError
from interlock.limits.engine import LimitEngine
from interlock.limits.kinds import limit_name, new_figure, uses_of
from interlock.limits.sync import SyncLimits
from interlock.limits.views import limit_view, override_view
from interlock.ports.limits import override_of
from interlock.ports.store import Capability
from interlock.service import Service

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from datetime import timedelta
    from types import TracebackType

    from interlock.arguments import Seconds, Wait
    from interlock.explanation import Explanation
    from interlock.limits.kinds import Limit
    from interlock.limits.reservation import Reservation
    from interlock.limits.views import LimitOverride, LimitView
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

    async def resize(
        self, name: str, size: float | timedelta, *, per: Seconds | None = None, by: str, reason: str
    ) -> LimitOverride | None:
        """Set how much a limit allows, for all processes and also for jobs that are enqueued already.

        ``name`` is the kind and name of the limit, for all of its keys (``cooldown:account``), or one whole key
        (``cooldown:account:a1``), which then takes precedence; a name alone is one of slots. ``size`` is the number of
        slots, the number of starts in ``per`` seconds, or the gap in seconds. A smaller size blocks only new starts. A
        larger one wakes waiters at once. Returns the figure that was set before, if any. See :meth:`reset`.
        """
        engine = self._running
        figure = new_figure(name, size, per)
        if ":" not in name:
            await self._check_kind(figure.key.split(":")[1])
        before = await engine.operations.resize_limit(figure, by=by, reason=reason)
        return None if before is None else override_view(before)

    async def reset(self, name: str, *, by: str, reason: str = "") -> LimitOverride | None:
        """Let the figures in the code apply again; return the one that was set, or None if there was none."""
        before = await self._running.operations.reset_limit(limit_name(name), by=by, reason=reason)
        return None if before is None else override_view(before)

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """List the figures that people have set, by name."""
        return [override_view(row) for row in await self._running.store.limits.overrides(limit=checked_limit(limit))]

    async def _check_kind(self, name: str) -> None:
        """Refuse a name alone if only another kind of limit with this name is in use: it would change nothing."""
        found = [kind for kind in ("slots", "rate", "cooldown") if await self._in_use(f"{kind}:{name}")]
        if found and "slots" not in found:
            raise InvalidArgumentError(
                f"{name!r} is a {found[0]} here, not a number of slots.", remedy=f"Write {found[0]}:{name}."
            )

    async def _in_use(self, name: str) -> bool:
        store = self._running.store
        views = [view.key for view in await store.limits.list(limit=1, after=f"{name}:")]
        views += [view.key for view in await store.limits.list(name)]
        if Capability.JOBS in store.capabilities:
            views += [view.key for view in await store.insight.limits(limit=1, after=f"{name}:")]
            views += [view.key for view in await store.insight.limits(name, limit=1)]
        return any(key == name or key.startswith(f"{name}:") for key in views)

    async def list(self, *, limit: int = 1000) -> Sequence[LimitView]:
        """List the limits in use, by key, as one snapshot."""
        store = self._running.store
        rows = await store.limits.list(limit=checked_limit(limit))
        overrides = {override.name: override for override in await store.limits.overrides()}
        return [limit_view(row._replace(override=override_of(overrides, row.key))) for row in rows]

    async def get(self, key: str) -> LimitView:
        """Return one limit by its full key, such as ``slots:containers`` or ``cooldown:account:a1``.

        Raises :class:`NotFoundError` if it is not in use.
        """
        rows = await self._running.store.limits.list(checked_key(key))
        if not rows:
            raise NotFoundError(f"The limit {key!r} is not in use.", remedy="See: interlock limits list.")
        overrides = {override.name: override for override in await self._running.store.limits.overrides()}
        return limit_view(rows[0]._replace(override=override_of(overrides, key)))

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
