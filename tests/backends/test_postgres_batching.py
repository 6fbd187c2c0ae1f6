"""PostgreSQL's batches: sorted by key, and a key that a long transaction has locked does not fail the others."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from interlock.backends.postgres.batching import KeyedBatchers, Operation
from interlock.backends.postgres.locks import ASK, LEAVE
from interlock.errors import StoreUnavailableError
from interlock.ports.locks import LockRequest


def want(key: str, owner: str = "o") -> LockRequest:
    return LockRequest(key, owner, "p", "s", 30.0, 5.0, False)


class OneConnection:
    def __iter__(self) -> Any:
        return iter(["connection"])

    def of(self, key: str) -> str:
        return "connection"


class Wire:
    """Records batches; answers each operation with its owner, and fails batches that have the owner ``bad``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.batches: list[list[tuple[str, str, str]]] = []
        self.error = error

    async def send(self, connection: Any, batch: list[Operation]) -> list[Any]:
        self.batches.append([(kind, want.key, want.owner) for kind, want in batch])
        if self.error is not None and any(operation.request.owner == "bad" for operation in batch):
            raise self.error
        return [operation.request.owner for operation in batch]


def batchers(wire: Wire) -> KeyedBatchers:
    lanes: Any = OneConnection()
    return KeyedBatchers(lanes, wire.send, 5)


async def test_a_batch_is_sorted_by_key_and_operations_on_one_key_keep_their_order() -> None:
    wire = Wire()
    keyed = batchers(wire)
    asked = [(ASK, want("b", "1")), (ASK, want("a", "2")), (LEAVE, want("b", "1")), (ASK, want("a", "3"))]

    assert await asyncio.gather(*(keyed.submit(kind, one) for kind, one in asked)) == ["1", "2", "1", "3"]
    assert wire.batches == [[(ASK, "a", "2"), (ASK, "a", "3"), (ASK, "b", "1"), (LEAVE, "b", "1")]]


@pytest.mark.parametrize("cause", [asyncpg.LockNotAvailableError("locked"), None])
async def test_a_locked_key_fails_alone_and_an_outage_fails_all(cause: Exception | None) -> None:
    error = StoreUnavailableError("unavailable")
    error.__cause__ = cause
    wire = Wire(error)
    keyed = batchers(wire)
    asked = [want("a", "1"), want("b", "bad"), want("c", "3")]
    first, second, third = await asyncio.gather(*(keyed.submit(ASK, one) for one in asked), return_exceptions=True)

    assert second is error
    assert (first, third) == (("1", "3") if cause else (error, error))
