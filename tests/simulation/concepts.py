"""A random workload of claims, limits and cursors, with locks among them now and then, in one store_client per process.

Run as a script with seeds it prints what happened: ``python -m tests.simulation.concepts 7``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from interlock.limits import Cooldown, Rate, Slots
from interlock.testing.simulator import (
    Bounds,
    ClaimCaller,
    CursorCaller,
    LimitCaller,
    SimulationError,
    Violation,
    World,
    check,
    check_concepts,
)
from interlock.testing.simulator.events import ClaimsSeen, LimitsSeen, NeverClaimed
from interlock.testing.simulator.history import SessionBegan
from tests.simulation.workload import PROFILES, SETTINGS, Run, Scenario, Worker, at_once

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.limits import Limit
    from interlock.service import Service
    from interlock.testing.simulator import SimulatedProcess

KINDS = ("claims", "limits", "all")
_LONGEST_LEASE = 60.0
_LONGEST_RETRY = 3.0


def simulate(seed: int, **world_options: Any) -> Run:
    """Run the workload of a seed and judge it. Networks take turns, and claims, limits and all together."""
    profile = list(PROFILES)[seed % len(PROFILES)]
    kind = KINDS[seed // len(PROFILES) % len(KINDS)]
    faults = PROFILES[profile]
    world_options = {"max_seconds": 1000.0, "max_steps": 200_000, **world_options}
    world = World(seed, faults=faults, settings=SETTINGS, **world_options)
    failed = None
    try:
        world.run(ConceptScenario(world, kind).main)
    except SimulationError as error:
        failed = error
    bounds = Bounds.of(faults, SETTINGS)
    verdict = check_concepts(world.history.events, bounds)
    if kind == "all":
        locks = check(world.history.events, bounds)
        verdict.violations += [violation for violation in locks.violations if violation.promise != "odd"]
    if failed is not None:
        verdict.violations.append(Violation(world.clock.now(), "bounded", str(failed)))
    return Run(world, verdict, f"{profile}, {kind}", "test_concept_seeds.py", "concepts")


class ConceptScenario(Scenario):
    """The processes of one run and what they do."""

    closing_early = 0.25

    def __init__(self, world: World, kind: str) -> None:
        super().__init__(world)
        self.kind = kind
        self.limit = self.random.choice((1, 1, 2, 3))
        self.agree = self.random.random() < 0.8
        self.rate = self.random.choice(((1, 0.5), (2, 1.0), (3, 2.0), (3, 6.0)))
        self.cooldown = self.random.choice((0.2, 0.5, 1.0, 4.0))

    async def main(self, world: World) -> None:
        world.loop.create_task(self._spy(), name="spy")
        await super().main(world)

    def parts(self, process: SimulatedProcess) -> list[Service[Any]]:
        return [*([process.locks] if self.kind == "all" else []), process.claims, process.cursors, process.limits]

    def workers(self, process: SimulatedProcess) -> Sequence[Worker]:
        return [ConceptWorker(self, process, number) for number in range(self.random.choice((1, 2, 3, 4)))]

    async def close(self, process: SimulatedProcess) -> None:
        parts = self.parts(process)
        if self.random.random() < 0.5:
            await self.random.choice(parts).close()
            await asyncio.sleep(self.random.random())
        for part in reversed(parts):
            await part.close()

    def limits(self, process: SimulatedProcess) -> list[Limit]:
        """One to three limits as this process knows them."""
        more = 0 if self.agree else process.process.number % 2
        slots = Slots("jobs", self.limit + more)
        rate = Rate("api", self.rate[0] + more, per=self.rate[1])
        other = Slots("runners", 1 + more)
        cooldown = Cooldown("account", self.cooldown)
        choices: tuple[list[Limit], ...] = (
            [slots],
            [slots],
            [rate],
            [cooldown],
            [slots, rate],
            [rate, slots],
            [other, slots],
            [slots, cooldown],
            [other, rate, cooldown],
        )
        return self.random.choice(choices)

    async def see_what_is_left(self) -> None:
        world = self.world
        await super().see_what_is_left()
        await world.until(lambda: not self._taken(), within=self.bounds.tidy + SETTINGS.session_ttl)
        world.history.add(LimitsSeen(world.clock.now(), "world", at_once(world.store.limits.list()), end=True))
        if self.kind != "limits":
            prober = world.spawn("prober")
            probing = prober.start(self._probe(prober), name="prober")
            await world.until(probing.done, within=4 * _LONGEST_LEASE + 2 * self.bounds.tidy)

    def _taken(self) -> bool:
        session_requests = self.world.store.limits.session_requests
        sessions = [event.session for event in self.world.history.events if isinstance(event, SessionBegan)]
        return any(at_once(session_requests(session)) for session in sessions)

    async def _spy(self) -> None:
        """Look into the store now and then."""
        history, store = self.world.history, self.world.store
        while True:
            await asyncio.sleep(0.2 + self.random.random() * 0.6)
            history.add(ClaimsSeen(history.now(), "spy", at_once(store.claims.list())))
            history.add(LimitsSeen(history.now(), "spy", at_once(store.limits.list()), end=False))

    async def _probe(self, prober: SimulatedProcess) -> None:
        """After all others have ended every claim is done, or is to be had by whoever asks for it often enough."""
        caller = ClaimCaller(prober)
        for part in self.parts(prober):
            await part.open()
        until = self.world.clock.now() + _LONGEST_LEASE + _LONGEST_RETRY + SETTINGS.session_ttl + self.bounds.tidy
        for key in self.keys:
            while (state := await caller.by_hand(key, 1.0, 600.0, [])) not in ("new", "done"):
                if self.world.clock.now() > until:
                    self.world.history.add(NeverClaimed(self.world.clock.now(), "prober", key, state))
                    break
                await asyncio.sleep(0.5)


class ConceptWorker(Worker):
    """One task: a few random acts in a row, perhaps cancelled on the way."""

    scenario: ConceptScenario

    def __init__(self, scenario: ConceptScenario, process: SimulatedProcess, number: int) -> None:
        super().__init__(scenario, process, number)
        self.scenario = scenario
        self.claims = ClaimCaller(process)
        self.limits = LimitCaller(process)
        self.cursors = CursorCaller(process)
        self.moves = 0

    def acts(self) -> Sequence[Callable[[], Awaitable[None]]]:
        claims = [self._claim, self._claim, self._claim, self._claim_by_hand, self._claim_by_hand, self._forget]
        limits = [self._limit, self._limit, self._limit, self._limit_by_hand, self._reserve, self._reserve]
        limits += [self._reserve_for_nothing]
        if self.scenario.kind == "claims":
            return [*claims, self._advance]
        if self.scenario.kind == "limits":
            return limits
        return [*claims, *limits, self._claim_limited, self._limit_claimed, self._advance, self._acquire, self._nested]

    # -- claims ----------------------------------------------------------------------------------------------------

    async def _claim(self, inside: Callable[[], Awaitable[None]] | None = None) -> None:
        retry_in = self.random.choice((0.0, 0.0, 0.5, _LONGEST_RETRY))
        fails = self.random.random() < 0.4
        pieces = self._pieces()
        await self.claims.block(self._key(), self._lease(), self._keep(), retry_in, pieces, fails=fails, inside=inside)

    async def _claim_by_hand(self) -> None:
        fails = self.random.random() < 0.4
        retry_in = self.random.choice((0.0, 0.0, 0.5, _LONGEST_RETRY))
        timeout = self.random.choice((None, None, 0.003, 0.015, 0.3))
        about = (self._key(), self._lease(), self._keep(), self._pieces())
        await self.claims.by_hand(*about, fails=fails, retry_in=retry_in, timeout=timeout)

    async def _forget(self) -> None:
        if self.random.random() < 0.5:
            await self.process.claims.forget(self._key(), reason="simulated", by=self.name)

    def _lease(self) -> float:
        return self.random.choice((1.0, 1.0, 1.5, 3.0, _LONGEST_LEASE, _LONGEST_LEASE))

    def _keep(self) -> float:
        return self.random.choice((1.0, 1.0, 2.0, 60.0))

    # -- limits ----------------------------------------------------------------------------------------------------

    async def _limit(self, inside: Callable[[], Awaitable[None]] | None = None) -> None:
        await self.limits.block(self._limits(), self._wait(), self._pieces(), inside=inside)

    async def _limit_by_hand(self) -> None:
        await self.limits.by_hand(self._limits(), self._wait(), self._pieces())

    async def _reserve(self) -> None:
        later = self.random.choice((0.0, 0.1, 0.7, 3.0))
        await self.limits.reserve(self._limits(), later, self._wait(), self._pieces())

    async def _reserve_for_nothing(self) -> None:
        later = self.random.choice((0.0, 0.1, 1.0))
        await self.limits.reserve(self._limits(), later, 0.0, [], use=False)

    def _limits(self) -> list[Limit]:
        return self.scenario.limits(self.process)

    # -- and more --------------------------------------------------------------------------------------------------

    async def _claim_limited(self) -> None:
        await self._claim(self._limit)

    async def _limit_claimed(self) -> None:
        await self._limit(self._claim)

    def _pieces(self) -> list[float]:
        faults = self.process.world.faults
        if (faults.paused or faults.outage) and self.random.random() < 0.4:
            return [0.1] * 25  # at work for so long that some stand still or lose their session in the middle
        return super()._pieces()

    async def _advance(self) -> None:
        self.moves += 1
        pause = self.random.choice((0.0, 0.05, 0.5))
        await self.cursors.advance("notes", f"{self.name}/{self.moves}", pause)


def _main(arguments: list[str]) -> None:
    digest_only = "--digest" in arguments
    for seed in [int(argument) for argument in arguments if argument != "--digest"]:
        run = simulate(seed, logs=bool(os.environ.get("LOGS")))
        if digest_only:
            print(seed, run.world.loop.digest, run.world.loop.steps, len(run.world.history.events))
        else:
            print(*run.world.loop.trace, run, sep="\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
