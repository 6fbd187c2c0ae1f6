"""Edits: a record that is changed under its lease, in a block of any length, and written when the block ends.

Nested edits of one asyncio task share a scope and are written together, in one transaction, when the outermost block
ends. The scope belongs to the task that opened it: a child task inherits the context, but not the scope.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pydantic import BaseModel

from interlock.errors import ConcurrencyConflictError, LeaseLostError, MisuseError
from interlock.ports.journal import Action
from interlock.ports.records import Conflict, Skipped, Written
from interlock.records.engine import Change, Draft, Ref, existing, refusal_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from interlock.locks.lease import Lease
    from interlock.locks.locks import Acquisition
    from interlock.ports.journal import Attribution
    from interlock.ports.records import StoredRecord
    from interlock.records.engine import RecordEngine
    from interlock.records.fields import Codec, Content

__all__ = ["Edit", "OpenRecord", "open_record", "opened"]

M = TypeVar("M", bound=BaseModel)


class OpenRecord(Generic[M]):
    """A record that a task is changing: the model that its code changes, and what it was read from."""

    def __init__(
        self, codec: Codec[M], ref: Ref, stored: StoredRecord, attribution: Attribution, fence: int | None = None
    ) -> None:
        self.codec = codec
        self.ref = ref
        self.stored = stored
        self.attribution = attribution
        self.fence = fence
        self.record = codec.model_of(stored)
        self.before = codec.content(stored)
        self.status = stored.status
        """The last status that the machine has allowed."""
        self.history = self.before.history
        self.notes: dict[str, Any] = {}
        self.action = Action.RECORD_EDIT

    def content(self) -> Content:
        """The record as the block has left it. Raises if it is invalid or its status not allowed."""
        content = self.codec.write_content(self.record, self.ref.id, self.history)
        if self.codec.machine is not None:
            self.codec.machine.check(str(self.ref), self.status, content.status)
        return content

    def assign(self, record: M) -> None:
        """Give the edited model the values of another one. The block keeps its object."""
        if record is not self.record:
            self.codec.id_of(record)
            _restore(self.record, _state(record))

    def accept(self) -> None:
        """Check the model now, and let its status be the one that later changes start from."""
        self.status = self.content().status

    def change(self) -> Change:
        """The change that the end of the scope has to write."""
        after = self.content()
        if after == self.before:
            return Change(self.ref, None, self.stored)
        draft = Draft(self.before, after, self.action, self.attribution, self.fence, self.notes)
        return Change(self.ref, draft, self.stored)


class _EditedRecord(OpenRecord[M]):
    """A record that is edited under its lease."""

    def __init__(
        self,
        codec: Codec[M],
        ref: Ref,
        stored: StoredRecord,
        attribution: Attribution,
        fence: int | None,
        acquisition: Acquisition,
        lease: Lease,
    ) -> None:
        super().__init__(codec, ref, stored, attribution, fence)
        self.acquisition = acquisition
        self.lease = lease


class _Scope:
    """The open records of one task in one engine."""

    def __init__(self, engine: RecordEngine, parent: _Scope | None, *, edits: bool = True) -> None:
        self.engine = engine
        self.parent = parent
        self.edits = edits
        """Whether edits inside belong to it and are written with it."""
        self.task = asyncio.current_task()
        self.open: dict[Ref, OpenRecord[Any]] = {}
        self.ended = False

    def take(self, ref: Ref) -> _EditedRecord[Any]:
        """Remove an edited record, whose edit ends."""
        return cast("_EditedRecord[Any]", self.open.pop(ref))


_scopes: ContextVar[_Scope | None] = ContextVar("interlock_record_scope", default=None)


def _find(engine: RecordEngine, ref: Ref) -> tuple[_Scope | None, OpenRecord[Any] | None]:
    """Return the scope of this task, and the open record in it. Raises if another task's open scope has the record."""
    own: _Scope | None = None
    scope = _scopes.get()
    task = asyncio.current_task()
    while scope is not None:
        if scope.engine is engine and not scope.ended:
            if scope.task is task:
                own = own or (scope if scope.edits else None)
                if ref in scope.open:
                    return scope, scope.open[ref]
            elif ref in scope.open:
                raise MisuseError(
                    f"{ref} is being edited by the task that started this one.",
                    remedy="Change it in that task, or start this task after the edit.",
                )
        scope = scope.parent
    return own, None


def open_record(engine: RecordEngine, ref: Ref) -> OpenRecord[Any] | None:
    """Return the record if the running task is editing it; raise if the task that started it is."""
    return _find(engine, ref)[1]


@contextmanager
def opened(engine: RecordEngine, record: OpenRecord[Any]) -> Iterator[None]:
    """Let what the running task does to a record apply to its open model while the block runs.

    The block writes the record itself, and holds no lease meanwhile. Edits of other records inside are on their own.
    """
    scope = _Scope(engine, _scopes.get(), edits=False)
    scope.open[record.ref] = record
    token = _scopes.set(scope)
    try:
        yield
    finally:
        scope.ended = True
        _scopes.reset(token)


