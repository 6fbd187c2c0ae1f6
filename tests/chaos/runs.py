"""One lock-set run per store: sets it up, lets the nemesis loose, gathers the records and has them judged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sqlite3
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from interlock import Locks
from tests.chaos.actor import Ear
from tests.chaos.checker import Fault, History, judge, read_attempts
from tests.chaos.nemesis import MORE_SECONDS, Fleet, Nemesis, Pace
from tests.chaos.outcome import Outcome
from tests.chaos.places import Place, place
from tests.chaos.records import Written, entered, read_journals, read_targets
from tests.chaos.worker import Contender, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.chaos.store_faults import StoreFaults

__all__ = ["Outcome", "run_memory", "run_postgres", "run_redis", "run_sqlite"]

MEMORY_ACTS: Mapping[str, int] = {"cancel": 300, "force": 100, "close": 10, "hold up": 1}
"""What is done to contenders in one process, and how often in proportion."""
_TABLE = "create table chaos_write (seq {serial}, key text not null, fence bigint not null, attempt text not null)"
_POSTGRES_BY_COMMIT = """
    select key, fence, attempt from chaos_write order by pg_xact_commit_timestamp(xmin), seq
"""


async def run_sqlite(
    folder: Path,
    seconds: float,
    seed: int,
    *,
    grants: int = 0,
    processes: int = 8,
    calm: bool = False,
    **changes: object,
) -> Outcome:
    """Processes on one file, for so long and until there were so many grants; ``calm`` for no faults."""
    with place("sqlite", folder) as store:
        plan = await _prepared(store, folder, seconds, changes)
        path = folder / "store.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(_TABLE.format(serial="integer primary key autoincrement"))
        faults = None if calm else store.faults
        history, fired = await _run_processes(plan, faults, seconds, seed, store.ways, grants, processes)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("select key, fence, attempt from chaos_write order by seq").fetchall()
    history.stored = [Written(*row, 0.0) for row in rows]
    return _outcome(store.name, seed, seconds, history, fired)


async def run_postgres(folder: Path, seconds: float, seed: int, *, grants: int = 0, **changes: object) -> Outcome:
    """Processes on a server that is theirs alone, through one of two proxies."""
    with place("postgres", folder) as store:
        plan = await _prepared(store, folder, seconds, changes)
        await _on_postgres(store.url, _TABLE.format(serial="bigserial primary key"))
        history, fired = await _run_processes(plan, store.faults, seconds, seed, store.ways, grants)
        history.stored = [Written(*row, 0.0) for row in await _on_postgres(store.url, _POSTGRES_BY_COMMIT)]
    return _outcome(store.name, seed, seconds, history, fired)


async def run_redis(
    folder: Path,
    seconds: float,
    seed: int,
    *,
    grants: int = 0,
    flush: bool = False,
    scale: float = 1.0,
    **changes: object,
) -> Outcome:
    """The same on Redis. ``flush``: one that keeps nothing across its ends, and is emptied now and then."""
    with place("forgetful redis" if flush else "redis", folder, scale=scale) as store:
        plan = await _prepared(store, folder, seconds, changes)
        history, fired = await _run_processes(plan, store.faults, seconds, seed, store.ways, grants)
    return _outcome(store.name, seed, seconds, history, fired)


def _outcome(store: str, seed: int, seconds: float, history: History, fired: Counter[str]) -> Outcome:
    verdict = judge(history)
    return Outcome("lock-set", store, seed, seconds, verdict.counts, verdict.violations, fired)


async def _prepared(store: Place, folder: Path, seconds: float, changes: dict[str, object]) -> Plan:
    plan = _plan(store.url, folder, seconds, changes)
    async with Locks.from_url(plan.url, settings=plan.settings):
        return plan


async def _on_postgres(url: str, statement: str) -> Sequence[tuple[str, int, str]]:
    connection = await asyncpg.connect(url, timeout=10)
    try:
        return [tuple(row) for row in await connection.fetch(statement, timeout=60)]
    finally:
        await connection.close(timeout=5)


async def _run_processes(
    plan: Plan,
    store: StoreFaults | None,
    seconds: float,
    seed: int,
    ways: Sequence[str],
    grants: int,
    processes: int = 8,
) -> tuple[History, Counter[str]]:
    fleet = Fleet(plan, processes, seed, ways)
    try:
        await fleet.ready()
        if store is None:
            await asyncio.sleep(seconds)
        else:
            await Nemesis(fleet, store, seed, pace=Pace.of(seconds)).run(
                seconds, enough=lambda: entered(Path(plan.folder)) >= grants, max_seconds=seconds + MORE_SECONDS
            )
        await fleet.stop()
    finally:
        fleet.close()
    return _gather(plan, fleet.faults, fleet.ended, fleet.oddities), fleet.fired


def _plan(url: str, folder: Path, seconds: float, changes: dict[str, object]) -> Plan:
    return Plan(**{"url": url, "folder": str(folder), "seconds": seconds + 2 * MORE_SECONDS, **changes})  # type: ignore[arg-type]


def _gather(plan: Plan, faults: list[Fault], ended: dict[str, float], oddities: Sequence[str] = ()) -> History:
    folder = Path(plan.folder)
    with (folder / "nemesis.json").open("w") as file:  # for whoever looks into a failure
        json.dump({"faults": [asdict(fault) for fault in faults], "ended": ended}, file)
    attempts, found = read_attempts(read_journals(folder), ended)
    found["oddities"] += oddities
    return History(
        attempts=attempts,
        faults=faults,
        written=read_targets(folder),
        session_ttl=plan.session_ttl,
        recheck_interval=plan.recheck_interval,
        **found,
    )


# -- memory ------------------------------------------------------------------------------------------------------------


async def run_memory(
    folder: Path, seconds: float, seed: int, *, acts: Mapping[str, int] = MEMORY_ACTS, **changes: object
) -> Outcome:
    """One process, one event loop, several `Locks`: cancellations, force, closing, a loop that is held up."""
    plan = _plan(f"memory://chaos-{seed}-{time.monotonic_ns()}", folder, seconds, {"ttl": (1.0, 3.0), **changes})
    crowd = _Crowd(plan, seed)
    with Ear():
        await crowd.run(seconds, acts)
    history = _gather(plan, crowd.faults, {}, crowd.oddities)
    history.forced = crowd.forced
    return _outcome("memory", seed, seconds, history, crowd.fired)


class _Crowd:
    """Contenders on one loop, and what is done to them."""

    SIZE = 8

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan = plan
        self._dice = random.Random(seed)
        self._seed = seed
        self._born = 0
        self.fired: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.oddities: list[str] = []
        self.forced: dict[int, float] = {}
        self._members: dict[asyncio.Task[None], Contender] = {}

    async def run(self, seconds: float, acts: Mapping[str, int]) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.oddities.append(f"{context['message']}: {context.get('exception')!r}")
        )
        for slot in range(self.SIZE):
            await self._add(slot)
        do = {"cancel": self._cancel, "force": self._force, "close": self._close, "hold up": self._hold_up}
        begin = time.monotonic()
        still = [name for name in acts if name != "hold up"]  # each once, soon; and the loop is held up half-way
        while (now := time.monotonic()) < begin + seconds:
            await asyncio.sleep(self._dice.uniform(0.0, 0.05))
            if still:
                await do[still.pop()]()
            elif now > begin + seconds / 2 and "hold up" in acts and not self.fired["loop held up"]:
                await self._hold_up()
            elif acts:
                await do[self._dice.choices(list(acts), list(acts.values()))[0]]()
        for contender in self._members.values():
            contender.stop()
        await asyncio.wait(self._members, timeout=30)
        for task in self._members:
            task.result()

    async def _add(self, slot: int) -> None:
        self._born += 1
        contender = Contender(self._plan, f"m{slot}.{self._born}", self._seed * 1000 + self._born)
        opened = asyncio.Event()
        self._members[asyncio.create_task(self._be(contender, opened))] = contender
        await opened.wait()

    async def _be(self, contender: Contender, opened: asyncio.Event) -> None:
        await contender.open()
        opened.set()
        await contender.run()
        await contender.close()
        contender.let_go()

    async def _cancel(self) -> None:
        attempts = [task for contender in self._members.values() for task in contender.attempts]
        if attempts and self._dice.choice(attempts).cancel():
            self.fired["cancelled attempts"] += 1

    async def _force(self) -> None:
        contender = self._dice.choice(list(self._members.values()))
        taken = await contender.locks.force_release(self._dice.choice(self._plan.keys), reason="chaos", by="nemesis")
        if taken is not None:
            self.forced[taken.fence] = time.monotonic()
            self.fired["forced releases"] += 1

    async def _close(self) -> None:
        task, contender = self._dice.choice(list(self._members.items()))
        contender.stop()
        await task
        del self._members[task]
        self.fired["closed and opened anew"] += 1
        await self._add(int(contender.who[1:].partition(".")[0]))

    async def _hold_up(self) -> None:
        """Keep the loop from running, as a blocking call does: a pause of everybody."""
        begin = time.monotonic()
        time.sleep(self._dice.uniform(0.3, 1.3) * self._plan.session_ttl)
        end = time.monotonic()
        self.faults += [Fault("loop pause", begin, end, contender.who) for contender in self._members.values()]
        self.fired["loop held up"] += 1
