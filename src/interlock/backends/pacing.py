"""When a start fits its rates and cooldowns: arithmetic on whole microseconds, so that ``per`` is exact."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Quota", "Pace", "earliest_by_all", "earliest_fit", "earliest_for_all", "micros", "seconds"]

_MICROS = 1_000_000


def micros(at: float) -> int:
    """Convert a time or duration of the port to whole microseconds."""
    return round(at * _MICROS)


def seconds(at: int) -> float:
    """The reverse."""
    return at / _MICROS


class Quota(NamedTuple):
    """The quota that a reservation declares: ``max_count`` starts within ``per`` microseconds; 0 for slots."""

    max_count: int
    per: int


class Pace(NamedTuple):
    """A key's rates and cooldowns, and the times that a start has to fit."""

    key: str
    quotas: Sequence[Quota]
    times: Callable[[int], Sequence[int]]
    """Returns the starts and planned starts after a time, sorted."""
    jobs_ahead: int = 0
    """How many jobs start before it."""
    nth_start: Callable[[int], int | None] = lambda _: None
    """Returns the latest time of the start so many before the last one. A job may start at any time until then, so it
    counts from its fetch on until a period later."""


def earliest_fit(times: Sequence[int], quota: Quota, at: int) -> int:
    """Return the first time from ``at`` on with which no ``max_count`` + 1 times lie within less than ``per``.

    Windows of ``max_count`` times are visited in order. A window that is full stays full until ``per`` after its
    first time, so the candidate moves there. A window that was passed is never full again.
    """
    max_count, per = quota
    first = bisect_right(times, at - per)
    while first + max_count <= len(times):
        begins, ends = times[first], times[first + max_count - 1]
        if max(ends, at) - min(begins, at) < per:
            at = begins + per
        elif begins >= at:
            break
        first += 1
    return at


def earliest_for_all(paces: Iterable[Pace], at: int) -> tuple[int, str]:
    """Return the first time from ``at`` on that fits every pace, and the key that determined it, if any."""
    paces = [pace for pace in paces if pace.quotas]
    held_by = ""
    for pace in paces:
        for quota in pace.quotas:
            last = pace.nth_start(quota.max_count)
            if last is not None and last + quota.per > at:
                at, held_by = last + quota.per, pace.key
    wanted = [(pace.key, quota, times) for pace in paces for times in [_with_jobs(pace, at)] for quota in pace.quotas]
    moved = True
    while moved:
        moved = False
        for key, quota, times in wanted:
            fit = earliest_fit(times, quota, at)
            if fit > at:
                at, held_by, moved = fit, key, True
    return at, held_by


def earliest_by_all(times: Sequence[int], quotas: Iterable[Quota], at: int) -> int:
    """Return the first time from ``at`` on that fits every quota of one key."""
    wanted = list(quotas)
    before = None
    while before != at:
        before = at
        for quota in wanted:
            at = earliest_fit(times, quota, at)
    return at


def _with_jobs(pace: Pace, at: int) -> Sequence[int]:
    """Return a pace's times, with the jobs that are ahead each at the earliest time that fits."""
    times = pace.times(at - max(quota.per for quota in pace.quotas))
    if pace.jobs_ahead:
        times = list(times)
        for _ in range(pace.jobs_ahead):
            insort(times, earliest_by_all(times, pace.quotas, at))
    return times
