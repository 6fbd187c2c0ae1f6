"""Decides whether a reservation may start now, and what it waits for if not: the rules of limits, without storage.

Stores that run Python pass the status of each key of a reservation, and store the decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.pacing import Pace, Quota, earliest_for_all, seconds
from interlock.ports.limits import STALE_SECONDS, TURN_SECONDS, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "TURN",
    "STALE",
    "UNLIMITED",
    "Room",
    "KeyStatus",
    "Decision",
    "WaitKind",
    "admit",
    "freed_at",
    "room_since",
    "slot_due_at",
]

TURN = round(TURN_SECONDS * 1_000_000)
STALE = round(STALE_SECONDS * 1_000_000)
UNLIMITED = 1_000_000_000
"""The number of slots of a limit that has none."""


class Room(NamedTuple):
    """The slots of a key, and how many are used."""

    slots: int
    started: int

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self.slots - self.started


class WaitKind(IntEnum):
    """The kind of thing that a reservation waits for."""

    NOTHING = 0
    SLOT = 1
    """A slot of the key."""
    TIME = 2
    """The start time that the key's rate or cooldown allows."""


@dataclass(slots=True)
class KeyStatus:
    """The status of a key for one reservation: what is live there, without the reservation itself."""

    key: str
    quotas: frozenset[Quota]
    """The quotas that live reservations declare, this one included."""
    started: int
    ahead: int
    """The number of waiters before it."""
    free_since: int
    ends_at: float
    """When the first of those started or ahead expires unless its session is renewed, in seconds."""
    starts_after: Callable[[int], int]
    """Returns the number of starts after a time."""
    times: Callable[[int], Sequence[int]]
    """Returns the starts after a time and the planned starts of earlier reservations, sorted."""
    jobs_ahead: int = 0
    """The number of jobs that queued before it."""
    nth_start: Callable[[int], int | None] = lambda _: None
    """Returns the latest time of the start so many before the last one, if jobs have started."""

    def line(self, free: int) -> int:
        """Return how many are before it, given so many free slots.

        All jobs together count for the free slots at most, so that jobs that no worker starts delay it by one turn.
        """
        return self.ahead + min(self.jobs_ahead, free)

    @property
    def slots(self) -> int | None:
        """The number of slots; None if the limit has none."""
        return min((quota.max_count for quota in self.quotas if not quota.per), default=None)

    @property
    def paces(self) -> list[Quota]:
        """The quotas with a period."""
        return sorted(quota for quota in self.quotas if quota.per)


class Decision(NamedTuple):
    """What to do with a reservation."""

    start: bool
    at: int
    """When it started or may start."""
    waits: WaitKind
    key: str
    """Where it waits. One that could start but is not asked to keeps a slot of its first key with slots."""
    turn: Turn
    free_since: int | None
    """If set, the key's slot counts as free since then and is kept for this reservation."""
    behind: bool
    """Whether it waits although a slot is free, because it is for those ahead, who may not know."""


def admit(keys: Sequence[KeyStatus], now: int, at: int | None, held_by: str, *, start: bool) -> Decision:
    """Decide about a reservation planned for ``at`` by the pace of ``held_by``; ``at`` is None if it has no plan."""
    differs = next((key.key for key in keys if len(key.quotas) > 1), "")
    new = at is None
    if at is None or (at <= now and not all(_in_pace(key, now) for key in keys)):
        paces = (Pace(key.key, key.paces, key.times, key.jobs_ahead, key.nth_start) for key in keys)
        at, held_by = earliest_for_all(paces, now)
    if at > now:
        turn = Turn(False, seconds(at), held_by, 0, seconds(at - now), differs)
        return Decision(False, at, WaitKind.TIME, held_by, turn, None, False)

    with_slots = [(key, slots) for key in keys if (slots := key.slots) is not None]
    for key, slots in with_slots:
        free = slots - key.started
        # Jobs that wait alone record no time: their turn begins with the first reservation behind them.
        first = new and key.jobs_ahead > 0 and key.ahead == 0
        if first:
            key.free_since = now
        turns_at = _turns_at(key, free)
        if turns_at is None or turns_at > now:
            recheck_in = key.ends_at - seconds(now)
            if turns_at is not None:
                recheck_in = min(recheck_in, seconds(turns_at - now))
            turn = Turn(False, None, key.key, key.ahead + key.jobs_ahead, max(0.0, recheck_in), differs)
            return Decision(False, at, WaitKind.SLOT, key.key, turn, now if first else None, free > 0)

    if start:
        turn = Turn(True, seconds(now), "", 0, math.inf, differs)
        return Decision(True, now, WaitKind.NOTHING, "", turn, None, False)
    turn = Turn(False, seconds(at), "", 0, TURN_SECONDS, differs)
    if not with_slots:
        return Decision(False, at, WaitKind.NOTHING, "", turn, None, False)
    key, slots = with_slots[0]
    free = slots - key.started
    passed = max(0, key.line(free) - free + 1)
    return Decision(False, at, WaitKind.SLOT, key.key, turn, max(key.free_since, now - passed * TURN), False)


def slot_due_at(key: KeyStatus) -> int | None:
    """Return from when on a reservation that waits for a slot of the key may take one; None if none is free."""
    slots = key.slots
    return 0 if slots is None else _turns_at(key, slots - key.started)


def freed_at(before: Room, after: Room, gone: Sequence[tuple[int, bool]]) -> int | None:
    """Return since when there has been a slot that ended reservations freed, given as (when, started) in order.

    None if they freed none, or if a slot was free before. If they also changed the number of slots, the last one
    counts.
    """
    if before.free > 0 or after.free <= 0:
        return None
    if before.slots != after.slots:
        return gone[-1][0]
    return [at for at, started in gone if started][-before.free]


def room_since(noted: int, room: Room, dead: Sequence[tuple[int, bool, int | None]]) -> int:
    """Return since when a key has had a free slot, given dead reservations, as (when, started, slots), not dropped
    yet."""
    slots = min([room.slots, *(max_count for _, _, max_count in dead if max_count is not None)])
    before = Room(slots, room.started + sum(started for _, started, _ in dead))
    return freed_at(before, room, [(at, started) for at, started, _ in dead]) or noted


def _in_pace(key: KeyStatus, now: int) -> bool:
    return all(key.starts_after(now - quota.per) < quota.max_count for quota in key.paces)


def _turns_at(key: KeyStatus, free: int) -> int | None:
    """Return from when on the reservation may take a free slot; None if there is none."""
    if free <= 0:
        return None
    ahead = key.line(free)
    return 0 if ahead < free else key.free_since + (ahead - free + 1) * TURN
