"""Claims in SQLite. Each operation is one immediate transaction in the writer's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.claim_texts import kept_error, why_not
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.queries import ClaimQueries, LockQueries
from interlock.ports import claims as port
from interlock.ports.journal import Action, claim_data, new_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from interlock.backends.sqlite.reader import Reader
    from interlock.backends.sqlite.writer import Writer
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["SqliteClaims"]

_sql = ClaimQueries()
_locks_sql = LockQueries()


class SqliteClaims:
    """Implements the claims port."""

    def __init__(self, writer: Writer, reader: Reader, settings: Settings, clock: Clock) -> None:
        self._run = writer.run
        self._read = reader.run
        self._namespace = settings.namespace
        self._now = clock.now

    async def claim(self, request: port.ClaimRequest) -> port.ClaimAnswer:
        """Claim a key if it is available, else return its current claim."""
        return await self._run(lambda db: self._claim(db, request))

    async def renew(self, leases: Sequence[port.Held]) -> Sequence[port.Renewed]:
        """Extend the leases of live claims."""
        return await self._run(lambda db: [self._renew(db, held) for held in leases])

    async def finish(self, outcome: port.ClaimOutcome) -> port.ClaimFinished:
        """Finish a claim as done or failed."""
        return await self._run(lambda db: self._finish(db, outcome))

    async def forget(self, key: str, why: str, attribution: Attribution) -> port.ClaimView | None:
        """Delete a claim. Its owner's process notices the commit."""
        return await self._run(lambda db: self._forget(db, key, why, attribution))

    async def list(
        self, key: str | None = None, wanted: port.ClaimFilter = port.EVERY_CLAIM, *, limit: int = 1000, after: str = ""
    ) -> Sequence[port.ClaimView]:
        """List claims that are still kept. Reads never wait for writers."""
        return await self._read(lambda db: self._look(db, key, *wanted, limit, after))

    # -- operations, on the writer's thread ------------------------------------------------------------------------

    def _claim(self, db: sqlite3.Connection, request: port.ClaimRequest) -> port.ClaimAnswer:
        now = self._now()
        values = self._values(
            now, key=request.key, owner=request.owner, session=request.session, lease=request.lease, keep=request.keep
        )
        found = db.execute(_sql.read_claim, values).fetchone()
        if found is None:
            return port.SessionEnded()
        host, pid, program, *row = found
        attempt = 1
        if row[0] is not None:
            view = _view(row, now)
            if view.live and view.owner == request.owner:
                db.execute(_sql.extend_lease, values)
                return port.Claimed(view.fence, now + request.lease, view.attempt)
            due = view.state is port.ClaimState.FAILED and (view.retry_at or 0.0) <= now
            if not due and (view.live or view.state is not port.ClaimState.IN_PROGRESS):
                return port.Known(view)
            attempt = view.attempt + 1
        (fence,) = db.execute(_locks_sql.next_fence, values).fetchone()
        about = {"host": host, "pid": pid, "program": program, "attempt": attempt, "fence": fence}
        db.execute(_sql.add_claim, values | about)
        return port.Claimed(fence, now + request.lease, attempt)

    def _renew(self, db: sqlite3.Connection, held: port.Held) -> port.Renewed:
        now = self._now()
        values = self._values(now, key=held.key, owner=held.owner, lease=held.ttl)
        if db.execute(_sql.renew_lease, values).rowcount:
            return port.Renewed(held.owner, now + held.ttl, "")
        now_with, state = self._standing(db, values)
        return port.Renewed(held.owner, None, self._why_not(db, values, now_with, state))

    def _finish(self, db: sqlite3.Connection, outcome: port.ClaimOutcome) -> port.ClaimFinished:
        failed = outcome.state is port.ClaimState.FAILED
        values = self._values(
            self._now(),
            key=outcome.key,
            owner=outcome.owner,
            state=outcome.state,
            result=None if failed else outcome.result,
            error=kept_error(outcome.error) if failed else "",
            retry_in=outcome.retry_in if failed else None,
            keep=outcome.keep,
        )
        if db.execute(_sql.finish_claim, values).rowcount:
            return port.ClaimFinished(True, "")
        now_with, state = self._standing(db, values)
        if (now_with, state) == (outcome.owner, outcome.state):
            return port.ClaimFinished(True, "")
        return port.ClaimFinished(False, self._why_not(db, values, now_with, state))

    def _forget(self, db: sqlite3.Connection, key: str, why: str, attribution: Attribution) -> port.ClaimView | None:
        views = self._look(db, key, "", None, 1, "")
        if not views:
            return None
        (view,) = views
        values = self._values(view.seen_at, key=key, session=view.session, owner=view.owner, why=why)
        db.execute(_sql.delete_claim, values)
        if view.state is port.ClaimState.IN_PROGRESS:
            db.execute(_locks_sql.add_message, values)
        before = claim_data(view)
        entry = new_entry(attribution, Action.CLAIM_FORGET, key, before, from_version=view.fence)
        add_entry(db, self._namespace, view.seen_at, entry)
        return view

    def _standing(self, db: sqlite3.Connection, values: dict[str, Any]) -> tuple[str | None, str | None]:
        """Return the owner and state of a key's claim, if it is kept."""
        return db.execute(_sql.owner_and_state, values).fetchone() or (None, None)

    def _why_not(self, db: sqlite3.Connection, values: dict[str, Any], now_with: str | None, state: str | None) -> str:
        (forgotten,) = db.execute(_sql.why_forgotten, values).fetchone() or (None,)
        return why_not(values["owner"], now_with, state, forgotten)

    # -- looking ---------------------------------------------------------------------------------------------------

    def _look(
        self,
        db: sqlite3.Connection,
        key: str | None,
        prefix: str,
        state: port.ClaimState | None,
        limit: int,
        after: str,
    ) -> Sequence[port.ClaimView]:
        """Scan the keys from the first that may match, and stop after the last."""
        now = self._now()
        views: list[port.ClaimView] = []
        for row in db.execute(_sql.list_claims, self._values(now, start=max(prefix, after) if key is None else key)):
            if len(views) >= limit or not row[0].startswith(prefix) or key not in (None, row[0]):
                break
            view = _view(row, now)
            if view.kept_until > now and state in (None, view.state) and view.key != after:
                views.append(view)
        return views

    def _values(self, now: float, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, "now": now, **values}


def _view(row: Sequence[Any], now: float) -> port.ClaimView:
    key, state, *rest = row
    return port.ClaimView._make((key, port.ClaimState(state), *rest, now))
