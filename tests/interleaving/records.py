"""Every two operations on records, and seals and prunes of the journal, that meet at a chosen step.

The operations are those of :class:`Records`, with their real engine. Only leases are not waited for: an operation that
finds a record leased is refused, because the halted side would keep it leased.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from interlock.errors import ConcurrencyConflictError, LockTimeoutError, RecordExistsError, RecordNotFoundError
from interlock.journal.sealer import seal_all, seal_next
from interlock.journal.verifier import verify
from interlock.ports.locks import Granted, LockRequest
from interlock.records import Records
from interlock.records.engine import RecordEngine
from interlock.settings import Settings
from tests.interleaving.journal import KEEP, prepare
from tests.interleaving.planted import Bug

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from tests.interleaving.lab import Lab

__all__ = ["CONCEPTS", "RECORD_ACTS", "RECORD_BUGS", "count_record_steps", "meet_at"]

CONCEPTS = "(record|journal|lock)"
"""The tables and functions that the gate is in."""
_REFUSALS = (LockTimeoutError, ConcurrencyConflictError, RecordNotFoundError, RecordExistsError)
_EMPTY = "delete from interlock.record; delete from interlock.lock; delete from interlock.waiter"
_ENTRIES = (
    "select actor, action, subject_key, from_version, to_version from interlock.journal"
    " where subject_kind = 'record' order by subject_key, coalesce(to_version, from_version + 1)"
)


class Counted(BaseModel):
    """A record that shows which changes were made."""

    id: str
    version: int = 0
    status: str = "new"
    count: int = 0
    payload: dict[str, int] = Field(default_factory=dict)


class Side:
    """One of the two, with records of its own on its own store."""

    def __init__(self, lab: Lab, store: Any, session: str) -> None:
        self._store = store
        self.session = session
        self.locks = _Port(self, store.locks, "leave")
        self.journal: Any = _Port(self, store.journal, "seal")
        self.reads_later = False
        """Whether it reads a record after it was granted the lease and releases the lease after the write, as an
        operation does that had to queue or whose first answer was lost."""
        records = _Port(self, store.records, "write", "write_and_release")
        ports = SimpleNamespace(records=records, locks=self.locks, journal=self.journal)
        client: Any = SimpleNamespace(store=ports, clock=lab.clock, settings=Settings(), repeat=_call)
        locks: Any = _Locks(self)
        engine = RecordEngine(client, locks)
        self.metrics = engine.metrics
        self.records: Records[Counted] = Records(engine, Counted, name="k")

    async def halt(self) -> None:
        """Be at a step between two transactions, where the gate can halt this side."""
        await self._store._reader.fetch("select gate.pass()")


async def _call(operation: Callable[[], Awaitable[Any]]) -> Any:
    return await operation()


class _Port:
    """A port of the store. Before calls of the gated methods the side can be halted."""

    def __init__(self, side: Side, port: Any, *gated: str) -> None:
        self._side = side
        self._port = port
        self._gated = gated

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in self._gated:
            return method

        async def call(*args: Any, **options: Any) -> Any:
            await self._side.halt()
            return await method(*args, **options)

        return call


class _Locks:
    """The part of the locks that the engine of records uses."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._requests = 0

    def acquire(self, key: str, ttl: float, **_: object) -> _Lease:
        self._requests += 1
        owner = f"{self._side.session}{self._requests}"
        return _Lease(self._side, LockRequest(key, owner, owner, self._side.session, ttl, 0.0, False))

    async def release_with(self, leases: list[_Lease], operation: Callable[[Any], Awaitable[Any]]) -> None:
        left = await operation(() if self._side.reads_later else [lease.request for lease in leases])
        for lease in leases:
            lease.released = left is not None

    def count_apart(self, *_: object) -> None:
        """Count nothing."""


class _Lease:
    """A lease that is acquired at once or not at all, and its acquisition."""

    def __init__(self, side: Side, request: LockRequest) -> None:
        self._side = side
        self.request = request
        self.key, self.owner = request.key, request.owner
        self.first: Any = None
        self.released = False

    def __await__(self) -> Generator[Any, None, _Lease]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> _Lease:
        asked: Any = self._side.locks if self._side.reads_later else self.first
        if not isinstance(await asked.ask(self.request), Granted):
            raise LockTimeoutError("It is leased.")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def release(self) -> None:
        if not self.released:
            await self._side.locks.leave(self.request)


