"""The limit engine: makes, starts and finishes reservations in the same way for every store."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
from asyncio import CancelledError, current_task
from typing import TYPE_CHECKING

from interlock.arguments import checked_wait
from interlock.callers import Callers
from interlock.errors import LeaseLostError, LimitFullError, LimitTimeoutError, MisuseError, StoreUnavailableError
from interlock.leases.engine import LeaseEngine
from interlock.limits.explain import who_is_before
from interlock.limits.lease_backend import LimitLeaseBackend
from interlock.limits.reservation import LimitRequest, Reservation
from interlock.ports.limits import Finished, Full, Plan, Turn, Use
from interlock.telemetry.limits import LimitMetrics
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.arguments import Wait
    from interlock.store_client import StoreClient

__all__ = ["LimitEngine"]

_log = logging.getLogger("interlock.limits")
_MAX_SESSIONS = 3  # sessions that end during one request, before it counts as an outage
_MAX_DIFFERENCES = 1000


class LimitEngine(LeaseEngine[LimitRequest, Reservation, Finished]):
    """The limits of one process in one store."""

    owner_tag = "q"
    plural = "Limits"

    def __init__(self, store_client: StoreClient) -> None:
        super().__init__(store_client, LimitLeaseBackend(store_client.store.limits))
        self.metrics = LimitMetrics(self.store.name, self._settings.metrics_prefix)
        self._limits = self.store.limits
        self._callers = Callers()
        self._differences: dict[str, None] = {}

    async def reserve(self, uses: tuple[Use, ...], *, start: bool) -> Reservation:
        """Make a reservation, and start it if requested and possible."""
        caller = self._callers.of(current_task(self._loop)).name
        for _ in range(_MAX_SESSIONS):
            if self._access.closed:
                raise MisuseError("These limits are closed.", remedy="Open them again.")
            session = await self._live_session()
            request = LimitRequest(Plan(self._new_owner(session), caller, session.id, uses, start))
            try:
                turn = await self._ask(request)
            except BaseException as error:
                if isinstance(error, LimitFullError):
                    self._owners.pop(request.owner, None)
                else:
                    self._access.withdraw(request)  # it may exist without our knowing
                raise
            if turn is not None:
                reservation = Reservation(self, request, session, turn)
                self._owners[request.owner] = reservation
                if not turn.started or self._admit(reservation):
                    return reservation
                self._give_up(reservation)
            else:
                self._owners.pop(request.owner, None)
                session.lost = True
        raise StoreUnavailableError("Sessions end as soon as they start.")

    async def take(self, uses: tuple[Use, ...], wait: float | None) -> Reservation:
        """Wait for a turn and return a started reservation. If its session ends, it queues again."""
        begun = self.monotonic()
        give_up = None if wait is None else begun + wait
        while True:
            reservation = await self.reserve(uses, start=True)
            try:
                started = reservation.started or await self._start(reservation, give_up)
            except LeaseLostError:
                self._give_up(reservation)
                if self._access.closed:
                    raise
                continue
            except BaseException as error:
                self.metrics.outcomes["cancelled" if isinstance(error, CancelledError) else "unavailable"] += 1
                self._give_up(reservation)
                raise
            if started:
                self.metrics.waits.observe(reservation._granted_at - begun)
                return reservation
            self.metrics.outcomes["timeout"] += 1
            raise await self._timed_out(reservation, wait)

    async def start(self, reservation: Reservation, wait: Wait) -> bool:
        """Start a reservation, if its turn comes within the time to wait."""
        seconds = checked_wait(wait)
        if reservation.started:
            reservation.ensure()
            return True
        if reservation._starting:
            raise MisuseError(f"{reservation.key!r} is already being started.", remedy="Start a reservation once.")
        reservation._starting = True
        try:
            return await self._start(reservation, None if seconds is None else self.monotonic() + seconds)
        finally:
            reservation._starting = False

    async def _start(self, reservation: Reservation, give_up: float | None) -> bool:
        request = reservation._request
        request.plan = plan = request.plan._replace(start=True)
        try:
            while True:
                self._ensure(reservation)
                alarms = self._queue.alarms
                try:
                    turn = await self._ask(request)
                except StoreUnavailableError:
                    if give_up is not None and self.monotonic() >= give_up:
                        raise
                    # Its position survives an outage as long as the session does.
                    turn = reservation._turn._replace(at=None, recheck_in=self._settings.recheck_interval)
                if turn is None:
                    reservation._session.lost = True
                    continue
                if reservation._released:  # finished meanwhile, so the start is undone
                    self._access.withdraw(request)
                    reservation.ensure()
                reservation._turn = turn
                if turn.started:
                    if not self._admit(reservation):
                        raise reservation._loss_error()
                    return True
                left = None if give_up is None else give_up - self.monotonic()
                if left is not None and left <= 0:
                    return False
                if not await self._wait_turn(plan.owner, turn, left, alarms):
                    return False
        finally:
            self._queue.leave(plan.owner)

    async def _wait_turn(self, owner: str, turn: Turn, left: float | None, alarms: int) -> bool:
        """Sleep until its time, if that is known, else until it is woken; False if the time to wait ran out."""
        if turn.at is None:
            return await self._queue.enter(owner, turn.recheck_in, alarms).turn(left)
        pause = turn.recheck_in if left is None else min(turn.recheck_in, left)
        await self._queue.enter(owner, self._settings.recheck_interval, alarms).turn(pause)
        return True

    def _ensure(self, reservation: Reservation) -> None:
        if self._access.closed:
            raise MisuseError("These limits were closed while a caller waited.", remedy="Open them again.")
        reservation.ensure()

    async def _ask(self, request: LimitRequest) -> Turn | None:
        """Return the state of the reservation; None if its session has ended."""
        answer = await self._access.repeat(lambda: self._limits.ask(request.plan))
        if isinstance(answer, Full):
            raise LimitFullError(f"Too many callers already wait for {answer.key!r}.")
        if not isinstance(answer, Turn):
            return None
        if answer.differs and answer.differs not in self._differences and len(self._differences) < _MAX_DIFFERENCES:
            self._differences[answer.differs] = None
            emit(_log, logging.WARNING, "limit_figures_differ", key=answer.differs, remedy="the smaller figure applies")
        return answer

    def _admit(self, reservation: Reservation) -> bool:
        """Return whether a start can be relied on."""
        session = reservation._session
        reservation._granted_at = now = self.monotonic()
        if now >= session.deadline:
            session.lost = True
        if session.lost or self._access.closed:
            return False
        self._renewer.admit(reservation, now)
        self.metrics.starts += 1
        return True

    # -- finishing -------------------------------------------------------------------------------------------------

    async def finish(self, reservation: Reservation) -> None:
        """Finish a reservation, started or not."""
        if reservation._released:
            return
        if reservation._loss:
            self._give_up(reservation)
            if reservation.started:
                raise reservation._loss_error()
            return
        self._release(reservation)
        failures = self._access.failures
        try:
            finished = await self._access.leave(reservation._request)
        except StoreUnavailableError as error:
            emit(_log, logging.WARNING, "limit_finish_failed", key=reservation.key, error=str(error))
            self._access.withdraw(reservation._request)
            return
        except BaseException:
            self._access.withdraw(reservation._request)
            raise
        self._owners.pop(reservation.owner, None)
        sure = self._access.failures == failures  # otherwise a failed attempt may have worked
        if reservation.started and not finished.known and sure:
            reservation._loss = "the store no longer knows it"
            self._lost(reservation, "taken", reservation._loss)
            raise reservation._loss_error()

    def abandon(self, reservation: Reservation) -> None:
        """Finish in the background."""
        self._give_up(reservation)

    def _give_up(self, reservation: Reservation) -> None:
        self._release(reservation)
        self._access.withdraw(reservation._request)

    def _release(self, reservation: Reservation) -> None:
        if not reservation._released and not reservation._loss:
            self._retire(reservation)
        reservation._released = True
        reservation._untie()

    async def _timed_out(self, reservation: Reservation, wait: float | None) -> LimitTimeoutError:
        """Leave the line and return the error that names who is ahead."""
        key = reservation.waits_for or reservation.uses[0].key
        try:
            await self.finish(reservation)
            views = await self._limits.list(key)
            why = who_is_before(views[0] if views else None, reservation._turn)
        except StoreUnavailableError:
            why = "and the store is unavailable"
        return LimitTimeoutError(f"The limit {key!r} did not allow a start within {wait or 0:g} s: {why}.")

    # -- hooks of the lease engine ---------------------------------------------------------------------------------

    def _retire(self, lease: Reservation) -> None:
        if lease.started:
            self.metrics.holds.observe(self.monotonic() - lease._granted_at)

    def _lost(self, lease: Reservation, cause: str, why: str) -> None:
        if not lease.started:
            emit(_log, logging.INFO, "reservation_returned", key=lease.key, cause=cause, why=why)
            return
        self.metrics.losses[cause] = self.metrics.losses.get(cause, 0) + 1
        emit(_log, logging.ERROR, "reservation_lost", key=lease.key, cause=cause, why=why)

    def _renewal_failed(self, lease: Reservation, error: Exception) -> None:
        raise AssertionError("reservations are not renewed") from error
