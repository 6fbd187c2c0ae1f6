"""The record engine: reads, leases and writes of records, in the same way for every store and every kind.

A write whose answer was lost is repeated. Each write has an ID, which is part of its journal entry. So the engine can
determine whether it was made, even if others have changed the record since.
"""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from interlock.arguments import FOREVER, checked_key
from interlock.errors import (
    ConcurrencyConflictError,
    LeaseLostError,
    LockTimeoutError,
    RecordNotFoundError,
    StaleFenceError,
    StoreUnavailableError,
)
from interlock.locks.explain import who_holds
from interlock.ports.journal import JournalFilter, JournalPosition, NewEntry
from interlock.ports.records import (
    LOCK_PREFIX,
    Busy,
    Conflict,
    LeaseLost,
    RecordChange,
    Skipped,
    StaleFence,
    StoredRecord,
    Written,
    lock_key,
    subject_key,
)
from interlock.record_strategies import Plan, Strategy
from interlock.records.fields import changed_fields
from interlock.records.recent import RecentRecords, Turns
from interlock.store_client import repeat
from interlock.telemetry.log import emit
from interlock.telemetry.records import RecordMetrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from interlock.locks.lease import Lease
    from interlock.locks.locks import Acquisition, Locks
    from interlock.ports.journal import Action, Attribution
    from interlock.ports.locks import Answer, Left, LockRequest
    from interlock.ports.records import WriteAnswer
    from interlock.records.fields import Content
    from interlock.store_client import StoreClient

    Compute = Callable[["Ref", StoredRecord | None], Awaitable["Draft | None"]]

__all__ = ["Change", "Draft", "Opening", "RecordEngine", "Ref", "existing", "refusal_error"]

_log = logging.getLogger("interlock.records")
_LEASE = 60.0
_ATTEMPTS = 3  # writes under a lease, which only writes that bypass Interlock can make conflict
_PAGE = 100
_encode = json.JSONEncoder(ensure_ascii=False).encode


