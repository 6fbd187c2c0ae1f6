"""The state of the limit model: reservations, starts, and since when there is room.

Times are whole microseconds, so that starts exactly one span apart differ from those that are too close.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from interlock.testing.simulator.lives import Tenure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.ports.limits import Plan
    from interlock.testing.simulator.lives import Sessions

__all__ = ["LimitState", "Start", "Stay", "micros"]


def micros(at: float) -> int:
    """Whole microseconds."""
    return round(at * 1_000_000)


class Start(NamedTuple):
    """A start under one limit, which counts regardless of its owner's fate."""

    at: int
    owner: str
    max_count: int
    per: int


class Stay(Tenure):
    """One reservation, from its first request to its end."""

    __slots__ = ("at", "line", "order", "slots_since", "started_at", "uses")

    def __init__(self, plan: Plan, process: str, at: float, order: int) -> None:
        super().__init__(plan.owner, "+".join(use.key for use in plan.uses), plan.session, process, at, math.inf)
        self.uses = plan.uses
        self.order = order
        self.at: int | None = None
        """When its paces allow it to start."""
        self.started_at: int | None = None
        self.line = ""
        """The key in whose queue it waits."""
        self.slots_since: int | None = None
        """Since when all its limits have had a slot for it."""

    def shown(self, key: str) -> bool:
        """Whether it is visible at one of its limits. Paces show starts, not running work."""
        return self.started_at is None or any(use.key == key and not use.per for use in self.uses)

    def ready_since(self) -> float:
        """Since when it could start, in seconds; infinity if it cannot."""
        if self.slots_since is None or self.at is None:
            return math.inf
        return max(self.slots_since, self.at) / 1e6


class _Limit:
    def __init__(self) -> None:
        self.stays: dict[str, Stay] = {}
        self.starts: list[Start] = []
        self.free_since = 0
        self.kept_from = 0
        """The store may count a slot as free only since then, to keep it for a waiter that asked."""


