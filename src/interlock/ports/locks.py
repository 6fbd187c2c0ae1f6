"""Leases on keys: the contract that every store keeps.

**Exclusive.** At most one lease per key is live at any time. A lease is live while neither it nor its session has
expired by the store's clock. The fence of each grant is larger than every fence that the store granted before in the
namespace.

**Grants.** A key is granted only in answer to a pending request (:meth:`LockStore.ask`), or handed over by a release in
the process that the next waiter belongs to. So no process holds a lock without knowing.

**Order.** Requests that cannot be granted queue in the order in which they were first made. A free key with a queue
belongs to the first live waiter, and new requests queue behind it. A waiter is live while its session is live and its
time to wait has not run out. If the first waiter does not ask again within ``TURN_SECONDS`` after the key became free,
the next one may take the key (and so on, ``TURN_SECONDS`` for each further waiter). The first keeps its position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from interlock.ports.leases import Held, Renewed, SessionEnded, Turns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.ports.journal import Attribution

__all__ = [
    "TURN_SECONDS",
    "Answer",
    "Busy",
    "Deadlocked",
    "Granted",
    "Held",
    "Holder",
    "Left",
    "LockCounts",
    "LockStore",
    "LockView",
    "Renewed",
    "SessionEnded",
    "Transaction",
    "Turns",
    "Wait",
    "Waiter",
    "Waiting",
    "LockRequest",
]

TURN_SECONDS = 10.0
"""How long a free key is reserved for the first waiter before the next one may take it."""


@dataclass(slots=True)
class LockRequest:
    """A request for a key.

    ``owner`` identifies the request and the lease that answers it, so that asking again is safe. It belongs to one
    key, caller and session permanently.
    """

    key: str
    owner: str
    caller: str
    """The node in the wait graph. A caller may hold many leases, and it is blocked while it waits for one."""
    session: str
    ttl: float
    wait: float | None
    """How many seconds to queue at most; 0 means not to queue, None to queue without a limit."""
    nested: bool
    """Whether the caller holds other leases. Only then can its wait close a cycle."""


class Holder(NamedTuple):
    """The holder of a key. Times are the store's."""

    owner: str
    caller: str
    session: str
    host: str
    pid: int
    program: str
    fence: int
    granted_at: float
    expires_at: float
    """The earlier of the lease's and the session's expiry."""


class Waiter(NamedTuple):
    """A request in a key's queue."""

    owner: str
    caller: str
    session: str
    host: str
    pid: int
    program: str
    asked_at: float
    gives_up_at: float | None
    live: bool


class LockView(NamedTuple):
    """A key in a consistent snapshot: its live holder, if any, and its queue in order."""

    key: str
    holder: Holder | None
    waiters: tuple[Waiter, ...]
    free_since: float | None
    seen_at: float
    more_waiters: int = 0
    """The number of further waiters that are not listed, counted up to 10,000."""

    @property
    def wanted(self) -> bool:
        """Whether the key has a live holder or waiter."""
        return self.holder is not None or any(waiter.live for waiter in self.waiters)


class LockCounts(NamedTuple):
    """The numbers of held keys and of waiters, each counted up to 10,000."""

    held: int
    waiting: int
    seen_at: float


class Wait(NamedTuple):
    """An edge of the wait graph: ``caller`` waits for ``key``, which ``holder`` holds."""

    caller: str
    key: str
    holder: str


@dataclass(slots=True)
class Granted:
    """The request was granted until ``expires_at`` by the store's clock, unless it is renewed."""

    fence: int
    expires_at: float


class Waiting(NamedTuple):
    """The request is in the queue; :meth:`LockStore.list` shows its position.

    ``recheck_in`` is the number of seconds after which the answer may have changed without a message: the holder may
    have died by then, or earlier waiters may have missed their turn.
    """

    recheck_in: float


class Busy(NamedTuple):
    """The key is not available, and the request did not want to queue."""

    holder: Holder | None


class Deadlocked(NamedTuple):
    """Queueing would close this cycle of waits. The request is not in the queue."""

    cycle: tuple[Wait, ...]


Answer = Granted | Waiting | Busy | Deadlocked | SessionEnded


class Left(NamedTuple):
    """The result of leaving a key: whether the owner held it, and if not, why its lease had ended.

    ``next_owner`` is the first live waiter if the key is free now. The store has notified its process, unless it is of
    the same session, which can notify it faster itself. In that case a store may also hand the key over in this step:
    ``handed`` is then the grant of the next owner.
    """

    held: bool
    why: str
    next_owner: str | None
    handed: Granted | None = None


class Transaction(Protocol):
    """A transaction of the store for a caller's statements. Parameters are passed separately, never in the SQL."""

    async def execute(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        ...

    async def fetch(self, sql: str, *args: Any) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        ...


class LockStore(Protocol):
    """Leases in one store and namespace."""

    async def ask(self, request: LockRequest) -> Answer:
        """Take the key, or queue for it, in one atomic step.

        Repeating a request is safe: a holder is granted the key again with the same fence and a new expiry, and a
        waiter keeps its position. A wait that would close a cycle is detected in this step, and the request that would
        close it gets the error.
        """
        ...

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Extend each live lease by its full TTL, all in one operation. A lease that has ended is never revived."""
        ...

    async def leave(self, request: LockRequest) -> Left:
        """Release the lease or leave the queue, whichever applies to the owner, and notify the next waiter."""
        ...

    async def force(self, key: str, why: str, attribution: Attribution) -> Holder | None:
        """Take the key from its holder and notify the holder; return None if the key was free."""
        ...

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiters of a session that should ask again now. Changes nothing.

        These are the waiters whose turn may have come, and those of ``owners`` that are no longer in a queue.
        """
        ...

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return every (key, owner) with which the session holds a key or waits for one."""
        ...

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[LockView]:
        """List held or awaited keys (or one) by name as one snapshot: at most ``limit``, those after ``after``, each
        with its first ``waiters``. On Redis a snapshot covers up to a thousand keys, so that a long list does not block
        the server."""
        ...

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[LockView]:
        """List the keys that a session waits for, by name; at most ``limit``."""
        ...

    async def count(self) -> LockCounts:
        """Count held keys and waiters."""
        ...

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction that commits only if the lease is live; the key is not granted again before it ends.

        Raises ``LeaseLostError`` if the lease is not live, ``CapabilityError`` if the store has no transactions.
        """
        ...
