"""What a store is: a way to one backend, opened and closed once, with a port for each concept it can carry."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from interlock.ports.claims import ClaimStore
    from interlock.ports.cursors import CursorStore
    from interlock.ports.events import EventStore
    from interlock.ports.insight import JobInsight
    from interlock.ports.jobs import JobStore
    from interlock.ports.journal import JournalStore
    from interlock.ports.limits import LimitStore
    from interlock.ports.locks import LockStore
    from interlock.ports.messages import Messages
    from interlock.ports.migrations import Migrations
    from interlock.ports.sessions import SessionStore

__all__ = ["Capability", "Store"]


class Capability(StrEnum):
    """What a store may or may not be able to do. What is missing fails when the app is built."""

    LOCKS = "locks"
    CLAIMS = "claims"
    CURSORS = "cursors"
    LIMITS = "limits"
    JOBS = "jobs"
    EVENTS = "events"
    JOURNAL = "journal"
    """It keeps a journal, and writes the entry of an operation in the transaction of the change."""
    PROCESSES = "processes"
    """Several processes may use it at once."""
    DURABLE = "durable"
    """What it accepted survives the end of every process."""
    TRANSACTIONS = "transactions"
    """It can run a caller's own statements in a transaction, and so check a lease in the same one."""


class Store(Protocol):
    """One backend, for one namespace.

    Every operation of every port either takes effect wholly or not at all, raises ``StoreUnavailableError`` in
    bounded time when the backend cannot be reached, and works again once it can be. Operations of one owner take
    effect in the order in which they were begun, also when the caller of an earlier one was cancelled meanwhile,
    except that an operation which raised ``StoreUnavailableError`` may still take effect later.
    """

    @property
    def name(self) -> str:
        """The backend's name, as in a metric's label."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this backend can do."""
        ...

    @property
    def locks(self) -> LockStore:
        """Leases on keys."""
        ...

    @property
    def claims(self) -> ClaimStore:
        """What was seen."""
        ...

    @property
    def cursors(self) -> CursorStore:
        """Where pollers stand."""
        ...

    @property
    def limits(self) -> LimitStore:
        """How much at once, and how often."""
        ...

    @property
    def jobs(self) -> JobStore:
        """Durable units of work. Only where the store is capable of JOBS."""
        ...

    @property
    def events(self) -> EventStore:
        """What came in, and what it caused. Only where the store is capable of EVENTS."""
        ...

    @property
    def journal(self) -> JournalStore:
        """Who changed what, when and why. Only where the store is capable of JOURNAL."""
        ...

    @property
    def insight(self) -> JobInsight:
        """Many jobs at a glance. Only where the store is capable of JOBS."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """What is read inside, by the task that opened it and through any port, is one state of the store.

        For looking only: whatever changes something does so at once and is not seen inside. Nobody waits for it; it is
        for short use all the same. Redis reads the state of one operation at a time: there this does nothing.
        """
        ...

    @property
    def messages(self) -> Messages:
        """Hints for a session."""
        ...

    @property
    def migrations(self) -> Migrations | None:
        """The schema's versions; None where there is no schema."""
        ...

    def lifeline(self) -> SessionStore | None:
        """A second way to the backend, for a heartbeat that runs on a thread and an event loop of its own.

        None means that heartbeats run on the caller's loop with :meth:`sessions`: nothing outlives the process.
        """
        ...

    @property
    def sessions(self) -> SessionStore:
        """Signs of life, on the caller's loop."""
        ...

    async def open(self) -> None:
        """Connect and check that the schema fits. Raises ``SchemaMismatchError`` with the remedy if not."""
        ...

    async def close(self) -> None:
        """Let go of every connection and thread. May be called twice."""
        ...
