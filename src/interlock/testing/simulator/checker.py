"""Check a history of locks: report broken promises, and count the overlaps that the promises allow.

:class:`StoreModel` checks the store's side; this module checks what processes saw and did against it. Code of a
process that was suspended past the end of its lease, or whose lease was released by force, may run on for a moment.
Such overlaps are counted separately.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.ports.locks import TURN_SECONDS, Deadlocked
from interlock.testing.simulator.history import (
    Asked,
    BodyBegan,
    BodyRan,
    GaveUp,
    LeftOver,
    Odd,
    OwnerNamed,
    RequestBegan,
    RequestEnded,
    Wrote,
)
from interlock.testing.simulator.lives import Standstills
from interlock.testing.simulator.model import Grant, StoreModel, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.settings import Settings
    from interlock.testing.simulator.faults import Faults
    from interlock.testing.simulator.history import Event

__all__ = ["Bounds", "Verdict", "check"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds on durations, in virtual seconds."""

    handover: float
    """From the release of a key to its grant to the first live waiter."""
    answer: float
    """From the end of a request's wait to its answer."""
    tidy: float
    """From when a client has finished with a request until the store has no trace of it."""
    loss: float
    """From a forced release to the end of the holder's code, in addition to its TTL."""
    stormy: bool = False
    """Whether operations may fail, so that their leftovers end only with their TTL."""

    @classmethod
    def of(cls, faults: Faults, settings: Settings) -> Bounds:
        """The bounds that can be guaranteed under these faults: the fewer faults, the stricter."""
        operation = 20 * faults.latency + 2 * faults.operation_seconds + 0.02
        if not _stormy(faults):
            handover = 2 * operation + faults.message_delay
            if faults.message_lost:
                handover += settings.recheck_interval
            return cls(handover, 2 * operation, 2 * operation, operation)
        rough = 3 * (settings.store_wait + operation) + faults.late_seconds
        if faults.outage:
            rough += 2 * faults.outage_seconds
        seconds = settings.session_ttl
        handover = 4 * (settings.recheck_interval + operation) + seconds + 2 * TURN_SECONDS + rough
        return cls(handover, rough + seconds, 2 * rough + seconds, rough, stormy=True)


def _stormy(faults: Faults) -> bool:
    """Whether more than messages may be lost or late, so that only a retry or an expiry helps."""
    crashes = faults.crashed_before or faults.crashed_after
    return bool(faults.errors or faults.paused or crashes or faults.operation_seconds > 0.5)


@dataclass(slots=True)
class Verdict:
    """The result of a check."""

    violations: list[Violation] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)
    """Overlaps that the promises allow, by cause."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Requests by outcome."""

    def __str__(self) -> str:
        return "\n".join(f"  {v.at:.6f} {v.promise}: {v.what}" for v in self.violations) or "  all promises kept"


@dataclass(slots=True)
class _Body:
    process: str
    key: str
    owner: str
    fence: int
    ttl: float
    guarded: bool
    began_at: float
    grant: Grant | None
    ran_at: float = 0.0
    """When its code was last seen running. After that it only unwinds, which may take a while."""


@dataclass(slots=True)
class _Request:
    process: str
    kind: str
    wait: float | None
    began_at: float
    owners: dict[str, str] = field(default_factory=dict)
    """The owners under which the engine asked for it, each with its key."""
    ended_at: float = math.inf
    through_at: float = math.inf
    deadlocked: bool = False
    """Whether the store's last answer was that it would close a cycle."""


def check(events: Sequence[Event], bounds: Bounds) -> Verdict:
    """Check a whole history."""
    return _Check(events, bounds).verdict


