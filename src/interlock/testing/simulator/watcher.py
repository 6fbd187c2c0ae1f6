"""Observers of what the store really did, which record it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from interlock.testing.simulator.events import CallNamed
from interlock.testing.simulator.history import (
    REQUEST,
    Asked,
    Forced,
    KeyLeft,
    LeasesRenewed,
    OwnerNamed,
    SessionBegan,
    SessionOver,
    SessionRenewed,
    Swept,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.locks import Answer, Held, Holder, Left, LockRequest, Renewed
    from interlock.testing.simulator.events import ConceptEvent
    from interlock.testing.simulator.history import History
    from interlock.testing.simulator.job_events import JobEvent

__all__ = ["ProcessWatcher", "Watcher"]


class Watcher(Protocol):
    """An observer that is called at the moment at which the store does something."""

    def calling(self, request: LockRequest) -> None:
        """A request is about to be sent."""
        ...

    def asked(self, request: LockRequest, answer: Answer) -> None:
        """A request took effect."""
        ...

    def renewed(self, leases: Sequence[Held], answers: Sequence[Renewed]) -> None:
        """Leases were renewed."""
        ...

    def left(self, request: LockRequest, left: Left) -> None:
        """A lease or a position was released."""
        ...

    def forced(self, key: str, holder: Holder | None) -> None:
        """A key was released by force."""
        ...

    def session_began(self, session: str, seconds: float) -> None:
        """A session began."""
        ...

    def session_renewed(self, session: str, seconds: float, alive: bool) -> None:
        """A session was renewed, or had ended."""
        ...

    def session_ended(self, session: str) -> None:
        """A session was ended."""
        ...

    def swept(self) -> None:
        """Ended sessions were swept."""
        ...

    def naming(self, owner: str) -> None:
        """A request for a claim or a limit is about to be sent under this owner."""
        ...

    def saw(self, kind: Callable[..., ConceptEvent | JobEvent], *about: object) -> None:
        """An operation on a claim, a limit, a cursor or jobs took effect."""
        ...


class ProcessWatcher:
    """Record what the store does for one process."""

    def __init__(self, history: History, process: str) -> None:
        self._add = history.add
        self._now = history.now
        self._process = process
        self._known: set[str] = set()
        self._named: set[tuple[int, str]] = set()

    def calling(self, request: LockRequest) -> None:
        """Associate the owner with the client's request."""
        number = REQUEST.get()
        if number and request.owner not in self._known:
            self._known.add(request.owner)
            self._add(OwnerNamed(self._now(), self._process, number, request.key, request.owner))

    def naming(self, owner: str) -> None:
        """Associate the owner with the client's call; several calls may use one owner in turn."""
        call = REQUEST.get()
        if call and (call, owner) not in self._named:
            self._named.add((call, owner))
            self._add(CallNamed(self._now(), self._process, call, owner))

    def saw(self, kind: Callable[..., ConceptEvent | JobEvent], *about: object) -> None:
        """Something took effect."""
        self._add(kind(self._now(), self._process, *about))

    def asked(self, request: LockRequest, answer: Answer) -> None:
        """A request took effect."""
        self._add(Asked(self._now(), self._process, request, answer))

    def renewed(self, leases: Sequence[Held], answers: Sequence[Renewed]) -> None:
        """Leases were renewed."""
        self._add(LeasesRenewed(self._now(), self._process, leases, answers))

    def left(self, request: LockRequest, left: Left) -> None:
        """A lease or a position was released."""
        self._add(KeyLeft(self._now(), self._process, request, left))

    def forced(self, key: str, holder: Holder | None) -> None:
        """A key was released by force."""
        self._add(Forced(self._now(), self._process, key, holder))

    def session_began(self, session: str, seconds: float) -> None:
        """A session began."""
        self._add(SessionBegan(self._now(), self._process, session, seconds))

    def session_renewed(self, session: str, seconds: float, alive: bool) -> None:
        """A session was renewed."""
        self._add(SessionRenewed(self._now(), self._process, session, seconds, alive))

    def session_ended(self, session: str) -> None:
        """A session was ended."""
        self._add(SessionOver(self._now(), self._process, session))

    def swept(self) -> None:
        """Ended sessions were swept."""
        self._add(Swept(self._now(), self._process))
