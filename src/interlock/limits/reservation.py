"""A reservation under limits: first a position in line, then the permission to work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from interlock.clock import as_datetime
from interlock.leases.owned_lease import OwnedLease

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from interlock.arguments import Wait
    from interlock.ports.limits import Plan, Turn, Use
    from interlock.sessions import Session

    class StartsReservations(Protocol):
        """The part of the engine that a reservation needs."""

        def monotonic(self) -> float: ...
        async def start(self, reservation: Reservation, wait: Wait) -> bool: ...
        async def finish(self, reservation: Reservation) -> None: ...
        def abandon(self, reservation: Reservation) -> None: ...


__all__ = ["LimitRequest", "Reservation"]


class LimitRequest:
    """The request, as the lease machinery sees it. It has no ttl of its own and ends with its session."""

    __slots__ = ("key", "owner", "plan", "ttl")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.owner = plan.owner
        self.key = " + ".join(use.key for use in plan.uses)
        self.ttl = math.inf


class Reservation(OwnedLease):
    """One turn under one or more limits.

    :attr:`starts_at` is known at once where it does not depend on others. Nothing happens automatically: :meth:`start`
    starts, :meth:`finish` ends. :meth:`finish` also releases a reservation that will never start, so that others can
    use its time. ``async with limits.acquire(…)`` does all of this.
    """

    _noun = "reservation"
    _request: LimitRequest

    def __init__(self, engine: StartsReservations, request: LimitRequest, session: Session, turn: Turn) -> None:
        super().__init__(request, session, engine.monotonic)
        self._engine = engine
        self._turn = turn
        self._starting = False

    @property
    def uses(self) -> tuple[Use, ...]:
        """The limits that it is under."""
        return self._request.plan.uses

    @property
    def started(self) -> bool:
        """Whether the work may run: every limit is taken."""
        return self._turn.started

    @property
    def starts_at(self) -> datetime | None:
        """When its turn comes or came; None while that depends on others that have to finish first."""
        return None if self._turn.at is None else as_datetime(self._turn.at)

    @property
    def waits_for(self) -> str:
        """The limit that it waits for; empty if none."""
        return self._turn.key

    @property
    def ahead(self) -> int:
        """How many are ahead of it in that limit's line."""
        return self._turn.ahead

    async def start(self, *, wait: Wait = 0.0) -> bool:
        """Start if the turn has come, else wait for it. False means not yet; check :attr:`starts_at` again."""
        return await self._engine.start(self, wait)

    async def finish(self) -> None:
        """End the work, or give up a reservation that will never start. Finishing twice is harmless."""
        await self._engine.finish(self)

    # -- for the engine --------------------------------------------------------------------------------------------

    def _finish(self, error: BaseException | None) -> Awaitable[None]:
        """Finish, because the block has ended."""
        return self._engine.finish(self)

    def _abandon(self) -> None:
        """Finish in the background, because the block was cancelled."""
        self._engine.abandon(self)
