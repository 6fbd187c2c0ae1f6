"""Any store as one simulated process sees it, through a wire with faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.testing.simulator.faulty_events import FaultyEvents
from interlock.testing.simulator.faulty_insight import FaultyInsight
from interlock.testing.simulator.faulty_jobs import FaultyJobs
from interlock.testing.simulator.faulty_ports import FaultyClaims, FaultyCursors, FaultyLimits
from interlock.testing.simulator.faulty_records import FaultyRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.ports.claims import ClaimStore
    from interlock.ports.cursors import CursorStore
    from interlock.ports.events import EventStore
    from interlock.ports.insight import JobInsight
    from interlock.ports.jobs import JobStore
    from interlock.ports.journal import Attribution, JournalStore
    from interlock.ports.limits import LimitStore
    from interlock.ports.locks import (
        Answer,
        Held,
        Holder,
        Left,
        LockCounts,
        LockRequest,
        LockStore,
        LockView,
        Renewed,
        Transaction,
        Turns,
    )
    from interlock.ports.messages import Messages
    from interlock.ports.migrations import Migrations
    from interlock.ports.pipelines import PipelineStore
    from interlock.ports.record_insight import RecordInsight
    from interlock.ports.records import RecordStore
    from interlock.ports.schedules import ScheduleStore
    from interlock.ports.sessions import SessionCard, SessionStore
    from interlock.ports.store import Capability, Store
    from interlock.testing.simulator.watcher import Watcher
    from interlock.testing.simulator.wire import Wire

__all__ = ["FaultyStore"]


class FaultyStore:
    """Wrap another store for one simulated process, through a :class:`Wire`."""

    def __init__(self, store: Store, wire: Wire, watcher: Watcher) -> None:
        self._store = store
        self._wire, self._watcher = wire, watcher
        self._jobs: JobStore | None = None
        self._events: EventStore | None = None
        self._insight: JobInsight | None = None
        self._records: RecordStore | None = None
        self.locks: LockStore = _FaultyLocks(store.locks, wire, watcher)
        self.claims: ClaimStore = FaultyClaims(store.claims, wire, watcher)
        self.limits: LimitStore = FaultyLimits(store.limits, wire, watcher)
        self.cursors: CursorStore = FaultyCursors(store.cursors, wire, watcher)
        self.messages: Messages = _FaultyMessages(store.messages, wire)
        self.sessions: SessionStore = _FaultySessions(store.sessions, wire, watcher)

    @property
    def jobs(self) -> JobStore:
        """Jobs, if the store has them."""
        if self._jobs is None:
            self._jobs = FaultyJobs(self._store.jobs, self._wire, self._watcher)
        return self._jobs

    @property
    def events(self) -> EventStore:
        """Events, if the store has them."""
        if self._events is None:
            self._events = FaultyEvents(self._store.events, self._wire, self._watcher)
        return self._events

    @property
    def name(self) -> str:
        """The backend's name."""
        return self._store.name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the backend."""
        return self._store.capabilities

    @property
    def migrations(self) -> Migrations | None:
        """The schema's versions, if it has one."""
        return self._store.migrations

    @property
    def journal(self) -> JournalStore:
        """The store's own: entries of operations are written with their changes, over the wire."""
        return self._store.journal

    @property
    def records(self) -> RecordStore:
        """Records, if the store has them."""
        if self._records is None:
            self._records = FaultyRecords(self._store.records, self._wire, self._watcher)
        return self._records

    @property
    def record_insight(self) -> RecordInsight:
        """The store's own: the simulation has no faults for pages."""
        return self._store.record_insight

    @property
    def schedules(self) -> ScheduleStore:
        """The store's own: the simulation has no faults for schedules yet."""
        return self._store.schedules

    @property
    def pipelines(self) -> PipelineStore:
        """The store's own: the simulation has no faults for pipelines yet."""
        return self._store.pipelines

    @property
    def insight(self) -> JobInsight:
        """The read side of jobs, if the store has them."""
        if self._insight is None:
            self._insight = FaultyInsight(self._store.insight, self._wire)
        return self._insight

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """The store's own."""
        return self._store.snapshot()

    def lifeline(self) -> None:
        """None: the simulation has no threads, so the heartbeat runs on the process's own loop."""

    async def open(self) -> None:
        """Do nothing: the world opened the store."""

    async def close(self) -> None:
        """Do nothing: the store outlives the process."""


