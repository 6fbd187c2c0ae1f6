"""Makes, starts and finishes reservations: the part of limits that is the same for every store."""

from __future__ import annotations

import logging
from asyncio import CancelledError, current_task
from typing import TYPE_CHECKING

from interlock.arguments import checked_wait
from interlock.callers import Callers
from interlock.errors import LeaseLostError, LimitFullError, LimitTimeoutError, MisuseError, StoreUnavailableError
from interlock.leases.engine import LeaseEngine
from interlock.limits.explain import who_is_before
from interlock.limits.lease_backend import LimitCustody
from interlock.limits.reservation import Place, Reservation
from interlock.ports.limits import Finished, Full, Plan, Turn, Use
from interlock.telemetry.limits import LimitMetrics
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.arguments import Wait
    from interlock.store_client import StoreClient

__all__ = ["LimitEngine"]

_log = logging.getLogger("interlock.limits")
_MOST_SESSIONS = 3  # sessions that end under one request, before it is called an outage
_MOST_DIFFERENCES = 1000


class LimitEngine(LeaseEngine[Place, Reservation, Finished]):
    """The limits of one process in one store."""

    mark = "q"
    these = "Limits"

    def __init__(self, store_client: StoreClient) -> None:
        super().__init__(store_client, LimitCustody(store_client.store.limits))
        self.metrics = LimitMetrics(self.store.name, self._settings.metrics_prefix)
        self._limits = self.store.limits
        self._callers = Callers()
        self._differences: dict[str, None] = {}

    async def reserve(self, uses: tuple[Use, ...], *, start: bool) -> Reservation:
        """Make a reservation, and start it if that is wanted and possible at once."""
        caller = self._callers.of(current_task(self._loop)).name
        for _ in range(_MOST_SESSIONS):
            if self._reach.closed:
                raise MisuseError("These limits are closed.", remedy="Open them again.")
            session = await self._live_session()
            place = Place(Plan(self._new_owner(session), caller, session.id, uses, start))
            try:
                turn = await self._ask(place)
            except BaseException as error:
                if isinstance(error, LimitFullError):
                    self._owners.pop(place.owner, None)
                else:
                    self._reach.let_go(place)  # it may be made without our knowing
                raise
            if turn is not None:
                reservation = Reservation(self, place, session, turn)
                self._owners[place.owner] = reservation
                if not turn.started or self._admit(reservation):
                    return reservation
                self._give_up(reservation)
            else:
                self._owners.pop(place.owner, None)
                session.lost = True
        raise StoreUnavailableError("Sessions end as soon as they have begun.")

    async def take(self, uses: tuple[Use, ...], wait: float | None) -> Reservation:
        """A reservation that has started. Waits its turn; one whose session ends under it stands in line anew."""
        begun = self.monotonic()
        give_up = None if wait is None else begun + wait
        while True:
            reservation = await self.reserve(uses, start=True)
            try:
                started = reservation.started or await self._start(reservation, give_up)
            except LeaseLostError:
                self._give_up(reservation)
                if self._reach.closed:
                    raise
                continue
            except BaseException as error:
                self.metrics.outcomes["cancelled" if isinstance(error, CancelledError) else "unavailable"] += 1
                self._give_up(reservation)
                raise
            if started:
                self.metrics.waits.observe(reservation.granted - begun)
                return reservation
            self.metrics.outcomes["timeout"] += 1
            raise await self._timed_out(reservation, wait)

    async def start(self, reservation: Reservation, wait: Wait) -> bool:
        """Start a reservation, if its turn comes within the time to wait."""
        seconds = checked_wait(wait)
        if reservation.started:
            reservation.ensure()
            return True
        if reservation.starting:
            raise MisuseError(f"{reservation.key!r} is being started already.", remedy="Start a reservation once.")
        reservation.starting = True
        try:
            return await self._start(reservation, None if seconds is None else self.monotonic() + seconds)
        finally:
            reservation.starting = False

    async def _start(self, reservation: Reservation, give_up: float | None) -> bool:
        place = reservation.want
        place.plan = plan = place.plan._replace(start=True)
        try:
            while True:
                self._ensure(reservation)
                try:
                    turn = await self._ask(place)
                except StoreUnavailableError:
                    if give_up is not None and self.monotonic() >= give_up:
                        raise
                    # Its place outlasts an outage, for as long as the session does.
                    turn = reservation.turn._replace(at=None, look_again=self._settings.recheck_interval)
                if turn is None:
                    reservation.session.lost = True
                    continue
                if reservation.released:  # finished meanwhile; what was just started goes back
                    self._reach.let_go(place)
                    reservation.ensure()
                reservation.turn = turn
                if turn.started:
                    if not self._admit(reservation):
                        raise reservation.error()
                    return True
                left = None if give_up is None else give_up - self.monotonic()
                if left is not None and left <= 0:
                    return False
                if not await self._wait_turn(plan.owner, turn, left):
                    return False
        finally:
            self._room.leave(plan.owner)

    async def _wait_turn(self, owner: str, turn: Turn, left: float | None) -> bool:
        """Sleep until its time, where that is known, else until it is called; False if the time to wait ran out."""
        if turn.at is None:
            return await self._room.enter(owner, turn.look_again).turn(left)
        pause = turn.look_again if left is None else min(turn.look_again, left)
        await self._room.enter(owner, self._settings.recheck_interval).turn(pause)
        return True

    def _ensure(self, reservation: Reservation) -> None:
        if self._reach.closed:
            raise MisuseError("These limits were closed while somebody waited.", remedy="Open them again.")
        reservation.ensure()

    async def _ask(self, place: Place) -> Turn | None:
        """How the reservation stands; None if its session has ended."""
        answer = await self._reach.repeat(lambda: self._limits.ask(place.plan))
        if isinstance(answer, Full):
            raise LimitFullError(f"Too many wait for {answer.key!r} already.")
        if not isinstance(answer, Turn):
            return None
        if answer.differs and answer.differs not in self._differences and len(self._differences) < _MOST_DIFFERENCES:
            self._differences[answer.differs] = None
            emit(_log, logging.WARNING, "limit_figures_differ", key=answer.differs, remedy="the smaller one holds")
        return answer

    def _admit(self, reservation: Reservation) -> bool:
        """Whether what has started can be relied on."""
        session = reservation.session
        reservation.granted = now = self.monotonic()
        if now >= session.deadline:
            session.lost = True
        if session.lost or self._reach.closed:
            return False
        self._warden.admit(reservation, now)
        self.metrics.starts += 1
        return True

    # -- finishing -------------------------------------------------------------------------------------------------

    async def finish(self, reservation: Reservation) -> None:
        """Free what was taken, or give back what never started."""
        if reservation.released:
            return
        if reservation.lost_why:
            self._give_up(reservation)
            if reservation.started:
                raise reservation.error()
            return
        self._release(reservation)
        failures = self._reach.failures
        try:
            finished = await self._reach.leave(reservation.want)
        except StoreUnavailableError as error:
            emit(_log, logging.WARNING, "limit_finish_failed", key=reservation.key, error=str(error))
            self._reach.let_go(reservation.want)
            return
        except BaseException:
            self._reach.let_go(reservation.want)
            raise
        self._owners.pop(reservation.owner, None)
        sure = self._reach.failures == failures  # else an attempt that failed may have worked
        if reservation.started and not finished.known and sure:
            reservation.lost_why = "the store no longer knew it"
            self._lost(reservation, "taken", reservation.lost_why)
            raise reservation.error()

    def abandon(self, reservation: Reservation) -> None:
        """Finish in the background."""
        self._give_up(reservation)

    def _give_up(self, reservation: Reservation) -> None:
        self._release(reservation)
        self._reach.let_go(reservation.want)

    def _release(self, reservation: Reservation) -> None:
        if not reservation.released and not reservation.lost_why:
            self._retire(reservation)
        reservation.released = True
        reservation.untie()

    async def _timed_out(self, reservation: Reservation, wait: float | None) -> LimitTimeoutError:
        """Step out of line, and say who stood before."""
        key = reservation.waits_for or reservation.uses[0].key
        try:
            await self.finish(reservation)
            views = await self._limits.list(key)
            why = who_is_before(views[0] if views else None, reservation.turn)
        except StoreUnavailableError:
            why = "and the store is away"
        return LimitTimeoutError(f"{key!r} did not let it start within {wait or 0:g} s: {why}.")

    # -- what engines do each in their own way ---------------------------------------------------------------------

    def _retire(self, owned: Reservation) -> None:
        if owned.started:
            self.metrics.holds.observe(self.monotonic() - owned.granted)

    def _lost(self, owned: Reservation, reason: str, why: str) -> None:
        if not owned.started:
            emit(_log, logging.INFO, "reservation_returned", key=owned.key, reason=reason, why=why)
            return
        self.metrics.losses[reason] = self.metrics.losses.get(reason, 0) + 1
        emit(_log, logging.ERROR, "reservation_lost", key=owned.key, reason=reason, why=why)

    def _renewal_failed(self, owned: Reservation, error: Exception) -> None:
        raise AssertionError("reservations are not renewed") from error
