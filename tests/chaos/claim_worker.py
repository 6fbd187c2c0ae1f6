"""The program of a claims run: each process brings its share of the claimants that every key is to have.

A claimant whose process died before it was answered is sent again by the process that follows, which knows from the
journals who was answered. In the end each process takes some keys and keeps them, to die with them; `sweep` is a fresh
process that gets to whatever is not done.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.claims import Claims, ClaimState
from interlock.errors import LeaseLostError, StoreUnavailableError
from interlock.testing.lookup import get_or_none
from tests.chaos.actor import Actor, BasePlan, Ear, run_process
from tests.chaos.claim_sabotage import sabotage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.claims import Claim

__all__ = ["Claimant", "ClaimPlan", "Sweeper", "complete", "run", "sweep"]

_SWEEPERS = 24
NOBODY = -1
"""The number of whoever is not one of the claimants that a key is to have."""
_ENDS = {"done": 60, "done by hand": 14, "fail by hand": 8, "raise": 10, "cancel": 4, "late": 2, "late fail": 2}
"""How work on a claim ends, and how often in proportion. The late ones finish after they know it to be lost."""


@dataclass(frozen=True, kw_only=True)
class ClaimPlan(BasePlan):
    """What every process of a claims run does."""

    tasks: int = 12
    keys: int = 100
    claimants: int = 50
    """How many claim each key, all processes together."""
    slots: int = 8
    block: int = 50
    """So many keys are claimed at the same time, by everybody."""
    kept: int = 2
    """So many keys are taken by each process in the end, and not let go."""
    lease: tuple[float, float] = (2.0, 6.0)
    keep: float = 3600.0
    retry_in: float = 0.3
    """The longest wait after a failure."""
    slow: float = 0.01
    """How often work takes long."""
    long_work: tuple[float, float] = (0.5, 2.5)
    pause: float = 0.0
    """How long a task rests between two claims, at the most."""
    patience: float = 3.0
    """How much longer than a claim can be kept from others the last process tries to get it."""
    seed: int = 0

    @property
    def all_keys(self) -> list[str]:
        kept = [f"kept{slot}.{number}" for slot in range(self.slots) for number in range(self.kept)]
        return kept + [f"k{number:05}" for number in range(self.keys)]


class FailedError(Exception):
    """Work that did not succeed."""


class Claimant(Actor):
    """One process's worth of claimants."""

    def __init__(self, plan: ClaimPlan, who: str, seed: int) -> None:
        self.claims = Claims.from_url(plan.url, settings=plan.settings)
        super().__init__(plan, who, seed, self.claims)
        self.plan = plan
        self._count = 0
        self._left = plan.tasks
        self._keys = [key for key in plan.all_keys if key.startswith("k0")]
        self._errands = self._all_errands()

    def opened(self) -> None:
        sabotage(self.claims._store_client.store, self.plan.sabotage)

    @property
    def slot(self) -> int:
        return int(self.who[1:].partition(".")[0])

    async def work(self, number: int) -> None:
        for key, claimant in self._errands:
            while not await self._send(key, claimant):
                pass
            if self.plan.pause:
                await asyncio.sleep(self.dice.uniform(0.0, self.plan.pause))
        self._left -= 1
        if not self._left:
            await self._keep_some()
            (Path(self.plan.folder) / f"{self.slot}.complete").touch()
        while True:  # something has to go on as long as things are broken
            await asyncio.sleep(self.dice.uniform(0.0, 0.5))
            await self._send(self.dice.choice(self._keys), NOBODY)

    async def _send(self, key: str, claimant: int) -> bool:
        # A task of its own, as some cancel themselves.
        task = asyncio.create_task(self.claim(key, claimant))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        return task.cancelled() or task.result()

    def _all_errands(self) -> Iterator[tuple[str, int]]:
        """This process's claimants, block by block, without those who were answered already."""
        plan = self.plan
        answered = _answered(Path(plan.folder), self.slot)
        mine = range(self.slot, plan.claimants, plan.slots)
        for begin in range(0, len(self._keys), plan.block):
            errands = [(key, claimant) for key in self._keys[begin : begin + plan.block] for claimant in mine]
            random.Random(f"{plan.seed}/{self.slot}/{begin}").shuffle(errands)
            for errand in errands:
                if errand not in answered:
                    yield errand

    async def _keep_some(self) -> None:
        for number in range(self.plan.kept):
            key = f"kept{self.slot}.{number}"
            with contextlib.suppress(StoreUnavailableError):
                asked = time.monotonic()
                claim = await self.claims.claim(key, ttl=self.plan.lease[1], keep=self.plan.keep)
                self._answer(claim, key, NOBODY, asked, self.plan.lease[1])

    # -- one claimant ----------------------------------------------------------------------------------------------

    async def claim(self, key: str, claimant: int, end: str = "") -> bool:
        """Claim a key and work on it if it is new. False if there was no answer."""
        plan, dice = self.plan, self.dice
        lease = round(dice.uniform(*plan.lease), 3)
        retry_in = dice.uniform(0.0, plan.retry_in) if dice.random() < 0.5 else 0.0
        end = end or dice.choices(list(_ENDS), list(_ENDS.values()))[0]
        asked = time.monotonic()
        name = ""
        try:
            if end in ("done", "raise", "cancel"):
                making = self.claims.claim(key, ttl=lease, keep=plan.keep, retry_in=retry_in)
                async with making as claim:
                    name = self._answer(claim, key, claimant, asked, lease)
                    if claim.new:
                        await self._in_block(claim, name, end)
            else:
                claim = await self.claims.claim(key, ttl=lease, keep=plan.keep)
                name = self._answer(claim, key, claimant, asked, lease)
                if claim.new:
                    await self._by_hand(claim, name, end, retry_in)
            if claim.new:
                self.note("finished", work=name)
        except FailedError as error:
            # The library says with the error if it could not mark the claim as failed.
            self.note("refused" if getattr(error, "__notes__", ()) else "finished", work=name)
        except LeaseLostError:
            self.note("refused", work=name)
        except StoreUnavailableError as error:
            self.note("unacknowledged" if name else "unanswered", work=name, kind=type(error).__name__)
            return bool(name)
        except asyncio.CancelledError:
            self.note("unacknowledged", work=name, kind="cancelled")
            raise
        except Exception as error:
            self.note("oops", what=repr(error), trace=traceback.format_exc())
        return True

    def _answer(self, claim: Claim, key: str, claimant: int, asked: float, lease: float) -> str:
        """Note how a claim was answered; gives the name of the work if it is new."""
        if not claim.new:
            self.note("known", key=key, c=claimant, asked=asked, state=str(claim.state), attempt=claim.attempt)
            return "known"
        self._count += 1
        name = f"{self.who}:{self._count}"
        about = {"attempt": claim.attempt, "fence": claim.fence, "lease": lease}
        self.note("begin", work=name, key=key, c=claimant, asked=asked, **about)
        return name

    async def _in_block(self, claim: Claim, name: str, end: str) -> None:
        try:
            await self._effect(claim)
        finally:
            self.note("end", work=name)
        if end == "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        self.note("finish", work=name, how="failed" if end == "raise" else "done")
        if end == "raise":
            raise FailedError
        claim.result = name

    async def _by_hand(self, claim: Claim, name: str, end: str, retry_in: float) -> None:
        try:
            await self._effect(claim, until_lost=end.startswith("late"))
        finally:
            self.note("end", work=name)
        if claim.lost:
            await asyncio.sleep(self.dice.uniform(0.0, 1.0))  # others may have it by now; the store knows
        how = "failed" if "fail" in end else "done"
        self.note("finish", work=name, how=how)
        if how == "done":
            await claim.done(name)
        else:
            await claim.fail("it did not work", retry_in=retry_in)

    async def _effect(self, claim: Claim, *, until_lost: bool = False) -> None:
        """Work for a while. Nothing cancels work on a claim that was taken by hand, so it looks for itself."""
        dice = self.dice
        slow = dice.random() < self.plan.slow
        left = dice.uniform(*self.plan.long_work) if slow else dice.choice((0.0, 0.002, 0.02)) * dice.random()
        if until_lost and slow:
            left += self.plan.lease[1] / 2
        while left > 0 and not claim.lost:
            await asyncio.sleep(min(left, 0.02))
            left -= 0.02


