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

**Jobs.** In a store that has jobs, the jobs under a key count too: slots that fetched jobs hold, starts of jobs under
paces, and jobs that wait. Both sides are served in the order in which they asked. A free slot is kept for the first
waiter of either side for ``TURN_SECONDS``. Jobs that no live worker takes hold up nobody.

**Overrides.** A person can set the figure of a limit. It then replaces all figures of reservations and jobs, also of
those that exist already, on one key or on all keys of a name. Fewer slots than are held block only new starts. Starts
that are still known count for a longer period too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import SessionEnded, Turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.journal import Attribution

__all__ = [
    "TURN_SECONDS",
    "MAX_ON_A_KEY",
    "STALE_SECONDS",
    "Finished",
    "Full",
    "LimitAnswer",
    "LimitOverride",
    "LimitStore",
    "LimitUser",
    "LimitView",
    "Plan",
    "SessionEnded",
    "Turn",
    "Turns",
    "Use",
    "override_names",
    "override_of",
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


class LimitOverride(NamedTuple):
    """A figure that a person set."""

    name: str
    """A limit (``slots:containers``), for all of its keys, or one whole key."""
    max_count: int
    per: float
    """Seconds; 0 for slots."""
    set_by: str
    reason: str
    set_at: float


class LimitView(NamedTuple):
    """A limit in a consistent snapshot."""

    key: str
    started: tuple[LimitUser, ...]
    """Slots: the reservations that hold one. Pace: the starts that still count, finished or not."""
    waiting: tuple[LimitUser, ...]
    """In the order of their first request."""
    free_since: float | None
    seen_at: float
    override: LimitOverride | None = None
    """The figure that a person set. Stores leave it out; see :func:`override_of`."""

    @property
    def max_count(self) -> int:
        """The figure that a person set, or else the smallest one of any reservation."""
        if self.override is not None:
            return self.override.max_count
        return min(user.max_count for user in (*self.started, *self.waiting))

    @property
    def per(self) -> float:
        """The longest period of any reservation, in seconds, or the one that a person set; 0 for slots."""
        if self.override is not None:
            return self.override.per
        return max(user.per for user in (*self.started, *self.waiting))


def override_names(key: str) -> tuple[str, str]:
    """Return the names under which a key's figure can be set: its own, and that of all keys of its limit."""
    return key, ":".join(key.split(":", 2)[:2])


def override_of(overrides: Mapping[str, LimitOverride], key: str) -> LimitOverride | None:
    """Return the figure that applies to a key, given all that people have set by name; None if there is none."""
    own, all_keys = override_names(key)
    return overrides.get(own) or overrides.get(all_keys)


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

    async def resize(self, figure: Use, attribution: Attribution) -> LimitOverride | None:
        """Set the figure of all keys of a limit, or of one key, which then takes precedence; return the one before.

        The change and its journal entry are one transaction; a change to the same figure by the same person writes no
        entry. Waiters of both sides for whom there is room now are notified. Raises ``CapabilityError`` in a store
        without a journal.
        """
        ...

    async def reset(self, name: str, attribution: Attribution) -> LimitOverride | None:
        """Remove a figure that a person set, in the same way; return it, or None if there was none."""
        ...

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """List the figures that people have set, by name."""
        ...