class _Check:
    def __init__(self, events: Sequence[Event], bounds: Bounds) -> None:
        self.verdict = Verdict()
        self._bounds = bounds
        self._model = StoreModel()
        self._stood = Standstills(events)
        self._requests: dict[int, _Request] = {}
        self._request_of: dict[str, _Request] = {}
        self._bodies: dict[tuple[int, str], _Body] = {}
        self._last_write: dict[str, Grant] = {}
        self._end = events[-1].at if events else 0.0
        for event in events:
            self._model.apply(event)
            self._follow(event)
        self._model.finish(self._end)
        self.verdict.violations += self._model.violations
        self._check_overlaps()
        self._check_requests()
        self._check_left_behind()
        self._check_handovers()
        self._check_order()
        self.verdict.violations.sort(key=lambda violation: violation.at)

    def _follow(self, event: Event) -> None:
        match event:
            case RequestBegan():
                self._requests[event.request] = _Request(event.process, event.kind, event.wait, event.at)
            case OwnerNamed():
                request = self._requests[event.request]
                # Another owner for the same key follows one whose session ended.
                self._model.ghosts.update(owner for owner, key in request.owners.items() if key == event.key)
                request.owners[event.owner] = event.key
                self._request_of[event.owner] = request
            case Asked(_, _, request, answer):
                if request.owner in self._request_of:
                    self._request_of[request.owner].deadlocked = isinstance(answer, Deadlocked)
            case RequestEnded():
                self._requests[event.request].ended_at = event.at
                if event.outcome != "granted":
                    self._model.ghosts.update(self._requests[event.request].owners)
                self.verdict.outcomes[event.outcome] += 1
                if event.outcome == "timeout" and self._requests[event.request].deadlocked:
                    self._broken(event.at, "deadlock-free", f"r{event.request} was in a cycle but got a timeout")
                if event.outcome not in _OUTCOMES:
                    self._broken(event.at, "errors", f"a request ended with {event.outcome}")
            case GaveUp():
                self._requests[event.request].through_at = event.at
                self._model.ghosts.update(self._requests[event.request].owners)
            case BodyBegan():
                grant = self._check_live(event)
                about = (event.process, event.key, event.owner, event.fence, event.ttl, event.guarded)
                self._bodies[event.request, event.key] = _Body(*about, event.at, grant)
            case BodyRan():
                self._check_live(event)
                self._bodies[event.request, event.key].ran_at = event.at
            case Wrote():
                self._check_write(event)
            case Odd():
                self._broken(event.at, "odd", f"{event.process}: {event.what}")
            case LeftOver():
                for view in event.views:
                    self._broken(event.at, "leaves nothing", f"at the end {view.key} is still held or has waiters")
            case _:
                pass

    # -- code runs only under a live lease -------------------------------------------------------------------------

    def _check_live(self, event: BodyBegan | BodyRan) -> Grant | None:
        """The grant that a body relies on; a violation if it has ended and the body should have known."""
        live = self._model.holder(event.key)
        if live is not None and live.owner == event.owner:
            return live
        grant = self._grant_of(event.owner, event.key)
        if grant is None:
            self._broken(event.at, "exclusive", f"code ran under a lease on {event.key} that was never granted")
        elif not self._excused(grant, event.process, event.at):
            self._broken(
                event.at,
                "exclusive",
                f"{event.process} ran under its lease on {event.key} (fence {grant.fence}) "
                f"{event.at - grant.ended_at:.3f} s after it had ended",
            )
        return grant

    def _grant_of(self, owner: str, key: str) -> Grant | None:
        found = None
        for grant in self._model.grants:
            if grant.owner == owner and grant.key == key:
                found = grant
        return found

    def _excused(self, grant: Grant, process: str, at: float) -> bool:
        """Whether code may still run at ``at`` although its lease ended: suspended, or not yet notified of force."""
        if self._stood.slept_through(process, grant.ended_at, at):
            self.verdict.excused["paused"] += 1
            return True
        ttl = grant.expires_at - grant.granted_at
        paused = self._stood.paused(process, grant.ended_at, at)
        if grant.forced and at <= grant.ended_at + ttl + self._bounds.loss + paused:
            self.verdict.excused["forced"] += 1
            return True
        return False

    def _check_overlaps(self) -> None:
        by_key: dict[str, list[_Body]] = {}
        for body in self._bodies.values():
            if body.guarded:
                by_key.setdefault(body.key, []).append(body)
        for key, bodies in by_key.items():
            bodies.sort(key=lambda body: body.began_at)
            for index, later in enumerate(bodies):
                for earlier in bodies[:index]:
                    if earlier.ran_at > later.began_at:
                        self._overlap(key, earlier, later)

    def _overlap(self, key: str, one: _Body, other: _Body) -> None:
        ends_at = min(one.ran_at, max(other.ran_at, other.began_at))
        for body in (one, other):
            grant = body.grant
            if grant is not None and grant.ended_at < ends_at and self._excused(grant, body.process, ends_at):
                return
        self._broken(
            other.began_at,
            "exclusive",
            f"code of {one.process} (fence {one.fence}) and {other.process} (fence {other.fence}) ran under {key} "
            f"at once for {ends_at - other.began_at:.3f} s",
        )

    # -- fenced writes ---------------------------------------------------------------------------------------------

    def _check_write(self, event: Wrote) -> None:
        grant = self._grant_of(event.owner, event.key)
        if grant is None:
            return
        newest = self._last_write.get(event.key)
        stale = newest is not None and newest.number > grant.number
        if event.accepted and stale:
            self._broken(event.at, "exclusive", f"a stale write to {event.key} with fence {event.fence} was accepted")
        if not event.accepted and not self._excused(grant, event.process, event.at):
            self._broken(event.at, "exclusive", f"a valid write to {event.key} with fence {event.fence} was refused")
        if event.accepted and not stale:
            self._last_write[event.key] = grant

    # -- requests end, and leave nothing behind --------------------------------------------------------------------

    def _check_requests(self) -> None:
        for number, request in self._requests.items():
            if request.wait is None:
                continue
            slack = self._bounds.answer * max(1, len(set(request.owners.values())))
            latest = request.began_at + request.wait + slack
            latest += self._stood.paused(request.process, request.began_at, min(request.ended_at, self._end))
            if min(request.ended_at, self._stood.crashed_at(request.process), self._end) > latest:
                late = min(request.ended_at, self._end) - request.began_at
                self._broken(
                    latest,
                    "bounded",
                    f"{request.process}'s request r{number} ({request.kind}) with wait {request.wait:g} s had no "
                    f"answer after {late:.3f} s",
                )

    def _check_left_behind(self) -> None:
        spans = [(grant.owner, grant.key, "held", grant.ended_at) for grant in self._model.grants]
        spans += [(place.owner, place.key, "awaited", place.ended_at) for place in self._model.places]
        for owner, key, how, ended_at in spans:
            request = self._request_of.get(owner)
            until = min(ended_at, self._end)
            if request is None or self._stood.crashed_at(request.process) < math.inf:
                continue
            latest = request.through_at + self._bounds.tidy
            if until > latest + self._stood.paused(request.process, request.through_at, until):
                self._broken(
                    latest,
                    "leaves nothing",
                    f"{key} was {how} for {request.process}'s {request.kind} for {until - request.through_at:.3f} s "
                    f"after its client had finished with it",
                )

    # -- the queue -------------------------------------------------------------------------------------------------

    def _check_handovers(self) -> None:
        for key, place, since, until in self._model.handovers:
            if self._deserted(place.owner, place.process, until):
                continue
            took = until - since - self._stood.paused(place.process, since, until)
            if took > self._bounds.handover:
                self._broken(
                    since,
                    "wakes",
                    f"{place.process} was first for the free {key} for {took:.3f} s until it was served",
                )

    def _check_order(self) -> None:
        for at, place, grant in self._model.passed_over:
            if self._deserted(place.owner, place.process, at):
                continue
            if not self._stood.paused(place.process, at - 2 * TURN_SECONDS, at):
                self._broken(at, "fair", f"{place.process} was overtaken for {grant.key} although it was live")

    def _deserted(self, owner: str, process: str, at: float) -> bool:
        """Whether a position has no client any more: the client has finished or was killed."""
        request = self._request_of.get(owner)
        gone_at = min(math.inf if request is None else request.ended_at, self._stood.crashed_at(process))
        return gone_at <= at

    def _broken(self, at: float, promise: str, what: str) -> None:
        self.verdict.violations.append(Violation(at, promise, what))


_OUTCOMES = frozenset({"granted", "busy", "timeout", "deadlock", "unavailable", "cancelled", "lost", "closed"})
