"""Corners of records: lost answers, configuration, stores without records, and metrics."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from interlock import App
from interlock.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    InvalidArgumentError,
    LeaseLostError,
    LockTimeoutError,
    MisuseError,
    StoreUnavailableError,
)
from interlock.ports.journal import Attribution
from interlock.ports.records import Conflict, Written
from tests.records.worker import Counter, add, declare


class _LosingAnswers:
    """A records port whose answers are lost after the writes were made; ``meanwhile`` runs before the next one."""

    def __init__(self, records: Any, losses: int) -> None:
        self._records = records
        self.losses = losses
        self.meanwhile: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def write(self, changes: Any) -> Any:
        return await self._answered(self._records.write(changes))

    async def write_and_release(self, changes: Any, leases: Any) -> Any:
        return await self._answered(self._records.write_and_release(changes, leases))

    async def _answered(self, writing: Any) -> Any:
        answers = await writing
        if self.losses:
            self.losses -= 1
            if self.meanwhile is not None:
                await self.meanwhile()
            raise StoreUnavailableError("the answer was lost")
        return answers


def _lose(app: App, losses: int) -> _LosingAnswers:
    store: Any = app._durable.store
    store.records = losing = _LosingAnswers(store.records, losses)
    return losing


async def test_a_write_whose_answer_was_lost_is_made_once() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        losing = _lose(app, 1)
        assert (await records.create(Counter(id="one"))).version == 0
        losing.losses = 2
        assert (await records.update("one", add)).count == 1
        losing.losses = 1
        async with records.edit("one") as counter:
            counter.count += 1
        losing.losses = 1
        await records.update_many(["one"], add)
        losing.losses = 1
        assert await records.compare_and_set("one", await records.get("one"), 3)
        losing.losses = 1
        await records.correct("one", {"payload.a": 1}, source="s", reason="r")
        stored = await records.get("one")

        assert (stored.count, stored.version) == (3, 5)
        losing.losses = 1
        await records.delete("one")
        assert len(await records.history("one")) == 7


async def test_a_write_whose_answer_was_lost_is_found_also_if_others_have_written_since() -> None:
    app = App("memory://shared")
    records = declare(app)
    other = App("memory://shared")
    others = declare(other)
    async with app, other:
        await records.create(Counter(id="one"))
        losing = _lose(app, 1)
        plain = losing._records

        async def write_more() -> None:
            store: Any = other._durable.store
            store.records = plain
            for _ in range(120):  # more than one page of the journal
                await others.update("one", add)
            store.records = losing

        losing.meanwhile = write_more
        await records.update("one", add)
        assert (await records.get("one")).count == 121


async def test_a_write_that_was_not_made_is_computed_again() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        store: Any = app._durable.store
        plain = store.records
        failures = 1

        class Failing(_LosingAnswers):
            async def write(self, changes: Any) -> Any:
                nonlocal failures
                if failures:
                    failures -= 1
                    change = changes[0]
                    await plain.write([change._replace(entry=change.entry._replace(after="{}"))])  # another's write
                    raise StoreUnavailableError("the request was lost")
                return await plain.write(changes)

        store.records = Failing(plain, 0)
        await records.update("one", add)
        assert (await records.get("one")).count == 2, "the other one's and ours"


async def _pages_after(app: App, meanwhile: Any, *, made: bool) -> tuple[int, int]:
    """Lose the answer to an update of a record with a long history; return how many pages are read, and the count."""
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        for _ in range(250):
            await records.update("one", add)
        store: Any = app._durable.store
        plain, listed = store.records, store.journal.list
        pages = 0

        class Failing(_LosingAnswers):
            async def write(self, changes: Any) -> Any:
                if not self.losses:
                    return await plain.write(changes)
                self.losses -= 1
                if made:
                    await plain.write(changes)
                await meanwhile(plain, changes[0])
                raise StoreUnavailableError("the answer was lost")

        async def count(*args: Any, **options: Any) -> Any:
            nonlocal pages
            pages += 1
            return await listed(*args, **options)

        store.records, store.journal.list = Failing(plain, 1), count
        await records.update("one", add)
        found = pages
        return found, (await records.get("one")).count


async def test_a_write_that_another_one_was_faster_than_is_looked_for_among_the_latest_entries() -> None:
    async def write_other(plain: Any, change: Any) -> None:
        entry = change.entry._replace(after="{}")
        await plain.write([change._replace(entry=entry)])

    assert await _pages_after(App("memory://"), write_other, made=False) == (1, 252)


async def test_a_write_is_looked_for_behind_the_entries_of_a_record_that_was_created_again() -> None:
    async def create_again(plain: Any, change: Any) -> None:
        """Delete the record, and bring another one to the versions of the change."""
        version = change.expected + 1
        for expected, to_version in [(version, None), (None, 0), *((n, n + 1) for n in range(version))]:
            entry = change.entry._replace(before="{}", after="{}", from_version=expected, to_version=to_version)
            body = None if to_version is None else '{"count": 1000}'
            uid = change.uid if to_version is None else "another"
            (answer,) = await plain.write([change._replace(expected=expected, body=body, uid=uid, entry=entry)])
            assert isinstance(answer, Written)

    assert await _pages_after(App("memory://"), create_again, made=True) == (3, 1000)


async def test_nested_edits_that_change_nothing_end_quietly_after_a_loss() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        for id_ in ("one", "two"):
            await records.create(Counter(id=id_))
        async with records.edit("one"), records.edit("two"):
            await app._durable.store.locks.force("record:Counter:two", "now", Attribution("eva", ""))
        assert [one.version for one in await records.list()] == [0, 0]


async def test_records_are_refused_by_a_store_that_cannot_keep_them() -> None:
    with pytest.raises(CapabilityError, match="records"):
        App("redis://127.0.0.1:1").records(Counter)


async def test_the_lease_of_an_edit_is_in_the_records_store_wherever_locks_are() -> None:
    app = App("memory://", locks="memory://elsewhere")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        async with records.edit("one") as counter:
            counter.count = 1
            assert await app.locks.list() == []
            assert (await records.explain("one")).reason == "edited"
        assert (await records.get("one")).count == 1
        await app._durable.store.locks.list()


async def test_a_lease_that_ended_between_write_and_release_does_not_undo_the_write() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        losing = _lose(app, 0)
        write = losing._records.write

        async def write_and_force(changes: Any, leases: Any) -> Any:
            answers = await write(changes)
            await app.locks.force_release("record:Counter:one", by="eva", reason="now")
            return answers, None

        losing.write_and_release = write_and_force  # type: ignore[method-assign]
        try:
            async with records.edit("one") as counter:
                counter.count = 1
        except LeaseLostError:
            pytest.fail("the write was made")
        assert (await records.get("one")).count == 1


async def test_a_renewal_that_finds_the_lease_released_with_the_write_is_not_a_loss() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        losing = _lose(app, 0)

        async def write_and_renew(changes: Any, leases: Any) -> Any:
            answers = await losing._records.write_and_release(changes, leases)
            engine: Any = records._engine
            engine._locks._running.taken(leases[0].owner, "it was released")
            return answers

        losing.write_and_release = write_and_renew  # type: ignore[method-assign]
        async with records.edit("one") as counter:
            counter.count = 1
        assert (await records.get("one")).count == 1
        assert await app._durable.store.locks.list() == []


async def test_a_refused_write_keeps_the_lease_until_the_edit_ends() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        losing = _lose(app, 0)
        held = []

        async def refuse(changes: Any, leases: Any) -> Any:
            held.append((await app._durable.store.locks.list())[0].holder)
            return [Conflict(7)], None

        losing.write_and_release = refuse  # type: ignore[method-assign]
        with pytest.raises(ConcurrencyConflictError):
            async with records.edit("one") as counter:
                counter.count = 1
        assert len(held) == 1
        assert await app._durable.store.locks.list() == []


@pytest.mark.parametrize(
    "options",
    [
        {"strategies": {"edit": "optimistic"}},
        {"strategies": {"update": "hopeful"}},
        {"strategies": {"create": "pessimistic"}},
        {"strategies": {"update": ("optimistic", -1)}},
        {"correctable": ["version"]},
        {"correctable": ["nothing"]},
        {"name": "a b"},
        {"name": ""},
    ],
)
def test_a_declaration_that_cannot_work_is_refused(options: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        App("memory://").records(Counter, **options)


def test_a_model_needs_an_id_and_a_kind_is_declared_once() -> None:
    class Nameless(BaseModel):
        count: int = 0

    app = App("memory://")
    with pytest.raises(InvalidArgumentError, match="no field 'id'"):
        app.records(Nameless)
    app.records(Counter)
    with pytest.raises(InvalidArgumentError, match="already declared"):
        app.records(Counter)
    assert list(app.record_kinds) == ["Counter"]
    assert app.records(Counter, name="Other").kind == "Other"


async def test_a_frozen_model_and_one_that_forbids_extras_can_be_records() -> None:
    class Frozen(BaseModel):
        model_config = ConfigDict(frozen=True, extra="forbid")
        id: str
        n: int = 0

    app = App("memory://")
    records = app.records(Frozen)
    async with app:
        await records.create(Frozen(id="one"))
        await records.correct("one", {"n": 2}, source="s", reason="r")
        changed = await records.update("one", lambda one: one.model_copy(update={"n": one.n + 1}))
        assert changed.n == 3
        async with records.edit("one"):
            await records.update("one", {"n": 9})
        assert (await records.get("one")).n == 9


async def test_the_write_at_the_end_of_an_edit_does_not_count_as_work_that_outlasts_a_session() -> None:
    """The store checks the lease, so a process must not exit because an outage outlasts this write."""
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        store: Any = app._durable.store
        write = store.records.write_and_release
        at_work: list[int] = []

        async def watched(*args: Any) -> Any:
            at_work.append(app._durable.session.at_work)
            if len(at_work) == 2:
                raise StoreUnavailableError("once")
            return await write(*args)

        store.records.write_and_release = watched
        async with records.edit("one") as counter:
            at_work.append(app._durable.session.at_work)
            counter.count = 1
        assert at_work == [1, 0, 0]
        assert app._durable.session.at_work == 0
        assert (await records.get("one")).count == 1


class _Late:
    """A records port whose first write does not reach the store before ``arrive`` is called."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self._changes: Any = None
        self.lost = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def write(self, changes: Any) -> Any:
        if self._changes is None:
            self._changes = changes
            self.lost.set()
            raise StoreUnavailableError("the connection broke")
        return await self._records.write(changes)

    async def arrive(self) -> list[str]:
        return [type(answer).__name__ for answer in await self._records.write(self._changes)]


