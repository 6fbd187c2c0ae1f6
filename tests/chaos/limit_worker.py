"""The program of a limits run: tasks that hammer one set of slots, and start things under a rate and cooldowns."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError, LeaseLostError, LimitTimeoutError, StoreUnavailableError
from interlock.limits import Cooldown, Limits, Rate, Slots
from interlock.limits.kinds import uses_of
from tests.chaos.actor import Actor, BasePlan, run_process
from tests.chaos.limit_sabotage import sabotage

if TYPE_CHECKING:
    from interlock.limits import Reservation
    from interlock.limits.kinds import Limit

__all__ = ["LimitPlan", "Starter", "run"]

_EXPECTED = (LimitTimeoutError, LeaseLostError, StoreUnavailableError)


@dataclass(frozen=True, kw_only=True)
class LimitPlan(BasePlan):
    """What every process of a limits run does."""

    tasks: int = 4
    max_count: int = 5
    """How many may be at work at once."""
    rate: int = 10
    per: float = 1.0
    cooldown: float = 0.5
    accounts: int = 4
    slow: float = 0.05
    """How often work takes seconds."""

    @property
    def crew(self) -> Slots:
        return Slots("crew", self.max_count)


class Starter(Actor):
    """One process's worth of work under limits."""

    def __init__(self, plan: LimitPlan, who: str, seed: int) -> None:
        self.limits = Limits.from_url(plan.url, settings=plan.settings)
        super().__init__(plan, who, seed, self.limits)
        self.plan = plan
        self._count = 0
        api, account = Rate("api", plan.rate, per=plan.per), Cooldown("account", plan.cooldown, key="{account}")
        self._mixes: list[list[tuple[Limit, ...]]] = [
            [(plan.crew,)],
            [(plan.crew,)],
            [(api,), (account,), (api, account)],
            [(plan.crew, account), (plan.crew, api, account), (plan.crew, api)],
        ]

    def opened(self) -> None:
        sabotage(self.limits._store_client.store, self.plan.sabotage)

    async def work(self, number: int) -> None:
        """Some only hammer the slots, others wait for their time more than they work."""
        while not self.stopping.is_set():
            await self.turn(self.dice.choice(self._mixes[number % len(self._mixes)]))
            await asyncio.sleep(self.dice.uniform(0.0, 0.02))

    async def turn(self, limits: tuple[Limit, ...], *, by_hand: bool | None = None, work: float | None = None) -> bool:
        """Stand in line, start, work, finish. Whether it came to that."""
        dice = self.dice
        values = {"account": f"a{dice.randrange(self.plan.accounts)}"}
        wait = dice.uniform(0.5, 8.0)
        self._count += 1
        name = f"{self.who}:{self._count}"
        self.note("ask", turn=name, uses=uses_of(limits, values), wall=time.time())
        try:
            if dice.random() < 0.25 if by_hand is None else by_hand:
                return await self._by_hand(name, await self.limits.reserve(*limits, **values), wait)
            async with self.limits.acquire(*limits, wait=wait, **values) as reservation:
                await self._body(name, reservation, work)
            self.note("over", turn=name, kind="finished")
        except _EXPECTED as error:
            self.note("over", turn=name, kind=type(error).__name__)
            return False
        except asyncio.CancelledError:
            self.note("over", turn=name, kind="cancelled")
            raise
        except (InterlockError, Exception) as error:
            self.note("oops", what=repr(error), trace=traceback.format_exc())
            return False
        return True

    async def _by_hand(self, name: str, reservation: Reservation, wait: float) -> bool:
        try:
            started = self.dice.random() < 0.8 and await reservation.start(wait=wait)
            if started:
                await self._body(name, reservation, None)
        finally:
            with contextlib.suppress(LeaseLostError, StoreUnavailableError):
                await reservation.finish()
        self.note("over", turn=name, kind="finished" if started else "given back")
        return started

    async def _body(self, name: str, reservation: Reservation, work: float | None) -> None:
        """Work for a while. Nothing cancels what was started by hand, so it looks for itself."""
        dice = self.dice
        self.note("enter", turn=name, at=reservation._turn.at, wall=time.time())
        left = work
        if left is None:
            left = dice.uniform(0.5, 2.5) if dice.random() < self.plan.slow else 0.03 * dice.random()
        try:
            while left > 0 and not reservation.lost:
                await asyncio.sleep(min(left, 0.02))
                left -= 0.02
        finally:
            self.note("exit", turn=name)


async def run(plan: dict[str, Any], who: str, seed: int) -> None:
    """Be one process of a limits run until SIGTERM."""
    await run_process(Starter(LimitPlan.from_json(plan), who, seed))
