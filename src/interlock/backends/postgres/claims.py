"""Claims as rows. Each operation calls one function in the database: one round trip."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.claim_texts import kept_error, why_not
from interlock.backends.postgres.batching import KeyedBatchers, Operation
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import ClaimQueries
from interlock.ports.claims import (
    EVERY_CLAIM,
    ClaimAnswer,
    Claimed,
    ClaimFilter,
    ClaimFinished,
    ClaimOutcome,
    ClaimRequest,
    ClaimState,
    ClaimView,
    Held,
    Known,
    Renewed,
    SessionEnded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.connection import OrderedConnection, OrderedConnections
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["PostgresClaims"]

_sql = ClaimQueries()
_TURN, _FINISH = "c", "s"


class _Step(NamedTuple):
    """A claim or a finish, as the functions take it."""

    key: str
    owner: str
    session: str | None = None
    lease: float | None = None
    keep: float | None = None
    state: str | None = None
    result: str | None = None
    error: str | None = None
    retry_in: float | None = None


class PostgresClaims:
    """Implements the claims port."""

    def __init__(self, connections: OrderedConnections, settings: Settings, clock: Clock | None) -> None:
        self._connections = connections
        self._batchers = KeyedBatchers(connections, self._send, settings.store_wait / 2)
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Claim a key if it is available; otherwise return the state of its claim."""
        answer, fence, expires_at, attempt, details = await self._batchers.submit(_TURN, _Step(*request))
        if answer == "claimed":
            return Claimed(fence, expires_at, attempt)
        return SessionEnded() if answer == "ended" else Known(_view(details))

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Renew live claims."""
        # In the order of their keys, as in batches, so that the two never deadlock.
        keys, owners, ttls = ([held[i] for held in sorted(leases)] for i in range(3))
        rows = await self._connections.first.fetch(_sql.renew, self._namespace, keys, owners, ttls, self._clock())
        return [
            Renewed(owner, expires_at, "" if refusal is None else _why_not(owner, refusal))
            for owner, expires_at, refusal in rows
        ]

    async def finish(self, outcome: ClaimOutcome) -> ClaimFinished:
        """Finish a claim as done or failed."""
        key, owner, state, result, error, retry_in, keep = outcome
        if state is ClaimState.FAILED:
            step = _Step(key, owner, keep=keep, state=state, error=kept_error(error), retry_in=retry_in)
        else:
            step = _Step(key, owner, keep=keep, state=state, error="", result=result)
        answer, *_, details = await self._batchers.submit(_FINISH, step)
        return ClaimFinished(True, "") if answer == "finished" else ClaimFinished(False, _why_not(owner, details))

    async def forget(self, key: str, why: str, attribution: Attribution) -> ClaimView | None:
        """Remove a claim and notify its holder."""
        args = (self._namespace, key, why, write_attribution(attribution), self._clock())
        ((view,),) = await self._connections.of(key).fetch(_sql.forget, *args)
        return None if view is None else _view(view)

    async def list(
        self, key: str | None = None, wanted: ClaimFilter = EVERY_CLAIM, *, limit: int = 1000, after: str = ""
    ) -> Sequence[ClaimView]:
        """List claims that are still kept."""
        args = (self._namespace, key, *wanted, limit, after, self._clock())
        return [_view(view) for (view,) in await self._connections.reads.fetch(_sql.list, *args)]

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._batchers.close()

    async def _send(self, connection: OrderedConnection, batch: Sequence[Operation]) -> Sequence[Any]:
        """Call the function for one operation, or send several in one transaction."""
        steps: list[_Step] = [operation.request for operation in batch]
        if len(batch) > 1:
            kinds = [operation.kind for operation in batch]
            columns = (list(column) for column in zip(*steps, strict=True))
            return await connection.fetch_here(_sql.batch, self._namespace, kinds, *columns, self._clock())
        key, owner, session, lease, keep, *finished = steps[0]
        if batch[0].kind == _TURN:
            return await connection.fetch_here(
                _sql.claim, self._namespace, key, owner, session, lease, keep, self._clock()
            )
        return await connection.fetch_here(_sql.finish, self._namespace, key, owner, *finished, keep, self._clock())


def _view(details: str) -> ClaimView:
    view = json.loads(details)
    return ClaimView(**view | {"state": ClaimState(view["state"])})


def _why_not(owner: str, refusal: str) -> str:
    now_with, state, forgotten = json.loads(refusal)
    return why_not(owner, now_with, state, forgotten)
