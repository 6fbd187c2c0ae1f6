"""Sends together what was asked for while the last batch was under way: one round trip, one transaction, one wait
for the disk.

What was handed in takes effect in that order and runs to its end, also if its caller was cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.backends.postgres.lane import Lane, Lanes

__all__ = ["Combiner", "Combiners", "Operation"]

_MOST_AT_ONCE = 64
_BREATH = 2


class Operation:
    """Something to do with a key (``want.key``), and who wants to know how it went."""

    __slots__ = ("alone", "give_up", "kind", "outcome", "want")

    def __init__(self, kind: str, want: Any, alone: bool, outcome: asyncio.Future[Any], give_up: float) -> None:
        self.kind = kind
        self.want = want
        self.alone = alone
        self.outcome = outcome
        self.give_up = give_up


class Combiner:
    """The operations that wait for one lane."""

    def __init__(self, send: Callable[[list[Operation]], Awaitable[Sequence[Any]]], wait: float) -> None:
        self._send = send
        self._wait = wait
        self._waiting: deque[Operation] = deque()
        self._work: asyncio.Task[None] | None = None

    async def do(self, kind: str, want: Any, *, alone: bool = False) -> Any:
        """Do one operation and return its row. One that is to go alone shares its transaction with no other."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(Operation(kind, want, alone, outcome, loop.time() + self._wait))
        if self._work is None:
            self._work = loop.create_task(self._run())
        return await outcome

    async def close(self) -> None:
        """Do what was handed in, then stop."""
        if self._work is not None:
            await asyncio.wait([self._work])

    async def _run(self) -> None:
        try:
            while self._waiting:
                # What others are about to ask for in the same breath goes along: a turn of the event loop costs
                # microseconds, a round trip and a wait for the disk hundreds.
                for _ in range(_BREATH):
                    await asyncio.sleep(0)
                await self._do(self._next_batch())
        finally:
            self._work = None

    def _next_batch(self) -> list[Operation]:
        batch = [self._waiting.popleft()]
        while self._waiting and len(batch) < _MOST_AT_ONCE and not (batch[0].alone or self._waiting[0].alone):
            batch.append(self._waiting.popleft())
        # In the order of their keys, as all batches are; operations on one key keep theirs.
        return sorted(batch, key=_key)

    async def _do(self, batch: list[Operation]) -> None:
        now = asyncio.get_running_loop().time()
        for operation in batch:
            if now >= operation.give_up:
                # It waited in vain behind others; to try it all the same would only make those behind it wait longer.
                _fail(operation, StoreUnavailableError("PostgreSQL did not answer in time."))
        batch = [operation for operation in batch if now < operation.give_up]
        if not batch:
            return
        try:
            rows = await self._send(batch)
        except Exception as error:  # noqa: BLE001 - every caller hears what happened
            gone = isinstance(error, StoreUnavailableError)
            if len(batch) > 1 and not (gone and not isinstance(error.__cause__, asyncpg.LockNotAvailableError)):
                # One of them is at fault, or its key is locked by a long transaction: the others shall not suffer.
                for operation in batch:
                    await self._do([operation])
                return
            for operation in batch:
                _fail(operation, error)
        else:
            for operation, row in zip(batch, rows, strict=True):
                if not operation.outcome.done():
                    operation.outcome.set_result(row)


class Combiners:
    """One for each lane. A key always takes the same, so that operations on it take effect in order."""

    def __init__(
        self, lanes: Lanes, send: Callable[[Lane, list[Operation]], Awaitable[Sequence[Any]]], wait: float
    ) -> None:
        self._lanes = lanes
        self._combiners = {lane: Combiner(partial(send, lane), wait) for lane in lanes}

    def do(self, kind: str, want: Any, *, alone: bool = False) -> Awaitable[Any]:
        """Do one operation and return its row."""
        return self._combiners[self._lanes.of(want.key)].do(kind, want, alone=alone)

    async def close(self) -> None:
        """Do what was handed in, then stop."""
        for combiner in self._combiners.values():
            await combiner.close()


def _key(operation: Operation) -> str:
    return str(operation.want.key)


def _fail(operation: Operation, error: Exception) -> None:
    if not operation.outcome.done():
        operation.outcome.set_exception(error)
