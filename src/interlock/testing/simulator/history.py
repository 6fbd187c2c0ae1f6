"""The history of a run, in order: what the store really did, and what the processes saw and did.

Times are the store's. Events of the store are recorded when an operation takes effect, events of processes when their
code gets there. :func:`interlock.testing.simulator.checker.check` checks a history.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.locks import Granted
from interlock.testing.simulator.events import ConceptEvent
from interlock.testing.simulator.job_events import JobEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.clock import Clock
    from interlock.ports.locks import Answer, Held, Holder, Left, LockRequest, LockView, Renewed
    from interlock.testing.simulator.loop import SeededLoop

__all__ = [
    "REQUEST",
    "Asked",
    "BodyBegan",
    "BodyEnded",
    "BodyRan",
    "CrashedAt",
    "Event",
    "Forced",
    "GaveUp",
    "History",
    "KeyLeft",
    "LeasesRenewed",
    "LeftOver",
    "Odd",
    "OwnerNamed",
    "PausedAt",
    "RequestBegan",
    "RequestEnded",
    "SessionBegan",
    "SessionOver",
    "SessionRenewed",
    "Swept",
    "Wrote",
]

REQUEST: ContextVar[int] = ContextVar("interlock_simulated_request", default=0)
"""The client's request on whose behalf code runs."""


# -- the store's side ----------------------------------------------------------------------------------------------


class SessionBegan(NamedTuple):
    """A session began, or its beginning was repeated."""

    at: float
    process: str
    session: str
    seconds: float


class SessionRenewed(NamedTuple):
    """A session was renewed, or the store answered that it had ended."""

    at: float
    process: str
    session: str
    seconds: float
    alive: bool


class SessionOver(NamedTuple):
    """A session was ended."""

    at: float
    process: str
    session: str


class Swept(NamedTuple):
    """Ended sessions were swept."""

    at: float
    process: str


class Asked(NamedTuple):
    """A request took effect."""

    at: float
    process: str
    request: LockRequest
    answer: Answer


class LeasesRenewed(NamedTuple):
    """An attempt to renew leases."""

    at: float
    process: str
    leases: Sequence[Held]
    answers: Sequence[Renewed]


class KeyLeft(NamedTuple):
    """A lease or a position was released."""

    at: float
    process: str
    request: LockRequest
    left: Left


class Forced(NamedTuple):
    """A key was released by force."""

    at: float
    process: str
    key: str
    holder: Holder | None


# -- the processes' side -------------------------------------------------------------------------------------------


class RequestBegan(NamedTuple):
    """A client began to ask for keys."""

    at: float
    process: str
    request: int
    kind: str
    keys: tuple[str, ...]
    wait: float | None


class OwnerNamed(NamedTuple):
    """The engine asks on behalf of a client's request, under this owner."""

    at: float
    process: str
    request: int
    key: str
    owner: str


class RequestEnded(NamedTuple):
    """The client was answered: granted, busy, timeout, deadlock, unavailable or cancelled."""

    at: float
    process: str
    request: int
    outcome: str


class BodyBegan(NamedTuple):
    """Code that relies on a lease begins."""

    at: float
    process: str
    request: int
    key: str
    owner: str
    fence: int
    ttl: float
    guarded: bool
    """Whether it is cancelled when the lease is lost; otherwise it has to check."""


class BodyRan(NamedTuple):
    """Code that relies on a lease is running at this moment."""

    at: float
    process: str
    request: int
    key: str
    owner: str


class Wrote(NamedTuple):
    """Code that relies on a lease wrote to a fenced target."""

    at: float
    process: str
    request: int
    key: str
    owner: str
    fence: int
    accepted: bool


class BodyEnded(NamedTuple):
    """Code that relied on a lease has ended, and releases it now if it still has it."""

    at: float
    process: str
    request: int
    key: str
    owner: str


class GaveUp(NamedTuple):
    """A client has finished with its request: the lease was released or lost, or there was none."""

    at: float
    process: str
    request: int


class PausedAt(NamedTuple):
    """A process is suspended."""

    at: float
    process: str
    until: float


class CrashedAt(NamedTuple):
    """A process was killed."""

    at: float
    process: str


class Odd(NamedTuple):
    """The workload itself observed a violation."""

    at: float
    process: str
    what: str


class LeftOver(NamedTuple):
    """The contents of the store at the end."""

    at: float
    process: str
    views: Sequence[LockView]


Event = (
    SessionBegan
    | SessionRenewed
    | SessionOver
    | Swept
    | Asked
    | LeasesRenewed
    | KeyLeft
    | Forced
    | RequestBegan
    | OwnerNamed
    | RequestEnded
    | BodyBegan
    | BodyRan
    | Wrote
    | BodyEnded
    | GaveUp
    | PausedAt
    | CrashedAt
    | Odd
    | LeftOver
    | ConceptEvent
    | JobEvent
)


class History:
    """Collect events, and add a label for each to the loop's trace."""

    def __init__(self, loop: SeededLoop, clock: Clock) -> None:
        self.events: list[Event] = []
        self.now = clock.now
        self._loop = loop
        self._requests = 0
        self._names: dict[str, str] = {}

    def add(self, event: Event) -> None:
        """Record an event."""
        if not self._loop.is_closed():
            self.events.append(event)
            self._loop.note(self.describe(event))

    def new_request(self) -> int:
        """A number for a client's request."""
        self._requests += 1
        return self._requests

    def describe(self, event: Event) -> str:
        """A label that is the same in every run of a seed."""
        parts = [event.process, type(event).__name__]
        match event:
            case Asked(_, _, request, answer):
                parts += [self.name(request.owner), request.key, type(answer).__name__]
                if type(answer) is Granted:
                    parts.append(str(answer.fence))
            case LeasesRenewed(_, _, leases, answers):
                parts += [
                    f"{self.name(lease.owner)}:{'ok' if answer.expires_at else 'ended'}"
                    for lease, answer in zip(leases, answers, strict=False)
                ]
            case KeyLeft(_, _, request, left):
                parts += [self.name(request.owner), request.key, "held" if left.held else "not held"]
            case Forced(_, _, key, holder):
                parts += [key, self.name(holder.owner) if holder else "nobody"]
            case SessionBegan() | SessionOver():
                parts.append(self.name(event.session))
            case SessionRenewed():
                parts += [self.name(event.session), "alive" if event.alive else "ended"]
            case OwnerNamed():
                parts += [f"r{event.request}", event.key, self.name(event.owner)]
            case BodyBegan() | Wrote():
                parts += [f"r{event.request}", event.key, str(event.fence)]
            case BodyRan() | BodyEnded():
                parts += [f"r{event.request}", event.key]
            case RequestBegan():
                parts += [f"r{event.request}", event.kind, *event.keys, str(event.wait)]
            case RequestEnded():
                parts += [f"r{event.request}", event.outcome]
            case GaveUp():
                parts.append(f"r{event.request}")
            case PausedAt():
                parts.append(f"{event.until - event.at:.3f} s")
            case Odd():
                parts.append(event.what)
            case Swept() | CrashedAt() | LeftOver():
                pass
            case _:
                parts += event.words(self.name)
        return " ".join(parts)

    def name(self, raw: str) -> str:
        """A name for a session or an owner that depends only on the seed."""
        session, dot, count = raw.partition(".")
        known = self._names.get(session)
        if known is None:
            known = self._names[session] = f"s{len(self._names) + 1}"
        return f"{known}{dot}{count}"
