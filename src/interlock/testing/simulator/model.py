"""A model of a lock store: slow, plain, and written only from the port's contract.

It processes what a store really did, in order, and reports where the store broke its contract: which owner may be
granted a key, with which fence, in which order, and which wait would close a cycle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.locks import TURN_SECONDS, Busy, Deadlocked, Granted, SessionEnded, Waiting
from interlock.testing.simulator.history import (
    Asked,
    Forced,
    KeyLeft,
    LeasesRenewed,
    SessionBegan,
    SessionOver,
    SessionRenewed,
    Swept,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.ports.locks import LockRequest
    from interlock.testing.simulator.history import Event

__all__ = ["Grant", "Handover", "Place", "StoreModel", "Violation"]


class Violation(NamedTuple):
    """A broken promise, and how it was broken."""

    at: float
    promise: str
    what: str


class Grant:
    """One lease, from its grant to its end."""

    __slots__ = (
        "caller",
        "ended_at",
        "expires_at",
        "fence",
        "forced",
        "granted_at",
        "key",
        "number",
        "owner",
        "session",
    )

    def __init__(self, number: int, request: LockRequest, fence: int, at: float) -> None:
        self.number = number
        """How many grants came before it in the whole store."""
        self.key, self.owner, self.caller, self.session = request.key, request.owner, request.caller, request.session
        self.fence = fence
        self.granted_at = at
        self.expires_at = at + request.ttl
        self.ended_at = math.inf
        self.forced = False


class Place:
    """One waiter's position in a queue."""

    __slots__ = ("caller", "clear_at", "ended_at", "gives_up_at", "key", "owner", "process", "queued_at", "session")

    def __init__(self, request: LockRequest, process: str, at: float) -> None:
        self.key, self.owner, self.caller, self.session = request.key, request.owner, request.caller, request.session
        self.process = process
        self.queued_at = self.clear_at = at
        """``clear_at`` is when the last waiter ahead of it left."""
        self.gives_up_at = math.inf if request.wait is None else at + request.wait
        self.ended_at = math.inf


class Handover(NamedTuple):
    """A live waiter was first in line for a free key from ``since`` until it was served, or left, at ``until``."""

    key: str
    place: Place
    since: float
    until: float


class _Key:
    __slots__ = ("free_since", "grant", "queue")

    def __init__(self) -> None:
        self.grant: Grant | None = None
        self.free_since = 0.0
        self.queue: dict[str, Place] = {}


