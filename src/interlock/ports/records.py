"""Records, versioned state with a journal: the contract that every store with records keeps.

**Versions.** A record starts at version 0, and every write raises its version by one. A change names the version that
it replaces; if the record has another one, the change is refused as a conflict. A record that was deleted and created
again starts at version 0 with a new ``uid``. A change also names the ``uid``, so a change that was computed from the
old record never reaches the new one.

**Leases.** A record's lock key (:func:`lock_key`) lives in the locks of the same store and namespace. A change with an
``owner`` is written only while that owner holds a live lease on the key. A change without one is refused as busy while
any owner holds a live lease on it. Waiters alone do not make a record busy. The check and the write are one atomic
step, and :meth:`RecordStore.get` with ``current=True`` waits for the writes that are in progress. So what a holder
reads that way after its grant changes only by its own writes until its lease ends. Only writes that bypass Interlock
can still change it; they show as conflicts.

**Fences.** A change may carry a fence, of a job or of a lock in any store. It is refused if the record has already seen
a larger one; otherwise the record keeps it. A change without a fence leaves the record's fence as it is. The fence of
the lease in ``owner`` is not compared with it, because the lease itself is checked (docs/decisions/0053).

**All or nothing.** :meth:`RecordStore.write` applies all of its changes or none. It takes what it locks in the order of
the lock keys, so that two writes never deadlock.

**Journal.** Each change's entry is written in the transaction of the change, exactly as it was given. A refused write
adds no entry.

**Order.** Text is compared by code point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import NewEntry
    from interlock.ports.locks import Answer, Holder, Left, LockRequest

__all__ = [
    "LOCK_PREFIX",
    "Busy",
    "Conflict",
    "LeaseLost",
    "RecordChange",
    "RecordStore",
    "Skipped",
    "StaleFence",
    "StoredRecord",
    "WriteAnswer",
    "Written",
    "lock_key",
    "subject_key",
]


LOCK_PREFIX = "record:"
"""The beginning of the lock keys of records."""


class StoredRecord(NamedTuple):
    """A record as it is kept. Times are the store's, with microseconds."""

    kind: str
    id: str
    uid: str
    """Identifies this record among all that were ever created with its ID."""
    version: int
    status: str
    """Empty if its kind has no machine."""
    body: str
    """A JSON object, byte for byte as it was written."""
    fence: int | None
    """The largest fence that a change carried; None if none did."""
    created_at: float
    updated_at: float
    """Never earlier than that of the version before, even if the clock went back."""


class RecordChange(NamedTuple):
    """One write of one record: create, replace or delete it."""

    kind: str
    id: str
    uid: str
    """The record's; for a create, the new one."""
    expected: int | None
    """The version to replace; None means create: the record must not exist."""
    status: str
    body: str | None
    """The new body: a JSON object without the escape for NUL; None means delete."""
    owner: str | None
    """The owner of the lease under which it is written; None means without a lease."""
    fence: int | None
    """A fence to check and keep; None means neither."""
    entry: NewEntry
    """The journal entry of this change."""


class Written(NamedTuple):
    """The change was made. For a delete, ``version`` is the last one."""

    version: int
    updated_at: float


class Conflict(NamedTuple):
    """The record has another version or uid, exists although it should be created, or does not exist."""

    version: int | None
    """The current version; None if there is no such record."""


class Busy(NamedTuple):
    """Another owner holds a live lease on the record."""

    holder: Holder


class StaleFence(NamedTuple):
    """The record has already seen a larger fence."""

    highest: int


class LeaseLost(NamedTuple):
    """The owner does not hold a live lease on the record, or another lease that the write needs is not held."""

    why: str
    """Why the lease ended, as :meth:`LockStore.renew` says it."""
    key: str = ""
    """The key of the lease, if it is not the lease on the record itself."""


class Skipped(NamedTuple):
    """The change could have been made, but another change of the same write was refused."""


WriteAnswer = Written | Conflict | Busy | StaleFence | LeaseLost | Skipped


class RecordStore(Protocol):
    """Records in one store and namespace. Requires LOCKS and JOURNAL in the same store."""

    async def get(self, kind: str, ids: Sequence[str], *, current: bool = False) -> Sequence[StoredRecord]:
        """Return those of the records that exist, ordered by ID, as one snapshot.

        ``current=True`` waits for writes of these records that are in progress. The holder of a record's lease reads
        it like this; a plain read never waits.
        """
        ...

    async def list(
        self, kind: str, *, status: str = "", where: str = "", prefix: str = "", limit: int = 100, after: str = ""
    ) -> Sequence[StoredRecord]:
        """List records of a kind by ID: at most ``limit``, those after ``after``, whose ID starts with ``prefix``.

        ``status`` selects one status. ``where`` is a JSON object: a record matches if its body has every field of it at
        the top level with an equal value. Its values are strings, integers of at most 64 bits, booleans or null. A
        number equals only a number, and a null equals only a null that is present. The status is served by an index;
        ``where`` is checked record by record.
        """
        ...

    async def kinds(self) -> Sequence[str]:
        """Return the kinds that have records, in order."""
        ...

    async def write(self, changes: Sequence[RecordChange]) -> Sequence[WriteAnswer]:
        """Make all changes in one transaction, or none, and return an answer for each, in the order given.

        No two changes concern the same record. Durable when it returns. Each change is checked in this order: lease
        (``LeaseLost`` with an owner, ``Busy`` without one), fence (``StaleFence``), version and uid (``Conflict``).
        Every change that is refused gets its answer. If any is refused, nothing is written and the others are
        ``Skipped``.

        Repeating a write whose answer was lost is not harmful: it is refused as a conflict if the first one was made.
        """
        ...

    async def ask(self, request: LockRequest, kind: str, id: str) -> tuple[Answer, StoredRecord | None]:  # noqa: A002
        """Ask for a record's lock, as :meth:`LockStore.ask` does, and read the record if the lock is granted.

        The record is what :meth:`get` with ``current=True`` would return after the grant. None if the lock is not
        granted, if the record does not exist, or if a write of it is in progress; a holder that gets None reads it.
        """
        ...

    async def write_and_release(
        self, changes: Sequence[RecordChange], leases: Sequence[LockRequest]
    ) -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
        """Make changes as :meth:`write` does and, in the same transaction, release these leases of one session.

        Nothing is written unless every one of ``leases`` is held by its owner, whether or not its record is changed: a
        change may have been computed from a record that was only read under its lease. If a lease on an unchanged
        record is not held, every change that its own lease would allow is answered ``LeaseLost`` with the ``key`` of
        that lease, the first one by key if there are several. Leases are checked before fences and versions. Without
        changes nothing is written, checked or released.

        Returns what :meth:`LockStore.leave` would for each lease; None if a change is refused or there is none, in
        which case nothing is released. Repeating it is as safe as repeating a write: the leases of a write that was
        made are gone, so it is refused.
        """
        ...


def lock_key(kind: str, id: str) -> str:  # noqa: A002
    """Return the key of the lock that protects a record."""
    return f"{LOCK_PREFIX}{kind}:{id}"


def subject_key(kind: str, id: str) -> str:  # noqa: A002
    """Return the record's key in the journal, where its subject kind is ``record``."""
    return f"{kind}:{id}"