# -- operations --------------------------------------------------------------------------------------------------------


def _add(counted: Counted) -> None:
    counted.count += 1


async def _edit(side: Side) -> None:
    async with side.records.edit("a", by=side.session) as counted:
        counted.count += 1


async def _edit_later(side: Side) -> None:
    side.reads_later = True
    await _edit(side)


async def _update(side: Side) -> None:
    await side.records.update("a", _add, by=side.session)


async def _correct(side: Side) -> None:
    """Both sides make the same correction, which is applied once."""
    await side.records.correct("a", {"payload.x": 1}, source=side.session, reason="r")


async def _transition(side: Side) -> None:
    await side.records.transition("a", "open", by=side.session)


async def _update_many(side: Side) -> None:
    await side.records.update_many(["b", "a"], _add, by=side.session)


async def _delete(side: Side) -> None:
    await side.records.delete("a", by=side.session)


async def _create(side: Side) -> None:
    await side.records.create(Counted(id="c"), by=side.session)


async def _create_and_seal(side: Side) -> None:
    await _create(side)
    await seal_all(side.journal, 10)


async def _seal(side: Side) -> None:
    await seal_next(side.journal, 3)


async def _prune(side: Side) -> None:
    await side.journal.prune(KEEP, limit=2)


RECORD_ACTS: dict[str, Callable[[Side], Awaitable[None]]] = {
    "edit": _edit,
    "edit in steps": _edit_later,
    "update": _update,
    "update a known record": _update,
    "correct": _correct,
    "transition": _transition,
    "update many": _update_many,
    "delete": _delete,
    "create and seal": _create_and_seal,
    "seal": _seal,
    "prune": _prune,
}
_CHANGES = {"seal": 0, "prune": 0, "update many": 2}
_LEASED = ("edit", "edit in steps", "transition")
"""Operations that acquire the lease first."""
_ONCE = ("correct", "transition")
"""Operations that change nothing if the other side has made the same one."""


def _bug(*changes: tuple[str, str, str]) -> Bug:
    return Bug(changes, "", "", "")


RECORD_BUGS = {
    "a grant reads a record that is being written": (
        _bug(("record_open", "for share of r skip locked", "")),
        "update",
        "edit",
    ),
    "a grant does not keep writers out until it is committed": (
        _bug(("record_open", "for share of r skip locked", "")),
        "edit",
        "update",
    ),
    "a holder does not wait for writers": (
        _bug(
            ("record_read_current", "for share of r skip locked", ""),
            ("record_read_current", "for share of r;", ";"),
        ),
        "update",
        "edit in steps",
    ),
    "a writer does not look for leases": (
        _bug(("record_write_one", "if l.owner is distinct from p_owner then", "if false then")),
        "edit",
        "update",
    ),
    "a writer of several does not look for leases": (
        _bug(("record_write", "when u.owner is null and l.live then 'busy'", "")),
        "edit",
        "update many",
    ),
    "a delete does not look for leases": (
        _bug(("record_write", "when u.owner is null and l.live then 'busy'", "")),
        "transition",
        "delete",
    ),
    "a writer checks the version before it locks": (
        _bug(("record_write_one", "for no key update skip locked", "")),
        "update",
        "correct",
    ),
    "versions are not compared": (
        _bug(("record_write_one", "if r.version <> p_expected or r.uid <> p_uid then", "if false then")),
        "correct",
        "update",
    ),
    "a write of several is made in part": (
        _bug(("record_write", "select x.part from judged x where x.verdict <> 'written'", "select -1")),
        "update",
        "update many",
    ),
    "a batch is a range of IDs": (
        _bug(
            (
                "journal_unsealed",
                "j.id > p_after",
                "j.id > (select coalesce(max(s.last_id), 0) from interlock.journal_seal s)",
            )
        ),
        "update",
        "create and seal",
    ),
    "a seal covers entries that it did not hash": (
        _bug(
            ("journal_seal", "j.id = any (p_ids) and j.batch is null", "j.id >= p_first_id and j.batch is null"),
            ("journal_seal", "if sealed <> p_size then", "if false then"),
        ),
        "seal",
        "edit",
    ),
    "a prune removes what is not sealed": (
        _bug(
            ("journal_prune", "j.batch between first and last", "(j.batch is null or j.batch between first and last)")
        ),
        "prune",
        "transition",
    ),
}
"""Bugs, each with a pair that suffers from it."""


