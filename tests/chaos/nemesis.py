"""Breaks things while processes contend, and keeps count of what really broke.

A `Fleet` is the set of worker processes, each slot filled again when its process dies. A `Nemesis` draws faults from a
deck in which each kind is present, so that even a short run sees all of them; the order and the victims are random
by a seed that is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from interlock.testing.processes import Worker, WorkerFailedError
from tests.chaos.checker import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from interlock.testing.proxy import ThreadedFaultProxy
    from interlock.testing.servers import PostgresServer
    from tests.chaos.worker import Plan

__all__ = ["Fleet", "Nemesis", "PostgresFaults", "SqliteFaults"]

_STUCK_STATUS = 70  # the library ended the process because work outlasted its session
_STOP_SECONDS = 20.0
_CALM_SECONDS = 9.0  # between two rounds of a long run: then whoever waits must be served
_REST_SECONDS = 4.0  # between two pauses of one process, so that each can be judged alone


@dataclass
class Member:
    """One worker process, and what the nemesis is doing to it."""

    who: str
    worker: Worker
    busy: bool = False
    rested_at: float = 0.0


class Fleet:
    """Worker processes, as many as there are slots, taking turns at the ways to the store."""

    def __init__(self, plan: Plan, slots: int, seed: int, ways: Sequence[str]) -> None:
        self.plan = plan
        self._ways = ways
        self._seed = seed
        self._born = 0
        self.members: list[Member] = [self._spawn(slot) for slot in range(slots)]
        self.fired: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.ended: dict[str, float] = {}
        """When processes were ended from outside."""
        self.oddities: list[str] = []

    async def ready(self) -> None:
        """Wait until every process contends."""
        await asyncio.gather(*(member.worker.wait_for("ready", 30) for member in self.members))

    def free(self) -> list[Member]:
        """Members that live and are not in the middle of something."""
        return [member for member in self.members if not member.busy and member.worker.returncode is None]

    def kill(self, member: Member) -> None:
        """SIGKILL a process, and start another in its place."""
        self.ended[member.who] = time.monotonic()
        member.worker.kill()
        if member.worker.returncode == -9:
            self.fired["kill -9"] += 1
        self._replace(member)

    async def restart(self, member: Member) -> None:
        """SIGTERM a process: it cancels its work, gives everything back and ends; another takes its place."""
        member.busy = True
        member.worker.terminate()
        if await self._ends(member):
            self.fired["SIGTERM"] += 1
        self._replace(member)

    def look_after(self) -> None:
        """Replace processes that ended by themselves: allowed only if the library ended them for stuck work."""
        for member in self.members:
            status = member.worker.returncode
            if status is not None and not member.busy:
                if status == _STUCK_STATUS:
                    self.fired["(stuck work, exited by itself)"] += 1
                else:
                    self.oddities.append(f"{member.who} ended with status {status}:\n{member.worker.stderr}")
                self._replace(member)

    async def stop(self) -> None:
        """End the run in order."""
        self.look_after()
        for member in self.members:
            member.busy = True
            member.worker.terminate()
        await asyncio.gather(*(self._ends(member) for member in self.members))

    def close(self) -> None:
        """Kill whatever is left."""
        for member in self.members:
            member.worker.kill()

    async def _ends(self, member: Member) -> bool:
        try:
            status = await member.worker.wait(_STOP_SECONDS)
        except WorkerFailedError as failure:
            self.oddities.append(f"{member.who} did not stop: {failure}")
            self.ended[member.who] = time.monotonic()
            member.worker.kill()
            return False
        if status not in (0, _STUCK_STATUS):
            self.oddities.append(f"{member.who} ended with status {status}:\n{member.worker.stderr}")
        return status == 0

    def _replace(self, member: Member) -> None:
        member.worker.kill()
        self.members[self.members.index(member)] = self._spawn(int(member.who[1:].partition(".")[0]))

    def _spawn(self, slot: int) -> Member:
        self._born += 1
        who = f"w{slot}.{self._born}"
        plan = replace(self.plan, url=self._ways[slot % len(self._ways)])
        args = (plan.as_json(), who, self._seed * 1000 + self._born)
        return Member(who, Worker.spawn("tests.chaos.worker:run", args))


class StoreFaults(Protocol):
    """What can be done to one kind of store. Each coroutine does it, undoes it, and says how often it fired."""

    def deck(self, dice: random.Random) -> Sequence[tuple[str, Callable[[], Awaitable[int]]]]:
        """All kinds of faults, each once."""
        ...

    def heal(self) -> None:
        """End whatever is under way."""
        ...


class Nemesis:
    """Does harm to a fleet and its store."""

    def __init__(self, fleet: Fleet, store: StoreFaults, seed: int, *, gap: tuple[float, float]) -> None:
        self._fleet = fleet
        self._store = store
        self._dice = random.Random(seed)
        self._gap = gap
        self._session = fleet.plan.session_seconds
        self._pauses: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        """Do harm for so long, and until each kind was done once; then put everything right again.

        A run too short for several rounds has one, between two quiet spells in which much is granted.
        """
        until = time.monotonic() + seconds
        several = seconds > _CALM_SECONDS * 4
        hand = self._deal()
        try:
            await asyncio.sleep(_CALM_SECONDS / 6)
            while hand:
                await self._play(*hand.pop(0))
                if not hand and several and time.monotonic() < until:
                    hand = self._deal()
                    await asyncio.sleep(_CALM_SECONDS)
                self._fleet.look_after()
                await asyncio.sleep(self._dice.uniform(*self._gap))
        finally:
            self._store.heal()
            if self._pauses:
                await asyncio.wait(self._pauses)
        await asyncio.sleep(max(_CALM_SECONDS / 6, until - time.monotonic()))
        self._fleet.look_after()

    async def _play(self, kind: str, card: Callable[[], Awaitable[int]]) -> None:
        if kind in ("long pause", "pause", "short pause", "kill -9", "SIGTERM"):
            await card()  # they say themselves whom they hit, and when
            return
        begin = time.monotonic()
        fired = await card()
        self._fleet.faults.append(Fault(kind, begin, time.monotonic()))
        self._fleet.fired[kind] += fired

    def _deal(self) -> list[tuple[str, Callable[[], Awaitable[int]]]]:
        hand = [*self._own_deck(), *self._store.deck(self._dice)]
        self._dice.shuffle(hand)
        hand.sort(key=lambda card: card[0] != "long pause")  # it goes on while the others happen
        return hand

    def _own_deck(self) -> list[tuple[str, Callable[[], Awaitable[int]]]]:
        dice, session = self._dice, self._session
        return [
            ("kill -9", self._kill),
            ("kill -9", self._kill),
            ("SIGTERM", self._restart),
            ("short pause", lambda: self._pause("short pause", dice.uniform(0.05, 0.3))),
            ("pause", lambda: self._pause("pause", dice.uniform(0.25, 0.75) * session)),
            ("long pause", lambda: self._pause("long pause", dice.uniform(1.15, 1.6) * session)),
        ]

    def _victim(self, *, rested: bool = False) -> Member | None:
        now = time.monotonic()
        found = [member for member in self._fleet.free() if not rested or now > member.rested_at]
        return self._dice.choice(found) if found else None

    async def _kill(self) -> int:
        if member := self._victim():
            self._fleet.kill(member)
        return 1

    async def _restart(self) -> int:
        if member := self._victim():
            await self._fleet.restart(member)
        return 1

    async def _pause(self, kind: str, seconds: float) -> int:
        member = self._victim(rested=True)
        if member is not None:
            member.busy = True
            begin = time.monotonic()
            member.worker.pause()
            task = asyncio.create_task(self._resume(member, kind, begin, seconds))
            self._pauses.add(task)
            task.add_done_callback(self._pauses.discard)
            if kind != "long pause":
                await asyncio.wait([task])
        return 1

    async def _resume(self, member: Member, kind: str, begin: float, seconds: float) -> None:
        await asyncio.sleep(begin + seconds - time.monotonic())
        alive = member.worker.returncode is None
        if self._dice.random() < 0.2 and alive:
            self._fleet.faults.append(Fault(kind, begin, time.monotonic(), member.who))
            self._fleet.kill(member)  # never woke
        else:
            member.worker.resume()
            self._fleet.faults.append(Fault(kind, begin, time.monotonic(), member.who))
        self._fleet.fired[kind] += alive
        member.rested_at = time.monotonic() + _REST_SECONDS
        member.busy = False


class SqliteFaults:
    """Someone else's long transaction on the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def deck(self, dice: random.Random) -> Sequence[tuple[str, Callable[[], Awaitable[int]]]]:
        return [
            ("write lock held", lambda: asyncio.to_thread(self._hold, dice.uniform(0.2, 1.0))),
            ("write lock held", lambda: asyncio.to_thread(self._hold, dice.uniform(1.0, 2.5))),
        ]

    def heal(self) -> None:
        pass

    def _hold(self, seconds: float) -> int:
        with contextlib.closing(sqlite3.connect(self._path, isolation_level=None, timeout=10)) as connection:
            connection.execute("begin immediate")
            time.sleep(seconds)
            connection.execute("rollback")
        return 1


