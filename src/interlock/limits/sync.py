"""Limits for synchronous code: ``app.sync.limits``, or alone ``Limits.from_url(url).sync``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    from interlock.arguments import Seconds, Wait
    from interlock.explanation import Explanation
    from interlock.limits.kinds import Limit
    from interlock.limits.limits import Limits
    from interlock.limits.reservation import Reservation
    from interlock.limits.views import LimitOverride, LimitView
    from interlock.portal import Portal
    from interlock.ports.limits import Use

__all__ = ["SyncLimits", "SyncReservation"]

_DEFAULT_WAIT = 60.0


class SyncReservation:
    """One turn under one or more limits, for synchronous code; see :class:`Reservation`.

    ``with app.sync.limits.acquire(Slots("containers", 5)): …`` waits for the turn and finishes it when the block ends.
    """

    def __init__(self, portal: Portal, reservation: Reservation) -> None:
        self._portal = portal
        self._process = portal.process
        self._reservation = reservation

    def __repr__(self) -> str:
        return f"<Sync{repr(self._reservation)[1:]}"

    @property
    def key(self) -> str:
        """The keys of its limits."""
        return self._reservation.key

    @property
    def uses(self) -> tuple[Use, ...]:
        """The limits that it is under."""
        return self._reservation.uses

    @property
    def started(self) -> bool:
        """Whether the work may run: every limit is taken."""
        return self._reservation.started

    @property
    def starts_at(self) -> datetime | None:
        """When its turn comes or came; None while that depends on others that have to finish first."""
        return self._reservation.starts_at

    @property
    def waits_for(self) -> str:
        """The limit that it waits for; empty if none."""
        return self._reservation.waits_for

    @property
    def ahead(self) -> int:
        """How many are ahead of it in that limit's line."""
        return self._reservation.ahead

    @property
    def lost(self) -> bool:
        """Whether it may have ended while it was held. Known without asking the store, and never too late."""
        return self._reservation.lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless it is certainly held."""
        self._reservation.ensure()

    def start(self, *, wait: Wait = 0.0) -> bool:
        """Start if the turn has come, else wait for it. False means not yet; check :attr:`starts_at` again."""
        return self._portal.run(lambda: self._reservation.start(wait=wait), "reservation.start()", waits=True)

    def finish(self) -> None:
        """End the work, or give up a reservation that will never start. Finishing twice is harmless."""
        self._portal.run(self._reservation.finish, "reservation.finish()")

    def __enter__(self) -> Self:
        self._portal.run(self._begin, "with reservation")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process != self._portal.process:
            return  # forked: the parent releases it

        async def leave() -> None:
            await self._reservation._leave(kind, error)

        self._portal.run(leave, "The end of the block")

    async def _begin(self) -> None:
        self._reservation._enter_thread()


class SyncLimits:
    """Slots, rates and cooldowns, for synchronous code; see :class:`Limits`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._portal = limits.portal

    def acquire(self, *limits: Limit, wait: Wait = _DEFAULT_WAIT, **values: Any) -> SyncReservation:
        """Wait for a turn, then start: ``with app.sync.limits.acquire(Slots("containers", 5)): …``.

        Without a block, call :meth:`SyncReservation.finish` at the end. Raises :class:`LimitTimeoutError` if the turn
        does not come within ``wait``.
        """

        async def acquire() -> Reservation:
            return await self._limits.acquire(*limits, wait=wait, **values)

        return self._reservation(acquire, "limits.acquire()", "async with app.limits.acquire(…)")

    def reserve(self, *limits: Limit, **values: Any) -> SyncReservation:
        """Reserve a turn and return at once with the time of it; see :meth:`Limits.reserve`."""

        async def reserve() -> Reservation:
            return await self._limits.reserve(*limits, **values)

        return self._reservation(reserve, "limits.reserve()", "await app.limits.reserve(…)")

    def resize(
        self, name: str, size: float | timedelta, *, per: Seconds | None = None, by: str, reason: str
    ) -> LimitOverride | None:
        """Set how much a limit allows, for all processes; see :meth:`Limits.resize`."""
        return self._portal.run(
            lambda: self._limits.resize(name, size, per=per, by=by, reason=reason), f"limits.resize({name!r})"
        )

    def reset(self, name: str, *, by: str, reason: str = "") -> LimitOverride | None:
        """Let the figures in the code apply again; see :meth:`Limits.reset`."""
        return self._portal.run(lambda: self._limits.reset(name, by=by, reason=reason), f"limits.reset({name!r})")

    def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """List the figures that people have set, by name."""
        return self._portal.run(lambda: self._limits.overrides(limit=limit), "limits.overrides()")

    def list(self, *, limit: int = 1000) -> Sequence[LimitView]:
        """List the limits in use, by key, as one snapshot."""
        return self._portal.run(lambda: self._limits.list(limit=limit), "limits.list()")

    def get(self, key: str) -> LimitView:
        """Return one limit by its full key. Raises :class:`NotFoundError` if it is not in use."""
        return self._portal.run(lambda: self._limits.get(key), f"limits.get({key!r})")

    def explain(self, key: str) -> Explanation:
        """Explain whether a limit has room, who uses it and who waits."""
        return self._portal.run(lambda: self._limits.explain(key), f"limits.explain({key!r})")

    def _reservation(self, make: Callable[[], Awaitable[Reservation]], what: str, instead: str) -> SyncReservation:
        made = self._portal.run(make, what, instead=instead, waits=True, undo=lambda one: one.finish())
        return SyncReservation(self._portal, made)
