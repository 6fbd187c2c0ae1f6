"""Searches of records, as every SQL store makes them: how far to read, and what a page of the result is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from interlock.backends.pacing import seconds
from interlock.ports.record_insight import RecordSlice, RecordSummary

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["digest_of", "scan_of", "slice_of"]


def scan_of(contains: str, limit: int, scan: int) -> int:
    """How many IDs to read: without a text to search for, no more than are shown."""
    return max(scan, limit + 1) if contains else limit + 1


def slice_of(rows: Iterable[Any], limit: int) -> RecordSlice:
    """Make a page of up to ``limit + 1`` rows. A row without a version has the last ID that was read."""
    found: list[RecordSummary] = []
    end: str | None = None
    for id, version, status, fence, created_at, updated_at in rows:  # noqa: A001
        if version is None:
            end = id
        else:
            found.append(RecordSummary(id, version, status, fence, seconds(created_at), seconds(updated_at)))
    found.sort(key=lambda record: record.id)
    if len(found) > limit:
        return RecordSlice(found[:limit], found[limit - 1].id)
    return RecordSlice(found, end)


def digest_of(text: str) -> str:
    """Identify a declaration by its content."""
    return hashlib.sha256(text.encode()).hexdigest()
