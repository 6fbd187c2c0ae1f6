"""Writes that meet: no update is lost, none is half made, and none slips past a lease."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

from interlock.ports.records import Busy, Conflict, Skipped, Written, lock_key
from interlock.testing.conformance.records.driver import KIND, RecordDriver, RecordSuite

__all__ = ["RecordRaceConformance"]

_PARTIES = 6
_ROUNDS = 15


class RecordRaceConformance(RecordSuite):
    """Several connections to one store."""

    async def test_of_many_writers_of_one_version_one_wins(self, store_url: str) -> None:
        async with self.record_drivers(store_url, _PARTIES) as drivers:
            await drivers[0].written("a", None)
            answers = await asyncio.gather(*(b.write(b.change("a", 0, n)) for n, b in enumerate(drivers)))

            assert sorted(type(answer).__name__ for (answer,) in answers) == ["Conflict"] * (_PARTIES - 1) + ["Written"]

    async def test_of_many_creators_one_wins(self, store_url: str) -> None:
        async with self.record_drivers(store_url, _PARTIES) as drivers:
            answers = await asyncio.gather(
                *(b.write(b.change("a", None, n, uid=f"u{n}")) for n, b in enumerate(drivers))
            )
            (winner,) = [n for n, (answer,) in enumerate(answers) if isinstance(answer, Written)]
            record = await drivers[0].record("a")

            assert record is not None
            assert (record.uid, json.loads(record.body)) == (f"u{winner}", {"n": winner})
            assert all(answer == Conflict(0) for n, (answer,) in enumerate(answers) if n != winner)
            assert len(await drivers[0].entries()) == 1

    async def test_no_increment_is_lost_and_each_has_one_entry(self, store_url: str) -> None:
        async def count_up(b: RecordDriver) -> None:
            done = 0
            while done < _ROUNDS:
                record = await b.record("a")
                assert record is not None
                n = json.loads(record.body)["n"]
                (answer,) = await b.write(b.change("a", record.version, n + 1))
                done += isinstance(answer, Written)

        async with self.record_drivers(store_url, 3) as drivers:
            await drivers[0].written("a", None, 0)
            await asyncio.gather(*map(count_up, drivers))
            versions = [entry.to_version for entry in await drivers[0].entries()]

            assert await drivers[0].values("a") == {"a": (3 * _ROUNDS, 3 * _ROUNDS)}
            assert sorted(version for version in versions if version is not None) == list(range(3 * _ROUNDS + 1))

    async def test_writes_of_the_same_records_in_any_order_never_deadlock_or_tear(self, store_url: str) -> None:
        async def move(b: RecordDriver, ids: str) -> int:
            made = 0
            for _ in range(_ROUNDS):
                found = await b.records.get(KIND, list(ids))
                assert len({one.version for one in found}) == 1, "a read is one snapshot, and a write all or nothing"
                by_id = {one.id: one for one in found}
                answers = await b.write(*(b.change(id, by_id[id].version, 1) for id in ids))  # noqa: A001
                assert len({isinstance(answer, Written) for answer in answers}) == 1
                made += isinstance(answers[0], Written)
            return made

        async with self.record_drivers(store_url, 4) as drivers:
            await drivers[0].write(*(drivers[0].change(id, None) for id in "abc"))  # noqa: A001
            made = await asyncio.gather(
                *(move(b, ids) for b, ids in zip(drivers, ("abc", "cba", "bca", "bac"), strict=True))
            )

            assert await drivers[0].values(*"abc") == {id: (sum(made), 1) for id in "abc"}  # noqa: A001

    async def test_what_a_holder_reads_changes_only_by_its_own_writes(self, store_url: str) -> None:
        """The race between a grant and a write: either the write comes first and is seen, or it is refused."""
        done = asyncio.Event()

        async def write(b: RecordDriver) -> None:
            while not done.is_set():
                record = await b.record("a")
                assert record is not None
                (answer,) = await b.write(b.change("a", record.version, 0))
                assert isinstance(answer, Written | Conflict | Busy), answer
                await asyncio.sleep(0)  # in memory nothing else would let the others run

        async def edit(b: RecordDriver) -> None:
            for number in range(4 * _ROUNDS):
                owner = f"a{number}"
                await b.lease(owner, "a")
                record = await b.record("a", current=True)
                assert record is not None
                await asyncio.sleep(0)
                (answer,) = await b.write(b.change("a", record.version, 1, owner=owner))
                assert isinstance(answer, Written), answer
                await b.leave(owner)
            done.set()

        async with self.record_drivers(store_url, 4) as drivers:
            await drivers[0].written("a", None)
            await asyncio.gather(edit(drivers[0]), *map(write, drivers[1:]))
            versions = [entry.to_version or 0 for entry in await drivers[0].entries()]
            assert all(later <= earlier + 1 for earlier, later in pairwise(sorted(versions)))

    async def test_a_write_of_several_waits_for_none_that_is_refused(self, store_url: str) -> None:
        async with self.record_drivers(store_url, 2) as drivers:
            one, two = drivers
            await one.write(one.change("a", None), one.change("b", None))
            await one.granted("a1", lock_key(KIND, "b"))
            answers = await two.write(two.change("a", 0, 1), two.change("b", 0, 1))

            assert answers[0] == Skipped()
            assert isinstance(answers[1], Busy)
            await two.written("a", 0, 1)
