"""The public face of locks: ``app.locks``, or alone ``Locks.from_url(url)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from interlock.arguments import Seconds, Wait, checked_key, checked_limit, checked_ttl, checked_wait
from interlock.errors import InvalidArgumentError, LockTimeoutError, MisuseError, NotFoundError
from interlock.locks.deadlocks import retry_on_deadlock
from interlock.locks.engine import Engine
from interlock.locks.explain import explain
from interlock.locks.views import holder_view, lock_view
from interlock.ports.store import Capability
from interlock.service import Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
    from types import TracebackType

    from interlock.explanation import Explanation
    from interlock.locks.lease import Lease
    from interlock.locks.views import Holder, LockView
    from interlock.store_client import StoreClient
    from interlock.telemetry.metrics import LockMetrics

__all__ = ["Acquisition", "Locks", "ManyAcquisition"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULT_TTL = 300.0
_DEFAULT_WAIT = 60.0


class Locks(Service[Engine]):
    """Leases on keys, in one store.

    At most one lease per key is live; waiters are served first come, first served; each grant's fence is larger than
    all before it. A lease is renewed while its holder works, and its holder is stopped before it can run out.
    """

    needs = Capability.LOCKS
    _these = "These locks"

    def _new_engine(self, store_client: StoreClient) -> Engine:
        return Engine(store_client)

    @property
    def metrics(self) -> LockMetrics:
        """What these locks have counted and timed; register it with a Prometheus registry."""
        return self._opened.metrics

    def acquire(self, key: str, ttl: Seconds = _DEFAULT_TTL, *, wait: Wait = _DEFAULT_WAIT) -> Acquisition:
        """Take the lock: ``async with locks.acquire(key) as lease: …``, or ``lease = await locks.acquire(key)``.

        Waits its turn for up to ``wait`` seconds and raises :class:`LockTimeoutError` after that,
        :class:`DeadlockError` at once if waiting could never end. The lease lives for ``ttl`` at a time and
        is renewed for as long as it is held; a process that dies loses it within its session (15 s).
        """
        lives = _DEFAULT_TTL if ttl is _DEFAULT_TTL else checked_ttl(ttl)
        waits = _DEFAULT_WAIT if wait is _DEFAULT_WAIT else checked_wait(wait)
        return Acquisition(self._running, checked_key(key), lives, waits)

    async def try_acquire(self, key: str, ttl: Seconds = _DEFAULT_TTL) -> Lease | None:
        """Take the lock if it is free and nobody is before us, else None. Use the lease as a context manager."""
        try:
            return await self._running.take(checked_key(key), checked_ttl(ttl), 0.0)
        except LockTimeoutError:
            return None

    def acquire_many(
        self, keys: Iterable[str], ttl: Seconds = _DEFAULT_TTL, *, wait: Wait = _DEFAULT_WAIT
    ) -> ManyAcquisition:
        """Take several locks, all or none, in an order that cannot deadlock: yields a dict from key to lease.

        ``wait`` bounds the whole of it.
        """
        if isinstance(keys, str):
            raise InvalidArgumentError("acquire_many takes several keys, not one text.", remedy="Pass a list.")
        ordered = sorted({checked_key(key) for key in keys})
        if not ordered:
            raise InvalidArgumentError("acquire_many was given no keys.", remedy="Pass at least one.")
        return ManyAcquisition(self._running, ordered, checked_ttl(ttl), checked_wait(wait))

    def retry_on_deadlock(
        self, *, max_retries: int = 3, base_delay: float = 0.1, max_delay: float = 2.0, jitter: float = 0.05
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """A decorator for async functions that take locks inside one another: run again after a deadlock.

        Each retry is logged and counted; when all are used up, the last :class:`DeadlockError` says so.
        """
        return retry_on_deadlock(lambda: self.metrics, max_retries, base_delay, max_delay, jitter)

    async def force_release(self, key: str, *, reason: str, by: str) -> Holder | None:
        """Take the lock from whoever holds it, and tell the holder why. None if nobody did.

        The next in the queue gets it at once; the old holder's work is cancelled as soon as it hears, and its fenced
        writes are refused from now on.
        """
        holder = await self._running.operations.force_release(key, by=by, reason=reason)
        return None if holder is None else holder_view(holder)

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
        if self._explainer is not None:
            return await self._explainer("lock", checked_key(key))
        rows = await self._running.store.locks.list(checked_key(key))
        return explain(key, rows[0] if rows else None)


class Acquisition:
    """A lock about to be taken: an async context manager, and awaitable."""

    __slots__ = ("_engine", "_key", "_ttl", "_wait", "lease")

    lease: Lease
    """Set as the block begins."""

    def __init__(self, engine: Engine, key: str, ttl: float, wait: float | None) -> None:
        self._engine: Engine | None = engine
        self._key = key
        self._ttl = ttl
        self._wait = wait

    def __await__(self) -> Generator[Any, None, Lease]:
        engine, self._engine = self._engine, None
        if engine is None:
            raise _used_twice()
        return engine.take(self._key, self._ttl, self._wait).__await__()

    def __aenter__(self) -> Coroutine[Any, Any, Lease]:
        engine = self._engine
        if engine is None:
            raise _used_twice()
        self._engine = None
        return engine.take(self._key, self._ttl, self._wait, self)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        return self.lease.leave(kind, error)


def _used_twice() -> MisuseError:
    return MisuseError("This acquisition was used already.", remedy="Call acquire() each time.")


class ManyAcquisition:
    """Several locks about to be taken, in one order everywhere."""

    __slots__ = ("_engine", "_held", "_keys", "_ttl", "_wait")

    def __init__(self, engine: Engine, keys: list[str], ttl: float, wait: float | None) -> None:
        self._engine = engine
        self._keys = keys
        self._ttl = ttl
        self._wait = wait
        self._held: list[Acquisition] = []

    async def __aenter__(self) -> dict[str, Lease]:
        give_up = None if self._wait is None else self._engine.monotonic() + self._wait
        leases: dict[str, Lease] = {}
        try:
            for key in self._keys:
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
            except BaseException as failed:  # noqa: BLE001 - the others are given back first
                last = failed  # as in nested blocks, the last error is the one that goes on
                kind, error, trace = type(failed), failed, failed.__traceback__
        if last is not None:
            raise last
