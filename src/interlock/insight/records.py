"""Records as rows and pages: kinds with their counts, records with their versions, and the machine of each kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from interlock.arguments import checked_key
from interlock.errors import InvalidArgumentError, NotFoundError
from interlock.insight.journal import position_of, position_text
from interlock.insight.journal_entry import changes
from interlock.insight.locks import lock_row
from interlock.insight.record_rows import (
    DeclaredKind,
    MachineView,
    RecordKindRow,
    RecordPage,
    RecordRow,
    RecordVersion,
)
from interlock.insight.views import Listing
from interlock.ports.journal import JournalFilter
from interlock.ports.record_insight import MAX_RECORDS_COUNTED
from interlock.ports.records import lock_key, subject_key
from interlock.records.corrections import History, body_parts
from interlock.records.declaration import read_declaration
from interlock.records.explain import RECENT, entry_notes, explain, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.explanation import Explanation
    from interlock.insight.stores import Caller, CallerJobs, Stores
    from interlock.ports.journal import JournalEntry
    from interlock.ports.locks import LockView
    from interlock.ports.record_insight import KindDeclaration, RecordSummary
    from interlock.ports.records import StoredRecord
    from interlock.reasons import Reason
    from interlock.records.declaration import Declaration
    from interlock.records.machine import Machine

__all__ = ["explain_a_record", "kind_rows", "parse_ref", "record_listing", "record_machine", "record_page"]

_REF = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,99})[/:](.+)", re.DOTALL)
_MAX_LOCKS = 1000
_WAITERS = 100


def parse_ref(ref: object) -> tuple[str, str]:
    """Parse which record is meant: ``Intent/42``, or ``Intent:42`` as in the journal."""
    match = _REF.fullmatch(ref) if isinstance(ref, str) else None
    if match is None:
        raise InvalidArgumentError(f"{str(ref)[:60]!r} is not a record.", remedy="Use KIND/ID, such as Intent/42.")
    checked_key(lock_key(match[1], match[2]))
    return match[1], match[2]


async def kind_rows(stores: Stores) -> Listing[RecordKindRow]:
    """Kinds that have records or were declared, by name."""
    counted: dict[str, dict[str, int]] = {}
    for kind, status, records in await stores.store.record_insight.counts():
        counted.setdefault(kind, {})[status] = records
    newest: dict[str, KindDeclaration] = {}
    for declaration in await stores.store.record_insight.declarations():
        newest.setdefault(declaration.kind, declaration)
    rows = [_kind_row(kind, counted.get(kind, {}), newest.get(kind)) for kind in sorted({*counted, *newest})]
    return Listing(tuple(rows), None, stores.now())


async def record_listing(
    stores: Stores, kind: str, status: str, contains: str, limit: int, after: str
) -> Listing[RecordRow]:
    """Records of a kind by ID."""
    found = await stores.store.record_insight.search(kind, status=status, contains=contains, limit=limit, after=after)
    machine = (await _declared(stores, kind)).machine
    locks = await _locks_of(stores, kind, found.records)
    caller_jobs = await stores.find_jobs(one for view in locks.values() for one in _callers(view))
    rows: list[RecordRow] = []
    for record in found.records:
        lock = locks.get(lock_key(kind, record.id))
        why = explain((kind, record.id), record, lock, machine, name=caller_jobs.name)
        rows.append(RecordRow(kind, record, str(why.reason), why.why))
    return Listing(tuple(rows), found.more, stores.now())


async def record_page(stores: Stores, ref: tuple[str, str], limit: int, before: str) -> RecordPage:
    """One record, with its last ``limit`` versions, or with those before a position."""
    situation = await _situation(stores, ref, max(RECENT, limit + 1))
    kind, id = ref  # noqa: A001
    entries = situation.recent
    if before:
        wanted = JournalFilter("record", subject_key(kind, id))
        entries = await stores.store.journal.list(wanted, limit=limit + 1, before=position_of(before))
    why, lock, stored = situation.why, situation.lock, situation.stored
    if stored is None and not situation.recent and situation.declared.view is None:
        raise NotFoundError(
            f"The record {kind}/{id} does not exist, and no program declared the kind {kind!r}.",
            remedy="List the kinds with: interlock records list.",
        )
    fields, history = ({}, History()) if stored is None else body_parts(stored.body)
    machine = situation.declared.machine
    followers = () if machine is None or stored is None else machine.transitions.get(stored.status, ())
    shown = entries[:limit]
    return RecordPage(
        kind=kind,
        id=id,
        record=summary_of(stored),
        fields=None if stored is None else fields,
        corrections=history.last[::-1],
        correction_count=history.count,
        declared=situation.declared.view,
        next_statuses=tuple(status for status in followers if stored is not None and status != stored.status),
        lock=None if lock is None else lock_row(lock, situation.caller_jobs),
        versions=tuple(map(_version, shown)),
        more=position_text(shown[-1]) if len(entries) > limit else None,
        reason=str(why.reason),
        why=why.why,
        explanation=why,
        seen=stores.seen(stores.now() if lock is None else lock.seen_at, "records", "journal"),
    )


async def explain_a_record(stores: Stores, ref: tuple[str, str]) -> Explanation[Reason]:
    """Explain a record."""
    return (await _situation(stores, ref)).why


async def record_machine(stores: Stores, kind: str) -> DeclaredKind:
    """Return the newest declaration of a kind. Raises ``NotFoundError`` if there is none."""
    found = (await _declared(stores, kind)).view
    if found is None:
        raise NotFoundError(
            f"No program declared the kind {kind!r}.",
            remedy="A program declares its kinds when it opens. List them with: interlock records list.",
        )
    return found


# -- parts -------------------------------------------------------------------------------------------------------------


class _Declared(NamedTuple):
    """The newest declaration of a kind, if there is one."""

    view: DeclaredKind | None
    machine: Machine | None


class _Situation(NamedTuple):
    """A record, and what explains it."""

    stored: StoredRecord | None
    lock: LockView | None
    recent: Sequence[JournalEntry]
    declared: _Declared
    caller_jobs: CallerJobs
    why: Explanation[Reason]


async def _situation(stores: Stores, ref: tuple[str, str], entries: int = RECENT) -> _Situation:
    kind, id = ref  # noqa: A001
    store = stores.store
    found = await store.records.get(kind, [id])
    stored = found[0] if found else None
    # The lease on a record is in the record's own store, wherever the app's other locks are.
    locks = await store.locks.list(lock_key(kind, id), waiters=_WAITERS)
    lock = locks[0] if locks else None
    recent = await store.journal.list(JournalFilter("record", subject_key(kind, id)), limit=entries)
    declared = await _declared(stores, kind)
    caller_jobs = await stores.find_jobs(() if lock is None else _callers(lock))
    summary = summary_of(stored)
    why = explain(ref, summary, lock, declared.machine, recent[:RECENT], now=stores.now(), name=caller_jobs.name)
    return _Situation(stored, lock, recent, declared, caller_jobs, why)


async def _declared(stores: Stores, kind: str) -> _Declared:
    found = await stores.store.record_insight.declarations(kind)
    newest = None if not found else read_declaration(found[0].text)
    if newest is None:
        return _Declared(None, None)
    differing: dict[str, None] = {}
    for other in found[1:]:
        differing |= dict.fromkeys(_differences(newest, read_declaration(other.text)))
    machine = None if newest.machine is None else _machine_view(newest.machine)
    times = (found[0].first_at, found[0].declared_at)
    view = DeclaredKind(newest.model, machine, newest.strategies, *times, tuple(differing))
    return _Declared(view, newest.machine)


def _differences(newest: Declaration, other: Declaration | None) -> Iterable[str]:
    if other is None:
        return
    if _machine_data(newest.machine) != _machine_data(other.machine):
        yield "machine"
    if newest.strategies != other.strategies:
        yield "strategies"
    if newest.model != other.model:
        yield "model"


def _machine_data(machine: Machine | None) -> object:
    return None if machine is None else machine.to_data()


def _machine_view(machine: Machine) -> MachineView:
    final = tuple(status for status in machine.statuses if status in machine.final)
    return MachineView(machine.initial, machine.transitions, machine.corrected, final, machine.diagram())


async def _locks_of(stores: Stores, kind: str, records: Sequence[RecordSummary]) -> dict[str, LockView]:
    """The locks of these records, which are in order, that are held or waited for."""
    if not records:
        return {}
    first = lock_key(kind, records[0].id)
    keys = {lock_key(kind, record.id) for record in records}
    found = await stores.store.locks.list(limit=_MAX_LOCKS, after=first[:-1], waiters=1)
    return {view.key: view for view in found if view.key in keys}


def _kind_row(kind: str, counted: dict[str, int], declared: KindDeclaration | None) -> RecordKindRow:
    declaration = None if declared is None else read_declaration(declared.text)
    known = () if declaration is None or declaration.machine is None else declaration.machine.statuses
    statuses = {status: counted.get(status, 0) for status in dict.fromkeys([*known, *counted])}
    return RecordKindRow(
        kind,
        "" if declaration is None else declaration.model,
        statuses,
        sum(counted.values()),
        any(number >= MAX_RECORDS_COUNTED for number in counted.values()),
        None if declared is None else declared.declared_at,
    )


def _version(entry: JournalEntry) -> RecordVersion:
    found, cut = changes(entry)
    shown = tuple(one for one in found if one.kind != "same" and not one.path.startswith("_"))
    return RecordVersion(entry, shown, cut, entry_notes(entry))


def _callers(view: LockView) -> list[Caller]:
    return [*([] if view.holder is None else [view.holder]), *view.waiters]
