"""Breaks things while processes contend, and keeps count of what really broke.

A `Fleet` is the set of worker processes, each slot filled again when its process dies. A `Nemesis` draws faults from a
deck in which each kind is present, so that even a short run sees all of them; the order and the victims are random
by a seed that is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from interlock.testing.processes import Worker, WorkerFailedError
from tests.chaos.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.chaos.store_faults import Card, StoreFaults

__all__ = ["MORE_SECONDS", "QUICK", "Fleet", "FleetPlan", "Nemesis", "Pace"]

MORE_SECONDS = 60.0
"""What a run may take longer to come to enough, on a machine that has much else to do."""

_STUCK_STATUS = 70  # the library ended the process because work outlasted its session
_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_CALM_SECONDS = 9.0  # between two rounds of a long run: then whoever waits must be served
_REST_SECONDS = 4.0  # between two pauses of one process, so that each can be judged alone


class FleetPlan(Protocol):
    """What all processes of a fleet are told to do."""

    @property
    def session_ttl(self) -> float: ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass
class Member:
    """One worker process, and what the nemesis is doing to it."""

    who: str
    worker: Worker
    busy: bool = False
    ready: bool = False
    """Whether it is known to have come to its work."""
    rested_at: float = 0.0


class Fleet:
    """Worker processes, as many as there are slots, taking turns at the ways to the store."""

    def __init__(
        self,
        plan: FleetPlan,
        slots: int,
        seed: int,
        ways: Sequence[str],
        program: str = "tests.chaos.worker:run",
        *,
        letter: str = "w",
    ) -> None:
        self.plan = plan
        self._letter = letter
        self._program = program
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
        """Wait until every process is at work."""
        await asyncio.gather(*(self._ready(member) for member in self.members))

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
        await self._ready(member)
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
        await self.ready()
        for member in self.members:
            member.worker.terminate()
        await asyncio.gather(*(self._ends(member) for member in self.members))

    def kill_all(self) -> None:
        """End the run with SIGKILL: nobody gives anything back."""
        self.look_after()
        for member in self.members:
            self.ended[member.who] = time.monotonic()
            member.worker.kill()

    def close(self) -> None:
        """Kill whatever is left."""
        for member in self.members:
            member.worker.kill()

    async def _ready(self, member: Member) -> None:
        """Wait until it can hear a signal; what ends before says so by its status."""
        if not member.ready:
            with contextlib.suppress(WorkerFailedError):
                await member.worker.wait_for("ready", _START_SECONDS)
            member.ready = True

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
        who = f"{self._letter}{slot}.{self._born}"
        plan = {**self.plan.as_json(), "url": self._ways[slot % len(self._ways)]}
        return Member(who, Worker.spawn(self._program, (plan, who, self._seed * 1000 + self._born)))


class Pace(NamedTuple):
    """How fast faults follow each other."""

    gap: tuple[float, float]
    """Seconds between two."""
    quiet: float
    """Seconds before the first and after the last, in which much work is done."""
    together: bool = False
    """Whether processes and the store are harmed at the same time."""

    @classmethod
    def of(cls, seconds: float) -> Pace:
        """What suits a run of that length."""
        if seconds >= 60:
            return cls((0.2, 2.0), 1.5)
        return cls((0.1, 0.5), 1.5) if seconds >= 12 else QUICK


QUICK = Pace((0.0, 0.1), 0.5, together=True)


class Nemesis:
    """Does harm to a fleet and its store."""

    def __init__(self, fleet: Fleet, store: StoreFaults, seed: int, *, pace: Pace) -> None:
        self._fleet = fleet
        self._store = store
        self._dice = random.Random(seed)
        self._pace = pace
        self._session = fleet.plan.session_ttl
        self._pauses: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float, *, enough: Callable[[], bool] = lambda: True, max_seconds: float = 0.0) -> None:
        """Do harm for so long, and until each kind was done once; then put everything right again.

        A run too short for several rounds has one, between two quiet spells in which much is granted. ``enough`` says
        whether what the run is for was reached, for which there are ``max_seconds`` seconds.
        """
        begun = time.monotonic()
        until = begun + seconds
        several = seconds > _CALM_SECONDS * 4
        try:
            await asyncio.sleep(self._pace.quiet)
            while True:
                await self._round()
                if several and time.monotonic() < until:
                    await asyncio.sleep(_CALM_SECONDS)
                    continue
                await self._calm(enough)
                if enough() or time.monotonic() > begun + max_seconds:
                    break
        finally:
            self._store.heal()
            if self._pauses:
                await asyncio.wait(self._pauses)
        await asyncio.sleep(max(self._pace.quiet, until - time.monotonic()))
        self._fleet.look_after()

    async def _round(self) -> None:
        """Do each kind of harm once."""
        own, store = self._own_deck(), list(self._store.deck(self._dice))
        if self._pace.together:
            await asyncio.gather(self._play_all(own), self._play_all(store))
        else:
            await self._play_all(own + store)

    async def _play_all(self, hand: list[Card]) -> None:
        self._dice.shuffle(hand)
        hand.sort(key=lambda card: card[0] != "long pause")  # it goes on while the others happen
        for kind, card in hand:
            await self._play(kind, card)
            self._fleet.look_after()
            await asyncio.sleep(self._dice.uniform(*self._pace.gap))

    async def _calm(self, enough: Callable[[], bool]) -> None:
        until = time.monotonic() + _CALM_SECONDS
        while time.monotonic() < until and not enough():
            await asyncio.sleep(0.05)
            self._fleet.look_after()

    async def _play(self, kind: str, card: Callable[[], Awaitable[int]]) -> None:
        if kind in ("long pause", "pause", "short pause", "kill -9", "SIGTERM"):
            await card()  # they say themselves whom they hit, and when
            return
        begin = time.monotonic()
        fired = await card()
        self._fleet.faults.append(Fault(kind, begin, time.monotonic()))
        self._fleet.fired[kind] += fired

    def _own_deck(self) -> list[Card]:
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