async def _update_late(wait_for_edit: bool) -> tuple[list[str], list[str], int]:
    """Lose a write while another task edits the record; return how the update and the write end, and the count."""
    app = App("memory://", store_wait=0.3)
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        store: Any = app._durable.store
        store.records = late = _Late(store.records)
        async with records.edit("one"):
            updating = asyncio.create_task(records.update("one", add, wait=0), context=Context())
            await late.lost.wait()
            if wait_for_edit:
                await asyncio.wait([updating])
        (end,) = await asyncio.gather(updating, return_exceptions=True)
        arrived = await late.arrive()
        return [type(end).__name__], arrived, (await records.get("one")).count


async def test_a_write_that_may_still_be_made_is_not_reported_as_refused() -> None:
    assert await _update_late(wait_for_edit=True) == (["StoreUnavailableError"], ["Written"], 1)


async def test_a_lost_write_is_repeated_after_an_edit_and_made_once() -> None:
    assert await _update_late(wait_for_edit=False) == (["Counter"], ["Conflict"], 1)


async def test_an_edit_that_ends_in_another_task_writes_nothing_and_releases_its_lease() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        for id_ in ("one", "two"):
            await records.create(Counter(id=id_))
        outer, inner = records.edit("one"), records.edit("two")
        (await outer.__aenter__()).count = 1
        (await inner.__aenter__()).count = 1
        with pytest.raises(MisuseError, match="ends in another task"):
            await asyncio.create_task(outer.__aexit__(None, None, None))
        await inner.__aexit__(ValueError, ValueError(), None)

        for id_ in ("one", "two"):
            async with records.edit(id_, wait=0) as counter:
                assert (counter.count, counter.version) == (0, 0)


