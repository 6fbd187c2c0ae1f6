"""Workload callers for claims, limits and cursors, which record what they do in the history.

The calls are those of the public library, written as an application would write them. Each call records who asked,
what the outcome was, and when code that relies on it ran.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from interlock.errors import (
    ConcurrencyConflictError,
    LeaseLostError,
    LimitTimeoutError,
    MisuseError,
    StoreUnavailableError,
)
from interlock.testing.simulator.events import (
    CallBegan,
    CallEnded,
    CallOver,
    CursorSaid,
    SettleEnded,
    WorkBegan,
    WorkEnded,
    WorkRan,
)
from interlock.testing.simulator.history import REQUEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from contextvars import Token

    from interlock.arguments import Wait
    from interlock.claims import Claim
    from interlock.limits import Limit, Reservation
    from interlock.testing.simulator.world import SimulatedProcess

    Inside = Callable[[], Awaitable[None]]

__all__ = ["Call", "ClaimCaller", "CursorCaller", "LimitCaller", "WorkError"]


class WorkError(Exception):
    """Raised by work that is supposed to fail."""


class Call:
    """One call and the code that relies on its result: ``with Call(…) as call`` around all of it."""

    def __init__(self, process: SimulatedProcess, kind: str, what: str, wait: Wait) -> None:
        self._history = process.world.history
        self._process = process.name
        self._about = (kind, what, float(wait) if isinstance(wait, (int, float)) else None)
        self._number = self._history.new_request()
        self._token: Token[int] | None = None

    def __enter__(self) -> Call:
        self._history.add(CallBegan(self._history.now(), self._process, self._number, *self._about))
        self._token = REQUEST.set(self._number)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._token is not None:
            self.answered(outcome(error))
        self._history.add(CallOver(self._history.now(), self._process, self._number))

    def answered(self, how: str) -> None:
        """Record that the call was answered."""
        if self._token is not None:
            REQUEST.reset(self._token)
            self._token = None
            self._history.add(CallEnded(self._history.now(), self._process, self._number, how))

    @contextmanager
    def working(self, owner: str, *, guarded: bool) -> Iterator[None]:
        """Record code that relies on what the owner has."""
        add, now = self._history.add, self._history.now
        add(WorkBegan(now(), self._process, self._number, owner, guarded))
        try:
            yield
        finally:
            add(WorkEnded(now(), self._process, self._number, owner))

    async def work(self, owner: str, seconds: Sequence[float], ensure: Claim | Reservation | None = None) -> None:
        """Work in pieces of the given durations; without a block around it, check for loss in between."""
        for piece in seconds:
            if ensure is not None:
                ensure.ensure()
            self._history.add(WorkRan(self._history.now(), self._process, self._number, owner))
            await asyncio.sleep(piece)
        if ensure is not None:
            ensure.ensure()
        self._history.add(WorkRan(self._history.now(), self._process, self._number, owner))

    def finished(self, owner: str, state: str, error: BaseException | None) -> None:
        """Record the outcome that the caller was given."""
        how = "finished" if error is None else outcome(error)
        self._history.add(SettleEnded(self._history.now(), self._process, self._number, owner, state, how))


class ClaimCaller:
    """The claims of one simulated process."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process

    async def block(
        self,
        key: str,
        lease: float,
        keep: float,
        retry_in: float,
        pieces: Sequence[float],
        *,
        fails: bool = False,
        inside: Inside | None = None,
    ) -> None:
        """``async with claims.claim(…) as claim``, optionally with something else inside."""
        claims = self._process.claims
        with Call(self._process, "claim", key, 0.0) as call:
            owner = ""
            async with claims.claim(key, ttl=lease, keep=keep, retry_in=retry_in) as claim:
                call.answered(str(claim.state))
                if claim.lease is None:
                    return
                owner = claim.lease.owner
                with call.working(owner, guarded=True):
                    await call.work(owner, pieces)
                    if inside is not None:
                        await inside()
                    claim.result = owner
                    if fails:
                        raise WorkError
            call.finished(owner, "done", None)

    async def by_hand(
        self,
        key: str,
        lease: float,
        keep: float,
        pieces: Sequence[float],
        *,
        fails: bool = False,
        retry_in: float = 0.0,
        timeout: float | None = None,
    ) -> str:
        """``claim = await claims.claim(…)``, and ``done`` or ``fail`` later.

        If that exceeds the timeout, ``fail`` is called, regardless of the outcome of the first call.
        """
        with Call(self._process, "claim", key, 0.0) as call:
            claim = await self._process.claims.claim(key, ttl=lease, keep=keep)
            call.answered(str(claim.state))
            if claim.lease is None:
                return str(claim.state)
            owner = claim.lease.owner
            try:
                with call.working(owner, guarded=False):
                    await call.work(owner, pieces, claim)
            except asyncio.CancelledError:
                with suppress(LeaseLostError, StoreUnavailableError):
                    await self._finish(call, claim, owner, fails=True, retry_in=0.0)
                raise
            except LeaseLostError:
                fails = True  # only the store knows whether it was taken over
            try:
                async with asyncio.timeout(timeout):
                    await self._finish(call, claim, owner, fails=fails, retry_in=retry_in)
            except TimeoutError:
                with suppress(MisuseError):  # it was finished meanwhile
                    await self._finish(call, claim, owner, fails=True, retry_in=retry_in)
            return "new"

    async def _finish(self, call: Call, claim: Claim, owner: str, *, fails: bool, retry_in: float) -> None:
        state = "failed" if fails else "done"
        try:
            await (claim.fail("simulated", retry_in=retry_in) if fails else claim.done(owner))
        except BaseException as error:
            call.finished(owner, state, error)
            raise
        call.finished(owner, state, None)


