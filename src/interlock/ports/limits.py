"""Limits on what happens at once, and how often: the contract that every store keeps.

A reservation is one owner's wish to start something under one or more limits. It is made at once and stands in line;
it starts when every one of its limits has room, all of them taken in that one step or none; it is finished when the
work is over. Two kinds of limit cover all:

- slots (``per`` = 0): at most ``most`` reservations are started and not finished at any time.
- pace (``per`` > 0): at most ``most`` starts in any span of ``per`` seconds (half open: starts exactly ``per`` apart do
  not count together). A cooldown is a pace of one.

Reservations belong to a session and vanish with it, with one exception: a start counts for its pace until ``per``
seconds after it, whatever becomes of its process. One that has not started vanishes also ``STALE_SECONDS`` after it
was last asked for and after its time, if nobody comes for it.

**When.** A reservation under paces is planned for the earliest time that fits those planned or started before it and
all its own paces together; it may start from then on. Starting late moves nobody's plan; instead a start is always
checked against the starts that really were, and one that would come too soon is planned anew.

**Slots in order.** A reservation that is due but finds no room stands in the line of the first limit (in the order of
keys) that has none. Lines are served in the order of the reservations' first request: a free slot belongs to the first
live one in line, newcomers stand behind. One that is first in line but does not ask within ``TURN_SECONDS`` of the
slot coming free lets the one behind it go ahead (each further place takes as long again) and keeps its place. Who is
held up by another limit, or by its time, stands in no other line and holds nobody up. A reservation that could start
now but was not asked to (``start`` false) stands first in the line of its first slots limit, and so keeps its turn.

**Who is right about N.** Each reservation carries the figures it knows. Where live ones on a key differ, a start has to
satisfy all of them, so that the smaller one holds; the answer says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import SessionEnded, Turns

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "TURN_SECONDS",
    "MOST_ON_A_KEY",
    "STALE_SECONDS",
    "Finished",
    "Full",
    "LimitAnswer",
    "LimitStore",
    "LimitUser",
    "LimitView",
    "Plan",
    "SessionEnded",
    "Turn",
    "Turns",
    "Use",
]

TURN_SECONDS = 10.0
"""How long a free slot is kept for the first in line before the next may take it."""
STALE_SECONDS = 3600.0
"""How long a reservation is kept that nobody comes for."""
MOST_ON_A_KEY = 10_000
"""How many reservations a key can have; beyond that reserving is refused, so that nothing grows without bound."""


class Use(NamedTuple):
    """One limit that a reservation is under."""

    key: str
    most: int
    per: float
    """Seconds; 0 for slots."""


class Plan(NamedTuple):
    """A request to reserve, and to start if that is possible now."""

    owner: str
    caller: str
    session: str
    uses: tuple[Use, ...]
    """In the order of their keys, each key once."""
    start: bool


class Turn(NamedTuple):
    """How a reservation stands."""

    started: bool
    at: float | None
    """When it started, or may start (now or before: it may start now); None while that depends on others."""
    key: str
    """The limit that it waits for; empty if it waits for none."""
    ahead: int
    """How many are before it in that limit's line."""
    look_again: float
    """After how many seconds the answer may have changed with nobody telling."""
    differs: str
    """The key of a limit about which live reservations disagree; empty if they agree."""


class Full(NamedTuple):
    """The key has ``MOST_ON_A_KEY`` reservations already. Nothing was changed."""

    key: str


LimitAnswer = Turn | Full | SessionEnded


class Finished(NamedTuple):
    """What finishing found."""

    known: bool
    """Whether there was such a reservation."""
    started: bool
    next_owners: tuple[str, ...]
    """Those of the same session whose turn may have come; others' processes were told."""


class LimitUser(NamedTuple):
    """One reservation on a limit."""

    owner: str
    caller: str
    session: str
    host: str
    pid: int
    program: str
    most: int
    per: float
    asked_at: float
    at: float | None
    """When it started; else when it may start, as far as that is known."""
    started: bool
    waits_for: str
    """The key whose line it stands in; empty if none."""


class LimitView(NamedTuple):
    """A limit's key as one consistent snapshot shows it."""

    key: str
    started: tuple[LimitUser, ...]
    """Slots: who is at work. Pace: the starts that still count, also of those who have finished."""
    waiting: tuple[LimitUser, ...]
    """In the order in which they asked."""
    free_since: float | None
    seen_at: float

    @property
    def most(self) -> int:
        """The smallest figure that any of them knows."""
        return min(user.most for user in (*self.started, *self.waiting))

    @property
    def per(self) -> float:
        """Seconds of the pace, the longest that any of them knows; 0 for slots."""
        return max(user.per for user in (*self.started, *self.waiting))


class LimitStore(Protocol):
    """Limits in one store and namespace."""

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Make the reservation if it is not there yet, and start it if that was asked for and its turn has come.

        One atomic step. Repeating never does harm: what has started stays started as of then, a place in line is kept.
        A reservation's limits are those of its first request.
        """
        ...

    async def finish(self, session: str, owner: str) -> Finished:
        """The work is over, or will never start: free the slots, and tell those whose turn may have come.

        A start still counts for its paces. If it never started, its places are free for others to plan with.
        """
        ...

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Which waiting reservations of a session should ask again now, in one look. Changes nothing.

        Those are the ones whose turn may have come, and those of ``owners`` that are not known any more.
        """
        ...

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Every reservation of the session that is not finished, as (one of its keys, owner)."""
        ...

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """Limits in use (or just the one) by key, as one snapshot; at most ``limit`` of them, those after ``after``.

        On Redis a snapshot covers up to a thousand keys, so that a long list holds nobody up."""
        ...
