"""Claims in Redis. Each operation is one script: one atomic step, one round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.claim_texts import kept_error, why_not
from interlock.backends.redis.scripts import Scripts
from interlock.ports import claims as port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.redis.connection import Connection
    from interlock.backends.redis.keyspace import Keyspace
    from interlock.ports.journal import Attribution

__all__ = ["RedisClaims", "scripts"]

scripts = Scripts("claims")
_CLAIMED, _KNOWN = 1, 2


class RedisClaims:
    """Implements the claims port. Scripts take and return times as whole microseconds."""

    def __init__(self, connection: Connection, keyspace: Keyspace) -> None:
        self._connection = connection
        self._arguments = keyspace.arguments

    async def claim(self, request: port.ClaimRequest) -> port.ClaimAnswer:
        """Claim a key if it is available, else return its current claim."""
        reply = await self._connection.run(
            scripts.claim,
            *self._arguments(),
            request.key,
            request.owner,
            request.session,
            round(request.lease * 1e6),
            round(request.keep * 1e6),
        )
        if reply[0] == _CLAIMED:
            return port.Claimed(reply[1], reply[2] / 1e6, reply[3])
        if reply[0] == _KNOWN:
            return port.Known(_view(reply[1]))
        return port.SessionEnded()

    async def renew(self, leases: Sequence[port.Held]) -> Sequence[port.Renewed]:
        """Extend the leases of live claims."""
        words: list[Any] = []
        for key, owner, ttl in leases:
            words += (key, owner, round(ttl * 1e6))
        replies = await self._connection.run(scripts.renew, *self._arguments(), *words)
        return [_renewed(held.owner, reply) for held, reply in zip(leases, replies, strict=True)]

    async def finish(self, outcome: port.ClaimOutcome) -> port.ClaimFinished:
        """Finish a claim as done or failed."""
        reply = await self._connection.run(
            scripts.finish,
            *self._arguments(),
            outcome.key,
            outcome.owner,
            str(outcome.state),
            "" if outcome.result is None else f"={outcome.result}",
            kept_error(outcome.error),
            round(outcome.retry_in * 1e6),
            round(outcome.keep * 1e6),
        )
        return (
            port.ClaimFinished(True, "") if reply[0] else port.ClaimFinished(False, why_not(outcome.owner, *reply[1:]))
        )

    async def forget(self, key: str, why: str, attribution: Attribution) -> port.ClaimView | None:
        """Delete a claim and notify its owner."""
        reply = await self._connection.run(scripts.forget, *self._arguments(), key, why)
        return None if reply is None else _view(reply)

    async def list(
        self, key: str | None = None, wanted: port.ClaimFilter = port.EVERY_CLAIM, *, limit: int = 1000, after: str = ""
    ) -> Sequence[port.ClaimView]:
        """List claims that are still kept."""
        one = () if key is None else (key,)
        views: list[port.ClaimView] = []
        last: str | None = after
        while last is not None and len(views) < limit:
            left = limit - len(views)
            last, *found = await self._connection.run(
                scripts.list, *self._arguments(), left, wanted.prefix, str(wanted.state or ""), last, *one
            )
            views += map(_view, found)
        return views


def _renewed(owner: str, reply: Any) -> port.Renewed:
    if reply[0]:
        return port.Renewed(owner, reply[1] / 1e6, "")
    return port.Renewed(owner, None, why_not(owner, *reply[1:]))


def _view(reply: Any) -> port.ClaimView:
    (key, state, attempt, fence, owner, session, host, pid, program, claimed_at, *rest) = reply
    expires_at, finished_at, retry_at, error, result, kept_until, seen_at = rest
    return port.ClaimView(
        key=key,
        state=port.ClaimState(state),
        attempt=attempt,
        fence=fence,
        owner=owner,
        session=session,
        host=host,
        pid=int(pid),
        program=program,
        claimed_at=claimed_at / 1e6,
        expires_at=_seconds(expires_at),
        finished_at=_seconds(finished_at),
        retry_at=_seconds(retry_at),
        error=error,
        result=result,
        kept_until=kept_until / 1e6,
        seen_at=seen_at / 1e6,
    )


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6
