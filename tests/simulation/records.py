"""A random workload of changes of records: edits, updates, corrections, transitions and crossing edits.

Run as a script with seeds it prints what happened: ``python -m tests.simulation.records 7``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from interlock.errors import ConcurrencyConflictError, DeadlockError, LockTimeoutError, RecordNotFoundError
from interlock.locks import Locks
from interlock.ports.journal import JournalFilter
from interlock.records import Records
from interlock.records.engine import RecordEngine
from interlock.store_client import StoreClient
from interlock.testing.simulator import SimulationError, Verdict, Violation, World
from interlock.testing.simulator.history import LeftOver, Odd
from tests.chaos.record_runs import Change, Entry, entry_of, judge_records
from tests.chaos.record_worker import Counted
from tests.simulation.workload import PROFILES, SETTINGS, Run, Scenario, Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.testing.simulator import SimulatedProcess

_NOT_MADE = (LockTimeoutError, ConcurrencyConflictError, DeadlockError)


def simulate(seed: int, **world_options: Any) -> Run:
    """Run the workload of a seed and judge it. Every sixth seed has the same kind of network."""
    profile = list(PROFILES)[seed % len(PROFILES)]
    world_options = {"max_seconds": 1000.0, "max_steps": 300_000, **world_options}
    world = World(seed, faults=PROFILES[profile], settings=SETTINGS, **world_options)
    scenario = RecordScenario(world)
    verdict = Verdict()
    try:
        world.run(scenario.main)
    except SimulationError as error:
        verdict.violations.append(Violation(world.clock.now(), "bounded", str(error)))
    else:
        found = judge_records(list(scenario.changes.values()), scenario.entries, scenario.kept)
        for promise, wrongs in found.items():
            verdict.violations += [Violation(world.clock.now(), promise, wrong) for wrong in wrongs]
    for event in world.history.events:
        if isinstance(event, Odd | LeftOver):
            verdict.violations.append(Violation(event.at, "odd", str(event)))
    verdict.outcomes.update(f"{change.kind}: {change.end}" for change in scenario.changes.values())
    return Run(world, verdict, profile, "test_record_seeds.py", "records")


class RecordScenario(Scenario):
    """The processes of one run, and the records that they change."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.changes: dict[str, Change] = {}
        self.entries: list[Entry] = []
        self.kept: list[tuple[Counted, int]] = []
        client = StoreClient(world.store, world.settings, world.clock)
        self._direct = Records(RecordEngine(client, Locks(client)), Counted)
        """Records without a network in between."""

    async def main(self, world: World) -> None:
        for id_ in self.keys:
            await self._direct.create(Counted(id=id_), by="setup")
        await super().main(world)
        await asyncio.sleep(10.0)  # operations that take effect late have done so
        entries = await world.store.journal.list(JournalFilter(subject_kind="record"), limit=10_000)
        self.entries = [entry_of(entry) for entry in entries]
        self.kept = [(one, self._direct.corrections(one).count) for one in await self._direct.list()]

    def workers(self, process: SimulatedProcess) -> Sequence[Worker]:
        records = process.records(Counted)
        return [RecordWorker(self, process, number, records) for number in range(self.random.choice((1, 2, 3, 4)))]


class RecordWorker(Worker):
    """One task that changes records."""

    def __init__(
        self, scenario: RecordScenario, process: SimulatedProcess, number: int, records: Records[Counted]
    ) -> None:
        super().__init__(scenario, process, number)
        self._changes = scenario.changes
        self._records = records

    def acts(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return [self._edit, self._edit, self._update, self._update, self._correct, self._transition, self._cross]

    async def _edit(self) -> None:
        async def edit(id_: str, name: str) -> None:
            async with self._records.edit(id_, self._wait(), by=name) as counted:
                for seconds in self._pieces():
                    await asyncio.sleep(seconds)
                counted.count += 1

        await self._change("edit", edit)

    async def _update(self) -> None:
        await self._change("update", lambda id_, name: self._records.update(id_, _add, by=name, wait=self._wait()))

    async def _correct(self) -> None:
        async def correct(id_: str, name: str) -> None:
            done = await self._records.correct(
                id_, {"mark": name}, source=name, reason="simulated", key=name, wait=self._wait()
            )
            assert not done.already_applied

        await self._change("correct", correct)

    async def _transition(self) -> None:
        wait = self._wait()
        await self._change("transition", lambda id_, name: self._records.transition(id_, name, by=name, wait=wait))

    async def _cross(self) -> None:
        """Edit a record and inside it the next one, so that each may wait for the next all around."""
        first = self.random.randrange(len(self.keys))
        outer, inner = self.keys[first], self.keys[(first + 1) % len(self.keys)]

        async def cross(id_: str, name: str) -> None:
            async with self._records.edit(outer, 8.0, by=name) as counted:
                await asyncio.sleep(0.05 + self.random.random() * 0.3)
                async with self._records.edit(inner, 8.0, by=f"{name}+"):
                    pass
                counted.count += 1

        await self._change("edit", cross, outer)

    async def _change(self, kind: str, make: Callable[[str, str], Awaitable[object]], id_: str = "") -> None:
        id_ = id_ or self._key()
        name = f"{self.name}:{len(self._changes)}"
        self._changes[name] = change = Change(name, kind, id_, "unknown")
        try:
            await make(id_, name)
        except _NOT_MADE:
            self._changes[name] = change._replace(end="refused")
            raise
        except RecordNotFoundError as error:
            raise AssertionError(f"{id_} was never deleted") from error
        self._changes[name] = change._replace(end="done")


def _add(counted: Counted) -> None:
    counted.count += 1


def _main(arguments: list[str]) -> None:
    digest_only = "--digest" in arguments
    for seed in [int(argument) for argument in arguments if argument != "--digest"]:
        run = simulate(seed, logs=bool(os.environ.get("LOGS")))
        if digest_only:
            print(seed, run.world.loop.digest, run.world.loop.steps)
        else:
            print(*run.world.loop.trace, run, sep="\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
