"""Places in a queue by the time of asking, which all processes of one machine measure alike.

While one writer holds the file, requests of the others pile up in their processes, and then arrive process by process.
So a request carries the time at which it was made, and its ticket is that time: it goes before requests that were made
later and arrived sooner, unless one of them was granted already. Requests of the same microsecond keep the order in
which they arrive.

A wrong time gains little: no request is overtaken that has been in the queue for longer than an honest one can be under
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    from interlock.clock import Clock

__all__ = ["RequestTimes", "next_ticket"]

_BITS = 12  # for requests of one microsecond; the rest lasts for 70 years since the machine was started
_MOST_KEPT = 1000


class RequestTimes:
    """When requests were made, in microseconds of the machine's monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._unanswered: dict[str, int] = {}

    def of(self, owner: str) -> int:
        """The time of a request that is made now, or that is repeated because it was not answered."""
        return self._unanswered.pop(owner, None) or int(self._monotonic() * 1e6)

    def keep(self, owner: str, asked: int) -> None:
        """The request was not answered, and may be repeated."""
        if len(self._unanswered) < _MOST_KEPT:
            self._unanswered[owner] = asked

    def forget(self, owner: str) -> None:
        """The request was given up."""
        self._unanswered.pop(owner, None)


def next_ticket(db: sqlite3.Connection, statement: str, asked: int, floor: int) -> int:
    """A free ticket for a request made at ``asked``, above ``floor``.

    ``statement`` is the SQL for the largest ticket from ``:first`` to ``:last``.
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
