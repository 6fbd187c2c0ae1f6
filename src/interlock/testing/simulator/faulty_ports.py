"""Claims, limits and cursors as one simulated process sees them, through its wire.

Operations of one owner take effect in the order in which they were started, as the port requires. Those of other owners
may overtake them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.claims import EVERY_CLAIM
from interlock.testing.simulator.events import (
    ClaimAsked,
    ClaimForgotten,
    ClaimSettled,
    ClaimsRenewed,
    CursorMoved,
    CursorRead,
    LimitAsked,
    LimitFinished,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.claims import (
        ClaimAnswer,
        ClaimFilter,
        ClaimFinished,
        ClaimOutcome,
        ClaimRequest,
        ClaimStore,
        ClaimView,
        Held,
        Renewed,
    )
    from interlock.ports.cursors import CursorStore, CursorView, Move, Moved, Overtaken
    from interlock.ports.journal import Attribution
    from interlock.ports.limits import Finished, LimitAnswer, LimitOverride, LimitStore, LimitView, Plan, Turns, Use
    from interlock.testing.simulator.watcher import Watcher
    from interlock.testing.simulator.wire import Wire

__all__ = ["FaultyClaims", "FaultyCursors", "FaultyLimits"]


class FaultyClaims:
    """Wrap another store's claim port."""

    def __init__(self, claims: ClaimStore, wire: Wire, watcher: Watcher) -> None:
        self._claims = claims
        self._call = wire.call
        self._watcher = watcher

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Claim."""

        async def operation() -> ClaimAnswer:
            answer = await self._claims.claim(request)
            self._watcher.saw(ClaimAsked, request, answer)
            return answer

        self._watcher.naming(request.owner)
        return await self._call("claim", (request.owner,), operation, last_counts=True)

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Renew."""

        async def operation() -> Sequence[Renewed]:
            answers = await self._claims.renew(leases)
            self._watcher.saw(ClaimsRenewed, leases, answers)
            return answers

        return await self._call("renew_claims", [lease.owner for lease in leases], operation)

    async def finish(self, outcome: ClaimOutcome) -> ClaimFinished:
        """Finish."""

        async def operation() -> ClaimFinished:
            finished = await self._claims.finish(outcome)
            self._watcher.saw(ClaimSettled, outcome, finished)
            return finished

        return await self._call("finish", (outcome.owner,), operation)

    async def forget(self, key: str, why: str, attribution: Attribution) -> ClaimView | None:
        """Forget."""

        async def operation() -> ClaimView | None:
            view = await self._claims.forget(key, why, attribution)
            self._watcher.saw(ClaimForgotten, key, view)
            return view

        return await self._call("forget", (), operation)

    async def list(
        self, key: str | None = None, wanted: ClaimFilter = EVERY_CLAIM, *, limit: int = 1000, after: str = ""
    ) -> Sequence[ClaimView]:
        """Look."""
        return await self._call("look", (), lambda: self._claims.list(key, wanted, limit=limit, after=after))


class FaultyLimits:
    """Wrap another store's limit port."""

    def __init__(self, limits: LimitStore, wire: Wire, watcher: Watcher) -> None:
        self._limits = limits
        self._call = wire.call
        self._watcher = watcher

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Reserve and start."""

        async def operation() -> LimitAnswer:
            answer = await self._limits.ask(plan)
            self._watcher.saw(LimitAsked, plan, answer)
            return answer

        self._watcher.naming(plan.owner)
        return await self._call("ask", (plan.owner,), operation, last_counts=True)

    async def finish(self, session: str, owner: str) -> Finished:
        """Finish."""

        async def operation() -> Finished:
            finished = await self._limits.finish(session, owner)
            self._watcher.saw(LimitFinished, owner, finished)
            return finished

        return await self._call("finish", (owner,), operation)

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Whose turn may have come."""
        return await self._call("turns", (), lambda: self._limits.turns(session, owners))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """The requests of a session."""
        return await self._call("session_requests", (), lambda: self._limits.session_requests(session))

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """Look."""
        return await self._call("look", (), lambda: self._limits.list(key, limit=limit, after=after))

    async def resize(self, figure: Use, attribution: Attribution) -> LimitOverride | None:
        """Set the figure of a limit."""
        return await self._call("resize", (), lambda: self._limits.resize(figure, attribution))

    async def reset(self, name: str, attribution: Attribution) -> LimitOverride | None:
        """Remove the figure that a person set."""
        return await self._call("reset", (), lambda: self._limits.reset(name, attribution))

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """The figures that people have set."""
        return await self._call("look", (), lambda: self._limits.overrides(limit=limit))


class FaultyCursors:
    """Wrap another store's cursor port."""

    def __init__(self, cursors: CursorStore, wire: Wire, watcher: Watcher) -> None:
        self._cursors = cursors
        self._call = wire.call
        self._watcher = watcher

    async def read(self, name: str) -> CursorView | None:
        """Read."""

        async def operation() -> CursorView | None:
            view = await self._cursors.read(name)
            self._watcher.saw(CursorRead, name, view)
            return view

        return await self._call("read", (), operation)

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move."""

        async def operation() -> Moved | Overtaken:
            answer = await self._cursors.move(move)
            self._watcher.saw(CursorMoved, move, answer)
            return answer

        return await self._call("move", (move.id,), operation)

    async def history(self, name: str) -> Sequence[CursorView]:
        """The last moves of a cursor."""
        return await self._call("history", (), lambda: self._cursors.history(name))

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """All cursors."""
        return await self._call("look", (), lambda: self._cursors.list(limit=limit))

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Forget a cursor."""
        return await self._call("forget", (), lambda: self._cursors.forget(name, attribution))
