"""Limits inside the fetch: how much room keys have, who takes it, and who stands in line for it.

A job that finds no room leaves the ready jobs for the line of the key. Where there is room, the first in line of each
kind are ready as well, and keep their places: newcomers take only what is left when all of those are served. Kinds that
a fetcher does not take do not hold up the others.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.sqlite.job_rows import JobRows, sql
from interlock.backends.sqlite.job_uses import read_uses, slots_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from interlock.backends.pacing import Figure
    from interlock.backends.sqlite.job_uses import Limit

__all__ = ["Keys", "Share", "free", "note_starts", "note_uses", "room_at", "unstart", "wake", "wake_due"]

_PLENTY = 1_000_000_000
_MOST_WOKEN = 1000


class _Key:
    """One key during one transaction."""

    __slots__ = ("_name", "_rows", "_starts", "given", "in_force", "line", "taken")

    def __init__(self, rows: JobRows, name: str) -> None:
        self._rows = rows
        self._name = name
        known = rows.all(sql.figures, key=name)
        self.taken = sum(count for _, _, count in known)
        self._starts: dict[int, int] = {}
        self.in_force = min((self.room_before((most, per)) for most, per, _ in known), default=_PLENTY)
        """Room by the figures of the jobs fetched, before any was given here."""
        self.given = 0
        self.line: list[int] | None = None
        """The places of the first in line; None if nobody asked."""

    def room_before(self, figure: tuple[int, int]) -> int:
        """How many more could start by one figure alone, before any was given room here."""
        most, per = figure
        return most - (self.starts(per) if per else self.taken)

    def room(self, figure: Figure) -> int:
        """How many more could start by a figure and by those of the jobs fetched."""
        return min(self.in_force, self.room_before(figure)) - self.given

    def starts(self, per: int) -> int:
        """How many have started within a span."""
        count = self._starts.get(per)
        if count is None:
            found = self._rows.one(sql.starts_after, key=self._name, after=self._rows.now - per)
            count = self._starts[per] = int(found[0])
        return count


class Share(NamedTuple):
    """What a job wants of one key."""

    name: str
    key: _Key
    before: int
    """Room by the job's own figure, before any was given here."""
    paced: bool


class Keys:
    """The keys that a fetch comes across. Most jobs share their limits, so what these come to is worked out once."""

    def __init__(self, rows: JobRows, kinds: Collection[int]) -> None:
        self._rows = rows
        self._kinds = kinds
        self._keys: dict[str, _Key] = {}
        self._shares: dict[str, list[Share]] = {}

    def shares(self, uses: str) -> list[Share]:
        """What a job with these limits wants."""
        shares = self._shares.get(uses)
        if shares is None:
            shares = self._shares[uses] = [
                Share(name, key, key.room_before(figure), figure.per > 0)
                for name, figure in read_uses(uses)
                for key in [self._key(name)]
            ]
        return shares

    def full(self, shares: Iterable[Share], ticket: int | None) -> tuple[str, bool]:
        """The first key that a job has to wait for, if any; and whether only those before it are in the way."""
        for name, key, before, _ in shares:
            room = min(key.in_force, before) - key.given
            if room <= 0 or room <= self._ahead(name, key, room, ticket):
                return name, room > 0
        return "", False

    def scarce(self, shares: Iterable[Share], at_once: int) -> bool:
        """Whether a job would take more of some slots than may be taken in advance."""
        for _, key, before, paced in shares:
            if key.given >= at_once and not paced and key.given >= min(key.in_force, before) // 2:
                return True
        return False

    def take(self, shares: Iterable[Share], ticket: int | None) -> None:
        """Let a job have its limits."""
        for _, key, before, _ in shares:
            key.in_force = min(key.in_force, before)
            key.given += 1
            if ticket is not None and key.line and ticket in key.line:
                key.line.remove(ticket)

    @property
    def touched(self) -> list[str]:
        """All keys that were looked at."""
        return list(self._keys)

    def _key(self, name: str) -> _Key:
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = _Key(self._rows, name)
        return key

    def _ahead(self, name: str, key: _Key, room: int, ticket: int | None) -> int:
        """How many stand before a job in the line, counted as far as there is room."""
        if key.line is None:
            key.line = self._front(name, room)
        return len(key.line) if ticket is None else bisect_left(key.line, ticket)

    def _front(self, name: str, count: int) -> list[int]:
        """The places of the first in a key's line, of all kinds together."""
        kinds = [kind for _, kind in self._rows.all(sql.lines, keys=json.dumps([name])) if kind in self._kinds]
        found = [self._rows.all(sql.front, key=name, kind=kind, limit=count) for kind in kinds]
        return [ticket for (ticket,) in islice(merge(*found), count)]


def note_uses(rows: JobRows, fetched: Iterable[tuple[int, str]]) -> None:
    """Keep which limits fetched jobs hold, each an id with its uses. Jobs with the same limits go together."""
    for text, ids in _by_uses(fetched).items():
        wanted = json.dumps(ids)
        for key, (most, per) in read_uses(text):
            rows.run(sql.use, key=key, most=most, per=per, ids=wanted)


