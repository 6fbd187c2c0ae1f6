"""Limits during a fetch: free capacity, the jobs that take it, and the jobs that queue for it.

A job that finds no capacity moves from the ready jobs to the queue of the limit. When there is capacity, the first
waiters of each kind are ready too and keep their tickets: new jobs take only what those leave. Kinds that a worker does
not fetch do not block the others.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.sqlite.job_limit_json import decode_limits, slots_of
from interlock.backends.sqlite.job_rows import JobRows, sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from interlock.backends.pacing import Quota
    from interlock.backends.sqlite.job_limit_json import Limit

__all__ = [
    "LimitStates",
    "LimitShare",
    "free",
    "add_starts",
    "add_uses",
    "room_at",
    "delete_starts",
    "wake",
    "wake_due",
]

_UNLIMITED = 1_000_000_000
_MAX_WOKEN = 1000


class _LimitState:
    """The state of one limit during one transaction."""

    __slots__ = ("_name", "_rows", "_starts", "given", "in_force", "line", "taken")

    def __init__(self, rows: JobRows, name: str) -> None:
        self._rows = rows
        self._name = name
        known = rows.all(sql.quotas, key=name)
        self.taken = sum(count for _, _, count in known)
        self._starts: dict[int, int] = {}
        self.in_force = min((self.room_before((max_count, per)) for max_count, per, _ in known), default=_UNLIMITED)
        """Free capacity by the quotas of fetched jobs, before this fetch took any."""
        self.given = 0
        self.line: list[int] | None = None
        """The tickets of the first waiters; None until they are read."""

    def room_before(self, quota: tuple[int, int]) -> int:
        """Return how many more could start by one quota alone, before this fetch took any."""
        max_count, per = quota
        return max_count - (self.starts(per) if per else self.taken)

    def room(self, quota: Quota) -> int:
        """Return how many more could start by a quota and by those of the fetched jobs."""
        return min(self.in_force, self.room_before(quota)) - self.given

    def starts(self, per: int) -> int:
        """Return how many jobs started within a period."""
        count = self._starts.get(per)
        if count is None:
            found = self._rows.one(sql.starts_after, key=self._name, after=self._rows.now - per)
            count = self._starts[per] = int(found[0])
        return count


class LimitShare(NamedTuple):
    """A job's demand on one limit."""

    name: str
    key: _LimitState
    before: int
    """Free capacity by the job's own quota, before this fetch took any."""
    paced: bool


class LimitStates:
    """The limits that a fetch encounters. Most jobs share their limits, so each set is evaluated once."""

    def __init__(self, rows: JobRows, kinds: Collection[int]) -> None:
        self._rows = rows
        self._kinds = kinds
        self._keys: dict[str, _LimitState] = {}
        self._shares: dict[str, list[LimitShare]] = {}

    def shares(self, uses: str) -> list[LimitShare]:
        """Return the demands of a job with these limits."""
        shares = self._shares.get(uses)
        if shares is None:
            shares = self._shares[uses] = [
                LimitShare(name, key, key.room_before(quota), quota.per > 0)
                for name, quota in decode_limits(uses)
                for key in [self._key(name)]
            ]
        return shares

    def full(self, shares: Iterable[LimitShare], ticket: int | None) -> tuple[str, bool]:
        """Return the first limit that a job has to wait for, if any, and whether only earlier waiters are in its
        way."""
        for name, key, before, _ in shares:
            room = min(key.in_force, before) - key.given
            if room <= 0 or room <= self._ahead(name, key, room, ticket):
                return name, room > 0
        return "", False

    def scarce(self, shares: Iterable[LimitShare], at_once: int) -> bool:
        """Return whether a job would take more slots than a fetch may take in advance."""
        for _, key, before, paced in shares:
            if key.given >= at_once and not paced and key.given >= min(key.in_force, before) // 2:
                return True
        return False

    def take(self, shares: Iterable[LimitShare], ticket: int | None) -> None:
        """Count a job under its limits."""
        for _, key, before, _ in shares:
            key.in_force = min(key.in_force, before)
            key.given += 1
            if ticket is not None and key.line and ticket in key.line:
                key.line.remove(ticket)

    @property
    def touched(self) -> list[str]:
        """All limits that were read."""
        return list(self._keys)

    def _key(self, name: str) -> _LimitState:
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = _LimitState(self._rows, name)
        return key

    def _ahead(self, name: str, key: _LimitState, room: int, ticket: int | None) -> int:
        """Count the waiters before a job, up to the free capacity."""
        if key.line is None:
            key.line = self._front(name, room)
        return len(key.line) if ticket is None else bisect_left(key.line, ticket)

    def _front(self, name: str, count: int) -> list[int]:
        """Return the tickets of the first waiters of a limit, of all kinds."""
        kinds = [kind for _, kind in self._rows.all(sql.limit_queues, keys=json.dumps([name])) if kind in self._kinds]
        found = [self._rows.all(sql.first_waiting, key=name, kind=kind, limit=count) for kind in kinds]
        return [ticket for (ticket,) in islice(merge(*found), count)]


def add_uses(rows: JobRows, fetched: Iterable[tuple[int, str]]) -> None:
    """Record the limits of fetched jobs, each an ID with its limits. Jobs with equal limits share a statement."""
    for text, ids in _by_uses(fetched).items():
        wanted = json.dumps(ids)
        for key, (max_count, per) in decode_limits(text):
            rows.run(sql.add_uses, key=key, max_count=max_count, per=per, ids=wanted)