class Edit(Generic[M]):
    """An edit about to start: an async context manager whose block changes the record."""

    def __init__(
        self,
        engine: RecordEngine,
        codec: Codec[M],
        ref: Ref,
        wait: float | None,
        attribution: Attribution,
        fence: int | None,
    ) -> None:
        self._engine = engine
        self._codec = codec
        self._ref = ref
        self._wait = wait
        self._attribution = attribution
        self._fence = fence
        self._used = False
        self._scope: _Scope | None = None
        self._outermost = False
        self._again: OpenRecord[M] | None = None
        """The record, if this task was editing it already, and its state when this block began."""
        self._saved: Any = None

    async def __aenter__(self) -> M:
        if self._used:
            raise MisuseError("This edit was already used.", remedy="Call edit() each time.")
        self._used = True
        scope, already = _find(self._engine, self._ref)
        if already is not None:
            self._again = already
            self._saved = _state(already.record), already.status, already.history, dict(already.notes)
            return cast("M", already.record)
        opened = await self._open()
        if scope is None:
            self._outermost = True
            scope = _Scope(self._engine, _scopes.get())
            _scopes.set(scope)
        self._scope = scope
        scope.open[self._ref] = opened
        return opened.record

    async def _open(self) -> _EditedRecord[M]:
        opening = self._engine.opening(self._ref, self._wait)
        acquisition = opening.acquisition
        lease = await acquisition.__aenter__()
        try:
            stored = existing(self._ref, await opening.read())
            return _EditedRecord(self._codec, self._ref, stored, self._attribution, self._fence, acquisition, lease)
        except BaseException as error:
            await acquisition.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._again is not None:
            if error is not None:
                state, self._again.status, self._again.history, self._again.notes = self._saved
                _restore(self._again.record, state)
            return
        scope = self._scope
        assert scope is not None
        if scope.task is not asyncio.current_task():
            # Nothing is written: what the block did in its own task may not have ended.
            scope.ended = scope.ended or self._outermost
            refs = list(scope.open) if self._outermost else [self._ref]
            opened = [scope.take(ref) for ref in refs if ref in scope.open]
            misuse = MisuseError(f"The edit of {self._ref} ends in another task.", remedy="End it where it began.")
            await self._release(opened, MisuseError, misuse, None)
            raise misuse from error
        if not self._outermost:
            if error is not None and self._ref in scope.open:
                await self._release([scope.take(self._ref)], kind, error, trace)
            return
        scope.ended = True
        if _scopes.get() is scope:
            _scopes.set(scope.parent)
        opened = [scope.take(ref) for ref in list(scope.open)]
        if error is not None:
            await self._release(opened, kind, error, trace)
            return
        try:
            await self._write(opened)
        except BaseException as failed:
            await self._release(opened, type(failed), failed, failed.__traceback__)
            raise
        with suppress(LeaseLostError):  # the write was made while the leases were live
            await self._release(opened, None, None, None)

    async def _write(self, opened: list[_EditedRecord[Any]]) -> None:
        changes = [one.change() for one in opened]
        answers = await self._engine.write(changes, {one.ref: one.lease for one in opened})
        for ref, answer in answers.items():
            if isinstance(answer, Conflict):
                self._engine.metrics.version_conflicts += 1
                raise ConcurrencyConflictError(
                    f"{ref} was changed during its edit by a statement that bypasses Interlock; nothing was written."
                )
            if not isinstance(answer, Written) and not isinstance(answer, Skipped):
                raise refusal_error(ref, answer)
        for one, change in zip(opened, changes, strict=True):
            if change.stored is not None:
                one.codec.attach(one.record, change.stored)

    async def _release(
        self,
        opened: list[_EditedRecord[Any]],
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release leases as nested blocks would: the last first, each with the error of the one before."""
        last: BaseException | None = None
        for one in reversed(opened):
            try:
                await one.acquisition.__aexit__(kind, error, trace)
            except BaseException as failed:  # noqa: BLE001 - the others are released first
                last = failed
                kind, error, trace = type(failed), failed, failed.__traceback__
        if last is not None:
            raise last


def _state(record: BaseModel) -> tuple[dict[str, Any], Any, Any, set[str]]:
    """A deep copy of a model's values."""
    values = {name: value for name, value in record.__dict__.items() if not name.startswith("_")}
    extra, private = record.__pydantic_extra__, record.__pydantic_private__
    return (
        copy.deepcopy(values),
        copy.deepcopy(extra),
        copy.deepcopy(private),
        set(record.__pydantic_fields_set__),
    )


def _restore(record: BaseModel, state: tuple[dict[str, Any], Any, Any, set[str]]) -> None:
    """Give a model the values of a copy. Directly, because a model may be frozen or validate its assignments."""
    values, extra, private, fields_set = state
    record.__dict__.update(values)
    for name, value in (
        ("__pydantic_extra__", extra),
        ("__pydantic_private__", private),
        ("__pydantic_fields_set__", fields_set),
    ):
        object.__setattr__(record, name, value)
