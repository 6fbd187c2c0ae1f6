"""One batcher for everything that is cheaper in company: a round trip, a transaction, a wait for the disk.

While one batch is in flight, further items queue; the next batch takes them together. Batches are sent one at a time
and in order. An item that was submitted is sent even if its caller is cancelled.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Batcher", "not_an_outage"]

T = TypeVar("T")
R = TypeVar("R")
_YIELDS = 2
"""How many turns of the event loop a batch waits for company, unless there was none lately. A turn costs microseconds,
what is shared hundreds."""


def not_an_outage(error: Exception) -> bool:
    """Return True unless the store is unavailable: then every item would fail the same way."""
    return not isinstance(error, StoreUnavailableError)


class _Pending(Generic[T, R]):
    """An item that waits to be sent, and the future of its result."""

    __slots__ = ("alone", "deadline", "item", "result")

    def __init__(self, item: T, alone: bool, deadline: float, result: asyncio.Future[R]) -> None:
        self.item = item
        self.alone = alone
        self.deadline = deadline
        self.result = result


class Batcher(Generic[T, R]):
    """Sends the items of several callers with one call of ``send``, which returns one result per item, in order.

    - ``max_batch``: how many items a batch has at most.
    - ``timeout``: an item that has queued for so many seconds fails with ``late`` and is not sent, which would only
      make the items behind it wait longer.
    - ``order``: the sort key of the items in a batch. Items with equal keys keep their order.
    - ``split_on``: whether a batch's error concerns single items. If it does, each item is sent again on its own, so
      that one faulty item does not fail the others. Otherwise all items fail.
    """

    def __init__(
        self,
        send: Callable[[list[T]], Awaitable[Sequence[R]]],
        *,
        max_batch: int = 1_000_000_000,
        timeout: float = math.inf,
        late: str = "The store did not answer in time.",
        order: Callable[[T], Any] | None = None,
        split_on: Callable[[Exception], bool] = not_an_outage,
    ) -> None:
        self._send = send
        self._max_batch = max_batch
        self._timeout = timeout
        self._late = late
        self._order = order
        self._split_on = split_on
        self._queue: deque[_Pending[T, R]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._last_size = 0

    def submit(self, item: T, *, alone: bool = False) -> asyncio.Future[R]:
        """Queue an item; the future is its result. An item that goes ``alone`` shares its batch with no other."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[R] = loop.create_future()
        task = self._task
        if task is None or task.done() or task.get_loop() is not loop:
            self._queue.clear()  # left over from an event loop that was closed
            self._task = loop.create_task(self._run(), name="interlock-batcher")
        self._queue.append(_Pending(item, alone, loop.time() + self._timeout, result))
        return result

    async def close(self) -> None:
        """Wait until everything that was submitted has been sent."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._queue:
                if self._last_size > 1 or len(self._queue) > 1:
                    for _ in range(_YIELDS):
                        await asyncio.sleep(0)
                batch = self._next_batch()
                self._last_size = len(batch)
                await self._deliver(batch)
        finally:
            self._task = None

    def _next_batch(self) -> list[_Pending[T, R]]:
        queue = self._queue
        batch = [queue.popleft()]
        while queue and len(batch) < self._max_batch and not (batch[0].alone or queue[0].alone):
            batch.append(queue.popleft())
        order = self._order
        if order is not None and len(batch) > 1:
            batch.sort(key=lambda pending: order(pending.item))
        return batch

    async def _deliver(self, batch: list[_Pending[T, R]]) -> None:
        now = asyncio.get_running_loop().time()
        if now >= min(pending.deadline for pending in batch):
            _fail([pending for pending in batch if now >= pending.deadline], StoreUnavailableError(self._late))
            batch = [pending for pending in batch if now < pending.deadline]
            if not batch:
                return
        try:
            results = await self._send([pending.item for pending in batch])
        except Exception as error:  # noqa: BLE001 - every caller gets the error
            if len(batch) > 1 and self._split_on(error):
                for pending in batch:
                    await self._deliver([pending])
            else:
                _fail(batch, error)
        else:
            for pending, result in zip(batch, results, strict=True):
                if not pending.result.done():
                    pending.result.set_result(result)


def _fail(batch: list[_Pending[Any, Any]], error: Exception) -> None:
    for pending in batch:
        if not pending.result.done():
            pending.result.set_exception(error)
