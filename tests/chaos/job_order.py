"""Whether jobs of one lane started in the order in which they were accepted.

Of two jobs, the one whose enqueueing had returned before that of the other began comes first, with all its runs; those
enqueued at the same time may come in either order, and jobs of one call in the order of the call.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.job_history import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.chaos.job_history import Ticket

__all__ = ["Turn", "inversions"]

_CLOCKS = 0.02


@dataclass(slots=True)
class Turn:
    """When a job of a lane started, first and last."""

    ticket: Ticket
    first: float
    last: float

    @property
    def ask(self) -> float:
        """No position is taken before then: one that is delayed takes it when it is due."""
        delay = self.ticket.delay
        return self.ticket.ask + delay - _CLOCKS if delay else self.ticket.ask

    @property
    def accepted(self) -> float:
        """By then it has its position."""
        return NEVER if self.ticket.delay else self.ticket.accepted


def inversions(turns: Sequence[Turn]) -> Iterator[str]:
    """Every job of a lane that started before one that had to come first."""
    yield from _between_calls(turns)
    yield from _within_calls(turns)


def _between_calls(turns: Sequence[Turn]) -> Iterator[str]:
    waiting = [(turn.accepted, number, turn) for number, turn in enumerate(turns)]
    heapq.heapify(waiting)
    latest: Turn | None = None
    for turn in sorted(turns, key=lambda turn: turn.ask):
        while waiting and waiting[0][0] < turn.ask:
            before = heapq.heappop(waiting)[2]
            if latest is None or before.last > latest.last:
                latest = before
        if latest is not None and latest.last > turn.first:
            yield _told(latest, turn, "was accepted before")


def _within_calls(turns: Iterable[Turn]) -> Iterator[str]:
    calls: dict[str, list[Turn]] = {}
    for turn in turns:
        if not turn.ticket.delay:
            calls.setdefault(turn.ticket.batch, []).append(turn)
    for call in calls.values():
        call.sort(key=lambda turn: turn.ticket.place)
        for before, turn in pairwise(call):
            if before.last > turn.first:
                yield _told(before, turn, "stood in one call before")


def _told(before: Turn, after: Turn, why: str) -> str:
    return (
        f"{after.ticket.lane}: {before.ticket.name} (job {before.ticket.id}) {why} {after.ticket.name} "
        f"(job {after.ticket.id}), but started {before.first:.3f}..{before.last:.3f}, the other {after.first:.3f}"
    )
