"""A plain model of records: what every operation has to answer, and what is kept afterwards."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interlock.errors import (
    ConcurrencyConflictError,
    CorrectionRefusedError,
    InvalidTransitionError,
    RecordExistsError,
    RecordNotFoundError,
    StaleFenceError,
)

__all__ = ["CORRECTED", "INITIAL", "TRANSITIONS", "Block", "Entry", "Failed", "Kept", "Reference", "Step"]

INITIAL = ("new",)
TRANSITIONS = {"new": ("active", "done"), "active": ("done", "new"), "done": ()}
CORRECTED = "new"
_FINAL = ("done",)


class Failed(Exception):  # noqa: N818
    """The error of a block that fails."""


class Step(NamedTuple):
    """One step in the block of an edit."""

    what: str
    value: Any = None


@dataclass
class Block:
    """An edit: its record, the fence it writes with, and the steps of its block. A nested one may be caught."""

    id: str
    fence: int | None
    steps: list[Step | Block]
    caught: bool = False


class Entry(NamedTuple):
    """A journal entry, without its notes."""

    action: str
    from_version: int | None
    to_version: int | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass
class Kept:
    """A record."""

    uid: int
    status: str
    data: dict[str, Any]
    version: int = 0
    fence: int | None = None
    corrections: dict[tuple[str, str], str] = field(default_factory=dict)
    """The digest of each correction by its identity."""

    @property
    def shown(self) -> dict[str, Any]:
        """The fields as the model and the entries of the journal show them."""
        return copy.deepcopy({"status": self.status, **self.data})


class _Open:
    """A record in an edit."""

    def __init__(self, kept: Kept, fence: int | None) -> None:
        self.read = copy.deepcopy(kept)
        self.now = copy.deepcopy(kept)
        self.allowed = kept.status
        self.fence = fence

    def check(self) -> None:
        _check(self.allowed, self.now.status)


def _check(status: str, wanted: str) -> None:
    if wanted not in TRANSITIONS or not (wanted == status or wanted in TRANSITIONS[status]):
        raise InvalidTransitionError("", status=status, requested=wanted)


def _merged(data: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(data)
    for name, value in diff.items():
        old = result.get(name)
        result[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


class Reference:
    """The records of one kind, and the entries of each ID."""

    def __init__(self) -> None:
        self.records: dict[str, Kept] = {}
        self.entries: dict[str, list[Entry]] = {}
        self._uids = 0

    def get(self, id_: str) -> Kept:
        if id_ not in self.records:
            raise RecordNotFoundError("")
        return self.records[id_]

    def list(self, status: str, where: dict[str, Any], prefix: str, after: str, limit: int) -> list[str]:
        return [
            id_
            for id_, kept in sorted(self.records.items())
            if id_ > after
            and id_.startswith(prefix)
            and status in ("", kept.status)
            and all(name in kept.data and _same(kept.data[name], value) for name, value in where.items())
        ][:limit]

    def create(self, id_: str, status: str, data: dict[str, Any], fence: int | None) -> None:
        if status not in INITIAL:
            raise InvalidTransitionError("", requested=status)
        if id_ in self.records:
            raise RecordExistsError("")
        self._uids += 1
        kept = self.records[id_] = Kept(self._uids, status, copy.deepcopy(data), fence=fence)
        self._note(id_, Entry("record.create", None, 0, None, kept.shown))

    def delete(self, id_: str, fence: int | None) -> None:
        kept = self.get(id_)
        self._check_fence(kept, fence)
        del self.records[id_]
        self._note(id_, Entry("record.delete", kept.version, None, kept.shown, None))

    def update(self, id_: str, values: dict[str, Any], fence: int | None) -> None:
        kept = self.get(id_)
        new = self._changed(kept, values)
        _check(kept.status, new.status)
        if new.shown != kept.shown:
            self._check_fence(kept, fence)
            self._replace(id_, new, "record.update", fence)

    def update_many(self, ids: list[str], values: dict[str, Any]) -> None:
        new: dict[str, Kept] = {}
        for id_ in sorted(set(ids)):  # the first problem in this order is the one that is reported
            new[id_] = self._changed(self.get(id_), values)
            _check(self.records[id_].status, new[id_].status)
        for id_, one in new.items():
            if one.shown != self.records[id_].shown:
                self._replace(id_, one, "record.update", None)

    def compare_and_set(
        self, id_: str, values: dict[str, Any], version: int, uid: int | None, fence: int | None
    ) -> bool:
        kept = self.get(id_)
        if kept.version != version or uid not in (None, kept.uid):
            return False
        new = self._changed(kept, values)
        _check(kept.status, new.status)
        self._check_fence(kept, fence)
        self._replace(id_, new, "record.update", fence)
        return True

    def transition(self, id_: str, status: str, fence: int | None) -> None:
        kept = self.get(id_)
        _check(kept.status, status)
        if status != kept.status:
            self._check_fence(kept, fence)
            self._replace(id_, self._changed(kept, {"status": status}), "record.transition", fence)

    def correct(self, id_: str, diff: dict[str, Any], key: str | None) -> bool:
        """Return whether it had been applied already."""
        kept = self.get(id_)
        new = self._corrected(kept, diff, key)
        if new is None:
            return True
        self._replace(id_, new, "record.correct", None)
        return False

    def foreign(self, id_: str, data: dict[str, Any]) -> None:
        """A statement that bypasses Interlock."""
        kept = self.get(id_)
        kept.data = copy.deepcopy(data)
        kept.version += 1

    # -- edits -------------------------------------------------------------------------------------------------------

    def edit(self, block: Block) -> None:
        opened: dict[str, _Open] = {}
        self._run(block, opened)
        changed = {
            id_: one
            for id_, one in opened.items()
            if one.check() or one.now.shown != one.read.shown or one.now.corrections != one.read.corrections
        }
        for id_, one in changed.items():
            self._check_fence(self.records[id_], one.fence)
            if self.records[id_].version != one.read.version:
                raise ConcurrencyConflictError("")
        for id_, one in changed.items():
            self._replace(id_, one.now, "record.edit", one.fence)

    def _run(self, block: Block, opened: dict[str, _Open]) -> None:
        again = block.id in opened
        if not again:
            opened[block.id] = _Open(self.get(block.id), block.fence)
        saved = copy.deepcopy(opened[block.id])
        try:
            for step in block.steps:
                if isinstance(step, Block):
                    self._nested(step, opened)
                else:
                    self._step(block.id, opened, step)
        except Exception:
            if again:
                opened[block.id] = saved
            else:
                del opened[block.id]
            raise

    def _nested(self, block: Block, opened: dict[str, _Open]) -> None:
        try:
            self._run(block, opened)
        except (Failed, InvalidTransitionError, CorrectionRefusedError, RecordNotFoundError):
            if not block.caught:
                raise

    def _step(self, id_: str, opened: dict[str, _Open], step: Step) -> None:
        one = opened[id_]
        what, value = step
        if what == "fail":
            raise Failed
        if what in ("set", "update"):
            one.now = self._changed(one.now, value)
        elif what == "transition":
            one.check()
            one.allowed = one.now.status
            _check(one.allowed, value)
            one.now.status = one.allowed = value
        elif what == "correct":
            one.check()
            new = self._corrected(one.now, *value)
            if new is not None:
                one.now = new
                one.allowed = new.status
        elif what == "foreign":
            self.foreign(id_, value)
        else:
            assert what == "other"
            other, values = value
            if other in opened:
                opened[other].now = self._changed(opened[other].now, values)
            else:
                self.update(other, values, None)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _changed(self, kept: Kept, values: dict[str, Any]) -> Kept:
        new = copy.deepcopy(kept)
        values = copy.deepcopy(values)
        new.status = values.pop("status", new.status)
        new.data |= values
        return new

    def _corrected(self, kept: Kept, diff: dict[str, Any], key: str | None) -> Kept | None:
        digest = json.dumps(diff, sort_keys=True)
        identity = ("diff", digest) if key is None else ("key", key)
        if identity in kept.corrections:
            if kept.corrections[identity] != digest:
                raise CorrectionRefusedError("", reason="key-reused")
            return None
        if kept.status in _FINAL:
            raise InvalidTransitionError("", status=kept.status, requested=CORRECTED)
        new = copy.deepcopy(kept)
        new.status, new.data = CORRECTED, _merged(kept.data, diff)
        new.corrections[identity] = digest
        return new

    def _check_fence(self, kept: Kept, fence: int | None) -> None:
        if fence is not None and kept.fence is not None and fence < kept.fence:
            raise StaleFenceError("")

    def _replace(self, id_: str, new: Kept, action: str, fence: int | None) -> None:
        old = self.records[id_]
        new.version = old.version + 1
        new.fence = old.fence if fence is None else fence
        self.records[id_] = new
        before, after = old.shown, new.shown
        names = [name for name in before if before[name] != after[name]]
        self._note(
            id_,
            Entry(
                action,
                old.version,
                new.version,
                {name: before[name] for name in names},
                {name: after[name] for name in names},
            ),
        )

    def _note(self, id_: str, entry: Entry) -> None:
        self.entries.setdefault(id_, []).append(entry)


def _same(kept: object, wanted: object) -> bool:
    return type(kept) is type(wanted) and kept == wanted
