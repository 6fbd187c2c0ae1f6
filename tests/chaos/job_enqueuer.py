"""The program that enqueues in a jobs run: one job or many at a time, and now and then cancels one or holds a lane.

Every call is journaled before it is made and when it has returned. A process that follows one that was killed knows
from the journals how many of its share were accepted, and goes on from there with jobs of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock import App
from interlock.errors import StoreUnavailableError
from tests.chaos.actor import Actor, run_process
from tests.chaos.job_worker import JobPlan, OpenApp, define

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.jobs import Call

__all__ = ["Enqueuer", "complete", "run"]

_KINDS = {"plain": 70, "crew": 6, "thread": 8, "skip": 14, "newest": 2}
_FATES = {"done": 84, "fails 1": 5, "fails 2": 3, "fails 4": 1, "snooze": 3, "permanent": 2, "discard": 2}
_CANCELS = 0.1
"""How often a call is followed by the cancellation of one of its jobs."""
_HOLDS = 0.03
"""How often a call is followed by a hold."""


class Wish(NamedTuple):
    """One job to enqueue."""

    ticket: str
    kind: str
    lane: str
    delay: float
    fate: str
    call: Call[Any]

    def told(self) -> tuple[Any, ...]:
        """What the checker has to know."""
        return (self.ticket, self.kind, self.lane, self.delay, self.fate, self.call.uses)


class Enqueuer(Actor):
    """One process's worth of enqueuing."""

    def __init__(self, plan: JobPlan, who: str, seed: int) -> None:
        self.app = App(plan.url, settings=plan.settings)
        super().__init__(plan, who, seed, OpenApp(self.app))  # type: ignore[arg-type]
        self.plan = plan
        self._jobs = define(self.app, plan)
        self._numbers = itertools.count(1)
        self._lanes = self._all_lanes()
        self._left = self._share() - _accepted(Path(plan.folder), self.slot)
        """How many are still to be accepted, less those under way."""
        self._at_work = plan.tasks

    @property
    def slot(self) -> int:
        return int(self.who[1:].partition(".")[0])

    async def work(self, number: int) -> None:
        while self._left > 0:
            count = min(self._left, 1 if self.dice.random() < 0.4 else self.dice.randint(2, self.plan.batch))
            self._left -= count
            if not await self._call([self._wish() for _ in range(count)]):
                self._left += count
            if self.plan.pause:
                await asyncio.sleep(self.dice.uniform(0.0, self.plan.pause))
        self._at_work -= 1
        if not self._at_work:
            (Path(self.plan.folder) / f"{self.slot}.complete").touch()

    def _share(self) -> int:
        return len(range(self.slot, self.plan.jobs, self.plan.enqueuers))

    def _all_lanes(self) -> Iterator[str]:
        """Each lane in turn, in an order that changes from round to round."""
        names = self.plan.lane_names
        while True:
            self.dice.shuffle(names)
            yield from names

    # -- one call ----------------------------------------------------------------------------------------------------

    async def _call(self, wishes: list[Wish]) -> bool:
        """Enqueue jobs in one call. False if it is not known whether they were accepted."""
        batch = wishes[0].ticket
        self.note("ask", batch=batch, jobs=[wish.told() for wish in wishes])
        try:
            if len(wishes) == 1:
                handles = [await self.app.jobs.enqueue(wishes[0].call)]
            else:
                handles = await self.app.jobs.enqueue_many([wish.call for wish in wishes])
            ids = [handle.id for handle in handles]
            self.note("accepted", batch=batch, ids=ids)
            await self._disturb(wishes, ids)
        except StoreUnavailableError as error:
            self.note("unsure", batch=batch, error=str(error))
            return False
        except Exception as error:
            self.note("oops", what=repr(error), trace=traceback.format_exc())
            return False
        return True

    async def _disturb(self, wishes: list[Wish], ids: list[int]) -> None:
        dice = self.dice
        if dice.random() < _CANCELS:
            wish, id_ = dice.choice(list(zip(wishes, ids, strict=True)))
            self.note("cancel", ticket=wish.ticket)
            await self.app.jobs.cancel(id_, reason="chaos", by="nemesis")
        if dice.random() < _HOLDS:
            lane = dice.choice(self.plan.lane_names)
            await self.app.lanes.hold(lane, reason="chaos", by="nemesis")
            await asyncio.sleep(dice.uniform(0.0, 0.3))
            await self.app.lanes.release(lane, by="nemesis")

    def _wish(self) -> Wish:
        dice, plan = self.dice, self.plan
        kind = dice.choices(list(_KINDS), list(_KINDS.values()))[0]
        lane = dice.choice(plan.newest_names) if kind == "newest" else next(self._lanes)
        fate = dice.choices(list(_FATES), list(_FATES.values()))[0]
        if dice.random() < plan.paced:
            kind = dice.choice(("paced", "paced", "paced crew"))
        if kind == "newest":
            fate = "coalesce"
        elif kind != "skip" and dice.random() < 0.1:
            lane = ""
        work = 0.0
        if dice.random() < plan.slow:
            work = dice.uniform(*plan.long_work)
            if kind != "newest" and dice.random() < 0.7:
                lane = ""  # or a few of them would hold up everything
        elif dice.random() < 0.05 or kind == "crew":
            work = 0.02 * dice.random()
        ticket = f"{self.who}:{next(self._numbers)}"
        delay = round(dice.uniform(0.05, plan.longest_delay), 3) if dice.random() < 0.02 else 0.0
        more: dict[str, Any] = {"delay": delay} if delay else {}
        job = self._jobs[kind].options(lane=lane or None, priority=dice.choice((20, 50, 50, 80)), **more)
        account = f"a{dice.randrange(plan.accounts)}"
        return Wish(
            ticket, kind, lane, delay, fate, job.call(ticket=ticket, fate=fate, work=round(work, 4), account=account)
        )


def _accepted(folder: Path, slot: int) -> int:
    """How many jobs of this slot's enqueuers were accepted so far."""
    journals = folder.glob(f"e{slot}.*.journal")
    lines = (line for path in journals for line in path.read_bytes().splitlines() if b'"accepted"' in line)
    return sum(len(json.loads(line)["ids"]) for line in lines)


def complete(plan: JobPlan) -> bool:
    """Whether every enqueuer's share was accepted."""
    return all((Path(plan.folder) / f"{slot}.complete").exists() for slot in range(plan.enqueuers))


async def run(plan: dict[str, Any], who: str, seed: int) -> None:
    """Be one enqueuer of a jobs run until SIGTERM."""
    await run_process(Enqueuer(JobPlan.from_json(plan), who, seed))
