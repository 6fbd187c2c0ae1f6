"""Limits inside the claim: how much room keys have, who takes it, and who stands in line for it.

A job that finds no room leaves the ready jobs for the line of the key. Where there is room, the first in line of each
kind are ready as well, and keep their places: newcomers take only what is left when all of those are served. Kinds that
a claimer does not take do not hold up the others.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from interlock.backends.sqlite.job_rows import JobRows, owner, sql
from interlock.backends.sqlite.job_uses import Limit, read_uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.backends.pacing import Figure

__all__ = ["Keys", "free", "note_starts", "room_at", "unstart", "wake", "wake_due"]

_PLENTY = 1_000_000_000
_MOST_WOKEN = 1000


class _Key:
    """One key during one transaction."""

    __slots__ = ("_name", "_rooms", "_rows", "_starts", "given", "in_force", "line", "taken")

    def __init__(self, rows: JobRows, name: str) -> None:
        self._rows = rows
        self._name = name
        known = rows.all(sql.figures, key=name)
        self.taken = sum(count for _, _, count in known)
        self._starts: dict[int, int] = {}
        self._rooms: dict[tuple[int, int], int] = {}
        self.in_force = min((self.room_before((most, per)) for most, per, _ in known), default=_PLENTY)
        self.given = 0
        self.line: list[int] | None = None

    def room_before(self, figure: tuple[int, int]) -> int:
        """How many more could start by one figure alone, before any was given room here."""
        room = self._rooms.get(figure)
        if room is None:
            most, per = figure
            room = self._rooms[figure] = most - (self.starts(per) if per else self.taken)
        return room

    def room(self, figure: Figure) -> int:
        """How many more could start by a figure and by those of the jobs claimed."""
        return min(self.in_force, self.room_before(figure)) - self.given

    def give(self, figure: Figure) -> None:
        """One more starts."""
        self.in_force = min(self.in_force, self.room_before(figure))
        self.given += 1

    def starts(self, per: int) -> int:
        """How many have started within a span."""
        count = self._starts.get(per)
        if count is None:
            found = self._rows.one(sql.starts_after, key=self._name, after=self._rows.now - per)
            count = self._starts[per] = int(found[0])
        return count


class Keys:
    """The keys that a claim comes across."""

    def __init__(self, rows: JobRows, kinds: Sequence[int]) -> None:
        self._rows = rows
        self._kinds = json.dumps(kinds)
        self._keys: dict[str, _Key] = {}

    def full(self, limits: Iterable[Limit], ticket: int | None) -> tuple[str, bool]:
        """The first key that a job has to wait for, empty if none; and whether that is because of those before it only."""
        for limit in limits:
            key = self._key(limit.key)
            room = key.room(limit.figure)
            if room <= 0 or room <= self._ahead(limit.key, key, room, ticket):
                return limit.key, room > 0
        return "", False

    def scarce(self, limits: Iterable[Limit], at_once: int) -> bool:
        """Whether a job would take more of some slots than may be taken in advance."""
        for limit in limits:
            key = self._key(limit.key)
            if not limit.figure.per and key.given >= max(at_once, (key.room(limit.figure) + key.given) // 2):
                return True
        return False

    def take(self, limits: Iterable[Limit], ticket: int | None) -> None:
        """Let a job have its limits."""
        for limit in limits:
            key = self._key(limit.key)
            key.give(limit.figure)
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
            found = self._rows.all(sql.front, key=name, kinds=self._kinds, limit=room)
            key.line = [place for (place,) in found]
        return len(key.line) if ticket is None else bisect_left(key.line, ticket)


def note_starts(rows: JobRows, started: Iterable[tuple[int, str, int]], session: str, about: Sequence[Any]) -> None:
    """Keep which limits claimed jobs are under, each an id with its uses and when it was due."""
    uses: list[tuple[Any, ...]] = []
    starts: list[dict[str, Any]] = []
    host, pid, program = about
    who = {"session": session, "host": host, "pid": pid, "program": program}
    for id, text, due_at in started:  # noqa: A001
        for key, (most, per) in read_uses(text):
            uses.append((rows.namespace, key, id, most, per))
            if per:
                one = {"key": key, "most": most, "per": per, "asked_at": due_at, "party": f"job:{id}"}
                starts.append(who | one | {"owner": owner(session, id), "counts_until": rows.now + per})
    rows.each(sql.use, uses)
    if starts:
        longest: dict[str, int] = {}
        for start in starts:
            longest[start["key"]] = max(longest.get(start["key"], 0), start["per"])
        rows.each_named(sql.forget_starts, [{"key": key, "before": rows.now - per} for key, per in longest.items()])
        tickets = rows.numbers("place", len(starts))
        # Below zero, so that they never meet those of reservations, which count in the same table.
        rows.each_named(sql.start, [start | {"ticket": -n} for start, n in zip(starts, tickets, strict=True)])


def free(rows: JobRows, ended: Sequence[tuple[int, str | None]]) -> set[str]:
    """Forget that jobs, each an id with its uses, hold their limits. The keys."""
    uses = [(rows.namespace, limit.key, id) for id, text in ended for limit in read_uses(text or "[]")]  # noqa: A001
    rows.each(sql.unuse, uses)
    return {key for _, key, _ in uses}


def unstart(rows: JobRows, unstarted: Iterable[tuple[int, str | None, int]], session: str) -> None:
    """Let starts of jobs that never ran count for nothing, each an id with its uses and when it was claimed."""
    starts = [
        {"key": key, "at": at, "owner": owner(session, id)}
        for id, text, at in unstarted  # noqa: A001
        for key, figure in read_uses(text or "[]")
        if figure.per
    ]
    if starts:
        rows.each_named(sql.unstart, starts)


def wake(rows: JobRows, keys: Iterable[str]) -> None:
    """Make the first in the lines of keys ready, as far as there is room, and note when a pace will make some."""
    kinds_of: dict[str, list[int]] = {}
    for name, kind in rows.all(sql.lines, keys=json.dumps(sorted(keys))):
        kinds_of.setdefault(name, []).append(kind)
    for name, kinds in kinds_of.items():
        key = _Key(rows, name)
        opens: list[int] = []
        woken: list[int] = []
        for kind in kinds:
            ahead = 0
            for _, id, is_woken, uses in rows.stream(sql.line, rows.namespace, name, kind):  # noqa: A001
                (figure,) = (limit.figure for limit in read_uses(uses) if limit.key == name)
                if key.room(figure) <= ahead or ahead == _MOST_WOKEN:
                    at = None if ahead else _opens_at(rows, key, name, figure)
                    opens += [] if at is None else [at]
                    break
                ahead += 1
                if not is_woken:
                    woken.append(id)
                    rows.news.add(kind)
        if woken:
            rows.run(sql.wake, ids=json.dumps(woken))
            rows.offer(woken, ())
        if opens:
            rows.run(sql.wake_at, key=name, at=min(opens))
            rows.news.update(kinds)
        else:
            rows.run(sql.forget_wake, key=name)


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


def _opens_at(rows: JobRows, key: _Key, name: str, figure: Figure) -> int | None:
    """When the paces of a key let the next one start; None if something else decides."""
    known = {(most, per) for most, per, _ in rows.all(sql.figures, key=name)} | {tuple(figure)}
    times = []
    for most, per in known:
        if per and key.starts(per) >= most:
            (at,) = rows.one(sql.start_before, key=name, before=most - 1)
            times.append(at + per)
    return max(times, default=None)