class StoreModel:
    """Follow a store event by event; :attr:`violations` collects what it must not have done."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.grants: list[Grant] = []
        self.places: list[Place] = []
        self.passed_over: list[tuple[float, Place, Grant]] = []
        """Waiters that were first but did not take their turn, and that others were allowed to overtake."""
        self.handovers: list[Handover] = []
        self.ghosts: set[str] = set()
        """Owners whose clients have finished with them. The store may not know that yet. Set by the checker."""
        self._keys: dict[str, _Key] = {}
        self._alive_until: dict[str, float] = {}
        self._fence = 0
        self._now = 0.0

    def apply(self, event: Event) -> None:
        """Process one event. Events of processes change nothing."""
        self._now = event.at
        match event:
            case Asked():
                self._asked(event)
            case LeasesRenewed(_, _, leases, answers):
                for lease, answer in zip(leases, answers, strict=True):
                    self._renewed(lease.key, lease.owner, lease.ttl, answer.expires_at)
            case KeyLeft():
                self._left(event)
            case Forced(_, _, key, holder):
                grant = self.holder(key)
                if (holder is None) != (grant is None) or (holder and grant and holder.owner != grant.owner):
                    self._broken("exclusive", f"a forced release found a different holder of {key} than there was")
                if grant is not None:
                    grant.forced = True
                    self._end(grant)
            case SessionBegan():
                self._alive_until.setdefault(event.session, event.at + event.seconds)
            case SessionRenewed():
                alive = self._alive(event.session)
                if alive != event.alive:
                    self._broken("sessions", "a session was renewed after its end, or not renewed while live")
                if alive:
                    self._alive_until[event.session] = event.at + event.seconds
            case SessionOver():
                self._end_session(event.session)
            case Swept():
                for session in [s for s, until in self._alive_until.items() if until <= event.at]:
                    self._end_session(session)
            case _:
                pass

    def holder(self, key: str) -> Grant | None:
        """The live lease on a key, at the time of the last event."""
        lock = self._key(key)
        grant = lock.grant
        if grant is None:
            return None
        ends_at = min(grant.expires_at, self._alive_until.get(grant.session, -math.inf))
        if ends_at > self._now:
            return grant
        self._end(grant, max(ends_at, grant.granted_at))
        return None

    def finish(self, at: float) -> None:
        """Record everything that has expired by now."""
        self._now = at
        for key, lock in self._keys.items():
            self.holder(key)
            self._drop_dead(lock)

    # -- operations ------------------------------------------------------------------------------------------------

    def _asked(self, event: Asked) -> None:
        request, answer = event.request, event.answer
        alive = self._alive(request.session)
        if isinstance(answer, SessionEnded):
            if alive:
                self._broken(
                    "sessions",
                    f"a request for {request.key} was refused although its session is live",
                )
            return
        if not alive:
            self._broken("sessions", f"a request for {request.key} of an ended session was accepted")
        lock = self._key(request.key)
        grant = self.holder(request.key)
        if grant is not None and grant.owner == request.owner:
            self._granted_again(request, grant, answer)
            return
        self._drop_dead(lock)
        ahead = list(_before(lock.queue, request.owner))
        may_have = grant is None and self._now >= lock.free_since + len(ahead) * TURN_SECONDS
        match answer:
            case Granted():
                self._granted(request, lock, grant, ahead, answer, may_have=may_have)
            case Busy():
                if may_have:
                    self._broken("fair", f"{request.key} was reported as busy although it was free")
            case Deadlocked():
                if request.owner in lock.queue or not self.closes_cycle(request, ghosts=True):
                    self._broken("deadlock-free", f"a wait for {request.key} was refused although it closes no cycle")
            case Waiting():
                if may_have:
                    self._broken("fair", f"a waiter for {request.key} was not served although it was its turn")
                if request.owner not in lock.queue:
                    if request.owner not in self.ghosts and self.closes_cycle(request, ghosts=False):
                        self._broken("deadlock-free", f"a wait for {request.key} that closes a cycle was begun")
                    place = lock.queue[request.owner] = Place(request, event.process, self._now)
                    self.places.append(place)

    def _granted_again(self, request: LockRequest, grant: Grant, answer: object) -> None:
        if not isinstance(answer, Granted):
            self._broken("exclusive", f"the holder of {request.key} was not granted it again: {answer!r}")
            return
        if answer.fence != grant.fence:
            self._broken("exclusive", f"the holder of {request.key} asked again and got another fence")
        grant.expires_at = self._now + request.ttl

    def _granted(
        self,
        request: LockRequest,
        lock: _Key,
        held: Grant | None,
        ahead: list[Place],
        answer: Granted,
        *,
        may_have: bool,
    ) -> None:
        if held is not None:
            self._broken("exclusive", f"{request.key} was granted while its lease {held.fence} was live")
            self._end(held)
        elif not may_have:
            self._broken("fair", f"{request.key} was granted out of order, before {len(ahead)} live waiters")
        if answer.fence <= self._fence:
            self._broken("exclusive", f"{request.key} was granted with fence {answer.fence}, after {self._fence}")
        self._fence = max(self._fence, answer.fence)
        grant = lock.grant = Grant(len(self.grants), request, answer.fence, self._now)
        self.grants.append(grant)
        if may_have:
            self.passed_over += [(self._now, place, grant) for place in ahead]
        self._note_handover(lock, request.key)
        if request.owner in lock.queue:
            self._remove(lock, request.owner, self._now)

    def _renewed(self, key: str, owner: str, ttl: float, expires_at: float | None) -> None:
        grant = self.holder(key)
        live = grant is not None and grant.owner == owner
        if live != (expires_at is not None):
            self._broken("exclusive", f"a lease on {key} was renewed after its end, or not renewed while live")
        if live and grant is not None:
            grant.expires_at = self._now + ttl

    def _left(self, event: KeyLeft) -> None:
        request, left = event.request, event.left
        lock = self._key(request.key)
        grant = self.holder(request.key)
        held = grant is not None and grant.owner == request.owner
        if held != left.held:
            self._broken("exclusive", f"leaving {request.key} found {left.held=}, but the lease was {held=}")
        if held and grant is not None:
            self._end(grant)
        self._drop_dead(lock)
        if request.owner in lock.queue:
            if lock.grant is None:
                self._note_handover(lock, request.key)
            self._remove(lock, request.owner, self._now)
        first = next(iter(lock.queue), None) if lock.grant is None else None
        if left.next_owner != first:
            self._broken("fair", f"leaving {request.key} did not name the first waiter in its queue as the next")

    # -- the graph of waits ----------------------------------------------------------------------------------------

    def closes_cycle(self, request: LockRequest, *, ghosts: bool) -> bool:
        """Whether a wait of this caller for this key would close a cycle of live waits, ghosts counted or not."""
        holders: dict[str, str] = {}
        waits: dict[str, list[str]] = {}
        for key, lock in self._keys.items():
            grant = self.holder(key)
            if grant is not None and (ghosts or grant.owner not in self.ghosts):
                holders[key] = grant.caller
            for place in lock.queue.values():
                if self._live(place) and (ghosts or place.owner not in self.ghosts):
                    waits.setdefault(place.caller, []).append(key)
        seen: set[str] = set()
        to_see = [request.key]
        while to_see:
            caller = holders.get(to_see.pop())
            if caller == request.caller:
                return True
            if caller is not None and caller not in seen:
                seen.add(caller)
                to_see += waits.get(caller, [])
        return False

    # -- state -----------------------------------------------------------------------------------------------------

    def _key(self, key: str) -> _Key:
        return self._keys.setdefault(key, _Key())

    def _alive(self, session: str) -> bool:
        return self._alive_until.get(session, -math.inf) > self._now

    def _live(self, place: Place) -> bool:
        return place.gives_up_at > self._now and self._alive(place.session)

    def _end(self, grant: Grant, at: float | None = None) -> None:
        lock = self._keys[grant.key]
        if lock.grant is grant:
            lock.grant = None
            lock.free_since = grant.ended_at = self._now if at is None else at

    def _end_session(self, session: str) -> None:
        for key, lock in self._keys.items():
            grant = self.holder(key)
            if grant is not None and grant.session == session:
                self._end(grant)
            self._drop_dead(lock)
            for owner in [owner for owner, place in lock.queue.items() if place.session == session]:
                self._remove(lock, owner, self._now)
        self._alive_until[session] = min(self._now, self._alive_until.get(session, self._now))

    def _drop_dead(self, lock: _Key) -> None:
        for owner, place in list(lock.queue.items()):
            if not self._live(place):
                died_at = min(place.gives_up_at, self._alive_until.get(place.session, self._now))
                self._remove(lock, owner, died_at)

    def _remove(self, lock: _Key, owner: str, at: float) -> None:
        behind = False
        for place in lock.queue.values():
            if behind:
                place.clear_at = max(place.clear_at, at)
            behind = behind or place.owner == owner
        lock.queue.pop(owner).ended_at = at

    def _note_handover(self, lock: _Key, key: str) -> None:
        first = next(iter(lock.queue.values()), None)
        if first is not None:
            since = max(lock.free_since, first.clear_at)
            self.handovers.append(Handover(key, first, since, self._now))

    def _broken(self, promise: str, what: str) -> None:
        self.violations.append(Violation(self._now, promise, what))


def _before(queue: dict[str, Place], owner: str) -> Iterable[Place]:
    for place in queue.values():
        if place.owner == owner:
            return
        yield place