class _FaultySessions:
    def __init__(self, sessions: SessionStore, wire: Wire, watcher: Watcher) -> None:
        self._sessions = sessions
        self._call = wire.call
        self._watcher = watcher

    async def begin(self, card: SessionCard, seconds: float) -> None:
        async def operation() -> None:
            await self._sessions.begin(card, seconds)
            self._watcher.session_began(card.id, seconds)

        await self._call("begin", (_session_lane(card.id),), operation)

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        async def operation() -> bool:
            alive = await self._sessions.renew(id, seconds)
            self._watcher.session_renewed(id, seconds, alive)
            return alive

        return await self._call("renew_session", (_session_lane(id),), operation)

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        async def operation() -> None:
            await self._sessions.note_blocked(id, seconds, by)

        await self._call("note_blocked", (_session_lane(id),), operation)

    async def end(self, id: str) -> None:  # noqa: A002
        async def operation() -> None:
            await self._sessions.end(id)
            self._watcher.session_ended(id)

        await self._call("end", (_session_lane(id),), operation)

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        await self._call("leave", (_session_lane(id),), lambda: self._sessions.leave(id, leaving=leaving))

    async def sweep(self) -> int:
        async def operation() -> int:
            count = await self._sessions.sweep()
            self._watcher.swept()
            return count

        return await self._call("sweep", (), operation)

    async def close(self) -> None:
        """Do nothing: the store outlives the process."""


class _FaultyLocks:
    def __init__(self, locks: LockStore, wire: Wire, watcher: Watcher) -> None:
        self._locks = locks
        self._call = wire.call
        self._watcher = watcher

    async def ask(self, request: LockRequest) -> Answer:
        async def operation() -> Answer:
            answer = await self._locks.ask(request)
            self._watcher.asked(request, answer)
            return answer

        self._watcher.calling(request)
        return await self._call("ask", (request.key,), operation, last_counts=True)

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        async def operation() -> Sequence[Renewed]:
            answers = await self._locks.renew(leases)
            self._watcher.renewed(leases, answers)
            return answers

        return await self._call("renew", dict.fromkeys(lease.key for lease in leases), operation)

    async def leave(self, request: LockRequest) -> Left:
        async def operation() -> Left:
            left = await self._locks.leave(request)
            self._watcher.left(request, left)
            return left

        return await self._call("leave", (request.key,), operation)

    async def force(self, key: str, why: str, attribution: Attribution) -> Holder | None:
        async def operation() -> Holder | None:
            holder = await self._locks.force(key, why, attribution)
            self._watcher.forced(key, holder)
            return holder

        return await self._call("force", (key,), operation)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        return await self._call("turns", (), lambda: self._locks.turns(session, owners))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        return await self._call("session_requests", (), lambda: self._locks.session_requests(session))

    async def list(
        self, key: str | None = None, *, limit: int = 1000, after: str = "", waiters: int | None = None
    ) -> Sequence[LockView]:
        looked = self._locks.list
        return await self._call("look", (), lambda: looked(key, limit=limit, after=after, waiters=waiters))

    async def awaited_by(self, session: str, *, limit: int = 100) -> Sequence[LockView]:
        return await self._call("awaited_by", (), lambda: self._locks.awaited_by(session, limit=limit))

    async def count(self) -> LockCounts:
        return await self._call("count", (), self._locks.count)

    def fenced(self, key: str, owner: str, fence: int) -> AbstractAsyncContextManager[Transaction]:
        return self._locks.fenced(key, owner, fence)


class _FaultyMessages:
    def __init__(self, messages: Messages, wire: Wire) -> None:
        self._messages = messages
        self._wire = wire
        self._call = wire.call

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        post = self._wire.post

        def turn(owner: str | None) -> None:
            post(on_turn, owner)

        def lost(owner: str, why: str) -> None:
            post(on_lost, owner, why)

        await self._call("listen", (_session_lane(session),), lambda: self._messages.listen(session, turn, lost))

    async def unlisten(self, session: str) -> None:
        await self._call("unlisten", (_session_lane(session),), lambda: self._messages.unlisten(session))

    def watch(self, *, waiting: bool) -> None:
        self._messages.watch(waiting=waiting)


def _session_lane(session: str) -> str:
    """An order that no key can have."""
    return f"\0{session}"
