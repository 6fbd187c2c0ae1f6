"""How PostgreSQL's operations share round trips and transactions: batchers, one for each order of operations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from interlock.batcher import Batcher, not_an_outage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.backends.postgres.connection import OrderedConnection, OrderedConnections

__all__ = ["KeyedBatchers", "Operation", "new_batcher"]

_MAX_BATCH = 64


class Operation(NamedTuple):
    """One operation on a key: the function that does it, and its arguments, which include ``key``."""

    kind: str
    request: Any


def new_batcher(
    send: Callable[[list[Any]], Awaitable[Sequence[Any]]],
    timeout: float,
    *,
    order: Callable[[Any], Any] | None = None,
) -> Batcher[Any, Any]:
    """Return a batcher with PostgreSQL's bounds."""
    return Batcher(
        send,
        max_batch=_MAX_BATCH,
        timeout=timeout,
        late="PostgreSQL did not answer in time.",
        order=order,
        split_on=_concerns_one_item,
    )


class KeyedBatchers:
    """One batcher per connection. A key always uses the same one, so that operations on it take effect in order."""

    def __init__(
        self,
        connections: OrderedConnections,
        send: Callable[[OrderedConnection, list[Operation]], Awaitable[Sequence[Any]]],
        timeout: float,
    ) -> None:
        self._connections = connections
        # All batches are sorted by key, so that two of them never wait for each other's rows.
        self._batchers = {
            connection: new_batcher(partial(send, connection), timeout, order=_key) for connection in connections
        }

    def submit(self, kind: str, request: Any, *, alone: bool = False) -> Awaitable[Any]:
        """Queue one operation; the result is its row."""
        return self._batchers[self._connections.of(request.key)].submit(Operation(kind, request), alone=alone)

    async def close(self) -> None:
        """Wait until everything that was submitted has been sent."""
        for batcher in self._batchers.values():
            await batcher.close()


def _concerns_one_item(error: Exception) -> bool:
    """Return True for an error of one item, or if a long transaction has locked the row of one item's key."""
    return not_an_outage(error) or isinstance(error.__cause__, asyncpg.LockNotAvailableError)


def _key(operation: Operation) -> str:
    return str(operation.request.key)
