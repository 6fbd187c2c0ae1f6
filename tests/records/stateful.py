"""Every operation of records in any order, on two apps that share a store, against the reference model."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import BaseModel, Field

from interlock import App
from interlock.errors import (
    CorrectionRefusedError,
    InterlockError,
    InvalidTransitionError,
    RecordNotFoundError,
)
from interlock.journal.verifier import verify
from interlock.records.machine import Machine
from tests.records.reference import CORRECTED, INITIAL, TRANSITIONS, Block, Entry, Failed, Reference, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.records import Records

__all__ = ["run_against_reference"]

_MACHINE = Machine(initial=INITIAL, transitions=TRANSITIONS, corrected=CORRECTED)
_kinds = count()


class Thing(BaseModel):
    """A record with a field of every kind."""

    id: str
    version: int = 0
    status: str = "new"
    fence: int | None = None
    count: int = 0
    label: str | None = None
    payload: dict[str, int] = Field(default_factory=dict)


class Store:
    """Apps on one store, on an event loop of their own."""

    def __init__(self, url: str, apps: int) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.apps = [App(url) for _ in range(apps)]
        self._postgres = url.startswith("postgres")

    def __enter__(self) -> Store:
        self._runner.__enter__()
        for app in self.apps:
            self.run(self._stack.enter_async_context(app))
        return self

    def __exit__(self, *error: object) -> None:
        self.run(self._stack.aclose())
        self._runner.__exit__(None, None, None)

    def run(self, work: Any) -> Any:
        """Run a coroutine."""

        async def bounded() -> Any:
            async with asyncio.timeout(30):
                return await work

        return self._runner.run(bounded())

    async def foreign(self, kind: str, id_: str, data: dict[str, Any]) -> None:
        """Change a record by a statement that bypasses Interlock. PostgreSQL raises the version by itself."""
        store: Any = self.apps[0]._durable.store
        if self._postgres:
            sql = "update interlock.record set body = (body::jsonb || $3::jsonb)::text where kind = $1 and id = $2"
            await store._connections.first.fetch(sql, kind, id_, json.dumps(data))
            return
        fields = ", ".join(f"'$.{name}', json(?)" for name in data)
        sql = (
            f"update interlock_record set body = json_set(body, {fields}), version = version + 1"
            " where kind = ? and id = ?"
        )
        values = [json.dumps(value) for value in data.values()]
        await store.journal._write(lambda db: db.execute(sql, [*values, kind, id_]))


_IDS = st.sampled_from(["a", "ab", "b", "c"])
_STATUSES = st.sampled_from(["new", "active", "done"])
_FIRST_STATUSES = st.sampled_from(["new", "new", "new", "active"])
_FENCES = st.one_of(st.none(), st.integers(1, 4))
_COUNTS, _LABELS = st.integers(0, 3), st.sampled_from([None, "x", "ü"])
_PAYLOADS = st.dictionaries(st.sampled_from(["p", "q"]), st.integers(0, 2), max_size=2)
_DATA = st.fixed_dictionaries({"count": _COUNTS, "label": _LABELS, "payload": _PAYLOADS})
_FIELDS = {"count": _COUNTS, "label": _LABELS, "payload": _PAYLOADS}
_VALUES = st.fixed_dictionaries({}, optional={**_FIELDS, "status": _STATUSES})
_DIFFS = st.fixed_dictionaries({}, optional=_FIELDS).filter(bool)
_CORRECTIONS = st.tuples(_DIFFS, st.sampled_from([None, None, "k1", "k2"]))
_STEPS = st.one_of(
    st.builds(Step, st.sampled_from(["set", "set", "update"]), _VALUES),
    st.builds(Step, st.just("transition"), _STATUSES),
    st.builds(Step, st.just("correct"), _CORRECTIONS),
    st.builds(Step, st.just("other"), st.tuples(_IDS, _VALUES)),
    st.just(Step("fail")),
)
_BLOCKS: st.SearchStrategy[Block] = st.recursive(
    st.builds(Block, _IDS, _FENCES, st.lists(_STEPS, max_size=3), st.booleans()),
    lambda inner: st.builds(Block, _IDS, _FENCES, st.lists(st.one_of(_STEPS, inner), max_size=4), st.booleans()),
    max_leaves=4,
)


class RecordMachine(RuleBasedStateMachine):
    """Does to the records what it does to the reference."""

    store: Store
    read = Bundle("read")

    def __init__(self) -> None:
        super().__init__()
        self.reference = Reference()
        self.kind = f"Thing{next(_kinds)}"
        self.records: list[Records[Thing]] = [
            app.records(Thing, name=self.kind, machine=_MACHINE) for app in self.store.apps
        ]

    def both(self, work: Awaitable[Any], model: Callable[[], Any]) -> tuple[Any, Any]:
        """Run both; they have to end alike. Returns what they returned, or None twice."""
        expected, wanted = _end_of(model)
        error, got = _end_of(lambda: self.store.run(work))
        assert type(error) is type(expected), f"{error!r}, {got!r} instead of {expected!r}, {wanted!r}"
        if isinstance(error, CorrectionRefusedError) and isinstance(expected, CorrectionRefusedError):
            assert error.reason == expected.reason
        return got, wanted

    # -- operations --------------------------------------------------------------------------------------------------

    @initialize(data=_DATA)
    def begin(self, data: dict[str, Any]) -> None:
        for id_ in ("a", "b"):
            self.create(0, id_, "new", data, None)

    @rule(
        app=st.integers(0, 1),
        id_=_IDS,
        status=st.sampled_from(["new", "new", "new", "active"]),
        data=_DATA,
        fence=_FENCES,
    )
    def create(self, app: int, id_: str, status: str, data: dict[str, Any], fence: int | None) -> None:
        work = self._of(app).create(Thing(id=id_, status=status, **data), fence=fence)
        made, _ = self.both(work, lambda: self.reference.create(id_, status, data, fence))
        if made is not None:
            assert (made.version, made.fence, made.count) == (0, fence, data["count"])

    @rule(target=read, app=st.integers(0, 1), id_=_IDS)
    def get(self, app: int, id_: str) -> Any:
        got, kept = self.both(self._of(app).get(id_), lambda: self.reference.get(id_))
        if kept is None:
            return (id_, Thing(id=id_), 0, None)
        assert got.model_dump(include={"status", *kept.data}) == kept.shown
        return (id_, got, kept.version, kept.uid)

    @rule(
        app=st.integers(0, 1),
        status=st.sampled_from(["", "new", "active", "done"]),
        where=st.fixed_dictionaries({}, optional={"count": _COUNTS, "label": _LABELS}),
        prefix=st.sampled_from(["", "a", "z"]),
        limit=st.integers(1, 3),
    )
    def pages(self, app: int, status: str, where: dict[str, Any], prefix: str, limit: int) -> None:
        after = ""
        for _ in range(5):
            wanted = self.reference.list(status, where, prefix, after, limit)
            found = self.store.run(
                self._of(app).list(status=status or None, where=where, prefix=prefix, limit=limit, after=after)
            )
            assert [one.id for one in found] == wanted
            if not found:
                return
            after = found[-1].id
        raise AssertionError("the list has no end")

    @rule(app=st.integers(0, 1), id_=_IDS, values=_VALUES, fence=_FENCES, as_function=st.booleans())
    def update(self, app: int, id_: str, values: dict[str, Any], fence: int | None, as_function: bool) -> None:
        def change(thing: Thing) -> None:
            for name, value in values.items():
                setattr(thing, name, value)

        work = self._of(app).update(id_, change if as_function else values, fence=fence)
        self.both(work, lambda: self.reference.update(id_, values, fence))

    @rule(app=st.integers(0, 1), ids=st.lists(_IDS, min_size=1, max_size=3), values=_VALUES)
    def update_many(self, app: int, ids: list[str], values: dict[str, Any]) -> None:
        self.both(self._of(app).update_many(ids, values), lambda: self.reference.update_many(ids, values))

    @rule(app=st.integers(0, 1), was=consumes(read), values=_VALUES, fence=_FENCES, behind=st.integers(0, 1))
    def compare_and_set(self, app: int, was: Any, values: dict[str, Any], fence: int | None, behind: int) -> None:
        id_, thing, version, uid = was
        version = max(0, version - behind)
        thing = thing.model_copy(update=values)
        wanted = {name: getattr(thing, name) for name in ("status", "count", "label", "payload")}
        work = self._of(app).compare_and_set(id_, thing, version, fence=fence)
        got, expected = self.both(work, lambda: self.reference.compare_and_set(id_, wanted, version, uid, fence))
        assert got is expected

    @rule(app=st.integers(0, 1), id_=_IDS, status=_STATUSES, fence=_FENCES)
    def transition(self, app: int, id_: str, status: str, fence: int | None) -> None:
        work = self._of(app).transition(id_, status, fence=fence)
        self.both(work, lambda: self.reference.transition(id_, status, fence))

    @rule(app=st.integers(0, 1), id_=_IDS, correction=_CORRECTIONS)
    def correct(self, app: int, id_: str, correction: tuple[dict[str, Any], str | None]) -> None:
        diff, key = correction
        work = self._of(app).correct(id_, diff, source="s", reason="r", key=key)
        done, already = self.both(work, lambda: self.reference.correct(id_, diff, key))
        if done is not None:
            kept = self.reference.records[id_]
            assert (done.already_applied, done.version, done.correction_count) == (
                already,
                kept.version,
                len(kept.corrections),
            )

    @rule(app=st.integers(0, 1), id_=_IDS, fence=_FENCES)
    def delete(self, app: int, id_: str, fence: int | None) -> None:
        self.both(self._of(app).delete(id_, fence=fence), lambda: self.reference.delete(id_, fence))

    @rule(app=st.integers(0, 1), block=_BLOCKS)
    def edit(self, app: int, block: Block) -> None:
        self.both(self._edit(self._of(app), block), lambda: self.reference.edit(block))

    # -- sequences that chance rarely finds --------------------------------------------------------------------------

    @rule(app=st.integers(0, 1), id_=_IDS, data=_DATA, values=_VALUES)
    def replace_what_was_created_again(self, app: int, id_: str, data: dict[str, Any], values: dict[str, Any]) -> None:
        self.delete(app, id_, None)
        self.create(app, id_, "new", data, None)
        was = self.get(app, id_)
        self.delete(app, id_, None)
        self.create(app, id_, "new", data, None)
        self.compare_and_set(app, was, values, None, 0)

    @rule(app=st.integers(0, 1), id_=_IDS, before=_VALUES, within=_VALUES)
    def edit_again_and_fail(self, app: int, id_: str, before: dict[str, Any], within: dict[str, Any]) -> None:
        inner = Block(id_, None, [Step("set", within), Step("fail")], True)
        self.edit(app, Block(id_, None, [Step("set", before), inner], False))

    @rule(app=st.integers(0, 1), id_=_IDS, counts=st.permutations(range(4)))
    def correct_again(self, app: int, id_: str, counts: list[int]) -> None:
        for one in (*counts, counts[0]):
            self.correct(app, id_, ({"count": one}, None))

    @precondition(lambda self: self.reference.records)
    @rule(app=st.integers(0, 1), pick=st.integers(0, 3), data=_DATA, block=_BLOCKS, inside=st.booleans())
    def write_by_foreign_sql(self, app: int, pick: int, data: dict[str, Any], block: Block, inside: bool) -> None:
        id_ = sorted(self.reference.records)[pick % len(self.reference.records)]
        if inside:
            block = Block(id_, None, [Step("set", {"count": data["count"] + 1}), Step("foreign", data), block])
            self.both(self._edit(self._of(app), block), lambda: self.reference.edit(block))
        else:
            self.store.run(self.store.foreign(self.kind, id_, data))
            self.reference.foreign(id_, data)

    # -- checks ------------------------------------------------------------------------------------------------------

    @invariant()
    def the_store_has_what_the_reference_has(self) -> None:
        found = self.store.run(self.records[0].list())
        wanted = {
            id_: {"id": id_, "version": kept.version, "fence": kept.fence, **kept.shown}
            for id_, kept in self.reference.records.items()
        }
        assert {one.id: one.model_dump() for one in found} == wanted

    def teardown(self) -> None:
        for id_ in ("a", "ab", "b", "c"):
            entries = self.store.run(self.records[-1].history(id_, limit=1000))
            found = [
                Entry(entry.action, entry.from_version, entry.to_version, _plain(entry.before), _plain(entry.after))
                for entry in reversed(entries)
            ]
            assert found == self.reference.entries.get(id_, [])

    # -- parts -------------------------------------------------------------------------------------------------------

    def _of(self, app: int) -> Records[Thing]:
        return self.records[app % len(self.records)]

    async def _edit(self, records: Records[Thing], block: Block) -> None:
        async with records.edit(block.id, fence=block.fence) as thing:
            for step in block.steps:
                if isinstance(step, Block):
                    try:
                        await self._edit(records, step)
                    except (Failed, InvalidTransitionError, CorrectionRefusedError, RecordNotFoundError):
                        if not step.caught:
                            raise
                else:
                    await self._step(records, thing, step)

    async def _step(self, records: Records[Thing], thing: Thing, step: Step) -> None:
        what, value = step
        if what == "fail":
            raise Failed
        if what == "set":
            for name, new in value.items():
                setattr(thing, name, dict(new) if isinstance(new, dict) else new)
        elif what == "update":
            await records.update(thing.id, value)
        elif what == "transition":
            await records.transition(thing.id, value)
        elif what == "correct":
            await records.correct(thing.id, value[0], key=value[1], source="s", reason="r")
        elif what == "foreign":
            await self.store.foreign(self.kind, thing.id, value)
        else:
            await records.update(value[0], value[1])


def _end_of(call: Callable[[], Any]) -> tuple[Exception | None, Any]:
    """The error or the result of a call."""
    try:
        return None, call()
    except (InterlockError, Failed) as error:
        return error, None


def _plain(text: str | None) -> dict[str, Any] | None:
    """Return the fields of an entry, without its notes."""
    if text is None:
        return None
    return {name: value for name, value in json.loads(text).items() if not name.startswith("_")}


def run_against_reference(url: str, *, examples: int, steps: int, apps: int = 2, **changes: Any) -> None:
    """Run sequences of operations on a store. Raises if it differs from the reference."""
    with Store(url, apps) as store:
        machine = type("Run", (RecordMachine,), {"store": store})
        options = {"derandomize": True, "database": None, **changes}
        run_state_machine_as_test(
            machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, **options)
        )
        journal = store.apps[0]._durable.store.journal
        store.run(store.apps[0].journal.seal())
        report = store.run(verify(journal))
        assert report.ok, report.problems
        assert report.unsealed == 0
