"""Records of one model: ``app.records(Model)``, or without an App ``Records.from_url(url, Model)``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast
from uuid import UUID

from pydantic import BaseModel, ValidationError

from interlock.arguments import Wait, checked_key, checked_limit, checked_prefix, checked_url, checked_wait
from interlock.backends import from_url
from interlock.clock import as_datetime
from interlock.deadlocks import retry_on_deadlock
from interlock.errors import (
    CorrectionRefusedError,
    InvalidArgumentError,
    MisuseError,
    RecordExistsError,
)
from interlock.locks.locks import Locks
from interlock.operations import attributed
from interlock.ports.journal import Action, Attribution, JournalFilter, JournalPosition
from interlock.ports.records import lock_key, subject_key
from interlock.ports.store import Capability
from interlock.record_strategies import DEFAULT_WAIT, Operation, Plan, StrategyChoice, StrategyOverrides, plans
from interlock.records.corrections import (
    AppliedCorrection,
    CorrectionResult,
    History,
    checked_diff,
    correction_id,
    diff_digest,
    merged,
)
from interlock.records.declaration import declaration_text, leave_declarations
from interlock.records.edit import Edit, open_record
from interlock.records.engine import Draft, RecordEngine, Ref, existing
from interlock.records.explain import RECENT, explain, summary_of
from interlock.records.fields import Codec, Content
from interlock.records.machine import status_text
from interlock.sessions import program
from interlock.settings import Settings
from interlock.store_client import StoreClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from interlock.explanation import Explanation
    from interlock.ports.journal import JournalEntry
    from interlock.ports.records import StoredRecord
    from interlock.records.edit import OpenRecord
    from interlock.records.engine import Compute
    from interlock.records.machine import Machine
    from interlock.settings import SettingsChanges
    from interlock.telemetry.metrics import LockMetrics

__all__ = ["RecordUpdate", "Records"]

M = TypeVar("M", bound=BaseModel)
RecordUpdate = Mapping[str, Any] | Callable[[M], Awaitable[M | None] | M | None]
"""New values of fields, or a function that changes the record it gets or returns a new one."""
_MAX_MANY = 1000
_MAX_REASON = 1000
_MAX_SOURCE = 100
_PAGE = 100


class Records(Generic[M]):
    """The records of one model, in the app's durable store.

    Every write replaces exactly the version that it was computed from, is checked by the machine, and commits together
    with its journal entry. Which operation uses which strategy is configuration.
    """

    def __init__(
        self,
        engine: RecordEngine,
        model: type[M],
        *,
        name: str | None = None,
        machine: Machine | None = None,
        strategies: Mapping[str, StrategyChoice] | None = None,
        wait: Wait = DEFAULT_WAIT,
        correctable: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        overrides: StrategyOverrides | None = None,
    ) -> None:
        self._engine = engine
        self._locks: Locks | None = None  # set if it is used without an App
        self._codec = Codec(model, model.__name__ if name is None else name, machine)
        self._plans = plans(strategies or {}, wait, kind=self._codec.kind, overrides=overrides)
        self._correctable = self._codec.own if correctable is None else frozenset(correctable)
        self._sources = None if sources is None else frozenset(sources)
        unknown = self._correctable - self._codec.own
        if unknown:
            raise InvalidArgumentError(
                f"{model.__name__} has no field {min(unknown)!r} that a correction could change.",
                remedy=f"Its own fields: {', '.join(sorted(self._codec.own)) or 'none'}.",
            )

    @property
    def kind(self) -> str:
        """The name of these records in the store, the journal and the lock keys."""
        return self._codec.kind

    @property
    def model(self) -> type[M]:
        """The model."""
        return self._codec.model

    @property
    def codec(self) -> Codec[M]:
        """Turns stored records into models and back."""
        return self._codec

    @property
    def machine(self) -> Machine | None:
        """The declared machine."""
        return self._codec.machine

    @property
    def declaration(self) -> str:
        """What this program says about the kind, as it is left in the store for the pages and the command line."""
        return declaration_text(self.model.__name__, self.machine, self._plans)

    # -- without an App ------------------------------------------------------------------------------------------------

    @classmethod
    def from_url(
        cls,
        url: str,
        model: type[M],
        *,
        name: str | None = None,
        machine: Machine | None = None,
        strategies: Mapping[str, StrategyChoice] | None = None,
        wait: Wait = DEFAULT_WAIT,
        correctable: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        settings: Settings | None = None,
        **changes: Unpack[SettingsChanges],
    ) -> Self:
        """Create them without an App: ``async with Records.from_url("sqlite:///bot.db", Intent) as intents: …``.

        The other arguments are those of ``app.records`` and of :class:`Settings`, such as ``namespace="…"``.
        """
        settings = Settings.of(settings, changes)
        client = StoreClient(from_url(checked_url(url), settings=settings, needs=[Capability.RECORDS]), settings)
        locks = Locks(client)
        records = cls(
            RecordEngine(client, locks),
            model,
            name=name,
            machine=machine,
            strategies=strategies,
            wait=wait,
            correctable=correctable,
            sources=sources,
            overrides=StrategyOverrides.read(settings.record_strategies),
        )
        records._locks = locks
        return records

    @property
    def metrics(self) -> LockMetrics:
        """The metrics of records that are used without an App; register them with a Prometheus registry."""
        metrics = self._alone.metrics
        metrics.records = self._engine.metrics
        return metrics

    @property
    def _alone(self) -> Locks:
        if self._locks is None:
            raise MisuseError(
                f"The {self.kind} records belong to an App.",
                remedy="Use the App for this: async with app: …, app.metrics.",
            )
        return self._locks

    async def __aenter__(self) -> Self:
        await self._alone.open()
        await leave_declarations(self._engine.store_client, [(self.kind, self.declaration)])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._locks is not None:
            await self._locks.close()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def get(self, id: str) -> M:  # noqa: A002
        """Return a record. Raises :class:`RecordNotFoundError` if it does not exist.

        Inside an edit of this record, the task that edits it gets the edited object.
        """
        ref = self._ref(id)
        opened = open_record(self._engine, ref)
        if opened is not None:
            return cast("M", opened.record)
        return self._codec.model_of(existing(ref, await self._engine.read(ref)))

    async def list(
        self,
        *,
        status: object = None,
        where: Mapping[str, str | int | bool | None] | None = None,
        prefix: str = "",
        limit: int = 100,
        after: str = "",
    ) -> Sequence[M]:
        """List records by ID: at most ``limit``, those after the ID ``after``.

        ``status`` selects one status, by an index. ``where`` selects records whose fields equal these values; it is
        checked record by record.
        """
        wanted = "" if status is None else status_text(status)
        fields = self._checked_where(where)
        after, prefix, limit = checked_prefix(after), checked_prefix(prefix), checked_limit(limit)
        client = self._engine.store_client
        found = await client.repeat(
            lambda: client.store.records.list(
                self.kind, status=wanted, where=fields, prefix=prefix, limit=limit, after=after
            )
        )
        return [self._codec.model_of(stored) for stored in found]

    async def history(self, id: str, *, limit: int = 100) -> Sequence[JournalEntry]:  # noqa: A002
        """List the journal entries of a record, the newest first. They outlive a deleted record."""
        wanted = JournalFilter(subject_kind="record", subject_key=subject_key(*self._ref(id)))
        client = self._engine.store_client
        return await client.repeat(lambda: client.store.journal.list(wanted, limit=checked_limit(limit)))

    async def explain(self, id: str) -> Explanation:  # noqa: A002
        """Explain a record's state: who edits it, who waits for it, and what may follow.

        The machine is the one that this program declares. ``app.insight.explain("record", …)`` uses the newest one in
        the store, which may be that of another version.
        """
        ref = self._ref(id)
        client = self._engine.store_client
        stored = await self._engine.read(ref)
        locks = await client.repeat(lambda: client.store.locks.list(lock_key(*ref)))
        recent = await self.history(ref.id, limit=RECENT)
        lock = locks[0] if locks else None
        return explain(ref, summary_of(stored), lock, self.machine, recent, now=client.clock.now())

    def corrections(self, record: M) -> History:
        """Return the corrections of a record as it was read: how many there were, and the last 100, the oldest first.

        Reads nothing. A model that was not read from the store has none. Inside an edit of the record, the task that
        edits it also gets the corrections that it has made there.
        """
        opened = open_record(self._engine, self._ref(self._codec.id_of(record)))
        if opened is not None and opened.record is record:
            return opened.history
        stored = self._codec.stored_of(record)
        return History() if stored is None else self._codec.content(stored).history

    # -- creating and deleting -----------------------------------------------------------------------------------------

    async def create(self, record: M, *, by: str = "", reason: str = "", fence: int | None = None) -> M:
        """Store a new record and return it with its managed fields.

        Raises :class:`RecordExistsError` if the ID is taken, :class:`InvalidTransitionError` if its status is not an
        initial one.
        """
        ref = self._ref(self._codec.id_of(record))
        self._not_open(ref, "create")
        attribution = self._attribution("Creating a record", by, reason)
        content = self._codec.write_content(record, ref.id, History())
        if self.machine is not None:
            self.machine.check_initial(str(ref), content.status)

        async def compute(ref: Ref, stored: StoredRecord | None) -> Draft | None:
            if stored is not None:
                raise RecordExistsError(f"{ref} already exists.")
            return Draft(None, content, Action.RECORD_CREATE, attribution, fence)

        change = await self._engine.change(ref, self._plans[Operation.CREATE], compute)
        return self._codec.model_of(existing(ref, change.stored))

    async def delete(self, id: str, *, by: str = "", reason: str = "", fence: int | None = None) -> None:  # noqa: A002
        """Delete a record. Its journal entries stay. Raises :class:`RecordNotFoundError` if it does not exist."""
        ref = self._ref(id)
        self._not_open(ref, "delete")
        attribution = self._attribution("Deleting a record", by, reason)

        async def compute(ref: Ref, stored: StoredRecord | None) -> Draft | None:
            before = self._codec.content(existing(ref, stored))
            return Draft(before, None, Action.RECORD_DELETE, attribution, fence)

        await self._engine.change(ref, self._plans[Operation.DELETE], compute)

    # -- changing ------------------------------------------------------------------------------------------------------

    def edit(
        self,
        id: str,  # noqa: A002
        wait: Wait | None = None,
        *,
        by: str = "",
        reason: str = "",
        fence: int | None = None,
    ) -> Edit[M]:
        """Edit a record under its lease: ``async with records.edit(id) as record: record.x = 1``.

        Waits in the queue for up to ``wait`` seconds, then raises :class:`LockTimeoutError`. No transaction is open
        while the block runs. When it ends, the record and its journal entry are written; an error in the block writes
        nothing. Nested edits of one task are written together when the outermost one ends.
        """
        seconds = self._plans[Operation.EDIT].wait if wait is None else checked_wait(wait)
        attribution = self._attribution("Editing a record", by, reason)
        return Edit(self._engine, self._codec, self._ref(id), seconds, attribution, _checked_fence(fence))

    async def update(
        self,
        id: str,  # noqa: A002
        change: RecordUpdate[M],
        *,
        by: str = "",
        reason: str = "",
        fence: int | None = None,
        wait: Wait | None = None,
    ) -> M:
        """Change a record and return it.

        ``change`` gets the record and changes it, or returns a new one; it may be ``async``, and it may be called more
        than once. A mapping sets fields. Inside an edit of this record by the same task, it applies to the edited
        object.
        """
        ref = self._ref(id)
        attribution = self._attribution("Updating a record", by, reason)
        opened = open_record(self._engine, ref)
        if opened is not None:
            opened.assign(await _applied(self.model, opened.record, change))
            return cast("M", opened.record)
        compute = self._updating(change, attribution, _checked_fence(fence))
        brief = not inspect.iscoroutinefunction(change)
        changed = await self._engine.change(ref, self._plan(Operation.UPDATE, wait), compute, brief=brief)
        return self._codec.model_of(existing(ref, changed.stored))

    async def compare_and_set(
        self,
        id: str,  # noqa: A002
        record: M,
        version: int,
        *,
        by: str = "",
        reason: str = "",
        fence: int | None = None,
        wait: Wait | None = None,
    ) -> bool:
        """Replace a record if it has this version; return whether it was replaced.

        Queues behind a live edit. A record that was deleted and created again is not replaced by one that was read
        before. Raises :class:`RecordNotFoundError` if it does not exist.
        """
        ref = self._ref(id)
        self._not_open(ref, "compare_and_set")
        if type(version) is not int or version < 0:
            raise InvalidArgumentError(f"Invalid version {version!r}.", remedy="Pass the version that was read.")
        read_from = self._codec.stored_of(record) if isinstance(record, self.model) else None
        attribution = self._attribution("Replacing a record", by, reason)
        matched = False

        async def compute(ref: Ref, stored: StoredRecord | None) -> Draft | None:
            nonlocal matched
            stored = existing(ref, stored)
            matched = stored.version == version and (read_from is None or read_from.uid == stored.uid)
            if not matched:
                return None
            before = self._codec.content(stored)
            after = self._checked_content(ref, record, before)
            return Draft(before, after, Action.RECORD_UPDATE, attribution, _checked_fence(fence))

        await self._engine.change(ref, self._plan(Operation.COMPARE_AND_SET, wait), compute, brief=True)
        return matched

    async def transition(
        self,
        id: str,  # noqa: A002
        status: object,
        *,
        by: str = "",
        reason: str = "",
        fence: int | None = None,
        wait: Wait | None = None,
    ) -> M:
        """Give a record another status and return it. The status that it has already changes nothing.

        Raises :class:`InvalidTransitionError` if the machine does not allow it.
        """
        if "status" not in self._codec.managed:
            raise MisuseError(f"{self.model.__name__} has no status.", remedy="Declare a field status.")
        ref, wanted = self._ref(id), status_text(status)
        attribution = self._attribution("A transition", by, reason)
        opened = open_record(self._engine, ref)
        if opened is not None:
            opened.accept()  # what the block did so far counts as a step of its own
            if self.machine is not None:
                self.machine.check(str(ref), opened.status, wanted)
            opened.assign(self._with_status(opened.record, wanted))
            opened.accept()
            return cast("M", opened.record)

        async def compute(ref: Ref, stored: StoredRecord | None) -> Draft | None:
            stored = existing(ref, stored)
            if self.machine is not None:
                self.machine.check(str(ref), stored.status, wanted)
            if stored.status == wanted:
                return None
            before = self._codec.content(stored)
            after = before.with_status(wanted)
            self._check_status(after, stored)
            return Draft(before, after, Action.RECORD_TRANSITION, attribution, _checked_fence(fence))

        changed = await self._engine.change(ref, self._plan(Operation.TRANSITION, wait), compute, brief=True)
        return self._codec.model_of(existing(ref, changed.stored))

    async def update_many(
        self,
        ids: Iterable[str],
        change: RecordUpdate[M],
        *,
        by: str = "",
        reason: str = "",
        wait: Wait | None = None,
    ) -> Sequence[M]:
        """Change several records in one transaction, all or nothing; return them in the order of their IDs.

        Raises :class:`RecordNotFoundError` if one of them does not exist. A deadlock with nested edits is retried.
        """
        if isinstance(ids, str):
            raise InvalidArgumentError("update_many takes several IDs, not one string.", remedy="Pass a list.")
        refs = [self._ref(id) for id in sorted(set(ids))]  # noqa: A001
        if len(refs) > _MAX_MANY:
            raise InvalidArgumentError(f"update_many got {len(refs):,} IDs.", remedy=f"Pass at most {_MAX_MANY:,}.")
        if not refs:
            return []
        for ref in refs:
            self._not_open(ref, "update_many")
        attribution = self._attribution("Updating records", by, reason)
        compute = self._updating(change, attribution, None, together=len(refs))
        plan = self._plan(Operation.UPDATE_MANY, wait)
        changed = await retry_on_deadlock()(self._engine.change_many)(refs, plan, compute)
        return [self._codec.model_of(existing(one.ref, one.stored)) for one in changed]

    # -- corrections ---------------------------------------------------------------------------------------------------

    async def correct(
        self,
        id: str,  # noqa: A002
        diff: Mapping[str, Any],
        *,
        source: str,
        reason: str,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        wait: Wait | None = None,
    ) -> CorrectionResult:
        """Apply a correction once.

        The same diff for the same record counts as the same correction, unless ``key`` names it: then the key decides.
        Raises :class:`CorrectionRefusedError` if the diff, the source or the result is not acceptable, and
        :class:`InvalidTransitionError` if the record has a final status.
        """
        ref = self._ref(id)
        nested = checked_diff(diff, self._correctable)
        attribution = self._correction_attribution(source, reason)
        if key is not None:
            checked_key(key)
        digest = diff_digest(nested)
        identity = correction_id(ref.kind, ref.id, digest, key)
        applied = AppliedCorrection(identity, digest, self._engine.store_client.clock.now(), source, reason)
        notes: dict[str, Any] = {"correction_id": identity, "digest": digest, "at": applied.at, "source": source}
        notes |= {"key": key} if key is not None else {}
        notes |= {"metadata": _checked_metadata(metadata)} if metadata is not None else {}
        opened = open_record(self._engine, ref)
        if opened is not None:
            return await self._correct_open(ref, opened, nested, applied, notes)
        known: AppliedCorrection | None = None
        count = 0

        async def compute(ref: Ref, stored: StoredRecord | None) -> Draft | None:
            nonlocal known, count
            stored = existing(ref, stored)
            before = self._codec.content(stored)
            known = await self._known(ref, before.history, applied, key)
            count = before.history.count
            if known is not None:
                return None
            after = self._corrected(ref, before, nested, applied, stored)
            count += 1
            return Draft(before, after, Action.RECORD_CORRECT, attribution, None, {"_correction": notes})

        changed = await self._engine.change(ref, self._plan(Operation.CORRECT, wait), compute, brief=True)
        stored = existing(ref, changed.stored)
        return _result(ref, known or applied, known is not None, count, stored.status, stored.version)

    async def _correct_open(
        self,
        ref: Ref,
        opened: OpenRecord[Any],
        nested: dict[str, Any],
        applied: AppliedCorrection,
        notes: dict[str, Any],
    ) -> CorrectionResult:
        """Apply a correction to the record that this task is editing; it is written with the edit."""
        before = opened.content()
        known = await self._known(ref, before.history, applied, notes.get("key"))
        if known is None:
            after = self._corrected(ref, before, nested, applied, opened.stored)
            shown = opened.stored._replace(status=after.status, body=after.body)
            opened.assign(self._codec.model_of(shown))
            opened.status, opened.history = after.status, after.history
            opened.notes = {**opened.notes, "_corrections": [*opened.notes.get("_corrections", ()), notes]}
        count = opened.history.count
        return _result(ref, known or applied, known is not None, count, opened.status, opened.stored.version)

    async def _known(
        self, ref: Ref, history: History, applied: AppliedCorrection, key: str | None
    ) -> AppliedCorrection | None:
        """Return the correction if it was applied before: from the record, or from the journal if that forgot it."""
        known = history.find(applied.id)
        if known is None and not history.complete:
            known = await self._journaled(ref, applied.id)
        if known is not None and known.digest != applied.digest:
            raise CorrectionRefusedError(
                f"The key {key!r} was already used for another diff of {ref}.",
                reason="key-reused",
                remedy="Use another key.",
            )
        return known

    async def _journaled(self, ref: Ref, identity: str) -> AppliedCorrection | None:
        client = self._engine.store_client
        wanted = JournalFilter(subject_kind="record", subject_key=subject_key(*ref))
        before: JournalPosition | None = None
        while True:
            at = before
            entries = await client.repeat(lambda: client.store.journal.list(wanted, limit=_PAGE, before=at))  # noqa: B023
            for entry in entries:
                if entry.action == Action.RECORD_CREATE:
                    return None  # older entries concern an earlier record with this ID
                for notes in _corrections_of(entry):
                    if notes["correction_id"] == identity:
                        return AppliedCorrection(identity, notes["digest"], notes["at"], notes["source"], entry.reason)
            if len(entries) < _PAGE:
                return None
            before = JournalPosition(entries[-1].at, entries[-1].id)

    def _corrected(
        self, ref: Ref, before: Content, nested: dict[str, Any], applied: AppliedCorrection, stored: StoredRecord
    ) -> Content:
        status = before.status
        if self.machine is not None:
            self.machine.check_correctable(str(ref), status)
            status = self.machine.corrected or status
        after = Content(status, merged(before.data, nested), before.history.having(applied))
        try:
            self._codec.corrected(ref.id, after, stored)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise CorrectionRefusedError(
                f"The corrected {ref} would be invalid: {'.'.join(map(str, first['loc']))}: {first['msg']}.",
                reason="invalid-value",
            ) from error
        except InvalidArgumentError as error:
            raise CorrectionRefusedError(error.message, reason="too-large", remedy=error.remedy) from error
        return after

    def _correction_attribution(self, source: object, reason: object) -> Attribution:
        if not isinstance(source, str) or not 0 < len(source) <= _MAX_SOURCE or not source.isprintable():
            raise CorrectionRefusedError(
                f"Invalid source {source!r:.60}.",
                reason="invalid-source",
                remedy=f"Use 1 to {_MAX_SOURCE} printable characters.",
            )
        if self._sources is not None and source not in self._sources:
            raise CorrectionRefusedError(
                f"{source!r} may not correct {self.kind} records.",
                reason="source-not-allowed",
                remedy=f"Sources that may: {', '.join(sorted(self._sources)) or 'none'}.",
            )
        if not isinstance(reason, str) or not reason.strip() or len(reason) > _MAX_REASON or not _storable(reason):
            raise CorrectionRefusedError(
                "A correction needs a reason, in plain text.",
                reason="invalid-reason",
                remedy=f"Use 1 to {_MAX_REASON:,} characters.",
            )
        return attributed("A correction", source, "", optional=True)._replace(reason=reason)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _ref(self, id: object) -> Ref:  # noqa: A002
        text: object = str(id) if isinstance(id, UUID) else id
        if not isinstance(text, str) or not text:
            raise InvalidArgumentError(f"Invalid record ID {id!r:.60}.", remedy="Use text or a UUID.")
        checked_key(lock_key(self.kind, text))
        return Ref(self.kind, text)

    def _plan(self, operation: Operation, wait: Wait | None) -> Plan:
        plan = self._plans[operation]
        return plan if wait is None else plan._replace(wait=checked_wait(wait))

    def _not_open(self, ref: Ref, operation: str) -> None:
        if open_record(self._engine, ref) is not None:
            raise MisuseError(
                f"{operation} cannot be used on {ref} inside its own edit.", remedy="Do it after the edit."
            )

    def _attribution(self, what: str, by: str, reason: str) -> Attribution:
        return attributed(what, by or program(), reason, optional=True)

    def _updating(
        self,
        change: RecordUpdate[M],
        attribution: Attribution,
        fence: int | None,
        *,
        together: int = 1,
    ) -> Compute:
        notes = {"_together": together} if together > 1 else {}

        async def compute(ref: Ref, stored: StoredRecord | None) -> Draft | None:
            stored = existing(ref, stored)
            before = self._codec.content(stored)
            record = await _applied(self.model, self._codec.model_of(stored), change)
            after = self._checked_content(ref, record, before)
            return None if after == before else Draft(before, after, Action.RECORD_UPDATE, attribution, fence, notes)

        return compute

    def _checked_content(self, ref: Ref, record: M, before: Content) -> Content:
        content = self._codec.write_content(record, ref.id, before.history)
        if self.machine is not None:
            self.machine.check(str(ref), before.status, content.status)
        return content

    def _check_status(self, content: Content, stored: StoredRecord) -> None:
        try:
            self._codec.accept_status(content, stored)
        except ValidationError as error:
            raise InvalidArgumentError(
                f"The model {self.model.__name__} does not accept the status {content.status!r}.",
                remedy="Declare the status in the model, or fix the machine.",
            ) from error

    def _with_status(self, record: M, status: str) -> M:
        """Return a copy of a model with another status, of the type that the model declares."""
        stored = self._codec.stored_of(record)
        assert stored is not None
        shown = self._codec.model_of(stored._replace(status=status))
        copy = record.model_copy()
        copy.__dict__["status"] = shown.status  # type: ignore[attr-defined]
        return copy

    def _checked_where(self, where: Mapping[str, Any] | None) -> str:
        if not where:
            return ""
        for name, value in where.items():
            if name not in self._codec.own:
                raise InvalidArgumentError(
                    f"{self.model.__name__} has no field {name!r} to filter by.",
                    remedy=f"Its own fields: {', '.join(sorted(self._codec.own))}. For the status, use status=….",
                )
            plain = value is None or type(value) in (str, bool) or (type(value) is int and -(2**63) <= value < 2**63)
            if not plain or (type(value) is str and not _storable(value)):
                raise InvalidArgumentError(
                    f"Cannot filter {name!r} by {value!r:.60}.", remedy="Use str, int (64 bits), bool or None."
                )
        return json.dumps(dict(where), ensure_ascii=False)


async def _applied(model: type[M], record: M, change: RecordUpdate[M]) -> M:
    """Apply a change to a model, and return the model that it made."""
    if isinstance(change, Mapping):
        unknown = [name for name in change if name not in model.model_fields]
        if unknown:
            raise InvalidArgumentError(
                f"{model.__name__} has no field {unknown[0]!r}.", remedy=f"Its fields: {', '.join(model.model_fields)}."
            )
        return record.model_copy(update=dict(change))
    if not callable(change):
        raise InvalidArgumentError(f"A change is a function or a mapping, not {type(change).__name__}.")
    made = change(record)
    if inspect.isawaitable(made):
        made = await made
    if made is None:
        return record
    if not isinstance(made, model):
        raise InvalidArgumentError(
            f"The change returned {type(made).__name__}, not {model.__name__}.",
            remedy="Return the new record, or change the one it gets and return nothing.",
        )
    return made


def _result(
    ref: Ref, correction: AppliedCorrection, already: bool, count: int, status: str, version: int
) -> CorrectionResult:
    return CorrectionResult(ref.id, correction.id, already, as_datetime(correction.at), count, status, version)


def _corrections_of(entry: JournalEntry) -> list[dict[str, Any]]:
    if entry.after is None or '"_correction' not in entry.after:
        return []
    after = json.loads(entry.after)
    single = after.get("_correction")
    return [single] if single is not None else list(after.get("_corrections", ()))


def _checked_fence(fence: object) -> int | None:
    if fence is None:
        return None
    if type(fence) is not int or not 0 <= fence < 2**63:
        raise InvalidArgumentError(f"Invalid fence {fence!r}.", remedy="Pass lease.fence or current_job().fence.")
    return fence


def _checked_metadata(metadata: object) -> dict[str, Any]:
    """Metadata is kept only in the journal, under the same rules as a diff."""
    if not isinstance(metadata, Mapping):
        raise CorrectionRefusedError("Metadata is a dict.", reason="invalid-metadata")
    return checked_diff(dict(metadata), {str(name).partition(".")[0] for name in metadata}) if metadata else {}


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
