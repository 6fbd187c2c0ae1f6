"""Locks for synchronous code: ``app.sync.locks``, or alone ``Locks.from_url(url).sync``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from interlock.arguments import checked_wait

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from interlock.arguments import Seconds, Wait
    from interlock.explanation import Explanation
    from interlock.locks.lease import Lease
    from interlock.locks.locks import Locks
    from interlock.locks.views import Holder, LockView
    from interlock.operations import BulkResult
    from interlock.portal import Portal

__all__ = ["SyncLease", "SyncLeases", "SyncLocks"]

_DEFAULT_TTL = 300.0
_DEFAULT_WAIT = 60.0


class SyncLease:
    """One grant of one key, for synchronous code: ``with app.sync.locks.acquire(key) as lease: …``.

    It is renewed in the background until the block ends, or until :meth:`release`. Nothing can interrupt synchronous
    code when a lease is lost, so call :meth:`ensure` before each step that relies on it. A block whose lease was lost
    raises :class:`LeaseLostError` at its end. A block that goes on past the end of the process's session is stuck work:
    ``Settings.stuck_work`` says what happens.
    """

    def __init__(self, portal: Portal, lease: Lease) -> None:
        self._portal = portal
        self._process = portal.process
        self._lease = lease

    def __repr__(self) -> str:
        return f"<Sync{repr(self._lease)[1:]}"

    @property
    def key(self) -> str:
        """The key that is owned."""
        return self._lease.key

    @property
    def fence(self) -> int:
        """Larger than the fence of every earlier grant of the key; for writes to other systems."""
        return self._lease.fence

    @property
    def expires_at(self) -> datetime:
        """When the lease ends by the store's clock, unless it is renewed."""
        return self._lease.expires_at

    @property
    def lost(self) -> bool:
        """Whether it may have ended while it was held. Known without asking the store, and never too late."""
        return self._lease.lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless the lease is certainly held."""
        self._lease.ensure()

    def release(self) -> None:
        """Release the key. Raises :class:`LeaseLostError` if it was no longer held. Releasing twice is harmless."""
        self._portal.run(self._lease.release, "lease.release()")

    def __enter__(self) -> Self:
        self._portal.run(self._begin, "with lease")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process != self._portal.process:
            return  # forked: the parent releases it

        async def leave() -> None:
            await self._lease._leave(kind, error)

        self._portal.run(leave, "The end of the block")

    async def _begin(self) -> None:
        self._lease._enter_thread()


class SyncLeases(dict[str, SyncLease]):
    """Several leases by key: ``with app.sync.locks.acquire_many(keys) as leases: …``."""

    def __init__(self, leases: Mapping[str, SyncLease]) -> None:
        super().__init__(leases)
        self._entered: list[SyncLease] = []

    def release(self) -> None:
        """Release all of them. If one was lost, the others are released and the error is raised."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        try:
            for lease in self.values():
                lease.__enter__()
                self._entered.append(lease)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last: BaseException | None = None
        for lease in reversed(self.values()):
            try:
                if lease in self._entered:
                    lease.__exit__(kind, error, trace)
                else:
                    lease.release()
            except BaseException as failed:  # noqa: BLE001 - the others are released first
                last = failed
                kind, error, trace = type(failed), failed, failed.__traceback__
        self._entered.clear()
        if last is not None:
            raise last


class SyncLocks:
    """Leases on keys, for synchronous code; see :class:`Locks`."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self._portal = locks.portal

    def acquire(self, key: str, ttl: Seconds = _DEFAULT_TTL, *, wait: Wait = _DEFAULT_WAIT) -> SyncLease:
        """Acquire the lock now: ``with app.sync.locks.acquire(key, wait=5) as lease: …``; see :meth:`Locks.acquire`.

        Without a block, call :meth:`SyncLease.release` at the end.
        """

        async def acquire() -> Lease:
            return await self._locks.acquire(key, ttl, wait=wait)

        instead = "async with app.locks.acquire(…)"
        lease = self._portal.run(
            acquire, f"locks.acquire({key!r})", instead=instead, waits=True, undo=lambda lease: lease.release()
        )
        return SyncLease(self._portal, lease)

    def try_acquire(self, key: str, ttl: Seconds = _DEFAULT_TTL) -> SyncLease | None:
        """Acquire the lock if it is free and has no waiters, else return None."""

        async def release(lease: Lease | None) -> None:
            if lease is not None:
                await lease.release()

        lease = self._portal.run(
            lambda: self._locks.try_acquire(key, ttl),
            f"locks.try_acquire({key!r})",
            instead="await app.locks.try_acquire(…)",
            undo=release,
        )
        return None if lease is None else SyncLease(self._portal, lease)

    def acquire_many(
        self, keys: Iterable[str], ttl: Seconds = _DEFAULT_TTL, *, wait: Wait = _DEFAULT_WAIT
    ) -> SyncLeases:
        """Acquire several locks now, all or none: ``with app.sync.locks.acquire_many(keys) as leases: …``."""
        given = keys if isinstance(keys, str) else [*keys]

        async def acquire() -> dict[str, Lease]:
            ordered = self._locks.acquire_many(given, ttl, wait=wait).keys
            seconds, now = checked_wait(wait), time.monotonic
            give_up = None if seconds is None else now() + seconds
            leases: dict[str, Lease] = {}
            try:
                for key in ordered:
                    left = wait if give_up is None else max(0.0, give_up - now())
                    leases[key] = await self._locks.acquire(key, ttl, wait=left)
            except BaseException:
                await release(leases)
                raise
            return leases

        async def release(leases: dict[str, Lease]) -> None:
            for lease in reversed(leases.values()):
                await lease.release()

        instead = "async with app.locks.acquire_many(…)"
        leases = self._portal.run(acquire, "locks.acquire_many()", instead=instead, waits=True, undo=release)
        return SyncLeases({key: SyncLease(self._portal, lease) for key, lease in leases.items()})

    def force_release(self, key: str, *, reason: str, by: str) -> Holder | None:
        """Release the lock by force; see :meth:`Locks.force_release`."""
        return self._portal.run(
            lambda: self._locks.force_release(key, reason=reason, by=by), f"locks.force_release({key!r})"
        )

    def force_release_all(self, *, prefix: str = "", reason: str, by: str) -> BulkResult[str]:
        """Release every held lock whose key starts with ``prefix`` by force."""
        return self._portal.run(
            lambda: self._locks.force_release_all(prefix=prefix, reason=reason, by=by), "locks.force_release_all()"
        )

    def matching(self, *, prefix: str = "") -> builtins.list[str]:
        """The keys of all held locks that start with ``prefix``."""
        return self._portal.run(lambda: self._locks.matching(prefix=prefix), "locks.matching()")

    def list(self, *, limit: int = 1000) -> Sequence[LockView]:
        """List the keys that are held or waited for, by name, as one snapshot."""
        return self._portal.run(lambda: self._locks.list(limit=limit), "locks.list()")

    def get(self, key: str) -> LockView:
        """Return one key's holder and waiters. Raises :class:`NotFoundError` if it is neither held nor waited for."""
        return self._portal.run(lambda: self._locks.get(key), f"locks.get({key!r})")

    def explain(self, key: str) -> Explanation:
        """Explain why a key is free, held or waited for, and what to do."""
        return self._portal.run(lambda: self._locks.explain(key), f"locks.explain({key!r})")
