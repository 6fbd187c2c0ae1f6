"""The journal as listings: entries of every store of the app that has a journal, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import InvalidArgumentError
from interlock.insight.views import Listing
from interlock.ports.journal import Action, JournalPosition
from interlock.ports.store import Capability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import JournalEntry, JournalFilter, JournalStore
    from interlock.ports.store import Store

__all__ = ["SUBJECT_KINDS", "journal_listing", "journals"]

SUBJECT_KINDS = tuple(dict.fromkeys(action.subject_kind for action in Action))
"""The kinds of subjects of entries."""


def journals(stores: Sequence[Store]) -> list[JournalStore]:
    """The journals of these stores, each store once."""
    distinct = {id(store): store for store in stores}.values()
    return [store.journal for store in distinct if Capability.JOURNAL in store.capabilities]


async def journal_listing(
    stores: Sequence[JournalStore], wanted: JournalFilter, limit: int, before: str, now: float
) -> Listing[JournalEntry]:
    """Entries that match, newest first, of all these journals together."""
    position = _position(before) if before else None
    found: list[JournalEntry] = []
    for store in stores:
        found += await store.list(wanted, limit=limit + 1, before=position)
    found.sort(key=lambda entry: (entry.at, entry.id), reverse=True)
    rows = tuple(found[:limit])
    more = f"{rows[-1].at:.6f}-{rows[-1].id}" if len(found) > limit else None
    return Listing(rows, more, now)


def _position(text: str) -> JournalPosition:
    """Parse where a list continues."""
    at, _, number = text.partition("-")
    try:
        return JournalPosition(float(at), int(number))
    except (ValueError, OverflowError):
        raise InvalidArgumentError(
            f"Invalid position {text[:40]!r} in the journal.", remedy="Pass `more` of the page before, unchanged."
        ) from None
