"""The journal: who changed what, when, why and because of what. The contract that every store with a journal keeps.

**Same transaction.** A store with ``Capability.JOURNAL`` writes the entry of an operation in the transaction that makes
the change. So an entry exists exactly when its change does: an operation that finds nothing to change, is refused or is
rolled back leaves none, and repeating one whose answer was lost adds none.

**Append-only.** Entries are never changed. They are removed only by age (:meth:`JournalStore.prune`), in whole sealed
batches, the oldest batch first. An entry that is not sealed is never removed.

**Order.** Entries are listed newest first, by time and then by ID. Two entries that commit at the same moment may get
their IDs in either order.

**Seals.** A sealer reads the entries that have no batch (:meth:`JournalStore.unsealed`), hashes them, and writes their
batch and its seal in one transaction (:meth:`JournalStore.seal`). Batches are numbered 1, 2, 3, … without a gap, and an
entry belongs to the batch that found it: an entry with a small ID that commits late is part of a later batch. Of two
sealers that write the same batch, one succeeds. Seals are never removed. docs/decisions/0056 says why.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.claims import ClaimView
    from interlock.ports.cursors import CursorView
    from interlock.ports.limits import LimitOverride
    from interlock.ports.locks import Holder

__all__ = [
    "ENTRY_COLUMNS",
    "Action",
    "Attribution",
    "Batch",
    "EntryRow",
    "JournalEntry",
    "JournalFilter",
    "JournalPosition",
    "JournalStatus",
    "JournalStore",
    "NewEntry",
    "Seal",
    "Unsealed",
    "Verification",
    "claim_data",
    "cursor_data",
    "holder_data",
    "new_entry",
    "override_data",
]


class Action(StrEnum):
    """An operation's verb. The part before the dot is the kind of subject."""

    JOB_RETRY = "job.retry"
    JOB_CANCEL = "job.cancel"
    LANE_HOLD = "lane.hold"
    LANE_RELEASE = "lane.release"
    QUEUE_PAUSE = "queue.pause"
    QUEUE_RESUME = "queue.resume"
    LOCK_FORCE_RELEASE = "lock.force_release"
    CLAIM_FORGET = "claim.forget"
    CURSOR_FORGET = "cursor.forget"
    LIMIT_RESIZE = "limit.resize"
    LIMIT_RESET = "limit.reset"
    EVENT_REPLAY = "event.replay"
    SCHEDULE_SAVE = "schedule.save"
    SCHEDULE_PAUSE = "schedule.pause"
    SCHEDULE_RESUME = "schedule.resume"
    SCHEDULE_DELETE = "schedule.delete"
    SCHEDULE_TRIGGER = "schedule.trigger"
    SCHEDULE_BACKFILL = "schedule.backfill"
    SCHEDULE_DECLARE = "schedule.declare"
    """The code of a program declares it for the first time, or differently than before."""
    SCHEDULE_SWITCH_OFF = "schedule.switch_off"
    """It cannot work."""
    SCHEDULE_SWITCH_ON = "schedule.switch_on"
    """It can work again."""
    RECORD_CREATE = "record.create"
    RECORD_EDIT = "record.edit"
    RECORD_UPDATE = "record.update"
    RECORD_TRANSITION = "record.transition"
    RECORD_CORRECT = "record.correct"
    RECORD_DELETE = "record.delete"
    RECORD_STAGE_START = "record.stage_start"
    RECORD_STAGE_COMPLETE = "record.stage_complete"
    RECORD_STAGE_FAIL = "record.stage_fail"

    @property
    def subject_kind(self) -> str:
        """The kind of subject: job, lane, queue, lock, claim, cursor, limit, event, schedule or record."""
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


ENTRY_COLUMNS = (
    *(
        "id",
        "at",
        "namespace",
        "actor",
        "reason",
        "action",
        "subject_kind",
        "subject_key",
        "from_version",
        "to_version",
    ),
    *("before", "after", "cause_event", "cause_job", "cause_fence"),
)
"""The columns that a seal covers, in the order in which they are hashed."""

EntryRow = tuple[Any, ...]
"""The values of :data:`ENTRY_COLUMNS` exactly as they are stored, with the time in whole microseconds."""


