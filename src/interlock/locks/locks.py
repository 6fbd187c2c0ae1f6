"""Locks: ``app.locks``, or without an App ``Locks.from_url(url)``."""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from interlock.arguments import Seconds, Wait, checked_key, checked_limit, checked_ttl, checked_wait
from interlock.deadlocks import retry_on_deadlock
from interlock.errors import InvalidArgumentError, LockTimeoutError, MisuseError, NotFoundError
from interlock.locks.engine import Engine
from interlock.locks.sync import SyncLocks
from interlock.locks.views import holder_view, lock_view
from interlock.ports.journal import Action
from interlock.ports.store import Capability
from interlock.selections import LockFilter
from interlock.service import Service

if TYPE_CHECKING:
    import builtins
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
    from types import TracebackType

    from interlock.explanation import Explanation
    from interlock.locks.engine import FirstAsk
    from interlock.locks.lease import Lease
    from interlock.locks.views import Holder, LockView
    from interlock.operations import BulkResult
    from interlock.ports.locks import Left, LockRequest
    from interlock.store_client import StoreClient
    from interlock.telemetry.metrics import LeaseCounts, LockMetrics

__all__ = ["Acquisition", "Locks", "ManyAcquisition"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULT_TTL = 300.0
_DEFAULT_WAIT = 60.0


class Locks(Service[Engine]):
    """Leases on keys, in one store.

    At most one lease per key is live. Waiters are served first come, first served. Each grant's fence is larger than
    all earlier ones. A lease is renewed while its holder works, and the holder is stopped before the lease can expire.
    """

    needs = Capability.LOCKS
    _these = "These locks"

    _apart: tuple[str, LeaseCounts] | None = None

    def _new_engine(self, store_client: StoreClient) -> Engine:
        return Engine(store_client, self._apart)

    def count_apart(self, prefix: str, counts: LeaseCounts) -> None:
        """Count the keys with this prefix in ``counts`` instead of in :attr:`metrics`."""
        self._apart = (prefix, counts)
        if self._engine is not None:
            self._engine.apart = self._apart

    @property
    def sync(self) -> SyncLocks:
        """The same for synchronous code: scripts, threads, plain functions."""
        return SyncLocks(self)

    @property
    def metrics(self) -> LockMetrics:
        """The metrics of these locks; register them with a Prometheus registry."""
        return self._opened.metrics

    def acquire(self, key: str, ttl: Seconds = _DEFAULT_TTL, *, wait: Wait = _DEFAULT_WAIT) -> Acquisition:
        """Acquire the lock: ``async with locks.acquire(key) as lease: …``, or ``lease = await locks.acquire(key)``.

        Waits in the queue for up to ``wait`` seconds, then raises :class:`LockTimeoutError`. Raises
        :class:`DeadlockError` at once if waiting could never end. The lease lives for ``ttl`` at a time and is renewed
        for as long as it is held. A process that dies loses it within its session (15 s).
        """
        lives = _DEFAULT_TTL if ttl is _DEFAULT_TTL else checked_ttl(ttl)
        waits = _DEFAULT_WAIT if wait is _DEFAULT_WAIT else checked_wait(wait)
        return Acquisition(self._running, checked_key(key), lives, waits)

    async def try_acquire(self, key: str, ttl: Seconds = _DEFAULT_TTL) -> Lease | None:
        """Acquire the lock if it is free and has no waiters, else return None. Use the lease as a context manager."""
        try:
            return await self._running.take(checked_key(key), checked_ttl(ttl), 0.0)
        except LockTimeoutError:
            return None

    def acquire_many(
        self, keys: Iterable[str], ttl: Seconds = _DEFAULT_TTL, *, wait: Wait = _DEFAULT_WAIT
    ) -> ManyAcquisition:
        """Acquire several locks, all or none, in an order that cannot deadlock. Yields a dict from key to lease.

        ``wait`` bounds the whole acquisition.
        """
        if isinstance(keys, str):
            raise InvalidArgumentError("acquire_many takes several keys, not one string.", remedy="Pass a list.")
        ordered = sorted({checked_key(key) for key in keys})
        if not ordered:
            raise InvalidArgumentError("acquire_many got no keys.", remedy="Pass at least one.")
        return ManyAcquisition(self._running, ordered, checked_ttl(ttl), checked_wait(wait))

    def retry_on_deadlock(
        self, max_retries: int = 3, base_delay: Seconds = 0.1, max_delay: Seconds = 2.0, jitter: Seconds = 0.05
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Return a decorator that runs a function again after a deadlock, ``max_retries`` times in all.

        The same as :func:`interlock.deadlocks.retry_on_deadlock`, counted in the metrics of these locks.
        """
        return retry_on_deadlock(max_retries, base_delay, max_delay, jitter, counts=lambda: self.metrics.deadlocks)

    async def release_with(
        self,
        leases: Sequence[Lease],
        operation: Callable[[Sequence[LockRequest]], Awaitable[Sequence[Left] | None]],
    ) -> None:
        """Let an operation of the same store release leases in its own transaction. For records."""
        await self._running.release_with(leases, operation)

    async def force_release(self, key: str, *, reason: str, by: str) -> Holder | None:
        """Release the lock by force, and give the holder the reason. Returns the former holder; None if it was free.

        The next waiter gets it at once. The former holder's work is cancelled as soon as the message arrives, and its
        fenced writes are refused from now on.
        """
        holder = await self._running.operations.force_release(key, by=by, reason=reason)
        return None if holder is None else holder_view(holder)

    async def force_release_all(self, *, prefix: str = "", reason: str, by: str) -> BulkResult[str]:
        """Release every held lock whose key starts with ``prefix`` by force; see :meth:`force_release`."""
        wanted = LockFilter(prefix)
        return await self._running.operations.apply(Action.LOCK_FORCE_RELEASE, wanted, by=by, reason=reason)

    async def matching(self, *, prefix: str = "") -> builtins.list[str]:
        """The keys of all held locks that start with ``prefix``; ``len()`` counts them before an operation on all."""
        return await self._running.operations.matching(LockFilter(prefix))

    async def list(self, *, limit: int = 1000) -> Sequence[LockView]:
        """List the keys that are held or waited for, by name, as one snapshot."""
        return [lock_view(row) for row in await self._running.store.locks.list(limit=checked_limit(limit))]

    async def get(self, key: str) -> LockView:
        """Return one key's holder and waiters. Raises :class:`NotFoundError` if it is neither held nor waited for."""
        rows = await self._running.store.locks.list(checked_key(key))
        if not rows:
            raise NotFoundError(f"The lock {key!r} is not held or waited for.", remedy="See: interlock locks list.")
        return lock_view(rows[0])

    async def explain(self, key: str) -> Explanation:
        """Explain why a key is free, held or waited for, and what to do."""
        return await self._explain("lock", checked_key(key))


class Acquisition:
    """A lock about to be acquired: an async context manager, and awaitable."""

    __slots__ = ("_engine", "_key", "_ttl", "_wait", "first", "lease")

    lease: Lease
    """Set when the block starts."""
    first: FirstAsk | None
    """How to ask for the first time, if not as usual. For records."""

    def __init__(self, engine: Engine, key: str, ttl: float, wait: float | None) -> None:
        self._engine: Engine | None = engine
        self._key = key
        self._ttl = ttl
        self._wait = wait
        self.first = None

    def __await__(self) -> Generator[Any, None, Lease]:
        engine, self._engine = self._engine, None
        if engine is None:
            raise _used_twice()
        return engine.take(self._key, self._ttl, self._wait, None, self.first).__await__()

    def __aenter__(self) -> Coroutine[Any, Any, Lease]:
        engine = self._engine
        if engine is None:
            raise _used_twice()
        self._engine = None
        return engine.take(self._key, self._ttl, self._wait, self, self.first)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        return self.lease._leave(kind, error)


def _used_twice() -> MisuseError:
    return MisuseError("This acquisition was already used.", remedy="Call acquire() each time.")


class ManyAcquisition:
    """Several locks about to be acquired, in the same order everywhere."""

    __slots__ = ("_engine", "_held", "_ttl", "_wait", "keys")

    def __init__(self, engine: Engine, keys: list[str], ttl: float, wait: float | None) -> None:
        self._engine = engine
        self.keys = keys
        """The keys, each once, in this order."""
        self._ttl = ttl
        self._wait = wait
        self._held: list[Acquisition] = []

    async def __aenter__(self) -> dict[str, Lease]:
        give_up = None if self._wait is None else self._engine.monotonic() + self._wait
        leases: dict[str, Lease] = {}
        try:
            for key in self.keys:
                left = None if give_up is None else max(0.0, give_up - self._engine.monotonic())
                one = Acquisition(self._engine, key, self._ttl, left)
                leases[key] = await one.__aenter__()
                self._held.append(one)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return leases

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last: BaseException | None = None
        while self._held:
            try:
                await self._held.pop().__aexit__(kind, error, trace)
            except BaseException as failed:  # noqa: BLE001 - the others are released first
                last = failed  # as in nested blocks, the last error propagates
                kind, error, trace = type(failed), failed, failed.__traceback__
        if last is not None:
            raise last
