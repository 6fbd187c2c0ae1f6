"""The program of a lock-set run: tasks that contend for few keys, write with their fences, and journal what they see.

`Contender` works on any store; `run` is the entry point of a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock import Locks
from interlock.errors import InterlockError
from interlock.ports.locks import Waiting
from tests.chaos.actor import Actor, BasePlan, current, run_process
from tests.chaos.records import Target
from tests.chaos.sabotage import DEAF, sabotaged

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from interlock import Lease
    from interlock.ports.locks import Answer, LockRequest, LockStore

__all__ = ["Contender", "Plan", "run"]

_attempt: ContextVar[str | None] = ContextVar("chaos_attempt", default=None)
_SQL = {
    "sqlite": "insert into chaos_write (key, fence, attempt) values (?, ?, ?)",
    "postgres": "insert into chaos_write (key, fence, attempt) values ($1, $2, $3)",
}


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """What every contender of a run does."""

    keys: tuple[str, ...] = ("red", "green", "blue", "grey", "gold")
    ttl: tuple[float, float] = (2.0, 6.0)
    longest_wait: float = 20.0
    nested: float = 0.05
    """How often a body asks for a second key, in any order."""
    stored: float = 0.15
    """How often a body writes to a table in the lease's own store."""
    slow: float = 0.003
    """How often a body works for seconds. Who had trouble on the way to its lease does so more often."""


class RefusedError(Exception):
    """The target refused a write: a newer holder was there before."""


class Contender(Actor):
    """One process's worth of contention: a few tasks that share one `Locks`."""

    def __init__(self, plan: Plan, who: str, seed: int) -> None:
        self.locks = Locks.from_url(plan.url, settings=plan.settings)
        super().__init__(plan, who, seed, self.locks)
        self.plan = plan
        self.attempts: set[asyncio.Task[None]] = set()
        self._targets = {key: Target(Path(plan.folder), key) for key in plan.keys}
        self._count = 0
        self._writes: Counter[str] = Counter()
        self.queued: dict[str | None, str] = {}
        """Attempts that queue, and the session under which they do."""
        self.troubled: set[str | None] = set()
        """Attempts that did not come to their lease in a straight way."""

    def opened(self) -> None:
        _overhear(self.locks._store_client.store.locks, self.plan.sabotage)

    def let_go(self) -> None:
        super().let_go()
        for target in self._targets.values():
            target.close()

    # -- one task --------------------------------------------------------------------------------------------------

    async def work(self, number: int) -> None:
        dice = self.dice
        while not self.stopping.is_set():
            # A task of its own, so that a test can cancel just this attempt.
            task = asyncio.create_task(self._attempt(dice.choice(self.plan.keys), 0))
            self.attempts.add(task)
            task.add_done_callback(self.attempts.discard)
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait([task])
                raise
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
            await asyncio.sleep(dice.uniform(0.0, 0.02))

    async def _attempt(self, key: str, depth: int) -> None:
        dice, plan = self.dice, self.plan
        self._count += 1
        name = f"{self.who}:{self._count}"
        shortest, longest = plan.ttl
        ttl = round(shortest + (longest - shortest) * dice.random() ** 2, 3)
        # Most do not wait for long, and nobody does who holds another key, or one slow holder would stop everybody.
        longest_wait = 0.7 if depth else dice.choice((2.0, 2.0, plan.longest_wait))
        wait = 0.0 if dice.random() < 0.05 else round(dice.uniform(0.3, longest_wait), 3)
        token = _attempt.set(name)
        self.note("ask", attempt=name, key=key, ttl=ttl, wait=wait)
        try:
            async with self.locks.acquire(key, ttl, wait=wait) as lease:
                self.note("enter", attempt=name, key=key, owner=lease.owner, fence=lease.fence)
                try:
                    body = self._body(lease, name, depth)
                    await (_ignoring_cancellation(body) if plan.sabotage == DEAF else body)
                finally:
                    self.note("exit", attempt=name, key=key, writes=self._writes.pop(name, 0))
        except InterlockError as error:
            self.note("failed", attempt=name, key=key, kind=type(error).__name__)
        except RefusedError:
            self.note("failed", attempt=name, key=key, kind="refused")
        except asyncio.CancelledError:
            self.note("failed", attempt=name, key=key, kind="cancelled")
            raise
        except Exception as error:
            self.note("failed", attempt=name, key=key, kind="unexpected")
            self.note("oops", what=repr(error), trace=traceback.format_exc())
        finally:
            _attempt.reset(token)
            self.queued.pop(name, None)
            self.troubled.discard(name)

    async def _body(self, lease: Lease, name: str, depth: int) -> None:
        dice, plan = self.dice, self.plan
        slow = dice.random() < (max(0.25, plan.slow) if name in self.troubled else plan.slow)
        work = dice.uniform(0.8, 2.2) if slow else dice.choice((0.005, 0.005, 0.05)) * dice.random()
        await self._write(lease, name)  # a holder's first act raises the target's fence
        for _ in range(30 if slow else dice.randrange(3)):
            await asyncio.sleep(work / 30)
            await self._write(lease, name)
        if dice.random() < plan.stored and self.locks._store_client.store.name in _SQL:
            async with lease.fenced() as transaction:
                await transaction.execute(_SQL[self.locks._store_client.store.name], lease.key, lease.fence, name)
                await asyncio.sleep(dice.choice((0.0, 0.0, work / 3)))
            self.note("stored", attempt=name)
        if not depth and dice.random() < plan.nested:
            await self._attempt(dice.choice([key for key in plan.keys if key != lease.key]), depth + 1)
            await self._write(lease, name)
        await asyncio.sleep(work / 2)

    async def _write(self, lease: Lease, name: str) -> None:
        if not await self._targets[lease.key].write(lease.fence, name):
            self.note("refused", attempt=name, key=lease.key, fence=lease.fence)
            raise RefusedError
        self._writes[name] += 1


async def _ignoring_cancellation(body: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(body)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    task.result()


def _overhear(store: LockStore, sabotage: str) -> None:
    """Note what passes between the library and a store that the library's callers do not see.

    Requests whose answer came late or never: such a one may have been granted without its asker knowing. Places
    taken in a queue, once under each session.
    """
    if store.ask.__name__ == "noting":  # a store in memory is shared by several contenders
        return
    ask = sabotaged(store, sabotage)

    async def noting(want: LockRequest) -> Answer:
        contender, name, sent, heard = current.get(), _attempt.get(), time.monotonic(), False
        assert isinstance(contender, Contender)
        try:
            answer = await ask(want)
            heard = time.monotonic() - sent < want.ttl / 2
            if type(answer) is not Waiting:
                contender.queued.pop(name, None)
            elif contender.queued.get(name) != want.session:
                contender.troubled |= {name} & contender.queued.keys()
                contender.queued[name] = want.session
                contender.note("queued", attempt=name, session=want.session, sent=sent)
            return answer
        finally:
            if not heard:
                contender.troubled.add(name)
                contender.note("unheard", attempt=name, sent=sent)

    store.ask = noting  # type: ignore[method-assign]


async def run(plan: dict[str, Any], who: str, seed: int) -> None:
    """Be one process of a lock-set run until SIGTERM."""
    await run_process(Contender(Plan.from_json(plan), who, seed))