class Seal(NamedTuple):
    """The seal of a batch. Times are whole microseconds since 1970, because the hash covers them."""

    batch: int
    previous: bytes
    """The hash of the seal before; 32 zero bytes in the first seal."""
    sealed_at: int
    size: int
    """How many entries the batch has."""
    first_id: int
    """The smallest ID in the batch. Ranges of IDs of two batches may overlap."""
    last_id: int
    newest_at: int
    """The time of the newest entry in the batch."""
    root: bytes
    """The SHA-256 of ``leaves``."""
    hash: bytes
    """The SHA-256 of everything above, with the namespace."""
    leaves: bytes | None
    """40 bytes for each entry, by ID: its ID and its hash. None once the batch is pruned."""
    pruned_at: int | None = None
    """When the entries of the batch were removed."""


class Unsealed(NamedTuple):
    """The input of the next seal."""

    now: int
    """The store's time in microseconds."""
    namespace: str
    head: Seal | None
    """The newest seal, without its leaves."""
    rows: Sequence[EntryRow]
    """Entries without a batch, by ID."""


class Batch(NamedTuple):
    """A seal and the entries that are stored under its number, by ID."""

    seal: Seal
    rows: Sequence[EntryRow]


class Verification(NamedTuple):
    """The result of the last verification of a journal."""

    at: float
    batches: int
    entries: int
    problems: int
    problem: str
    """The first problem; empty if there was none."""
    head: bytes
    """The hash of the newest seal at that time; empty if there was none."""


class JournalStatus(NamedTuple):
    """How far a journal is sealed and verified."""

    namespace: str
    unsealed: int
    """How many entries are not sealed, counted up to 100,000."""
    unsealed_since: float | None
    """The time of the unsealed entry with the smallest ID."""
    head: Seal | None
    """The newest seal, without its leaves."""
    pruned_batches: int
    """How many batches retention has removed: the oldest kept one is the next."""
    verification: Verification | None
    """The last verification, if there was one."""


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
    until: float | None = None
    """Only entries before this time."""
    cause_job: int | None = None
    """Only entries of operations that this job performed."""
    cause_event: int | None = None
    """Only entries of operations that jobs of this event performed."""


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
        """Remove sealed batches whose newest entry is older than ``keep`` seconds; return how many entries went.

        Whole batches are removed, in the order of their numbers, up to ``limit`` entries but at least one batch. Their
        seals stay, without leaves. Unsealed entries stay.
        """
        ...

    # -- seals ---------------------------------------------------------------------------------------------------------

    async def unsealed(self, limit: int, *, after: int = 0) -> Unsealed:
        """Return up to ``limit`` committed entries that have no batch, the smallest IDs first, and the newest seal.

        ``after`` continues behind an ID, for reading; a sealer starts at the beginning.
        """
        ...

    async def seal(self, seal: Seal, ids: Sequence[int]) -> bool:
        """Write a seal and the batch of its entries in one transaction. Durable when it returns True.

        Returns False and changes nothing if the batch is already sealed, which means that another sealer was faster.
        Raises ``StoreError`` and changes nothing if one of the entries is gone or has a batch.
        """
        ...

    async def batches(self, after: int, limit: int) -> Sequence[Batch]:
        """Return the batches behind number ``after`` with what is stored of them, in the order of their numbers.

        They have up to ``limit`` entries together by their seals, but there is at least one. Seals and entries are of
        one moment, so a seal or prune meanwhile is seen as a whole.
        """
        ...

    async def strays(self, limit: int = 100) -> Sequence[tuple[Any, int]]:
        """Return batch and ID of entries whose batch has no seal. There are none unless someone changed the tables."""
        ...

    async def status(self) -> JournalStatus:
        """Return how far the journal is sealed and verified."""
        ...

    async def verified(self, verification: Verification) -> None:
        """Keep the result of a verification in place of the last one. The time is the store's."""
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


def override_data(override: LimitOverride | None) -> dict[str, Any] | None:
    """Data about the figure that a person set for a limit, for an entry."""
    return None if override is None else {"count": override.max_count, "per": override.per, "by": override.set_by}


def cursor_data(view: CursorView) -> dict[str, Any]:
    """Data about a cursor for an entry."""
    return {"value": json.loads(view.value), "version": view.version, "by": view.by}
