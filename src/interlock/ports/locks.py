"""Leases on keys: the contract that every store keeps.

At most one lease per key is live at any time. A lease is live while its own expiry and its session's both lie ahead
by the store's clock. Each grant's fence is larger than every fence the store granted before it in the namespace.

A key is granted only in answer to a request that is under way (:meth:`LockStore.ask`), or handed over by a release of
the very process that the next in the queue belongs to; nobody receives a lock without knowing. Those who asked and
could not have it queue in the order of their first request. A free key with a queue belongs to the first live waiter:
newcomers queue behind. A waiter is live while its session lives and its time to wait has not run out. A waiter that is
first but does not ask again within ``TURN_SECONDS`` of the key coming free lets the one behind it go ahead (each
further place takes as long again) and keeps its place.
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
    "Want",
]

TURN_SECONDS = 10.0
"""How long a free key is kept for the first in its queue before the next may take it."""


@dataclass(slots=True)
class Want:
    """A request for a key.

    ``owner`` identifies the request and the lease that answers it, so that asking again is safe. It belongs to one
    key, caller and session for ever.
    """

    key: str
    owner: str
    caller: str
    """Who waits, in the graph of waits: one caller may hold many leases and is blocked while it waits for one."""
    session: str
    ttl: float
    wait: float | None
    """Seconds to queue for at most; 0 means never queue, None for ever."""
    nested: bool
    """Whether the caller holds other leases. Only then can its wait close a cycle."""


class Holder(NamedTuple):
    """Who has a key, and since when, by the store's clock."""

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
    """One place in a key's queue."""

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
    """A key as one consistent snapshot shows it: its holder, if it has a live one, and its queue in order."""

    key: str
    holder: Holder | None
    waiters: tuple[Waiter, ...]
    free_since: float | None
    seen_at: float
    more_waiters: int = 0
    """How many stand in the queue behind those that are shown, counted up to 10,000."""

    @property
    def wanted(self) -> bool:
        """Whether anybody alive holds or awaits it."""
        return self.holder is not None or any(waiter.live for waiter in self.waiters)


class LockCounts(NamedTuple):
    """How many keys are held and how many wait for one, both counted up to 10,000."""

    held: int
    waiting: int
    seen_at: float


class Wait(NamedTuple):
    """One edge of the graph of waits: ``caller`` waits for ``key``, which ``holder`` has."""

    caller: str
    key: str
    holder: str


@dataclass(slots=True)
class Granted:
    """The key is the asker's, until ``expires_at`` by the store's clock unless renewed."""

    fence: int
    expires_at: float


class Waiting(NamedTuple):
    """The asker stands in the queue; :meth:`LockStore.list` tells where, and behind whom.

    ``look_again`` says after how many seconds the answer may have changed with nobody telling: the holder may then
    have died, or those ahead may have let their turn pass.
    """

    look_again: float


class Busy(NamedTuple):
    """The key cannot be had at once and the asker did not want to queue."""

    holder: Holder | None


class Deadlocked(NamedTuple):
    """Queueing would close this cycle of waits. The asker is not in the queue."""

    cycle: tuple[Wait, ...]


Answer = Granted | Waiting | Busy | Deadlocked | SessionEnded


class Left(NamedTuple):
    """What leaving a key found: whether the owner held it, and if not, why its lease had ended.

    ``next_owner`` is the first live waiter if the key is free now; its process was told, unless it is the leaver's
    own session, which can tell it sooner itself. In that case a store may also hand the key over in this same step:
    ``handed`` is then the next one's grant.
    """

    held: bool
    why: str
    next_owner: str | None
    handed: Granted | None = None


class Transaction(Protocol):
    """A transaction of the store that a caller's statements run in. Parameters are always passed apart."""

    async def execute(self, sql: str, *args: Any) -> None:
        """Run a statement."""
        ...

    async def fetch(self, sql: str, *args: Any) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        ...


class LockStore(Protocol):
    """Leases in one store and namespace."""

    async def ask(self, want: Want) -> Answer:
        """Take the key, or queue for it, in one atomic step.

        Repeating a request never does harm: who holds the key already is granted it again with the same fence and
        a new expiry, who queues already keeps its place. A wait that would close a cycle is found in this same
        step. Who begins to wait last is the one that is told.
        """
        ...

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give each live lease its full ttl again, all in one operation. What has ended is never brought back."""
        ...

    async def leave(self, want: Want) -> Left:
        """Give up the lease or the place in the queue, whichever the owner has, and tell whoever is next."""
        ...

    async def force(self, key: str, why: str, attribution: Attribution) -> Holder | None:
        """Take the key from its holder and tell the holder why; None if the key was free."""
        ...

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Which waiters of a session should ask again now, in one look. Changes nothing.

        Those are the waiters whose turn may have come, and those of ``owners`` that are in no queue any more.
        """
        ...

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Every (key, owner) under which the session holds or queues for something."""
        ...

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[LockView]:
        """Held or awaited keys (or just the one) by name, as one snapshot; at most ``limit`` of them, those after
        ``after``, each with its first ``waiters``. On Redis a snapshot covers up to a thousand keys, so that a long
        list holds nobody up."""
        ...

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[LockView]:
        """The keys that a session waits for, by name; at most ``limit`` of them."""
        ...

    async def count(self) -> LockCounts:
        """How many keys are held, and how many wait."""
        ...

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that commits only if the lease is live: nobody else can be granted the key before it ends.

        Raises ``LeaseLostError`` if it is not live, ``CapabilityError`` if the store has no transactions.
        """
        ...