def _answered(folder: Path, slot: int) -> set[tuple[str, int]]:
    """Whom the processes before this one in its slot have seen answered."""
    lines = [line for path in folder.glob(f"w{slot}.*.journal") for line in path.read_bytes().splitlines()]
    events = map(json.loads, lines)
    return {(event["key"], event["c"]) for event in events if event["event"] in ("known", "begin")}


def complete(plan: ClaimPlan) -> bool:
    """Whether every process has brought all its claimants."""
    return all((Path(plan.folder) / f"{slot}.complete").exists() for slot in range(plan.slots))


class Sweeper(Claimant):
    """Gets to every key that is not done, however its last holder ended."""

    async def sweep(self) -> None:
        """Bounded by how long a claim may be kept from others whose holder is gone or has failed."""
        keys = iter(self.plan.all_keys)
        await asyncio.gather(*(self._take(keys) for _ in range(_SWEEPERS)))

    async def _take(self, keys: Iterator[str]) -> None:
        plan = self.plan
        for key in keys:
            give_up = time.monotonic() + max(plan.session_ttl, plan.lease[1]) + plan.retry_in + plan.patience
            while time.monotonic() < give_up:
                await self.claim(key, NOBODY, "done by hand")
                view = await get_or_none(self.claims, key)
                if view is not None and view.state is ClaimState.DONE:
                    break
                await asyncio.sleep(0.05)


async def run(plan: dict[str, Any], who: str, seed: int) -> None:
    """Be one process of a claims run until SIGTERM."""
    await run_process(Claimant(ClaimPlan.from_json(plan), who, seed))


async def sweep(plan: dict[str, Any]) -> None:
    """Be the process that comes after all others."""
    sweeper = Sweeper(ClaimPlan.from_json(plan), "sweep", 1)
    with Ear(sweeper):
        await sweeper.open()
        await sweeper.sweep()
        await sweeper.close()
