"""The batcher: items submitted together are sent together and in order, and one that fails does not fail the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interlock.batcher import Batcher
from interlock.errors import MisuseError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Sink:
    """Records the batches it is sent; returns ten times each item. ``go`` lets the current batch finish."""

    def __init__(self, fails: Callable[[Sequence[int]], Exception | None] = lambda _: None) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.fails = fails

    async def send(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.go.wait()
        error = self.fails(items)
        if error is not None:
            raise error
        return [item * 10 for item in items]


def unlucky(items: Sequence[int]) -> Exception | None:
    return MisuseError("13 is not acceptable.") if 13 in items else None


async def test_items_submitted_together_are_sent_together() -> None:
    sink = Sink()
    batcher = Batcher(sink.send)

    assert await asyncio.gather(*(batcher.submit(n) for n in range(5))) == [0, 10, 20, 30, 40]
    assert sink.batches == [[0, 1, 2, 3, 4]]


async def test_items_submitted_during_a_batch_are_sent_in_the_next() -> None:
    sink = Sink()
    batcher = Batcher(sink.send)
    sink.go.clear()
    first = batcher.submit(1)
    while not sink.batches:
        await asyncio.sleep(0)
    later = [batcher.submit(n) for n in (2, 3)]
    sink.go.set()

    assert await asyncio.gather(first, *later) == [10, 20, 30]
    assert sink.batches == [[1], [2, 3]]


async def test_a_batch_is_sorted_and_items_with_equal_keys_keep_their_order() -> None:
    sink = Sink()
    batcher = Batcher(sink.send, order=lambda n: n % 10)

    assert await asyncio.gather(*(batcher.submit(n) for n in (12, 31, 22, 11))) == [120, 310, 220, 110]
    assert sink.batches == [[31, 11, 12, 22]]


async def test_a_batch_is_bounded() -> None:
    sink = Sink()
    batcher = Batcher(sink.send, max_batch=2)
    await asyncio.gather(*(batcher.submit(n) for n in range(5)))

    assert sink.batches == [[0, 1], [2, 3], [4]]


async def test_an_item_that_goes_alone_shares_its_batch_with_no_other() -> None:
    sink = Sink()
    batcher = Batcher(sink.send)
    await asyncio.gather(*(batcher.submit(n, alone=n == 2) for n in (1, 2, 3, 4)))

    assert sink.batches == [[1], [2], [3, 4]]


async def test_a_faulty_item_does_not_fail_the_others() -> None:
    sink = Sink(unlucky)
    batcher = Batcher(sink.send)
    first, second, third = await asyncio.gather(*(batcher.submit(n) for n in (1, 13, 3)), return_exceptions=True)

    assert (first, third) == (10, 30)
    assert isinstance(second, MisuseError)
    assert sink.batches == [[1, 13, 3], [1], [13], [3]]


async def test_an_outage_fails_all_items_and_is_tried_once() -> None:
    sink = Sink(lambda _: StoreUnavailableError())
    batcher = Batcher(sink.send)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, 2, 3)), return_exceptions=True)

    assert [type(result) for result in results] == [StoreUnavailableError] * 3
    assert len(sink.batches) == 1
    sink.fails = lambda _: None
    assert await batcher.submit(3) == 30


async def test_an_error_that_does_not_concern_single_items_fails_all() -> None:
    sink = Sink(unlucky)
    batcher = Batcher(sink.send, split_on=lambda _: False)
    results = await asyncio.gather(*(batcher.submit(n) for n in (1, 13)), return_exceptions=True)

    assert [type(result) for result in results] == [MisuseError] * 2
    assert len(sink.batches) == 1


async def test_an_item_is_sent_although_its_caller_was_cancelled() -> None:
    sink = Sink()
    batcher = Batcher(sink.send)
    cancelled, other = batcher.submit(1), batcher.submit(2)
    cancelled.cancel()

    assert await other == 20
    assert sink.batches == [[1, 2]]


async def test_closing_waits_for_what_was_submitted() -> None:
    sink = Sink()
    batcher = Batcher(sink.send)
    sink.go.clear()
    batcher.submit(3).cancel()
    closing = asyncio.ensure_future(batcher.close())
    while not sink.batches:
        await asyncio.sleep(0)
    assert not closing.done()
    sink.go.set()
    await closing

    assert sink.batches == [[3]]


async def test_an_item_that_queued_too_long_is_not_sent() -> None:
    sink = Sink()
    batcher = Batcher(sink.send, timeout=0.05, late="Too late.")
    sink.go.clear()
    first = batcher.submit(1)
    while not sink.batches:
        await asyncio.sleep(0)
    second = batcher.submit(2)
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(0.06, passed.set_result, None)
    await passed
    sink.go.set()

    assert await first == 10
    with pytest.raises(StoreUnavailableError, match="Too late"):
        await second
    assert sink.batches == [[1]]


def test_a_batcher_goes_on_in_another_event_loop() -> None:
    sink: Sink | None = None
    batcher: Batcher[int, int] = Batcher(lambda items: sink.send(items))  # type: ignore[union-attr]

    async def cut_short() -> None:
        nonlocal sink
        sink = Sink()
        sink.go.clear()
        batcher.submit(1)
        while not sink.batches:
            await asyncio.sleep(0)

    async def again() -> int:
        nonlocal sink
        sink = Sink()
        return await batcher.submit(2)

    asyncio.run(cut_short())
    assert asyncio.run(again()) == 20
