"""Limits during a fetch: free capacity, the jobs that take it, and the jobs that queue for it.

A job that finds no capacity moves from the ready jobs to the queue of the limit. When there is capacity, the first
waiters of each kind are ready too and keep their tickets: new jobs take only what those leave. Kinds that a worker does
not fetch do not block the others.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.admission import STALE, TURN
from interlock.backends.limit_sides import JobSide, ReservedSide, quotas_in_force
from interlock.backends.pacing import Quota, earliest_by_all
from interlock.backends.sqlite.job_limit_json import decode_limits, slots_of
from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.ports.limits import override_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from interlock.backends.sqlite.job_limit_json import Limit

__all__ = [
    "LimitStates",
    "LimitShare",
    "free",
    "job_side",
    "note_freed",
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

    __slots__ = ("_name", "_rows", "_starts", "given", "in_force", "line", "override", "quotas", "reserved", "taken")

    def __init__(self, rows: JobRows, name: str) -> None:
        self._rows = rows
        self._name = name
        known = rows.all(sql.quotas, key=name)
        self.taken = sum(count for _, _, count in known)
        self._starts: dict[int, int] = {}
        self.reserved, self.override = _reserved(rows, name)
        declared = {Quota(max_count, per) for max_count, per, _ in known}
        if self.reserved is not None:
            self.taken += self.reserved.started
            declared |= self.reserved.quotas
        self.quotas = quotas_in_force(declared, self.override)
        """The quotas of fetched jobs and of reservations, or the one that a person set."""
        self.in_force = min((self.room_before(quota) for quota in self.quotas), default=_UNLIMITED)
        """Free capacity by those quotas, before this fetch took any."""
        self.given = 0
        self.line: list[int] | None = None
        """The tickets of the first waiters; None until they are read."""

    def room_before(self, quota: Quota) -> int:
        """Return how many more could start by one quota alone, before this fetch took any."""
        max_count, per = self.override or quota
        return max_count - (self.starts(per) if per else self.taken)

    def room(self, quota: Quota) -> int:
        """Return how many more could start by a quota and by those of the fetched jobs."""
        return min(self.in_force, self.room_before(quota)) - self.given

    def starts(self, per: int) -> int:
        """Return how many jobs started within a period."""
        count = self._starts.get(per)
        if count is None:
            after = self._rows.now - per
            count = int(self._rows.one(sql.starts_after, key=self._name, after=after)[0])
            if self.reserved is not None:
                count += len(self.reserved.starts) - bisect_right(self.reserved.starts, after)
            self._starts[per] = count
        return count

    def rivals(self, ticket: int | None) -> int:
        """Return for how many reservations the free slots are kept."""
        return 0 if self.reserved is None else self.reserved.ahead(ticket, self._rows.now)

    def planned_until(self, quota: Quota, ticket: int | None) -> int | None:
        """Return when to look again because of the planned starts of reservations; None if none is in a job's way."""
        now = self._rows.now
        if self.reserved is None or not self.reserved.plans:
            return None
        plans = self.reserved.plans_before(ticket, now)
        paces = [quota for quota in quotas_in_force(self.quotas | {quota}, self.override) if quota.per]
        if not plans or not paces:
            return None
        after = now - max(quota.per for quota in paces)
        jobs = [at for (at,) in self._rows.all(sql.start_times, key=self._name, after=after)]
        due = [max(at, now) for at in plans]
        fit = earliest_by_all(sorted([*jobs, *self.reserved.starts, *due, *[now] * self.given]), paces, now)
        return min(fit, min(plans) + TURN) if fit > now else None

    def opens_at(self, ticket: int | None) -> int | None:
        """Return when a slot may come free without a message: a reservation's session or turn ends."""
        if self.reserved is None:
            return None
        times = [] if self.reserved.ends_at is None else [self.reserved.ends_at]
        if self.rivals(ticket):
            times.append(self.reserved.free_since + TURN)
        return min(times, default=None)


def _reserved(rows: JobRows, name: str) -> tuple[ReservedSide | None, Quota | None]:
    """Return the reservations on a key, if there are any, and the figure that a person set for it."""
    if rows.reservations is not None:
        return rows.reservations.side(name), rows.reservations.override(name)
    used, max_count, per = rows.one(sql.reserved, key=name, name=override_names(name)[1])
    override = None if max_count is None else Quota(max_count, per)
    if not used:
        return None, override
    found = rows.all(sql.reservations_of_key, key=name, stale=STALE)
    (free_since,) = rows.one(sql.reserved_free_since, key=name) or (0,)
    side = ReservedSide(
        started=sum(started for _, started, *_ in found),
        quotas=frozenset(Quota(max_count, per) for *_, max_count, per, _ in found),
        waiting=[mark for mark, _, _, waiting, *_ in found if waiting],
        plans=[(mark, at) for mark, started, at, waiting, _, per, _ in found if per and not started and not waiting],
        starts=[at for (at,) in rows.all(sql.reserved_starts, key=name)],
        free_since=free_since,
        ends_at=min((ends_at for _, started, *_, per, ends_at in found if started and not per), default=None),
    )
    return side, override