def free(rows: JobRows, ended: Iterable[tuple[int, str]]) -> set[str]:
    """Forget that jobs hold their limits. The keys."""
    keys = set()
    for text, ids in _by_uses(ended).items():
        wanted = json.dumps(ids)
        for key, _ in read_uses(text):
            rows.run(sql.unuse, key=key, ids=wanted)
            keys.add(key)
    return keys


def note_starts(rows: JobRows, started: Iterable[tuple[int, str]], within: int) -> None:
    """Count the starts of jobs for their paces, each an id with its uses, as if they came ``within`` from now."""
    at = rows.now + within
    starts: list[tuple[str, int, int]] = []
    longest: dict[str, int] = {}
    for id, text in started:  # noqa: A001
        if len(slots_of(text)) < len(read_uses(text)):
            for key, (_, per) in read_uses(text):
                if per:
                    starts.append((key, id, at + per))
                    longest[key] = max(longest.get(key, 0), per)
    if starts:
        old = [(rows.namespace, key, rows.now - per, rows.now) for key, per in longest.items()]
        rows.each(sql.forget_starts, old)
        numbered = zip(starts, rows.numbers("place", len(starts)), strict=True)
        rows.each(sql.start, [(rows.namespace, key, at, n, id, until) for (key, id, until), n in numbered])  # noqa: A001


def unstart(rows: JobRows, unstarted: Iterable[tuple[int, str]]) -> None:
    """Let the last starts of jobs, which never ran, count for nothing, each an id with its uses."""
    starts = [
        {"key": key, "id": id}
        for id, text in unstarted  # noqa: A001
        for key, figure in read_uses(text)
        if figure.per
    ]
    if starts:
        rows.each_named(sql.unstart, starts)


def wake(rows: JobRows, keys: Iterable[str]) -> set[int]:
    """Make the first in the lines of keys ready, as far as there is room, and note when a pace will make some.

    The kinds of those who became ready.
    """
    kinds_of: dict[str, list[int]] = {}
    for name, kind in rows.all(sql.lines, keys=json.dumps(sorted(keys))):
        kinds_of.setdefault(name, []).append(kind)
    woken: set[int] = set()
    for name, kinds in kinds_of.items():
        key = _Key(rows, name)
        ids: list[int] = []
        opens: list[int] = []
        for kind in kinds:
            first = _asleep(rows, key, name, kind)
            ids += first.ids
            opens += [] if first.opens_at is None else [first.opens_at]
            woken |= {kind} if first.ids else set()
        if ids:
            rows.run(sql.wake, ids=json.dumps(ids))
            rows.offer(ids, kinds)
        if opens:
            rows.run(sql.wake_at, key=name, at=min(opens))
            rows.news.update(kinds)
        else:
            rows.run(sql.forget_wake, key=name)
    return woken


class _First(NamedTuple):
    """The first in a line, of one kind."""

    ids: list[int]
    """Those for whom there is room, and who do not know."""
    opens_at: int | None
    """If there is room for none: when a pace makes some."""


def _asleep(rows: JobRows, key: _Key, name: str, kind: int) -> _First:
    ids: list[int] = []
    line = rows.stream(sql.line, rows.namespace, name, kind)
    for ahead, (_, id, is_woken, uses) in enumerate(line):  # noqa: A001
        (figure,) = (limit.figure for limit in read_uses(uses) if limit.key == name)
        if key.room(figure) <= ahead:
            return _First(ids, None if ahead else _opens_at(rows, key, name, figure))
        if ahead == _MOST_WOKEN:
            break
        if not is_woken:
            ids.append(id)
    return _First(ids, None)


def wake_due(rows: JobRows) -> bool:
    """Wake those for whom a pace has made room by now; whether there were any."""
    keys = [key for (key,) in rows.all(sql.wakes_due)]
    for key in keys:
        rows.run(sql.forget_wake, key=key)
    wake(rows, keys)
    return bool(keys)


def room_at(rows: JobRows, name: str, limits: Iterable[Limit]) -> int | None:
    """When the pace of a key lets the next job start, if that is what one with these limits waits for."""
    figures = [limit.figure for limit in limits if limit.key == name]
    return _opens_at(rows, _Key(rows, name), name, figures[0]) if figures else None


def _by_uses(jobs: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    together: dict[str, list[int]] = {}
    for id, text in jobs:  # noqa: A001
        together.setdefault(text, []).append(id)
    return together


def _opens_at(rows: JobRows, key: _Key, name: str, figure: Figure) -> int | None:
    """When the paces of a key let the next one start; None if something else decides."""
    known = {(most, per) for most, per, _ in rows.all(sql.figures, key=name)} | {tuple(figure)}
    times = []
    for most, per in known:
        if per and key.starts(per) >= most:
            (at,) = rows.one(sql.start_before, key=name, before=most - 1)
            times.append(at + per)
    return max(times, default=None)