async def test_an_inner_edit_that_ends_in_another_task_leaves_the_outer_one_open() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        for id_ in ("one", "two"):
            await records.create(Counter(id=id_))
        async with records.edit("one") as outer:
            outer.count = 1
            inner = records.edit("two")
            (await inner.__aenter__()).count = 1
            error = ValueError("the block failed as well")
            with pytest.raises(MisuseError, match="ends in another task") as misuse:
                await asyncio.create_task(inner.__aexit__(ValueError, error, None))
            assert misuse.value.__cause__ is error
            await records.update("two", add, wait=0)
        assert [(one.count, one.version) for one in await records.list()] == [(1, 1), (1, 1)]


def _samples(app: App) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in app.metrics.collect()
        for sample in family.samples
    }


def _sum(samples: dict[tuple[str, tuple[str, ...]], float], name: str, *status: str) -> float:
    return sum(value for (of, labels), value in samples.items() if of == name and labels[1:] == status)


async def test_the_metrics_count_by_strategy_and_every_lease_once() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        await records.update("one", add)
        async with records.edit("one"), app.locks.acquire("other"):
            with pytest.raises(LockTimeoutError):
                await asyncio.create_task(records.update("one", add, wait=0), context=Context())
            samples = _samples(app)
        assert samples["interlock_lock_acquisitions_total", ("optimistic", "acquired")] == 2
        assert samples["interlock_lock_acquisitions_total", ("pessimistic", "acquired")] == 1
        assert samples["interlock_lock_acquisitions_total", ("pessimistic", "busy")] == 1
        assert samples["interlock_active_locks", ("pessimistic",)] == 1
        assert samples["interlock_version_conflicts_total", ()] == 0
        assert samples["interlock_lock_acquisition_duration_seconds_count", ("optimistic",)] == 2
        assert _sum(samples, "interlock_active_locks") == 2
        assert _sum(samples, "interlock_lock_acquisitions_total", "acquired") == 4
        assert _sum(samples, "interlock_lock_acquisitions_total", "busy") == 2, "the write, and the lease after it"
        assert _sum(samples, "interlock_lock_acquisition_duration_seconds_count") == 4
        assert _sum(samples, "interlock_lock_hold_duration_seconds_count") == 0

        after = _samples(app)
        assert _sum(after, "interlock_active_locks") == 0
        assert _sum(after, "interlock_lock_hold_duration_seconds_count") == 2


async def test_a_lost_lease_on_a_record_and_a_deadlock_of_edits_are_counted_once() -> None:
    app = App("memory://")
    records = declare(app)
    async with app:
        for id_ in ("one", "two"):
            await records.create(Counter(id=id_))

        async def lose() -> None:
            async with records.edit("one"):
                await app.locks.force_release("record:Counter:one", reason="test", by="test")
                await asyncio.sleep(1)

        with pytest.raises(LeaseLostError):
            await lose()
        both = asyncio.Barrier(2)

        async def cross(first: str, second: str) -> None:
            async with records.edit(first):
                await both.wait()
                async with records.edit(second):
                    pass

        ends = await asyncio.gather(cross("one", "two"), cross("two", "one"), return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["DeadlockError", "NoneType"]
        samples = _samples(app)
        assert _sum(samples, "interlock_lock_losses_total", "taken") == 1
        assert samples["interlock_lock_losses_total", ("pessimistic", "taken")] == 1
        assert _sum(samples, "interlock_lock_acquisitions_total", "deadlock") == 1
        assert samples["interlock_lock_acquisitions_total", ("memory", "deadlock")] == 0
