"""Rows of the journal's tables as the port returns them, alike in SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.ports.journal import Batch, Seal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.ports.journal import EntryRow

__all__ = ["batches_of"]

_SEAL = len(Seal._fields)


def batches_of(rows: Iterable[Any]) -> list[Batch]:
    """Group rows of a seal and one of its entries by seal; the first row of a batch has its leaves."""
    found: list[Batch] = []
    entries: list[EntryRow] = []
    for row in rows:
        values = tuple(row)
        if not found or found[-1].seal.batch != values[0]:
            entries = []
            found.append(Batch(Seal(*values[:_SEAL]), entries))
        if values[_SEAL] is not None:
            entries.append(values[_SEAL:])
    return found
