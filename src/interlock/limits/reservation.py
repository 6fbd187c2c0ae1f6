"""A place in line, and then the right to work: what a reservation is to the one who made it."""

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

    class Starter(Protocol):
        """What a reservation needs of the engine that made it."""

        def monotonic(self) -> float: ...
        async def start(self, reservation: Reservation, wait: Wait) -> bool: ...
        async def finish(self, reservation: Reservation) -> None: ...
        def abandon(self, reservation: Reservation) -> None: ...


__all__ = ["Place", "Reservation"]


class Place:
    """What was asked for, as leases know it: it has no time to live of its own and ends with its session."""

    __slots__ = ("key", "owner", "plan", "ttl")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.owner = plan.owner
        self.key = " + ".join(use.key for use in plan.uses)
        self.ttl = math.inf


class Reservation(OwnedLease):
    """One turn under one or more limits.

    It says at once when its turn comes. Nothing happens then by itself: :meth:`start` begins, :meth:`finish` ends. One
    that will never start is given back by :meth:`finish` too, and its time is free for others. Used as
    ``async with limits.acquire(…)`` all of that is done for you.
    """

    what = "reservation"
    want: Place

    def __init__(self, starter: Starter, want: Place, session: Session, turn: Turn) -> None:
        super().__init__(want, session, starter.monotonic)
        self._starter = starter
        self.turn = turn
        self.starting = False

    @property
    def uses(self) -> tuple[Use, ...]:
        """The limits it is under."""
        return self.want.plan.uses

    @property
    def started(self) -> bool:
        """Whether the work may go on: every limit is taken."""
        return self.turn.started

    @property
    def starts_at(self) -> datetime | None:
        """When its turn comes, or came; None while that depends on others, who have to finish first."""
        return None if self.turn.at is None else as_datetime(self.turn.at)

    @property
    def waits_for(self) -> str:
        """The limit it waits for; empty if none."""
        return self.turn.key

    @property
    def ahead(self) -> int:
        """How many are before it in that limit's line."""
        return self.turn.ahead

    async def start(self, *, wait: Wait = 0.0) -> bool:
        """Begin, if the turn has come, else wait for it for so long. False: not yet; see :attr:`starts_at` again."""
        return await self._starter.start(self, wait)

    async def finish(self) -> None:
        """The work is over, or will never start. Twice is harmless."""
        await self._starter.finish(self)

    # -- for the engine --------------------------------------------------------------------------------------------

    def settle(self, error: BaseException | None) -> Awaitable[None]:
        """The block has ended: finish."""
        return self._starter.finish(self)

    def abandon(self) -> None:
        """The block was stopped: finish in the background."""
        self._starter.abandon(self)