class LimitState:
    """All live reservations."""

    def __init__(self, sessions: Sessions) -> None:
        self.limits: dict[str, _Limit] = {}
        self.stays: list[Stay] = []
        self.now = 0
        self._sessions = sessions
        self._of_owner: dict[str, Stay] = {}
        self._last_of: dict[str, Stay] = {}

    def advance(self, at: float, *, cleared: bool = False) -> None:
        """Advance time: reservations of ended sessions are removed, in the order in which the sessions ended."""
        self.now = micros(at)
        dead = [(ends, stay) for stay in self._of_owner.values() if (ends := self._ends(stay)) <= self.now / 1e6]
        for ends, stay in sorted(dead, key=lambda pair: (pair[0], pair[1].order)):
            self.drop(stay, micros(max(ends, stay.began_at)))
            if cleared:
                for use in stay.uses:
                    self.limits[use.key].kept_from = self.now
        if dead:
            self.see_who_is_ready()

    def find(self, owner: str) -> Stay | None:
        """The live reservation of an owner."""
        return self._of_owner.get(owner)

    def of(self, owner: str) -> Stay | None:
        """The last reservation of an owner, even if it has ended."""
        return self._last_of.get(owner)

    def all(self) -> Iterable[Stay]:
        """All live reservations."""
        return self._of_owner.values()

    def at_work(self, owner: str, at: float) -> bool:
        """Whether it has started and is live at a time that is not before the last event."""
        stay = self._of_owner.get(owner)
        return stay is not None and stay.started_at is not None and self._ends(stay) > at

    # -- changes ---------------------------------------------------------------------------------------------------

    def add(self, plan: Plan, process: str) -> Stay:
        """Add a reservation behind all others."""
        stay = Stay(plan, process, self.now / 1e6, len(self.stays))
        self.stays.append(stay)
        self._of_owner[stay.owner] = self._last_of[stay.owner] = stay
        for use in stay.uses:
            self.limits.setdefault(use.key, _Limit()).stays[stay.owner] = stay
        return stay

    def start(self, stay: Stay) -> None:
        """Record its start: all of its limits are taken."""
        stay.started_at = self.now
        stay.line = ""
        for use in stay.uses:
            if use.per:
                self.limits[use.key].starts.append(Start(self.now, stay.owner, use.max_count, micros(use.per)))

    def drop(self, stay: Stay, at: int) -> None:
        """Record its end."""
        del self._of_owner[stay.owner]
        stay.ended_at = at / 1e6
        for use in stay.uses:
            limit = self.limits[use.key]
            had_room = self.free(use.key) > 0
            del limit.stays[stay.owner]
            if not had_room and self.free(use.key) > 0:
                limit.free_since = at

    def see_who_is_ready(self) -> None:
        """Record since when there are slots for reservations that have not started."""
        for stay in self._of_owner.values():
            if stay.started_at is None:
                slots = [use.key for use in stay.uses if not use.per]
                if not all(len(self.ahead(key, stay)) < self.free(key) for key in slots):
                    stay.slots_since = None
                elif stay.slots_since is None:
                    stay.slots_since = self.now

    # -- questions -------------------------------------------------------------------------------------------------

    def figures(self, key: str) -> set[tuple[int, int]]:
        """The figures of the live reservations of a limit."""
        found = self.limits[key].stays.values()
        return {(use.max_count, micros(use.per)) for stay in found for use in stay.uses if use.key == key}

    def free(self, key: str) -> float:
        """How many more may start under slots: the smallest figure applies."""
        stays = self.limits[key].stays.values()
        max_count = min((max_count for max_count, per in self.figures(key) if not per), default=math.inf)
        return max_count - sum(stay.started_at is not None for stay in stays)

    def ahead(self, key: str, stay: Stay) -> list[Stay]:
        """Waiters of a limit that asked earlier."""
        others = self.limits[key].stays.values()
        return [other for other in others if other.line == key and other.order < stay.order]

    def next_in_line(self, key: str) -> list[Stay]:
        """The first waiters of a limit, as many as there is room for."""
        line = [stay for stay in self.limits[key].stays.values() if stay.line == key]
        return line[: int(max(0, min(self.free(key), len(line))))]

    def counted(self, key: str) -> list[str]:
        """The starts that count toward a pace now."""
        return [start.owner for start in self.limits[key].starts if start.at + start.per > self.now]

    def in_pace(self, stay: Stay) -> bool:
        """Whether a start now would not be too soon after the actual starts."""
        for use in stay.uses:
            for max_count, per in self.figures(use.key):
                recent = sum(start.at > self.now - per for start in self.limits[use.key].starts)
                if per and recent >= max_count:
                    return False
        return True

    def earliest(self, stay: Stay) -> int:
        """The earliest time from now that is compatible with all its paces and with earlier starts and plans."""
        wanted = []
        for use in stay.uses:
            limit = self.limits[use.key]
            before = [other for other in limit.stays.values() if other.order < stay.order]
            times = [start.at for start in limit.starts]
            times += [other.at for other in before if other.started_at is None and other.at is not None]
            wanted += [(max_count, per, times) for max_count, per in self.figures(use.key) if per]
        tries = {self.now} | {at + per for _, per, times in wanted for at in times if at + per > self.now}
        return next(at for at in sorted(tries) if all(_fits(at, *pace) for pace in wanted))

    def _ends(self, stay: Stay) -> float:
        return self._sessions.ends_at(stay.session)


def _fits(at: int, max_count: int, per: int, times: list[int]) -> bool:
    """Whether no ``max_count`` + 1 of the times, this one among them, lie within less than ``per``."""
    near = sorted([at, *(time for time in times if abs(time - at) < per)])
    return all(
        last - first >= per or not first <= at <= last for first, last in zip(near, near[max_count:], strict=False)
    )