class PostgresFaults:
    """Restarts and crashes of the server, and proxies on the ways to it: one is cut while the other works, or both."""

    def __init__(self, server: PostgresServer, proxies: Sequence[ThreadedFaultProxy]) -> None:
        self._server = server
        self._proxies = proxies

    def deck(self, dice: random.Random) -> Sequence[tuple[str, Callable[[], Awaitable[int]]]]:
        def cut(name: str, seconds: float, begin: Callable[[ThreadedFaultProxy], object]) -> tuple[str, Any]:
            return name, lambda: self._cut(dice.choice([*self._proxies, None]), seconds, name, begin)

        return [
            ("server restart", self._restart),
            ("server crash", self._crash),
            cut("reset", 0.0, lambda proxy: proxy.reset()),
            cut("blackhole", dice.uniform(0.3, 2.0), lambda proxy: proxy.blackhole()),
            cut("half_open", dice.uniform(0.5, 3.8), lambda proxy: proxy.half_open()),
            cut("drop_replies", 0.5, lambda proxy: proxy.drop_replies(dice.randint(1, 5))),
            cut("delay", 1.0, lambda proxy: proxy.delay(dice.uniform(0.05, 0.4))),
            cut("refuse", dice.uniform(0.2, 1.0), lambda proxy: (proxy.refuse(), proxy.reset())),
        ]

    def heal(self) -> None:
        for proxy in self._proxies:
            proxy.heal()
        self._server.start()

    async def _restart(self) -> int:
        await asyncio.to_thread(self._server.restart)
        return 1

    async def _crash(self) -> int:
        await asyncio.to_thread(self._server.kill)
        await asyncio.to_thread(self._server.start)
        return 1

    async def _cut(
        self, only: ThreadedFaultProxy | None, seconds: float, name: str, begin: Callable[[ThreadedFaultProxy], object]
    ) -> int:
        hit = list(self._proxies) if only is None else [only]
        before = sum(proxy.fired[name] for proxy in hit)
        for proxy in hit:
            begin(proxy)
        await asyncio.sleep(seconds)
        fired = sum(proxy.fired[name] for proxy in hit) - before
        for proxy in hit:
            proxy.heal()
        return fired