# -- meetings ----------------------------------------------------------------------------------------------------------


async def count_record_steps(lab: Lab, act: str) -> int:
    """How many steps an operation has, if nothing is in its way."""
    await _prepare(lab)
    return await lab.gate.steps(RECORD_ACTS[act](await _side(lab, lab.first, "a", act)))


async def meet_at(lab: Lab, step: int, first: str, second: str) -> list[str]:
    """Let the second come while the first is halted at a step; return what is wrong then."""
    there = await _prepare(lab)
    sides = {"a": first, "b": second}
    first_side, second_side = await _side(lab, lab.first, "a", first), await _side(lab, lab.second, "b", second)
    answers = await lab.gate.interleave(step, RECORD_ACTS[first](first_side), RECORD_ACTS[second](second_side))
    entries = [tuple(row) for row in await lab.connection.fetch(_ENTRIES)]
    made = {session: sum(entry[0] == session for entry in entries) for session in sides}
    wrong: list[str] = []
    for (session, act), answer in zip(sides.items(), answers, strict=True):
        if isinstance(answer, _REFUSALS):
            expected = {0}
        elif isinstance(answer, BaseException):
            wrong.append(f"{act}: {type(answer).__name__}: {answer}")
            continue
        else:
            expected = {_CHANGES.get(act, 1)} | ({0} if first == second and act in _ONCE else set())
        if made[session] not in expected:
            wrong.append(f"{act} of {session} answered {answer!r} with {made[session]} entries")
    for side, act in ((first_side, first), (second_side, second)):
        # Under a lease nothing changes. An optimistic write may lose once, and then queues for the lease.
        if side.metrics.version_conflicts > (0 if act in _LEASED else 1):
            wrong.append(f"the record changed under the lease of {act}")
    if not sum(made.values()) and {first, second} - {"seal", "prune"}:
        wrong.append("nothing was done")
    if first == second and first in _ONCE and sum(made.values()) != 1:
        wrong.append(f"{first} was made {made}")
    for id_ in ("a", "b", "c"):
        wrong += await _record_problems(lab, id_, sides, [entry for entry in entries if entry[2] == f"k:{id_}"])
    return wrong + await _journal_problems(lab, there + sum(made.values()))


async def _record_problems(lab: Lab, id_: str, sides: dict[str, str], entries: list[Any]) -> list[str]:
    """Compare a record with its entries."""
    found = await _records(lab).list(prefix=id_)
    versions = [(entry[3], entry[4]) for entry in entries]
    deleted = bool(versions) and versions[-1][1] is None
    chain = [(None if n == 0 else n - 1, n) for n in range(len(versions))]
    if deleted:
        chain[-1] = (len(versions) - 2, None)
    if versions != chain:
        return [f"the entries of {id_} have the versions {versions}"]
    if deleted or not entries:
        return [f"{id_} is there"] if found else []
    acts = [sides.get(entry[0]) for entry in entries]
    expected = (
        len(entries) - 1,
        sum(act in ("edit", "edit in steps", "update", "update a known record", "update many") for act in acts),
        {"x": 1} if "correct" in acts else {},
        "open" if "transition" in acts else "new",
    )
    shown = [(one.version, one.count, one.payload, one.status) for one in found]
    return [] if shown == [expected] else [f"{id_} is {shown} and should be {expected}"]


async def _journal_problems(lab: Lab, count: int) -> list[str]:
    """Seal the rest, and verify that nothing was changed or lost."""
    journal = lab.helper.journal
    await seal_all(journal, 3)
    report = await verify(journal)
    wrong = [problem.message for problem in report.problems]
    if report.unsealed or report.entries + report.pruned_entries != count:
        wrong.append(
            f"{count} entries: {report.entries} sealed, {report.pruned_entries} pruned, {report.unsealed} not sealed"
        )
    return wrong


async def _prepare(lab: Lab) -> int:
    """Make two records, and a journal with old, young and unsealed entries. Returns how many entries there are."""
    await lab.connection.execute(_EMPTY)
    there = await prepare(lab)
    for id_ in ("a", "b"):
        await _records(lab).create(Counted(id=id_), by="c")
    return there + 2


def _records(lab: Lab) -> Records[Counted]:
    return Side(lab, lab.helper, "c").records


async def _side(lab: Lab, store: Any, session: str, act: str) -> Side:
    side = Side(lab, store, session)
    if "known" in act:
        await side.records.get("a")  # the process remembers it
    return side
