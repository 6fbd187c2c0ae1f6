"""A workload client for locks, which records what it does in the history.

The calls are those of the public library. Each call records who asked, what the outcome was, and when code that relies
on a lease ran. A fenced target, which remembers only the largest fence per key, decides which writes it accepts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from interlock.errors import DeadlockError, LeaseLostError, LockTimeoutError, MisuseError, StoreUnavailableError
from interlock.testing.simulator.history import (
    REQUEST,
    BodyBegan,
    BodyEnded,
    BodyRan,
    GaveUp,
    RequestBegan,
    RequestEnded,
    Wrote,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from contextvars import Token
    from types import TracebackType

    from interlock.arguments import Wait
    from interlock.locks.lease import Lease
    from interlock.locks.locks import Acquisition, Locks
    from interlock.testing.simulator.world import SimulatedProcess

__all__ = ["Client", "FencedTarget", "Request"]


class FencedTarget:
    """An external target that refuses writes whose fence is smaller than one it has seen."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def write(self, key: str, fence: int) -> bool:
        """Write, and return whether the write was accepted."""
        if fence < self._newest.get(key, 0):
            return False
        self._newest[key] = fence
        return True


class Client:
    """The locks of one simulated process, and the history it writes."""

    def __init__(self, process: SimulatedProcess, target: FencedTarget) -> None:
        self.process = process
        self.target = target
        self._locks: Locks = process.locks

    def acquire(self, key: str, ttl: float, wait: Wait) -> Request:
        """``async with locks.acquire(…)``."""
        return Request(self, "acquire", (key,), wait, _Block(self._locks.acquire(key, ttl, wait=wait)))

    def acquire_many(self, keys: Sequence[str], ttl: float, wait: Wait) -> Request:
        """``async with locks.acquire_many(…)``."""
        return Request(self, "acquire_many", tuple(keys), wait, _Many(self._locks, keys, ttl, wait))

    def try_acquire(self, key: str, ttl: float) -> Request:
        """``lease = await locks.try_acquire(…)``, then ``async with lease``."""
        return Request(self, "try_acquire", (key,), 0.0, _Try(self._locks, key, ttl))

    def hold(self, key: str, ttl: float, wait: Wait) -> Request:
        """``lease = await locks.acquire(…)`` without a block: its code checks whether the lease is lost."""
        return Request(self, "hold", (key,), wait, _Hold(self._locks.acquire(key, ttl, wait=wait)))

    def enter_late(self, key: str, ttl: float, wait: Wait, pause: float) -> Request:
        """``lease = await locks.acquire(…)``, and later ``async with lease``."""
        inner = _Late(self._locks.acquire(key, ttl, wait=wait), pause)
        return Request(self, "enter_late", (key,), wait, inner, extra=pause)


