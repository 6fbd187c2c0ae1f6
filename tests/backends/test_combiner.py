"""What queues for a connection is sent together, in order, and one that fails does not take the others with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock.backends.postgres.combiner import Combiner, Operation
from interlock.backends.postgres.locks import ASK, LEAVE
from interlock.errors import StoreUnavailableError
from interlock.ports.locks import Want

if TYPE_CHECKING:
    from collections.abc import Callable


def want(key: str, owner: str = "o") -> Want:
    return Want(key, owner, "p", "s", 30.0, 5.0, False)


class Wire:
    """Takes note of batches; answers each operation with its owner unless told otherwise."""

    def __init__(self, fails: Callable[[list[Operation]], Exception | None] = lambda _: None) -> None:
        self.batches: list[list[tuple[str, str, str]]] = []
        self._fails = fails

    async def send(self, batch: list[Operation]) -> list[Any]:
        self.batches.append([(o.kind, o.want.key, o.want.owner) for o in batch])
        await asyncio.sleep(0.001)
        error = self._fails(batch)
        if error is not None:
            raise error
        return [operation.want.owner for operation in batch]


async def test_what_is_asked_for_together_goes_together_by_key_and_in_order() -> None:
    wire = Wire()
    combiner = Combiner(wire.send, 5)
    asked = [(ASK, want("b", "1")), (ASK, want("a", "2")), (LEAVE, want("b", "1")), (ASK, want("a", "3"))]
    answers = await asyncio.gather(*(combiner.do(kind, one) for kind, one in asked))

    assert answers == ["1", "2", "1", "3"]
    assert wire.batches == [[(ASK, "a", "2"), (ASK, "a", "3"), (ASK, "b", "1"), (LEAVE, "b", "1")]]


async def test_one_that_is_to_go_alone_goes_alone() -> None:
    wire = Wire()
    combiner = Combiner(wire.send, 5)
    asked = [want("a", "1"), want("b", "2"), want("c", "3"), want("d", "4")]
    await asyncio.gather(*(combiner.do(ASK, one, alone=one.owner == "2") for one in asked))

    assert [[owner for *_, owner in batch] for batch in wire.batches] == [["1"], ["2"], ["3", "4"]]


async def test_a_cancelled_caller_changes_nothing_for_the_others_nor_for_its_own_operation() -> None:
    wire = Wire()
    combiner = Combiner(wire.send, 5)
    first = asyncio.create_task(combiner.do(ASK, want("a", "1")))
    second = asyncio.create_task(combiner.do(ASK, want("a", "2")))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == "2"
    assert wire.batches == [[(ASK, "a", "1"), (ASK, "a", "2")]]


def locked(batch: list[Operation]) -> Exception | None:
    if any(operation.want.owner == "bad" for operation in batch):
        error = StoreUnavailableError("locked")
        error.__cause__ = asyncpg.LockNotAvailableError("locked")
        return error
    return None


def faulty(batch: list[Operation]) -> Exception | None:
    return ValueError("faulty") if any(operation.want.owner == "bad" for operation in batch) else None


@pytest.mark.parametrize("fails", [locked, faulty])
async def test_one_that_fails_does_not_take_the_others_with_it(fails: Any) -> None:
    combiner = Combiner(Wire(fails).send, 5)
    asked = [want("a", "1"), want("b", "bad"), want("c", "3")]
    answers = await asyncio.gather(*(combiner.do(ASK, one) for one in asked), return_exceptions=True)

    assert [answers[0], answers[2]] == ["1", "3"]
    assert isinstance(answers[1], Exception)


async def test_an_outage_is_told_to_all_at_once_and_tried_once() -> None:
    wire = Wire(lambda _: StoreUnavailableError("away"))
    combiner = Combiner(wire.send, 5)
    answers = await asyncio.gather(*(combiner.do(ASK, want(key)) for key in "abc"), return_exceptions=True)

    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 3
    assert len(wire.batches) == 1


async def test_who_waited_in_vain_behind_others_is_not_tried_any_more() -> None:
    stuck = asyncio.Event()

    async def send(batch: list[Operation]) -> list[Any]:
        await stuck.wait()
        return ["ok"] * len(batch)

    combiner = Combiner(send, 0.05)
    first = asyncio.create_task(combiner.do(ASK, want("a")))
    while not combiner._work or combiner._waiting:
        await asyncio.sleep(0)
    second = asyncio.create_task(combiner.do(ASK, want("b")))
    await asyncio.sleep(0.06)
    stuck.set()

    assert await first == "ok"
    with pytest.raises(StoreUnavailableError):
        await second
