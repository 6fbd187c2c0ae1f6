"""The in-memory store: no file, no server, deterministic under the simulator."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from interlock.backends.memory.claims import MemoryClaims
from interlock.backends.memory.cursors import MemoryCursors
from interlock.backends.memory.events import memory_events
from interlock.backends.memory.fences import Fences
from interlock.backends.memory.jobs import NAMESPACE, MemoryDatabase, memory_insight, memory_jobs
from interlock.backends.memory.journal import memory_journal, recorder
from interlock.backends.memory.limits import MemoryLimits
from interlock.backends.memory.locks import MemoryLocks
from interlock.backends.memory.messages import MemoryMessages
from interlock.backends.memory.pipelines import memory_pipelines
from interlock.backends.memory.record_insight import memory_record_insight
from interlock.backends.memory.records import memory_records
from interlock.backends.memory.schedules import memory_schedules
from interlock.backends.memory.sessions import MemorySessions
from interlock.clock import Clock, SystemClock
from interlock.errors import InvalidArgumentError
from interlock.ports.store import Capability

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from interlock.settings import Settings

__all__ = ["MemoryStore", "from_url"]

_shared: WeakValueDictionary[tuple[str, str], MemoryStore] = WeakValueDictionary()


def from_url(url: str, *, settings: Settings, clock: Clock | None = None) -> MemoryStore:
    """Return a store: a new one for ``memory://``, one per process and namespace for ``memory://name``."""
    parts = urlsplit(url)
    if parts.path.strip("/") or parts.query:
        raise InvalidArgumentError(
            "The memory URL has parts that mean nothing.", remedy="Use memory:// or memory://name."
        )
    if not parts.netloc:
        return MemoryStore(clock)
    store = _shared.get((parts.netloc, settings.namespace))
    if store is None:
        store = _shared[parts.netloc, settings.namespace] = MemoryStore(clock)
    return store


class MemoryStore:
    """Stores everything in dictionaries, in one event loop. No operation is interrupted by another."""

    name = "memory"
    capabilities = frozenset(
        {
            Capability.LOCKS,
            Capability.CLAIMS,
            Capability.CURSORS,
            Capability.LIMITS,
            Capability.JOBS,
            Capability.EVENTS,
            Capability.JOURNAL,
            Capability.RECORDS,
        }
    )
    migrations = None

    def __init__(self, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self.sessions = MemorySessions(clock)
        self.messages = MemoryMessages()
        fences = Fences()
        database = MemoryDatabase(clock, self.sessions)
        record = recorder(database, NAMESPACE, clock)
        self.journal = memory_journal(database, NAMESPACE, clock)
        self.locks = MemoryLocks(clock, self.sessions, self.messages, fences, record)
        self.records = memory_records(database, NAMESPACE, clock, self.locks)
        self.record_insight = memory_record_insight(database, NAMESPACE, clock)
        self.pipelines = memory_pipelines(database, NAMESPACE, clock, self.records)
        self.claims = MemoryClaims(clock, self.sessions, self.messages, fences.next, record)
        self.cursors = MemoryCursors(clock, fences.next, record)
        self.limits = MemoryLimits(clock, self.sessions, self.messages, record)
        self.sessions.on_end += [self.messages.session_ended, self.locks.session_ended, self.limits.session_ended]
        self.jobs = memory_jobs(database, clock, self.sessions, self.messages, fences, self.limits)
        self.events = memory_events(self.jobs)
        self.schedules = memory_schedules(self.jobs)
        self.insight = memory_insight(self.jobs)
        self.sessions.sweepers += [self.claims.sweep, self.limits.sweep]

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Do nothing: reads do not yield to other tasks, so nothing changes between two of them."""
        return nullcontext()

    def lifeline(self) -> None:
        """Return None: sessions need no connection of their own."""

    async def open(self) -> None:
        """Do nothing: there is no server."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