class LimitCaller:
    """The limits of one simulated process."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process

    async def block(
        self, limits: Sequence[Limit], wait: Wait, pieces: Sequence[float], *, inside: Inside | None = None
    ) -> None:
        """``async with limits.acquire(…)``, optionally with something else inside."""
        with Call(self._process, "acquire", _what(limits), wait) as call:
            async with self._process.limits.acquire(*limits, wait=wait) as reservation:
                call.answered("started")
                with call.working(reservation.owner, guarded=True):
                    await call.work(reservation.owner, pieces)
                    if inside is not None:
                        await inside()

    async def by_hand(self, limits: Sequence[Limit], wait: Wait, pieces: Sequence[float]) -> None:
        """``reservation = await limits.acquire(…)``, and ``finish`` later."""
        with Call(self._process, "acquire", _what(limits), wait) as call:
            reservation = await self._process.limits.acquire(*limits, wait=wait)
            call.answered("started")
            async with _Finished(reservation):
                with call.working(reservation.owner, guarded=False):
                    await call.work(reservation.owner, pieces, reservation)

    async def reserve(
        self, limits: Sequence[Limit], later: float, wait: Wait, pieces: Sequence[float], *, use: bool = True
    ) -> None:
        """``reservation = await limits.reserve(…)``, then ``start`` and a block, or none of it, then ``finish``."""
        with Call(self._process, "reserve", _what(limits), 0.0) as call:
            reservation = await self._process.limits.reserve(*limits)
            call.answered("reserved")
            async with _Finished(reservation):
                await asyncio.sleep(later)
                if use:
                    await self._start(reservation, limits, wait, pieces)

    async def _start(
        self, reservation: Reservation, limits: Sequence[Limit], wait: Wait, pieces: Sequence[float]
    ) -> None:
        with Call(self._process, "start", _what(limits), wait) as call:
            started = await reservation.start(wait=wait)
            call.answered("started" if started else "not yet")
            if started:
                async with reservation:
                    with call.working(reservation.owner, guarded=True):
                        await call.work(reservation.owner, pieces)


class CursorCaller:
    """The cursors of one simulated process."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process

    async def advance(self, name: str, value: str, pause: float) -> None:
        """Read the position, work for a while, and move the cursor."""
        cursor = self._process.cursors[name]
        stands = await cursor.read()
        await asyncio.sleep(pause)
        history = self._process.world.history
        stored = f'"{value}"'
        try:
            await cursor.move(value, after=stands)
        except BaseException as error:
            history.add(CursorSaid(history.now(), self._process.name, name, stored, outcome(error)))
            raise
        history.add(CursorSaid(history.now(), self._process.name, name, stored, "moved"))


class _Finished:
    """Finish in any case, and report a loss only if nothing else went wrong."""

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            await self._reservation.finish()
        except LeaseLostError:
            if error is None:
                raise


def _what(limits: Sequence[Limit]) -> str:
    return "+".join(f"{limit.kind}:{limit.name}" for limit in limits)


def outcome(error: BaseException | None) -> str:
    """The outcome of a call that raised."""
    kinds = {
        LimitTimeoutError: "timeout",
        StoreUnavailableError: "unavailable",
        LeaseLostError: "lost",
        ConcurrencyConflictError: "conflict",
        MisuseError: "closed",
        asyncio.CancelledError: "cancelled",
    }
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), repr(error))