class Request:
    """One request and the code that runs under it: an async context manager.

    Yields itself; :attr:`leases` is empty if the key was busy.
    """

    def __init__(
        self, client: Client, kind: str, keys: tuple[str, ...], wait: Wait, inner: _Way, extra: float = 0.0
    ) -> None:
        self.leases: list[Lease] = []
        self._client = client
        self._history = client.process.world.history
        self._process = client.process.name
        self._kind = kind
        self._keys = keys
        self._wait = float(wait) + extra if isinstance(wait, (int, float)) else None
        self._inner = inner
        self._number = self._history.new_request()
        self._token: Token[int] | None = None
        self._outer: Request | None = None
        self._inside: Token[Request | None] | None = None

    async def __aenter__(self) -> Request:
        add, now = self._history.add, self._history.now
        add(RequestBegan(now(), self._process, self._number, self._kind, self._keys, self._wait))
        self._token = REQUEST.set(self._number)
        try:
            self.leases = await self._inner.enter()
        except BaseException as error:
            add(RequestEnded(now(), self._process, self._number, _outcome(error)))
            self._through()
            raise
        add(RequestEnded(now(), self._process, self._number, "granted" if self.leases else "busy"))
        for lease in self.leases:
            ttl = lease._request.ttl  # noqa: SLF001 - what it was asked for with
            about = (self._number, lease.key, lease.owner, lease.fence, ttl, self._inner.guarded)
            add(BodyBegan(now(), self._process, *about))
        self._outer = _current.get()
        self._inside = _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inside is not None:
            _current.reset(self._inside)
        for lease in self.leases:
            self._history.add(BodyEnded(self._history.now(), self._process, self._number, lease.key, lease.owner))
        try:
            await self._inner.leave(kind, error, trace)
        finally:
            self._through()

    async def work(self, seconds: Sequence[float]) -> None:
        """Work under the lease in pieces of the given durations, writing to the target before and after."""
        self._touch()
        for piece in seconds:
            await asyncio.sleep(piece)
            self._touch()

    def _touch(self) -> None:
        """Record that code runs now, under these leases and those of the enclosing blocks."""
        history = self._history
        if self._outer is not None:
            self._outer._touch()  # noqa: SLF001 - one of us
        for lease in self.leases:
            if not self._inner.guarded:
                lease.ensure()
            about = (history.now(), self._process, self._number, lease.key, lease.owner)
            history.add(BodyRan(*about))
            history.add(Wrote(*about, lease.fence, self._client.target.write(lease.key, lease.fence)))

    def _through(self) -> None:
        if self._token is not None:
            REQUEST.reset(self._token)
        self._history.add(GaveUp(self._history.now(), self._process, self._number))


_current: ContextVar[Request | None] = ContextVar("interlock_simulated_block", default=None)


def _outcome(error: BaseException) -> str:
    kinds = {
        LockTimeoutError: "timeout",
        DeadlockError: "deadlock",
        StoreUnavailableError: "unavailable",
        LeaseLostError: "lost",
        MisuseError: "closed",
        asyncio.CancelledError: "cancelled",
    }
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), repr(error))


class _Way(Protocol):
    """One way to acquire and release leases. ``guarded`` code is cancelled when its lease is lost."""

    guarded: bool

    async def enter(self) -> list[Lease]: ...

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]: ...


class _Block:
    guarded = True

    def __init__(self, acquisition: Acquisition) -> None:
        self._acquisition = acquisition

    async def enter(self) -> list[Lease]:
        return [await self._acquisition.__aenter__()]

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        return self._acquisition.__aexit__(kind, error, trace)


class _Many:
    guarded = True

    def __init__(self, locks: Locks, keys: Sequence[str], ttl: float, wait: Wait) -> None:
        self._acquisition = locks.acquire_many(keys, ttl, wait=wait)

    async def enter(self) -> list[Lease]:
        return list((await self._acquisition.__aenter__()).values())

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        return self._acquisition.__aexit__(kind, error, trace)


class _Try:
    guarded = True

    def __init__(self, locks: Locks, key: str, ttl: float) -> None:
        self._locks = locks
        self._key = key
        self._ttl = ttl
        self._lease: Lease | None = None

    async def enter(self) -> list[Lease]:
        self._lease = await self._locks.try_acquire(self._key, self._ttl)
        return [] if self._lease is None else [await self._lease.__aenter__()]

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)


class _Hold:
    guarded = False

    def __init__(self, acquisition: Acquisition) -> None:
        self._acquisition = acquisition
        self._lease: Lease | None = None

    async def enter(self) -> list[Lease]:
        self._lease = await self._acquisition
        return [self._lease]

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            try:
                await self._lease.release()
            except LeaseLostError:
                if error is None:
                    raise


class _Late:
    guarded = True

    def __init__(self, acquisition: Acquisition, pause: float) -> None:
        self._acquisition = acquisition
        self._pause = pause
        self._lease: Lease | None = None

    async def enter(self) -> list[Lease]:
        lease = await self._acquisition
        try:
            await asyncio.sleep(self._pause)
        except BaseException:
            with suppress(LeaseLostError):
                await lease.release()
            raise
        self._lease = await lease.__aenter__()
        return [self._lease]

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)
