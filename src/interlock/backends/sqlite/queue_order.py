"""The order of queues: by the time of the request, on the monotonic clock that all processes of a machine share.

While one process has the file locked, requests of others queue up in their processes and then arrive process by
process. So a request carries the time at which it was made, and its ticket is that time. It is served before requests
that were made later but arrived earlier, unless one of them was granted already. Requests of the same microsecond keep
the order in which they arrive.

A wrong time gains little: a request cannot overtake one that has been queued for longer than a request can be in
flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from interlock.clock import Clock

__all__ = ["RequestTimes", "next_ticket"]

_BITS = 12  # for requests of one microsecond; the rest suffices for 70 years of uptime
_MAX_KEPT = 1000


class RequestTimes:
    """The times of requests, in microseconds of the machine's monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._unanswered: dict[str, int] = {}

    def of(self, owner: str) -> int:
        """Return the time of a request that is made now, or of an unanswered one that is repeated."""
        return self._unanswered.pop(owner, None) or int(self._monotonic() * 1e6)

    def keep(self, owner: str, asked: int) -> None:
        """Remember the time of a request that was not answered and may be repeated."""
        if len(self._unanswered) < _MAX_KEPT:
            self._unanswered[owner] = asked

    def forget(self, owner: str) -> None:
        """Forget a request that will not be repeated."""
        self._unanswered.pop(owner, None)


def next_ticket(db: sqlite3.Connection, statement: str, asked: int, floor: int) -> int:
    """Return a free ticket for a request made at ``asked``, above ``floor``.

    ``statement`` selects the largest ticket from ``:first`` to ``:last``.
    """
    first = asked << _BITS
    if first <= floor:
        first = floor >> _BITS << _BITS
    last = first + (1 << _BITS) - 1
    found = _largest(db, statement, first, last)
    if found == last:
        found = _largest(db, statement, first, 2**63 - 1)
    return first if found is None else found + 1


def _largest(db: sqlite3.Connection, statement: str, first: int, last: int) -> Any:
    (found,) = db.execute(statement, {"first": first, "last": last}).fetchone()
    return found
