"""What the processes of a jobs run wrote down, put together: who asked for which job, who ran it, who acknowledged it.

Enqueuers journal every call before and after it, handlers when they start and end, and whatever passes between a
worker and its store about fetches and acknowledgements is journaled too. The store itself is asked only for how jobs
ended.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.ports.limits import Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.chaos.faults import Fault

__all__ = ["Final", "Given", "JobHistory", "Run", "Acknowledging", "Ticket", "read_jobs"]

NEVER = float("inf")


@dataclass(slots=True)
class Ticket:
    """One job that an enqueuer asked for, under a name of its own."""

    name: str
    who: str
    batch: str
    """The call it was part of."""
    place: int
    """Its place in that call."""
    kind: str
    lane: str
    delay: float
    fate: str
    """How its handler is to end; see ``Fates`` of the worker."""
    uses: tuple[Use, ...]
    ask: float
    accepted: float = NEVER
    """When the call returned; never, if its enqueuer did not hear: then it may be there or not."""
    id: int | None = None
    cancel: float | None = None
    """When somebody asked for its cancellation."""


@dataclass(slots=True)
class Run:
    """One time that a handler ran."""

    who: str
    id: int
    ticket: str
    fence: int
    attempt: int
    start: float
    end: float | None = None
    how: str = ""
    died: float | None = None
    """When its process ended before it did."""
    ask: float = 0.0
    ttl: float = 3.0

    @property
    def left(self) -> float:
        """When it ran no longer."""
        return self.end if self.end is not None else self.died if self.died is not None else NEVER


class Given(NamedTuple):
    """One job given by one fetch."""

    who: str
    asked: float
    answered: float
    id: int
    fence: int


class Acknowledging(NamedTuple):
    """One acknowledgement that a store answered."""

    who: str
    asked: float
    """For the first time: one whose answer is lost is repeated, and the first may have been accepted."""
    answered: float
    id: int
    fence: int
    outcome: str
    accepted: bool


class Final(NamedTuple):
    """How a job stands in the store in the end."""

    state: str
    attempt: int
    fence: int
    crashes: int = 0
    superseded_by: int | None = None


@dataclass
class JobHistory:
    """All that is known about a run."""

    tickets: dict[str, Ticket]
    runs: list[Run]
    given: list[Given]
    acknowledgings: list[Acknowledging]
    final: Mapping[int, Final]
    quarantined: Mapping[int, Final] = field(default_factory=dict)
    """Jobs that were quarantined and then retried by hand, as they stood before."""
    faults: list[Fault] = field(default_factory=list)
    unheard_fetches: int = 0
    """Fetches whose process ended, or failed to reach the store, before it had the answer."""
    counts: Counter[str] = field(default_factory=Counter)
    oddities: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    """What still waited when there was nothing left to wait for."""
    session_ttl: float = 3.0


def read_jobs(events: Iterable[dict[str, Any]], ended: Mapping[str, float], session_ttl: float) -> dict[str, Any]:
    """Put journals together. ``ended`` says when processes were ended that could not write it down themselves."""
    reader = _Reader(ended, session_ttl)
    for event in events:
        reader.read(event)
    return reader.found()


class _Reader:
    """Takes events in order of time."""

    _NOTED = ("session_lost", "job_acknowledgement_refused", "job_rescued", "job_quarantined", "open_failed")

    def __init__(self, ended: Mapping[str, float], session_ttl: float) -> None:
        self._session_ttl = session_ttl
        self._stopped = dict(ended)
        self._last_seen: dict[str, float] = {}
        self._calls: dict[str, list[Ticket]] = {}
        self._runs: dict[tuple[str, int], Run] = {}
        self._fetching: Counter[str] = Counter()
        self._tickets: dict[str, Ticket] = {}
        self._given: list[Given] = []
        self._acknowledgings: list[Acknowledging] = []
        self._unheard: dict[tuple[int, int], float] = {}
        self._counts: Counter[str] = Counter()
        self._oddities: list[str] = []

    def read(self, event: dict[str, Any]) -> None:
        at, who, what = event["t"], event["who"], event["event"]
        self._last_seen[who] = at
        if what == "start":
            about = (event["id"], event["ticket"], event["fence"], event["attempt"])
            # What starts right after a pause may have been fetched before it.
            self._runs[who, event["run"]] = Run(who, *about, start=at, ask=at - 1.0, ttl=self._session_ttl)
        elif what == "end":
            run = self._runs[who, event["run"]]
            run.end, run.how = at, event["how"]
        elif what == "ask":
            self._asked(event)
        elif what == "accepted":
            for ticket, id_ in zip(self._calls[event["batch"]], event["ids"], strict=True):
                ticket.accepted, ticket.id = at, id_
        elif what == "fetching":
            self._fetching[who] += 1
        elif what == "fetched":
            self._fetching[who] -= 1
            self._given += [Given(who, event["asked"], at, id_, fence) for id_, fence in event["jobs"]]
        elif what == "acknowledged":
            for id_, fence, outcome, accepted in event["jobs"]:
                asked = self._unheard.get((id_, fence), event["asked"])
                self._acknowledgings.append(Acknowledging(who, asked, at, id_, fence, outcome, accepted))
        elif what == "acknowledging unheard":
            for id_, fence in event["jobs"]:
                self._unheard.setdefault((id_, fence), event["asked"])
        elif what == "cancel":
            ticket = self._tickets[event["ticket"]]
            ticket.cancel = at if ticket.cancel is None else ticket.cancel
        elif what in ("oops", "background_task_failed"):
            told = event.get("what") or event.get("error")
            self._oddities.append(f"{who} at {at:.3f}: {told}\n{event.get('trace', '')}")
        elif what == "work_overran_session":
            self._stopped.setdefault(who, at)
        elif what in self._NOTED:
            self._counts[what.replace("_", " ")] += 1

    def _asked(self, event: dict[str, Any]) -> None:
        call = self._calls[event["batch"]] = []
        for place, (name, kind, lane, delay, fate, uses) in enumerate(event["jobs"]):
            about = (kind, lane, delay, fate, tuple(Use(*use) for use in uses))
            ticket = Ticket(name, event["who"], event["batch"], place, *about, ask=event["t"])
            call.append(ticket)
            if name in self._tickets:
                self._oddities.append(f"{name} was asked for twice: the enqueuers are wrong")
            self._tickets[name] = ticket

    def found(self) -> dict[str, Any]:
        runs = list(self._runs.values())
        for run in runs:
            if run.end is None:
                run.died = max(run.start, self._stopped.get(run.who, self._last_seen[run.who]))
        return {
            "tickets": self._tickets,
            "runs": runs,
            "given": self._given,
            "acknowledgings": self._acknowledgings,
            "unheard_fetches": sum(self._fetching.values()),
            "counts": self._counts,
            "oddities": self._oddities,
        }