def free(rows: JobRows, ended: Iterable[tuple[int, str]]) -> set[str]:
    """Delete the uses of ended jobs; return the keys."""
    keys = set()
    for text, ids in _by_uses(ended).items():
        wanted = json.dumps(ids)
        for key, _ in decode_limits(text):
            rows.run(sql.delete_uses, key=key, ids=wanted)
            keys.add(key)
    return keys


def add_starts(rows: JobRows, started: Iterable[tuple[int, str]], within: int) -> None:
    """Record starts of jobs, each an ID with its limits, against rates and cooldowns, ``within`` from now."""
    at = rows.now + within
    starts: list[tuple[str, int, int]] = []
    longest: dict[str, int] = {}
    for id, text in started:  # noqa: A001
        if len(slots_of(text)) < len(decode_limits(text)):
            for key, (_, per) in decode_limits(text):
                if per:
                    starts.append((key, id, at + per))
                    longest[key] = max(longest.get(key, 0), per)
    if starts:
        old = [(rows.namespace, key, rows.now - per, rows.now) for key, per in longest.items()]
        rows.each(sql.delete_old_starts, old)
        numbered = zip(starts, rows.numbers("position", len(starts)), strict=True)
        rows.each(sql.add_start, [(rows.namespace, key, at, n, id, until) for (key, id, until), n in numbered])  # noqa: A001


def delete_starts(rows: JobRows, unstarted: Iterable[tuple[int, str]]) -> None:
    """Delete the last starts of jobs that never ran, each an ID with its limits."""
    starts = [
        {"key": key, "id": id}
        for id, text in unstarted  # noqa: A001
        for key, quota in decode_limits(text)
        if quota.per
    ]
    if starts:
        rows.each_named(sql.delete_last_start, starts)


def wake(rows: JobRows, keys: Iterable[str]) -> set[int]:
    """Make the first waiters of limits ready, as far as there is capacity, and store when a rate allows the next start.

    Returns the kinds of the jobs that became ready.
    """
    kinds_of: dict[str, list[int]] = {}
    for name, kind in rows.all(sql.limit_queues, keys=json.dumps(sorted(keys))):
        kinds_of.setdefault(name, []).append(kind)
    woken: set[int] = set()
    for name, kinds in kinds_of.items():
        key = _LimitState(rows, name)
        ids: list[int] = []
        opens: list[int] = []
        for kind in kinds:
            first = _asleep(rows, key, name, kind)
            ids += first.ids
            opens += [] if first.wake_at is None else [first.wake_at]
            woken |= {kind} if first.ids else set()
        if ids:
            rows.run(sql.mark_woken, ids=json.dumps(ids))
            rows.make_ready(ids, kinds)
        if opens:
            rows.run(sql.set_wake, key=name, at=min(opens))
            rows.changed_kinds.update(kinds)
        else:
            rows.run(sql.delete_wake, key=name)
    return woken


class _First(NamedTuple):
    """The first waiters of one kind."""

    ids: list[int]
    """Jobs for which there is capacity and that are not woken yet."""
    wake_at: int | None
    """When a rate or cooldown allows the next start, if none is possible now."""


def _asleep(rows: JobRows, key: _LimitState, name: str, kind: int) -> _First:
    ids: list[int] = []
    line = rows.stream(sql.limit_queue, rows.namespace, name, kind)
    for ahead, (_, id, is_woken, uses) in enumerate(line):  # noqa: A001
        (quota,) = (limit.quota for limit in decode_limits(uses) if limit.key == name)
        if key.room(quota) <= ahead:
            return _First(ids, None if ahead else _wake_time(rows, key, name, quota))
        if ahead == _MAX_WOKEN:
            break
        if not is_woken:
            ids.append(id)
    return _First(ids, None)


def wake_due(rows: JobRows) -> bool:
    """Wake jobs that a rate or cooldown allows to start by now; return whether there were any."""
    keys = [key for (key,) in rows.all(sql.wakes_due)]
    for key in keys:
        rows.run(sql.delete_wake, key=key)
    wake(rows, keys)
    return bool(keys)


def room_at(rows: JobRows, name: str, limits: Iterable[Limit]) -> int | None:
    """Return when a rate or cooldown allows the next start, if a job with these limits waits for that."""
    quotas = [limit.quota for limit in limits if limit.key == name]
    return _wake_time(rows, _LimitState(rows, name), name, quotas[0]) if quotas else None


def _by_uses(jobs: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    together: dict[str, list[int]] = {}
    for id, text in jobs:  # noqa: A001
        together.setdefault(text, []).append(id)
    return together


def _wake_time(rows: JobRows, key: _LimitState, name: str, quota: Quota) -> int | None:
    """Return when the rates and cooldowns of a key allow the next start; None if something else decides."""
    known = {(max_count, per) for max_count, per, _ in rows.all(sql.quotas, key=name)} | {tuple(quota)}
    times = []
    for max_count, per in known:
        if per and key.starts(per) >= max_count:
            (at,) = rows.one(sql.start_before, key=name, before=max_count - 1)
            times.append(at + per)
    return max(times, default=None)