class Ref(NamedTuple):
    """Which record."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r}"


class Attempt(NamedTuple):
    """The history of an operation before the current attempt; part of the journal entry."""

    retries: int = 0
    starved: bool = False
    """An optimistic write lost, and so the operation queued for the lease."""

    @property
    def notes(self) -> dict[str, Any]:
        """For the journal."""
        return {"_retries": self.retries} | ({"_starvation": True} if self.starved else {})


class Draft(NamedTuple):
    """A change of one record, before it is written."""

    before: Content | None
    after: Content | None
    """None means delete."""
    action: Action
    attribution: Attribution
    fence: int | None = None
    notes: Mapping[str, Any] = MappingProxyType({})
    """Notes for the journal entry. Their names start with an underscore; the name of a field never does."""


class Change:
    """A change of one record, and the record as it is stored afterwards."""

    __slots__ = ("draft", "ref", "stored")

    def __init__(self, ref: Ref, draft: Draft | None, stored: StoredRecord | None) -> None:
        self.ref = ref
        self.draft = draft
        """None if there is nothing to do."""
        self.stored = stored
        """The record before the change, and after the write the record that it made; None means no record."""

    def made(self, change: RecordChange, written: Written) -> None:
        """Note that the change was made."""
        if change.body is None:
            self.stored = None
            return
        old = self.stored
        fence = max((f for f in (change.fence, old and old.fence) if f is not None), default=None)
        created_at = written.updated_at if old is None else old.created_at
        self.stored = StoredRecord(
            change.kind,
            change.id,
            change.uid,
            written.version,
            change.status,
            change.body,
            fence,
            created_at,
            written.updated_at,
        )


class OpenLease(NamedTuple):
    """A lease on a record, and the record if it was read with the grant."""

    lease: Lease
    stored: StoredRecord | None


class Opening:
    """A lease on a record that is about to be acquired. If it is granted at once, the record is read in the same step.

    The store could grant it to others before a later request, so what was read counts only for the first one.
    """

    __slots__ = ("_engine", "_ref", "acquisition", "stored")

    def __init__(self, engine: RecordEngine, ref: Ref, acquisition: Acquisition) -> None:
        self._engine = engine
        self._ref = ref
        self.acquisition = acquisition
        acquisition.first = self
        self.stored: StoredRecord | None = None
        """The record as its holder has to see it; None if it has to be read after the grant."""

    async def ask(self, request: LockRequest) -> Answer:
        """Ask for the lease, and read the record if it is granted."""
        answer, self.stored = await self._engine.store_client.store.records.ask(request, *self._ref)
        return answer

    def forget(self) -> None:
        """Forget what was read."""
        self.stored = None

    async def read(self) -> StoredRecord | None:
        """Return the record, once the lease is held."""
        return self.stored or await self._engine.read(self._ref, current=True)


class RecordEngine:
    """The records of one app, in its durable store. ``locks`` are in the same store."""

    def __init__(self, store_client: StoreClient, locks: Locks) -> None:
        self._store_client = store_client
        self._locks = locks
        self.metrics = RecordMetrics()
        locks.count_apart(LOCK_PREFIX, self.metrics.pessimistic)
        self._recent: RecentRecords[Ref] = RecentRecords()
        self._turns: Turns[Ref] = Turns()

    @property
    def store_client(self) -> StoreClient:
        """The client of the durable store."""
        return self._store_client

    def forget(self) -> None:
        """Forget what was read: the client has another store now."""
        self._recent = RecentRecords()
        self._turns = Turns()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, ref: Ref, *, current: bool = False) -> StoredRecord | None:
        """Read one record."""
        found = await self.read_many(ref.kind, [ref.id], current=current)
        return found[0] if found else None

    async def read_many(self, kind: str, ids: Sequence[str], *, current: bool = False) -> Sequence[StoredRecord]:
        """Read several records as one snapshot."""
        records = self._store_client.store.records
        found = await self._store_client.repeat(lambda: records.get(kind, ids, current=current))
        for stored in found:
            self._recent.remember(Ref(kind, stored.id), stored)
        return found

    # -- leases --------------------------------------------------------------------------------------------------------

    def opening(self, ref: Ref, wait: float | None) -> Opening:
        """The lease on a record, about to be acquired."""
        acquisition = self._locks.acquire(lock_key(*ref), _LEASE, wait=FOREVER if wait is None else wait)
        return Opening(self, ref, acquisition)

    @asynccontextmanager
    async def leases(self, refs: Sequence[Ref], wait: float | None) -> AsyncIterator[dict[Ref, OpenLease]]:
        """Hold the leases on several records, acquired in the order of their keys.

        Losing a lease does not cancel the body: it is short, and the store refuses its write.
        """
        monotonic = self._store_client.clock.monotonic
        give_up = None if wait is None else monotonic() + wait
        held: dict[Ref, OpenLease] = {}
        try:
            for ref in sorted(refs, key=lambda ref: lock_key(*ref)):
                left = None if give_up is None else max(0.0, give_up - monotonic())
                opening = self.opening(ref, left)
                lease = await opening.acquisition
                held[ref] = OpenLease(lease, opening.stored)
            yield held
        finally:
            for lease, _ in held.values():
                try:
                    await lease.release()
                except LeaseLostError as error:
                    # The write was made or refused before; either way its caller knows.
                    emit(_log, logging.INFO, "record_lease_ended_early", key=lease.key, error=str(error))

    # -- changing ------------------------------------------------------------------------------------------------------

    async def change(self, ref: Ref, plan: Plan, compute: Compute, *, brief: bool = False) -> Change:
        """Change one record by a strategy.

        ``compute`` gets the stored record and returns the change, or None if there is nothing to do. It may be called
        more than once. A ``brief`` one waits for nothing but the store; then tasks of this process take turns, and the
        change may first be computed from what the process remembers of the record.
        """
        if plan.strategy is Strategy.PESSIMISTIC or not brief:
            (change,) = await self.change_many([ref], plan, compute)
            return change
        checked_key(lock_key(*ref))
        async with self._turns.turn(ref):
            recent = await self._change_recent(ref, compute)
            if recent is not None:
                return recent
            made, attempt = await self._change_optimistic([ref], plan, compute)
        if not made:
            made = await self._change_queued([ref], plan, compute, attempt)
        return made[0]

    async def change_many(self, refs: Sequence[Ref], plan: Plan, compute: Compute) -> list[Change]:
        """Change several records of one kind in one transaction, all or nothing."""
        for ref in refs:
            checked_key(lock_key(*ref))
        attempt = Attempt()
        if plan.strategy is not Strategy.PESSIMISTIC:
            made, attempt = await self._change_optimistic(refs, plan, compute)
            if made:
                return made
        return await self._change_queued(refs, plan, compute, attempt)

    async def _change_recent(self, ref: Ref, compute: Compute) -> Change | None:
        """Change a record as this process remembers it. None means that the store has to be read first.

        An error of the change counts only if what it was computed from is up to date: a change that can never succeed
        is computed once.
        """
        recent = self._recent.get(ref)
        if recent is None:
            return None
        begun = self._store_client.clock.monotonic()
        try:
            draft = await compute(ref, recent)
        except Exception:
            stored = await self.read_many(ref.kind, [ref.id], current=False)
            if [(one.uid, one.version) for one in stored] == [(recent.uid, recent.version)]:
                raise
            return None
        if draft is None:
            return None
        change = Change(ref, draft, recent)
        if not _all_made(await self.write([change])):
            return None
        self._count_made(begun)
        return change

    async def _change_optimistic(
        self, refs: Sequence[Ref], plan: Plan, compute: Compute
    ) -> tuple[list[Change], Attempt]:
        """Read, compute and write without a lease. Returns no changes if they were not made."""
        begun = self._store_client.clock.monotonic()
        changes = await self._computed(refs, compute, Attempt(), current=False)
        answers = await self.write(changes)
        if not _all_made(answers):
            return [], self._lost(changes, answers, plan)
        self._count_made(begun)
        return changes, Attempt()

    async def _change_queued(self, refs: Sequence[Ref], plan: Plan, compute: Compute, attempt: Attempt) -> list[Change]:
        """Queue for the leases, and change the records under them."""
        try:
            async with self.leases(refs, plan.wait) as held:
                return await self._change_leased(refs, compute, held, attempt)
        except LockTimeoutError as error:
            if not attempt.starved:
                raise
            raise ConcurrencyConflictError(
                f"{_names(refs)} changed while the operation was computed, and the lease was not free in time: "
                f"{error.message}"
            ) from error

    async def _change_leased(
        self, refs: Sequence[Ref], compute: Compute, held: dict[Ref, OpenLease], attempt: Attempt
    ) -> list[Change]:
        leases = {ref: lease for ref, (lease, _) in held.items()}
        # What was read with a grant stays as it was while the lease lives.
        known = {ref.id: stored for ref, (_, stored) in held.items() if stored is not None}
        for _ in range(_ATTEMPTS):
            changes = await self._computed(refs, compute, attempt, current=True, known=known)
            known = {}
            answers = await self.write(changes, leases)
            if _all_made(answers):
                return changes
            for ref, answer in answers.items():
                if isinstance(answer, StaleFence | LeaseLost):
                    raise refusal_error(ref, answer)
            self.metrics.version_conflicts += 1
            self.metrics.version_conflict_retries += 1
            attempt = attempt._replace(retries=attempt.retries + 1)
        raise ConcurrencyConflictError(f"{_names(refs)} kept changing by statements that bypass Interlock.")

    async def _computed(
        self,
        refs: Sequence[Ref],
        compute: Compute,
        attempt: Attempt,
        *,
        current: bool,
        known: Mapping[str, StoredRecord] = MappingProxyType({}),
    ) -> list[Change]:
        """Compute the changes from one snapshot, of which some records may be known."""
        found = dict(known)
        if unknown := [ref.id for ref in refs if ref.id not in found]:
            found |= {one.id: one for one in await self.read_many(refs[0].kind, unknown, current=current)}
        changes: list[Change] = []
        for ref in refs:
            stored = found.get(ref.id)
            draft = await compute(ref, stored)
            if draft is not None and attempt.retries:
                draft = draft._replace(notes={**draft.notes, **attempt.notes})
            changes.append(Change(ref, draft, stored))
        return changes

    def _lost(self, changes: Sequence[Change], answers: dict[Ref, WriteAnswer], plan: Plan) -> Attempt:
        """Handle a refused optimistic write: raise, or return what the next attempt has to know."""
        conflict = any(isinstance(answer, Conflict) for answer in answers.values())
        for ref, answer in answers.items():
            never = isinstance(answer, StaleFence | LeaseLost)
            if never or (plan.strategy is Strategy.NONE and isinstance(answer, Conflict | Busy)):
                if not never:
                    self._count_loss(conflict=conflict, retried=False)
                raise refusal_error(ref, answer)
        self._count_loss(conflict=conflict, retried=True)
        if not conflict:
            return Attempt()
        emit(_log, logging.DEBUG, "record_update_lost", records=_names([change.ref for change in changes]))
        return Attempt(1, starved=True)

    def _count_loss(self, *, conflict: bool, retried: bool) -> None:
        self.metrics.optimistic.contentions += 1
        self.metrics.optimistic.outcomes["conflict" if conflict else "busy"] += 1
        if conflict:
            self.metrics.version_conflicts += 1
            self.metrics.version_conflict_retries += retried

    def _count_made(self, begun: float) -> None:
        self.metrics.optimistic.waits.observe(self._store_client.clock.monotonic() - begun)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def write(
        self, changes: Sequence[Change], leases: Mapping[Ref, Lease] = MappingProxyType({})
    ) -> dict[Ref, WriteAnswer]:
        """Write changes in one transaction, exactly once, also if the store becomes unavailable meanwhile.

        Changes that were made get their new :attr:`Change.stored`. They are written under the leases on their records,
        and all these leases are released in the same transaction. If nothing is written, they are kept. If one of them
        is lost, nothing is written, even if its record is not to be changed: another change may have been computed from
        that record. The answers then have a :class:`LeaseLost` for it.
        """
        wanted = [change for change in changes if change.draft is not None]
        if not wanted:
            return {}
        id = secrets.token_hex(8)  # noqa: A001
        owners = {ref: lease.owner for ref, lease in leases.items()}
        given = [_record_change(change, owners.get(change.ref), id) for change in wanted]
        if leases:
            answers = await self._write_and_release(given, id, list(leases.values()))
        else:
            answers, _ = await self._write_once(given, id)
        made = all(type(answer) is Written for answer in answers)
        for change, written, answer in zip(wanted, given, answers, strict=True):
            if made:
                change.made(written, cast("Written", answer))
            self._recent.remember(change.ref, change.stored if made else None)
        by_ref = {change.ref: answer for change, answer in zip(wanted, answers, strict=True)}
        return by_ref if made else _with_lost_leases(by_ref, leases)

    async def write_by(
        self, change: Change, owner: str | None, send: Callable[[RecordChange], Awaitable[WriteAnswer]]
    ) -> WriteAnswer:
        """Have a caller write one change, in a transaction of its own; ``send`` may be repeated safely.

        Like :meth:`write`, it keeps what the process remembers of the record up to date.
        """
        given = _record_change(change, owner, secrets.token_hex(8))
        answer = await self._store_client.repeat(lambda: send(given))
        if isinstance(answer, Written):
            change.made(given, answer)
        self._recent.remember(change.ref, change.stored if isinstance(answer, Written) else None)
        return answer

    async def _write_and_release(
        self,
        changes: Sequence[RecordChange],
        id: str,  # noqa: A002
        leases: Sequence[Lease],
    ) -> Sequence[WriteAnswer]:
        answers: Sequence[WriteAnswer] = ()

        async def operation(requests: Sequence[LockRequest]) -> Sequence[Left] | None:
            nonlocal answers
            answers, left = await self._write_once(changes, id, requests)
            return left

        await self._locks.release_with(leases, operation)
        return answers

    async def _write_once(
        self,
        changes: Sequence[RecordChange],
        id: str,  # noqa: A002
        leases: Sequence[LockRequest] = (),
    ) -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
        client = self._store_client
        records = client.store.records

        async def write() -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
            if leases:
                return await records.write_and_release(changes, leases)
            return await records.write(changes), None

        async def write_again() -> tuple[Sequence[WriteAnswer], Sequence[Left] | None]:
            answers, left = await write()
            if all(type(answer) is Written for answer in answers):
                return answers, left
            # A refusal after a lost answer may be the effect of the write itself.
            at = await self._find_write(changes[0], id)
            if at is not None:
                return [Written(change.entry.to_version or 0, at) for change in changes], None
            if all(isinstance(answer, Busy | Skipped) for answer in answers):
                # Every other refusal is final. This one is not: the first attempt may still be under way to the store,
                # and would be made there after the lease has ended.
                raise StoreUnavailableError(
                    f"It is not known whether {changes[0].kind} {changes[0].id!r} was written: the answer was lost, and"
                    " the record is being edited now."
                )
            return answers, left

        begun = client.clock.monotonic()
        try:
            return await write()
        except StoreUnavailableError:
            pass  # it may have been made
        return await repeat(write_again, client.settings.store_wait, client.clock.monotonic, since=begun)

    async def _find_write(self, change: RecordChange, id: str) -> float | None:  # noqa: A002
        """Return when a write was made; None if it was not. Its entries tell: they are written with the changes.

        A record that still has the version to replace was not written. As long as it was not deleted, one entry at most
        replaces that version, so older ones are not read. The versions of a record that was deleted and created again
        repeat those of the old one, so then all entries are read.
        """
        journal = self._store_client.store.journal
        if change.expected is not None and await self._version_of(change) == change.expected:
            return None
        wanted = JournalFilter(subject_kind="record", subject_key=subject_key(change.kind, change.id))
        before: JournalPosition | None = None
        deleted = False
        while True:
            entries = await journal.list(wanted, limit=_PAGE, before=before)
            for entry in entries:
                if (entry.from_version, entry.to_version) == (change.entry.from_version, change.entry.to_version):
                    notes = entry.before if entry.after is None else entry.after
                    if notes is not None and json.loads(notes).get("_write") == id:
                        return entry.at
                    # The record is read after the entry: if it is still the same one, the entry is about it.
                    if not deleted and await self._version_of(change) is not None:
                        return None
                deleted = deleted or entry.to_version is None
            if len(entries) < _PAGE:
                return None
            before = JournalPosition(entries[-1].at, entries[-1].id)

    async def _version_of(self, change: RecordChange) -> int | None:
        """Return the current version of the record that a change is about; None if that record does not exist."""
        found = await self._store_client.store.records.get(change.kind, [change.id])
        return found[0].version if found and found[0].uid == change.uid else None


def existing(ref: Ref, stored: StoredRecord | None) -> StoredRecord:
    """Return a record that was read. Raises if it does not exist."""
    if stored is None:
        raise RecordNotFoundError(f"{ref} does not exist.")
    return stored


def refusal_error(ref: Ref, answer: WriteAnswer) -> Exception:
    """The error for a refused change."""
    if isinstance(answer, StaleFence):
        return StaleFenceError(f"{ref} has already been written with fence {answer.highest}; nothing was written.")
    if isinstance(answer, LeaseLost):
        return LeaseLostError(f"The lease on {ref} was lost before the write: {answer.why}; nothing was written.")
    if isinstance(answer, Busy):
        return LockTimeoutError(f"{ref} is being edited: {who_holds(answer.holder)}.")
    if isinstance(answer, Conflict) and answer.version is None:
        return RecordNotFoundError(f"{ref} does not exist, or was deleted meanwhile.")
    return ConcurrencyConflictError(f"{ref} has changed meanwhile; nothing was written.")


def _with_lost_leases(answers: dict[Ref, WriteAnswer], leases: Mapping[Ref, Lease]) -> dict[Ref, WriteAnswer]:
    """Let the record whose lease was lost have that answer, instead of the changes that were refused for it."""
    refs = {lease.key: ref for ref, lease in leases.items()}
    found: dict[Ref, WriteAnswer] = {}
    for ref, answer in answers.items():
        if isinstance(answer, LeaseLost) and answer.key in refs:
            found[refs[answer.key]] = LeaseLost(answer.why)
            found[ref] = Skipped()
        else:
            found[ref] = answer
    return found


def _record_change(change: Change, owner: str | None, id: str) -> RecordChange:  # noqa: A002
    draft, stored = change.draft, change.stored
    assert draft is not None
    after = draft.after
    old, new = changed_fields(draft.before, after)
    notes = {**draft.notes, "_write": id}
    if new is None:
        old = {**(old or {}), **notes}
    else:
        new = {**new, **notes}
    expected = None if stored is None else stored.version
    to_version = None if after is None else 0 if expected is None else expected + 1
    entry = NewEntry(
        draft.attribution,
        draft.action,
        "record",
        subject_key(*change.ref),
        None if old is None else _encode(old),
        None if new is None else _encode(new),
        expected,
        to_version,
    )
    uid = secrets.token_hex(8) if stored is None else stored.uid
    status, body = ("", None) if after is None else (after.status, after.body)
    return RecordChange(*change.ref, uid, expected, status, body, owner, draft.fence, entry)


def _all_made(answers: dict[Ref, WriteAnswer]) -> bool:
    return all(isinstance(answer, Written) for answer in answers.values())


def _names(refs: Sequence[Ref]) -> str:
    return str(refs[0]) if len(refs) == 1 else f"{refs[0]} and {len(refs) - 1} more"