class LimitShare(NamedTuple):
    """A job's demand on one limit."""

    name: str
    key: _LimitState
    before: int
    """Free capacity by the job's own quota, before this fetch took any."""
    quota: Quota

    @property
    def paced(self) -> bool:
        """Whether it is a rate or a cooldown."""
        return self.quota.per > 0


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
                LimitShare(name, key, key.room_before(quota), quota)
                for name, quota in decode_limits(uses)
                for key in [self._key(name)]
            ]
        return shares

    def full(self, shares: Iterable[LimitShare], ticket: int | None) -> tuple[str, bool]:
        """Return the first limit that a job has to wait for, if any, and whether only earlier waiters are in its
        way."""
        for name, key, before, quota in shares:
            room = min(key.in_force, before) - key.given
            rivals = key.rivals(ticket) if room > 0 else 0
            if room <= rivals or key.planned_until(quota, ticket) is not None:
                return name, False
            if room <= self._ahead(name, key, room, ticket) + rivals:
                return name, True
        return "", False

    def scarce(self, shares: Iterable[LimitShare], at_once: int) -> bool:
        """Return whether a job would take more slots than a fetch may take in advance."""
        for share in shares:
            _, key, before, _ = share
            if key.given >= at_once and not share.paced and key.given >= min(key.in_force, before) // 2:
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


def free(rows: JobRows, ended: Iterable[tuple[int, str]]) -> dict[str, int]:
    """Delete the uses of ended jobs; return the keys, and how many jobs used each."""
    keys: dict[str, int] = {}
    for text, ids in _by_uses(ended).items():
        wanted = json.dumps(ids)
        for key, _ in decode_limits(text):
            keys[key] = keys.get(key, 0) + rows.run(sql.delete_uses, key=key, ids=wanted)
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
                    if key not in longest:
                        reserved, override = _reserved(rows, key)
                        known = {Quota(1, per)} if reserved is None else {Quota(1, per), *reserved.quotas}
                        longest[key] = max(quota.per for quota in quotas_in_force(known, override))
                    starts.append((key, id, at + max(per, longest[key])))
                    longest[key] = max(longest[key], per)
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


def note_freed(rows: JobRows, freed: Mapping[str, int]) -> None:
    """Note that jobs have freed so many slots of limits, for which reservations may wait."""
    for name, count in freed.items():
        key = _LimitState(rows, name)
        if key.reserved is not None and key.reserved.waiting and key.in_force > 0 >= key.in_force - count:
            if rows.reservations is not None:
                rows.reservations.set_free_since(name, rows.now)
            else:
                rows.run(sql.set_reserved_free_since, key=name)


def job_side(rows: JobRows, name: str) -> JobSide | None:
    """Return the jobs on a key, for reservations that are stored elsewhere; None if there are none."""
    known = rows.all(sql.quotas, key=name)
    starts = [at for (at,) in rows.all(sql.start_times, key=name, after=0)]
    served = [kind for _, kind in rows.all(sql.limit_queues, keys=json.dumps([name]))]
    if served:
        kinds = {kind for (kind,) in rows.all(sql.served_kinds)}
        served = [kind for kind in served if kind in kinds]
    if not (known or starts or served):
        return None
    found = [rows.all(sql.first_waiting, key=name, kind=kind, limit=_MAX_WOKEN) for kind in served]
    quotas = frozenset(Quota(max_count, per) for max_count, per, _ in known)
    waiting = [ticket for (ticket,) in islice(merge(*found), _MAX_WOKEN)]
    return JobSide(sum(count for _, _, count in known), quotas, waiting, starts)


def wake(rows: JobRows, keys: Iterable[str]) -> set[int]:
    """Make the first waiters of limits ready, as far as there is capacity, and store when a rate allows the next start.

    Returns the kinds of the jobs that became ready.
    """
    kinds_of: dict[str, list[int]] = {}
    keys = sorted(keys)
    if rows.reservations is not None:
        rows.open_limits.extend(keys)
    for name, kind in rows.all(sql.limit_queues, keys=json.dumps(keys)):
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
    for ahead, (ticket, id, is_woken, uses) in enumerate(line):  # noqa: A001
        (quota,) = (limit.quota for limit in decode_limits(uses) if limit.key == name)
        planned = key.planned_until(quota, ticket)
        if key.room(quota) <= ahead + key.rivals(ticket) or planned is not None:
            times = [_wake_time(rows, key, name, quota), planned, key.opens_at(ticket)]
            return _First(ids, None if ahead else min((at for at in times if at is not None), default=None))
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
    times = []
    for max_count, per in quotas_in_force(key.quotas | {quota}, key.override):
        if per and key.starts(per) >= max_count:
            if key.reserved is None:
                (at,) = rows.one(sql.start_before, key=name, before=max_count - 1)
            else:
                jobs = [at for (at,) in rows.all(sql.start_times, key=name, after=rows.now - per)]
                at = sorted([*jobs, *key.reserved.starts])[-max_count]
            times.append(at + per)
    return max(times, default=None)
