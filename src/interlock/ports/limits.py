"""Limits on concurrency and frequency: the contract that every store keeps.

A reservation is a request of one owner to start something under one or more limits. It exists from the first request
on and waits in a queue. It starts when all of its limits have room, taking all of them in one step or none. It ends
when the work is finished. There are two kinds of limit:

- slots (``per`` = 0): at most ``max_count`` reservations are started and not finished at any time.
- pace (``per`` > 0): at most ``max_count`` starts in any period of ``per`` seconds (half open: starts exactly ``per``
  apart do not count together). A cooldown is a pace of one.

**Lifetime.** Reservations belong to a session and end with it, with one exception: a start counts for its pace until
``per`` seconds later, even if its process dies. A reservation that has not started also ends ``STALE_SECONDS`` after
its last request and its planned time.

**Planned time.** A reservation under paces is planned for the earliest time that is compatible with all of its paces
and with the reservations planned or started before it. It may start from then on. A late start does not change the
plans of others. Instead, every start is checked against the actual starts, and one that would be too early is planned
again.

**Order of slots.** A reservation that is due but finds no room waits in the queue of the first limit (in the order of
keys) that has none. Queues are served in the order in which the reservations were first requested: a free slot belongs
to the first live reservation, and new ones queue behind. If the first one does not ask again within ``TURN_SECONDS``
after the slot became free, the next one may take it (and so on, ``TURN_SECONDS`` for each further one). The first keeps
its position. A reservation that waits for another limit, or for its planned time, is in no other queue and blocks
no other reservation. A reservation that could start now but was not asked to (``start`` is false) is first in the queue
of its first slots limit, and so keeps its turn.

**Different figures.** Each reservation carries the figures that its program knows. Where live reservations on a key
differ, a start has to satisfy all of them, so the smallest figure applies, and the answer names the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import SessionEnded, Turns

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "TURN_SECONDS",
    "MAX_ON_A_KEY",
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
"""How long a free slot is reserved for the first in the queue before the next one may take it."""
STALE_SECONDS = 3600.0
"""How long a reservation is kept that is not requested again."""
MAX_ON_A_KEY = 10_000
"""How many reservations a key can have. More are refused, so that the table is bounded."""


class Use(NamedTuple):
    """A limit that a reservation needs."""

    key: str
    max_count: int
    per: float
    """Seconds; 0 for slots."""


class Plan(NamedTuple):
    """A request to reserve and, with ``start``, to start if possible."""

    owner: str
    caller: str
    session: str
    uses: tuple[Use, ...]
    """In the order of their keys, each key once."""
    start: bool


class Turn(NamedTuple):
    """The state of a reservation."""

    started: bool
    at: float | None
    """When it started or may start; a time in the past means now. None while it depends on others."""
    key: str
    """The limit that it waits for; empty if it waits for none."""
    ahead: int
    """How many reservations are ahead of it in that limit's queue."""
    recheck_in: float
    """After how many seconds the answer may have changed without a message."""
    differs: str
    """The key of a limit whose live reservations have different figures; empty if there is none."""


class Full(NamedTuple):
    """The key has ``MAX_ON_A_KEY`` reservations already. Nothing was changed."""

    key: str


LimitAnswer = Turn | Full | SessionEnded


class Finished(NamedTuple):
    """The result of finishing."""

    known: bool
    """Whether there was such a reservation."""
    started: bool
    next_owners: tuple[str, ...]
    """Owners of the same session whose turn may have come. The store has notified other processes."""


class LimitUser(NamedTuple):
    """A reservation on a limit."""

    owner: str
    caller: str
    session: str
    host: str
    pid: int
    program: str
    max_count: int
    per: float
    asked_at: float
    at: float | None
    """When it started; otherwise when it may start, if known."""
    started: bool
    waits_for: str
    """The key that it waits for; empty if none."""


class LimitView(NamedTuple):
    """A limit in a consistent snapshot."""

    key: str
    started: tuple[LimitUser, ...]
    """Slots: the reservations that hold one. Pace: the starts that still count, finished or not."""
    waiting: tuple[LimitUser, ...]
    """In the order of their first request."""
    free_since: float | None
    seen_at: float

    @property
    def max_count(self) -> int:
        """The smallest figure of any reservation."""
        return min(user.max_count for user in (*self.started, *self.waiting))

    @property
    def per(self) -> float:
        """The longest period of any reservation, in seconds; 0 for slots."""
        return max(user.per for user in (*self.started, *self.waiting))


class LimitStore(Protocol):
    """Limits in one store and namespace."""

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Create the reservation if it does not exist, and start it if requested and its turn has come.

        One atomic step. Repeating a request is safe: a start keeps its time, and a waiter keeps its position. The
        limits of a reservation are those of its first request.
        """
        ...

    async def finish(self, session: str, owner: str) -> Finished:
        """End a reservation: free its slots and notify waiters whose turn may have come.

        A start still counts for its paces. Without a start, its planned times become available.
        """
        ...

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiting reservations of a session that should ask again now. Changes nothing.

        These are the ones whose turn may have come, and those of ``owners`` that no longer exist.
        """
        ...

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return every unfinished reservation of the session as (one of its keys, owner)."""
        ...

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """List limits in use (or one) by key as one snapshot: at most ``limit``, those after ``after``.

        On Redis a snapshot covers up to a thousand keys, so that a long list does not block the server."""
        ...
