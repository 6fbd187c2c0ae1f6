"""The journal: who changed what, when, why and because of what. The contract that every store with a journal keeps.

**Same transaction.** A store with ``Capability.JOURNAL`` writes the entry of an operation in the transaction that makes
the change. So an entry exists exactly when its change does: an operation that finds nothing to change, is refused or is
rolled back leaves none, and repeating one whose answer was lost adds none.

**Append-only.** Entries are never changed. They are removed only by age (:meth:`JournalStore.prune`).

**Order.** Entries are listed newest first, by time and then by ID. Two entries that commit at the same moment may get
their IDs in either order.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.claims import ClaimView
    from interlock.ports.cursors import CursorView
    from interlock.ports.locks import Holder

__all__ = [
    "Action",
    "Attribution",
    "JournalEntry",
    "JournalFilter",
    "JournalPosition",
    "JournalStore",
    "NewEntry",
    "claim_data",
    "cursor_data",
    "holder_data",
    "new_entry",
]


class Action(StrEnum):
    """An operation's verb. The part before the dot is the kind of subject."""

    JOB_RETRY = "job.retry"
    JOB_CANCEL = "job.cancel"
    LANE_HOLD = "lane.hold"
    LANE_RELEASE = "lane.release"
    LOCK_FORCE_RELEASE = "lock.force_release"
    CLAIM_FORGET = "claim.forget"
    CURSOR_FORGET = "cursor.forget"
    EVENT_REPLAY = "event.replay"
    RECORD_CREATE = "record.create"
    RECORD_EDIT = "record.edit"
    RECORD_UPDATE = "record.update"
    RECORD_TRANSITION = "record.transition"
    RECORD_CORRECT = "record.correct"
    RECORD_DELETE = "record.delete"

    @property
    def subject_kind(self) -> str:
        """The kind of subject: job, lane, lock, claim, cursor, event or record."""
        return self.partition(".")[0]


class Attribution(NamedTuple):
    """Actor, reason and cause of an operation."""

    actor: str
    reason: str = ""
    cause_event: int | None = None
    """The event that the calling job handles."""
    cause_job: int | None = None
    """The job whose handler performs the operation."""
    cause_fence: int | None = None
    """That job's fence."""


class NewEntry(NamedTuple):
    """An entry to add."""

    attribution: Attribution
    action: str
    subject_kind: str
    subject_key: str
    before: str | None = None
    """JSON: the subject before the change, as far as the change concerns it."""
    after: str | None = None
    """JSON: the subject after the change; None if it is gone."""
    from_version: int | None = None
    """The version or fence that the change replaced, where the subject has one."""
    to_version: int | None = None


class JournalEntry(NamedTuple):
    """One entry, as it is kept."""

    id: int
    at: float
    actor: str
    reason: str
    action: str
    subject_kind: str
    subject_key: str
    from_version: int | None
    to_version: int | None
    before: str | None
    after: str | None
    cause_event: int | None
    cause_job: int | None
    cause_fence: int | None
    batch: int | None
    """The sealed batch that the entry belongs to; None while it is not sealed."""


class JournalPosition(NamedTuple):
    """Where a list continues: behind this entry."""

    at: float
    id: int


class JournalFilter(NamedTuple):
    """Which entries to list. Empty means any."""

    subject_kind: str = ""
    subject_key: str = ""
    """Needs ``subject_kind``."""
    actor: str = ""
    action: str = ""
    since: float | None = None
    """Only entries from this time on."""


class JournalStore(Protocol):
    """The journal of one store and namespace."""

    async def add(self, entry: NewEntry) -> int:
        """Add the entry of a change that is made in another store, and return its ID. Durable when it returns."""
        ...

    async def get(self, id: int) -> JournalEntry | None:  # noqa: A002
        """Return one entry, or None if there is none, or none any more."""
        ...

    async def list(
        self,
        filter: JournalFilter,  # noqa: A002
        *,
        limit: int = 100,
        before: JournalPosition | None = None,
    ) -> Sequence[JournalEntry]:
        """List entries newest first, at most ``limit``; ``before`` continues behind an entry, kept or not."""
        ...

    async def prune(self, keep: float, *, limit: int = 10_000) -> int:
        """Remove up to ``limit`` entries that are older than ``keep`` seconds, and return how many."""
        ...


def new_entry(
    attribution: Attribution,
    action: Action,
    subject_key: object,
    before: object = None,
    after: object = None,
    from_version: int | None = None,
) -> NewEntry:
    """An entry whose ``before`` and ``after`` are given as data."""
    return NewEntry(
        attribution,
        action,
        action.subject_kind,
        str(subject_key),
        None if before is None else json.dumps(before, ensure_ascii=False),
        None if after is None else json.dumps(after, ensure_ascii=False),
        from_version,
    )


# -- what an entry keeps of a subject ----------------------------------------------------------------------------------


def holder_data(holder: Holder) -> dict[str, Any]:
    """Data about a lock's holder for an entry."""
    return {
        "holder": holder.caller,
        "session": holder.session,
        "host": holder.host,
        "pid": holder.pid,
        "program": holder.program,
        "fence": holder.fence,
    }


def claim_data(view: ClaimView) -> dict[str, Any]:
    """Data about a claim for an entry."""
    return {
        "state": str(view.state),
        "attempt": view.attempt,
        "session": view.session,
        "host": view.host,
        "pid": view.pid,
        "program": view.program,
        "fence": view.fence,
        "error": view.error,
    }


def cursor_data(view: CursorView) -> dict[str, Any]:
    """Data about a cursor for an entry."""
    return {"value": json.loads(view.value), "version": view.version, "by": view.by}
