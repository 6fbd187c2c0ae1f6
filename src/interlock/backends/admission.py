"""Whether a reservation may start now, and what it waits for if not: the rules of the limits port, without storage.

The stores that run Python say how each of a reservation's keys stands, and keep what comes out.
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

__all__ = ["TURN", "STALE", "UNLIMITED", "Room", "KeyStatus", "Decision", "WaitKind", "admit", "freed_at", "room_since"]

TURN = round(TURN_SECONDS * 1_000_000)
STALE = round(STALE_SECONDS * 1_000_000)
UNLIMITED = 1_000_000_000
"""Slots where nobody speaks of slots."""


class Room(NamedTuple):
    """How many may be at work at a key at once, and how many are."""

    slots: int
    started: int

    @property
    def free(self) -> int:
        """How many more may start."""
        return self.slots - self.started


class WaitKind(IntEnum):
    """What a reservation that has not started waits for at one of its keys."""

    NOTHING = 0
    SLOT = 1
    """It stands in the key's line."""
    TIME = 2
    """The key's pace decided when it may start."""


@dataclass(slots=True)
class KeyStatus:
    """How a key stands for one reservation: what is live there, the reservation itself not counted."""

    key: str
    quotas: frozenset[Quota]
    """What the live ones know of the limit, the reservation included."""
    started: int
    ahead: int
    """How many stand before it in the key's line."""
    free_since: int
    ends_at: float
    """When the first of the started, or of those ahead in line, ends unless its session is renewed; seconds."""
    starts_after: Callable[[int], int]
    """How many starts there were after a time."""
    times: Callable[[int], Sequence[int]]
    """Starts after a time and plans of those who asked before, sorted."""

    @property
    def slots(self) -> int | None:
        """How many may be at work at once; None if nobody speaks of slots."""
        return min((quota.most for quota in self.quotas if not quota.per), default=None)

    @property
    def paces(self) -> list[Quota]:
        """The quotas that bound how often."""
        return sorted(quota for quota in self.quotas if quota.per)


class Decision(NamedTuple):
    """What is to become of a reservation."""

    start: bool
    at: int
    """Its time: of the start, or from which on it may start."""
    waits: WaitKind
    key: str
    """Where it waits. One that could start but was not asked to keeps its place in the line of its first slots."""
    turn: Turn
    free_since: int | None
    """If set, the key's slot counts as free since then: it is kept for somebody who asked."""
    behind: bool
    """Whether it waits although there is room, for those ahead of it to take that; they may not know."""


def admit(keys: Sequence[KeyStatus], now: int, at: int | None, held_by: str, *, start: bool) -> Decision:
    """Judge a reservation planned for ``at`` by the pace of ``held_by``; ``at`` is None if it was not planned yet."""
    differs = next((key.key for key in keys if len(key.quotas) > 1), "")
    if at is None or (at <= now and not all(_in_pace(key, now) for key in keys)):
        at, held_by = earliest_for_all((Pace(key.key, key.paces, key.times) for key in keys), now)
    if at > now:
        turn = Turn(False, seconds(at), held_by, 0, seconds(at - now), differs)
        return Decision(False, at, WaitKind.TIME, held_by, turn, None, False)

    with_slots = [(key, slots) for key in keys if (slots := key.slots) is not None]
    for key, slots in with_slots:
        free = slots - key.started
        turns_at = _turns_at(key, free)
        if turns_at is None or turns_at > now:
            look_again = key.ends_at - seconds(now)
            if turns_at is not None:
                look_again = min(look_again, seconds(turns_at - now))
            turn = Turn(False, None, key.key, key.ahead, max(0.0, look_again), differs)
            return Decision(False, at, WaitKind.SLOT, key.key, turn, None, free > 0)

    if start:
        turn = Turn(True, seconds(now), "", 0, math.inf, differs)
        return Decision(True, now, WaitKind.NOTHING, "", turn, None, False)
    turn = Turn(False, seconds(at), "", 0, TURN_SECONDS, differs)
    if not with_slots:
        return Decision(False, at, WaitKind.NOTHING, "", turn, None, False)
    key, slots = with_slots[0]
    passed = max(0, key.ahead - (slots - key.started) + 1)
    return Decision(False, at, WaitKind.SLOT, key.key, turn, max(key.free_since, now - passed * TURN), False)


def freed_at(before: Room, after: Room, gone: Sequence[tuple[int, bool]]) -> int | None:
    """Since when there has been room that was made by those who are gone, as (when, whether it had started) in order.

    None if they made none, or there was some before. Where their going also changed how many slots there are, the last
    one decides.
    """
    if before.free > 0 or after.free <= 0:
        return None
    if before.slots != after.slots:
        return gone[-1][0]
    return [at for at, started in gone if started][-before.free]


def room_since(noted: int, room: Room, dead: Sequence[tuple[int, bool, int | None]]) -> int:
    """Since when a key has had room, if the dead, as (when, started, slots known), were not cleared away yet."""
    slots = min([room.slots, *(most for _, _, most in dead if most is not None)])
    before = Room(slots, room.started + sum(started for _, started, _ in dead))
    return freed_at(before, room, [(at, started) for at, started, _ in dead]) or noted


def _in_pace(key: KeyStatus, now: int) -> bool:
    return all(key.starts_after(now - quota.per) < quota.most for quota in key.paces)


def _turns_at(key: KeyStatus, free: int) -> int | None:
    """From when on the reservation may have one of the free slots; None if there is none."""
    if free <= 0:
        return None
    if key.ahead < free:
        return 0
    return key.free_since + (key.ahead - free + 1) * TURN
