"""The two users of a limit, each as the other one counts it: fetched jobs, and reservations of ``app.limits``.

Both count under one key. A fetch counts the reservations, and a reservation counts the jobs, in one atomic step. Times
are whole microseconds. A reservation's ``mark`` is the last number that a waiting job had drawn when the reservation
was first requested: jobs with a larger number queued after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.backends.admission import TURN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.backends.pacing import Quota

__all__ = ["JobSide", "LimitJobs", "ReservedSide", "quotas_in_force"]


class JobSide(NamedTuple):
    """The jobs on a key, as a reservation counts them."""

    taken: int
    """How many fetched jobs hold it."""
    quotas: frozenset[Quota]
    """What those jobs declare."""
    waiting: Sequence[int]
    """The numbers of waiting jobs that a live worker takes, in order."""
    starts: Sequence[int]
    """The latest times at which jobs started or may start, in order."""

    def ahead(self, mark: int) -> int:
        """Return how many jobs queued before a reservation with this mark."""
        return sum(1 for number in self.waiting if number <= mark)


class ReservedSide(NamedTuple):
    """The live reservations on a key, as a fetch counts them."""

    started: int
    quotas: frozenset[Quota]
    waiting: Sequence[int]
    """The marks of those that wait for a slot, in order."""
    plans: Sequence[tuple[int, int]]
    """The mark and the planned time of those that wait for their time."""
    starts: Sequence[int]
    """The starts that count, in order."""
    free_since: int
    ends_at: int | None
    """When the first of those that hold a slot expires unless its session is renewed."""

    def ahead(self, number: int | None, now: int) -> int:
        """Return for how many reservations a free slot is kept from a job with this number (None: a new one)."""
        if now >= self.free_since + TURN:
            return 0
        return sum(1 for mark in self.waiting if number is None or mark < number)

    def plans_before(self, number: int | None, now: int) -> list[int]:
        """Return the planned times that a job with this number (None: a new one) has to respect."""
        return [at for mark, at in self.plans if at + TURN > now and (number is None or mark < number)]


class LimitJobs(Protocol):
    """The jobs of a store, for reservations that are stored elsewhere."""

    def side(self, key: str) -> JobSide | None:
        """Return the jobs on a key; None if there are none."""
        ...

    def mark(self) -> int:
        """Return the last number that a waiting job has drawn."""
        ...

    def waiting_keys(self, name: str) -> list[str]:
        """Return the keys of a limit that jobs wait for."""
        ...

    def extend_starts(self, name: str, per: int) -> None:
        """Let the known starts of a limit's jobs count for a longer period."""
        ...

    def wake(self, keys: Iterable[str]) -> None:
        """Make waiting jobs ready as far as there is room, and notify their workers."""
        ...


def quotas_in_force(declared: Iterable[Quota], override: Quota | None) -> frozenset[Quota]:
    """Return the quotas that count: the override, or else all that were declared."""
    return frozenset(declared) if override is None else frozenset({override})
