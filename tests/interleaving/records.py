"""Edits, updates, writes of several records, creates and deletes that meet at a chosen step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.journal import Attribution, NewEntry
from interlock.ports.locks import Granted, LockRequest
from interlock.ports.records import Conflict, RecordChange, Written, lock_key, subject_key
from tests.interleaving.planted import Bug

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.ports.records import StoredRecord
    from interlock.ports.store import Store
    from tests.interleaving.lab import Lab

__all__ = ["RECORD_ACTS", "RECORD_BUGS", "count_record_steps", "meet_at"]

_EMPTY = "delete from interlock.record; delete from interlock.journal; delete from interlock.lock"


class Side(NamedTuple):
    """One of the two, and the changes that it made."""

    store: Store
    session: str
    made: list[RecordChange]

    async def stand_still(self) -> None:
        """Be at a step between two transactions."""
        await self.store._reader.fetch("select gate.pass()")  # type: ignore[attr-defined]

    async def write(self, changes: Sequence[RecordChange]) -> None:
        answers = await self.store.records.write(changes)
        written = [isinstance(answer, Written) for answer in answers]
        assert all(written) or not any(written), answers
        if all(written):
            self.made.extend(changes)
        held = [change.owner for change in changes if change.owner is not None]
        assert not (held and any(isinstance(answer, Conflict) for answer in answers)), "the record changed in an edit"


def _change(
    id_: str, stored: StoredRecord | None, *, uid: str = "u", delete: bool = False, owner: str = ""
) -> RecordChange:
    """Count one more than was read."""
    count = 0 if stored is None else json.loads(stored.body)["count"] + 1
    expected = None if stored is None else stored.version
    entry = NewEntry(Attribution("ann"), "record.update", "record", subject_key("k", id_), None, None, expected)
    body = None if delete else json.dumps({"count": count})
    uid = uid if stored is None else stored.uid
    return RecordChange("k", id_, uid, expected, "", body, owner or None, None, entry)


async def _update(side: Side) -> None:
    found = await side.store.records.get("k", ["a"])
    await side.stand_still()
    await side.write([_change("a", stored) for stored in found])


async def _update_many(side: Side) -> None:
    found = await side.store.records.get("k", ["b", "a"])
    await side.stand_still()
    await side.write([_change(stored.id, stored) for stored in found])


async def _delete(side: Side) -> None:
    await side.write([_change("a", stored, delete=True) for stored in await side.store.records.get("k", ["a"])])


async def _create(side: Side) -> None:
    await side.write([_change("c", None, uid=side.session)])


async def _edit(side: Side) -> None:
    """What is read under the lease is what is replaced, unless the lease is not granted at once."""
    owner = f"{side.session}1"
    request = LockRequest(lock_key("k", "a"), owner, owner, side.session, 60.0, 0.0, False)
    if isinstance(await side.store.locks.ask(request), Granted):
        found = await side.store.records.get("k", ["a"], current=True)
        await side.stand_still()
        await side.write([_change("a", stored, owner=owner) for stored in found])
        await side.store.locks.leave(request)


RECORD_ACTS: dict[str, Callable[[Side], Awaitable[None]]] = {
    "edit": _edit,
    "update": _update,
    "update many": _update_many,
    "delete": _delete,
    "create": _create,
}
_LOCK = "for no key update skip locked"
RECORD_BUGS = {
    "a holder does not wait for writers": (
        Bug(
            (
                ("record_read_current", "for share of r skip locked", ""),
                ("record_read_current", "for share of r;", ";"),
            ),
            *("", "", ""),
        ),
        "update",
        "edit",
    ),
    "a writer does not look for leases": (
        Bug((("record_write_one", "if l.owner is distinct from p_owner then", "if false then"),), *("", "", "")),
        "edit",
        "update",
    ),
    "a writer checks the version before it locks": (
        Bug((("record_write_one", _LOCK, ""),), *("", "", "")),
        "update",
        "update",
    ),
    "a write of several is made in part": (
        Bug(
            (("record_write", "select x.part from judged x where x.verdict <> 'written'", "select -1"),), *("", "", "")
        ),
        "update",
        "update many",
    ),
}
"""Bugs, each with a pair that suffers from it."""


async def count_record_steps(lab: Lab, act: str) -> int:
    """How many steps an operation has, if nothing is in its way."""
    await _fresh(lab)
    return await lab.gate.steps(RECORD_ACTS[act](Side(lab.first, "a", [])))


async def meet_at(lab: Lab, step: int, first: str, second: str) -> list[str]:
    """Let the second come while the first stands still at a step; return what is wrong then."""
    await _fresh(lab)
    sides = Side(lab.first, "a", []), Side(lab.second, "b", [])
    works = (RECORD_ACTS[act](side) for act, side in zip((first, second), sides, strict=True))
    answers = await lab.gate.interleave(step, *works)
    wrong = [f"{type(answer).__name__}: {answer}" for answer in answers if isinstance(answer, BaseException)]
    made = [change for side in sides for change in side.made]
    entries = await lab.connection.fetchval("select count(*) from interlock.journal where subject_kind = 'record'")
    if entries != len(made) + 2:
        wrong.append(f"{len(made)} changes were made, with {entries - 2} entries")
    for id_ in ("a", "b", "c"):
        changes = [change for change in made if change.id == id_]
        deleted = any(change.body is None for change in changes)
        found = await lab.helper.records.get("k", [id_])
        expected = None if deleted or (id_ == "c" and not changes) else len(changes) - (id_ == "c")
        shown = (found[0].version, json.loads(found[0].body)["count"]) if found else None
        if shown != (None if expected is None else (expected, expected)):
            wrong.append(f"{id_} was changed {len(changes)} times and is {shown}")
    return wrong


async def _fresh(lab: Lab) -> None:
    await lab.connection.execute(_EMPTY)
    for id_ in ("a", "b"):
        await lab.helper.records.write([_change(id_, None)])
