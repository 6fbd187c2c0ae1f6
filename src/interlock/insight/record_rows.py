"""Rows and pages of records; ``views`` describes what all answers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.explanation import Explanation
    from interlock.insight.journal_entry import Change
    from interlock.insight.pipelines import RunRow
    from interlock.insight.views import LockRow, Seen
    from interlock.ports.journal import JournalEntry
    from interlock.ports.record_insight import RecordSummary
    from interlock.records.corrections import AppliedCorrection

__all__ = ["DeclaredKind", "MachineView", "RecordKindRow", "RecordPage", "RecordRow", "RecordVersion"]


class MachineView(NamedTuple):
    """The machine of a kind."""

    initial: tuple[str, ...]
    transitions: Mapping[str, tuple[str, ...]]
    """Every status, with those that may follow it."""
    corrected: str | None
    """The status that a correction gives; None if it leaves the status as it is."""
    final: tuple[str, ...]
    diagram: str
    """The machine as the text of a Mermaid state diagram."""


class DeclaredKind(NamedTuple):
    """The newest declaration of a kind."""

    model: str
    """The name of the model's class."""
    machine: MachineView | None
    strategies: Mapping[str, tuple[str, float | None]]
    """For each operation its strategy and its wait in seconds; None means without a limit."""
    first_at: float
    declared_at: float
    others: tuple[str, ...]
    """How other declarations that are kept differ from it: ``machine``, ``strategies`` or ``model``, each once."""


class RecordKindRow(NamedTuple):
    """One kind, and how many of its records have each status."""

    kind: str
    model: str
    """Empty if no program that is known declared the kind."""
    statuses: Mapping[str, int]
    """Counted up to ``MAX_RECORDS_COUNTED``, in the order of the machine; a status of the machine may have none."""
    records: int
    """The sum of these counts."""
    more: bool
    """Whether there are more records than were counted."""
    declared_at: float | None


class RecordRow(NamedTuple):
    """One record of a list."""

    kind: str
    record: RecordSummary
    reason: str
    why: str


class RecordVersion(NamedTuple):
    """One journal entry about a record, as the difference that it made."""

    entry: JournalEntry
    changes: tuple[Change, ...]
    """The difference, value by value; the first 200."""
    cut: bool
    """Whether there are more."""
    notes: Mapping[str, Any]
    """Notes of the entry, such as ``_retries``; docs/records.md lists them."""


class RecordPage(NamedTuple):
    """One record in detail."""

    kind: str
    id: str
    record: RecordSummary | None
    """None if it does not exist (any more)."""
    fields: Mapping[str, Any] | None
    """The model's own fields, as they are stored."""
    corrections: tuple[AppliedCorrection, ...]
    """The last ones, the newest first."""
    correction_count: int
    declared: DeclaredKind | None
    """None if no program that is known declared the kind."""
    next_statuses: tuple[str, ...]
    lock: LockRow | None
    """Its lock, with the editor and the waiters; None if it is free."""
    versions: tuple[RecordVersion, ...]
    """The newest first."""
    more: str | None
    """Where the versions continue: pass it as ``before``."""
    reason: str
    why: str
    explanation: Explanation
    seen: tuple[Seen, ...]
    runs: tuple[RunRow, ...] = ()
    """The last runs of pipelines over it, the newest first."""
