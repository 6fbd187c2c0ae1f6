"""A store: the connection to one backend, with a port for each concept that it supports."""

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
    from interlock.ports.pipelines import PipelineStore
    from interlock.ports.record_insight import RecordInsight
    from interlock.ports.records import RecordStore
    from interlock.ports.schedules import ScheduleStore
    from interlock.ports.sessions import SessionStore

__all__ = ["Capability", "Store"]


class Capability(StrEnum):
    """A capability of a store. An app that needs a missing one fails when it is built."""

    LOCKS = "locks"
    CLAIMS = "claims"
    CURSORS = "cursors"
    LIMITS = "limits"
    JOBS = "jobs"
    EVENTS = "events"
    JOURNAL = "journal"
    """It keeps a journal and writes the entry of an operation in the transaction of the change."""
    RECORDS = "records"
    """It keeps records. It then also offers LOCKS and JOURNAL."""
    PROCESSES = "processes"
    """Several processes can use it at the same time."""
    DURABLE = "durable"
    """Accepted data survives the end of every process."""
    TRANSACTIONS = "transactions"
    """It can run a caller's statements in a transaction that checks a lease."""


class Store(Protocol):
    """One backend and namespace.

    Every operation of every port is atomic. It raises ``StoreUnavailableError`` in bounded time if the backend cannot
    be reached, and works again once it can be. Operations of one owner take effect in the order in which they were
    started, even if the caller of an earlier one was cancelled. Exception: an operation that raised
    ``StoreUnavailableError`` may still take effect later.
    """

    @property
    def name(self) -> str:
        """The name of the backend, as in metric labels."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this backend."""
        ...

    @property
    def locks(self) -> LockStore:
        """Leases on keys."""
        ...

    @property
    def claims(self) -> ClaimStore:
        """Claims of keys."""
        ...

    @property
    def cursors(self) -> CursorStore:
        """Durable positions of pollers."""
        ...

    @property
    def limits(self) -> LimitStore:
        """Limits on concurrency and frequency."""
        ...

    @property
    def jobs(self) -> JobStore:
        """Durable units of work. Requires JOBS."""
        ...

    @property
    def events(self) -> EventStore:
        """Deliveries and the jobs that they caused. Requires EVENTS."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """Cron expressions and intervals that enqueue jobs. Requires JOBS and JOURNAL."""
        ...

    @property
    def journal(self) -> JournalStore:
        """The audit trail of operations. Requires JOURNAL."""
        ...

    @property
    def records(self) -> RecordStore:
        """Versioned state. Requires RECORDS."""
        ...

    @property
    def record_insight(self) -> RecordInsight:
        """The read side of records. Requires RECORDS."""
        ...

    @property
    def pipelines(self) -> PipelineStore:
        """Runs of stages over records. Requires JOBS and RECORDS."""
        ...

    @property
    def insight(self) -> JobInsight:
        """The read side of jobs, lanes, queues and workers. Requires JOBS."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Open a snapshot: the task that opened it reads one state of the store through all ports.

        It is for reading. A change inside takes effect at once and is not visible in the snapshot. A snapshot blocks no
        writer, but keep it short. On Redis it does nothing: each operation reads its own state.
        """
        ...

    @property
    def messages(self) -> Messages:
        """Notifications for sessions."""
        ...

    @property
    def migrations(self) -> Migrations | None:
        """The schema versions; None if the store has no schema."""
        ...

    def lifeline(self) -> SessionStore | None:
        """Return a separate connection for heartbeats, which run in their own thread and event loop.

        None means that heartbeats use :meth:`sessions` on the caller's loop: nothing outlives the process.
        """
        ...

    @property
    def sessions(self) -> SessionStore:
        """Sessions, on the caller's event loop."""
        ...

    async def open(self) -> None:
        """Connect and check the schema. Raises ``SchemaMismatchError`` with the remedy on a mismatch."""
        ...

    async def close(self) -> None:
        """Close all connections and threads. May be called twice."""
        ...
