"""Limits in SQLite. Each operation is one immediate transaction in the writer's thread."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from interlock.backends.admission import (
    TURN,
    UNLIMITED,
    Decision,
    KeyStatus,
    Room,
    WaitKind,
    admit,
    room_since,
    slot_due_at,
)
from interlock.backends.pacing import Quota, micros, seconds
from interlock.backends.sqlite.journal import add_entry
from interlock.backends.sqlite.limit_rows import NO_TICKET, LimitRows, sql
from interlock.backends.sqlite.queue_order import RequestTimes
from interlock.errors import StoreUnavailableError
from interlock.ports import limits as port
from interlock.ports.journal import Action, new_entry, override_data
from interlock.ports.limits import (
    Finished,
    Full,
    LimitAnswer,
    LimitOverride,
    LimitUser,
    LimitView,
    Plan,
    SessionEnded,
    Turn,
    Turns,
    Use,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from interlock.backends.sqlite.reader import Reader
    from interlock.backends.sqlite.writer import Writer
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["SqliteLimits"]


class SqliteLimits:
    """Implements the limits port."""

    def __init__(self, writer: Writer, reader: Reader, settings: Settings, clock: Clock) -> None:
        self._run = writer.run
        self._read = reader.run
        self._namespace = settings.namespace
        self._now = clock.now
        self._asked = RequestTimes(clock)
        self._longest = micros(settings.store_wait)  # how long a request may be repeated

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Reserve, in the order of the requests, and start if possible."""
        asked = self._asked.of(plan.owner)
        try:
            return await self._run(lambda db: self._ask(self._rows(db), plan, asked))
        except StoreUnavailableError:
            self._asked.keep(plan.owner, asked)
            raise

    async def finish(self, session: str, owner: str) -> Finished:
        """Finish a reservation and free its slots."""
        self._asked.forget(owner)
        return await self._run(lambda db: self._finish(self._rows(db), session, owner))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiting owners whose turn may have come."""
        return await self._run(lambda db: self._turns(self._rows(db), session, owners))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return all reservations of a session."""
        return await self._run(lambda db: self._rows(db).all(sql.session_requests, session=session))

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """List limits in use. Reads never wait for writers."""
        return await self._read(lambda db: self._look(self._rows(db), key, limit, after))

    async def resize(self, figure: Use, attribution: Attribution) -> LimitOverride | None:
        """Set the figure of a limit."""
        return await self._run(lambda db: self._set(db, figure.key, figure, attribution))

    async def reset(self, name: str, attribution: Attribution) -> LimitOverride | None:
        """Remove the figure that a person set."""
        return await self._run(lambda db: self._set(db, name, None, attribution))

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """List the figures that people have set."""
        return await self._read(
            lambda db: [_override(row) for row in self._rows(db).all(sql.list_overrides, limit=limit)]
        )

    def due_owners(self, db: sqlite3.Connection, session: str) -> tuple[str, ...]:
        """Return the reservations of a session that should ask again. For the watcher."""
        return self._turns(self._rows(db), session, ()).owners

    # -- operations, on the writer's thread ------------------------------------------------------------------------

    def _rows(self, db: sqlite3.Connection) -> LimitRows:
        return LimitRows(db, self._namespace, self._now())

    def _ask(self, rows: LimitRows, plan: Plan, asked: int) -> LimitAnswer:
        alive, *about = rows.one(sql.session, session=plan.session) or (False,)
        if not alive:
            return SessionEnded()
        found = rows.one(sql.reservation, owner=plan.owner)
        if found is not None and found[-1]:
            rows.drop([(found[0], rows.now, False)])
            found = None
        if found is None:
            return self._reserve(rows, plan, about, asked)
        ticket, turn, mark, _, _, asked_at, at, started, wait_kind, waits_for, _ = found
        quotas = {key: Quota(max_count, per) for key, max_count, per in rows.all(sql.uses_of, ticket=ticket)}
        statuses = [rows.standing(key, quota, ticket, turn, mark)[0] for key, quota in quotas.items()]
        if started:
            differs = next((standing.key for standing in statuses if len(standing.quotas) > 1), "")
            return Turn(True, seconds(at), "", 0, math.inf, differs)
        decision = admit(statuses, rows.now, at, waits_for if wait_kind == WaitKind.TIME else "", start=plan.start)
        if wait_kind == WaitKind.SLOT and decision.key != waits_for:
            rows.freed.add(waits_for)
        rows.one(sql.update_reservation, ticket=ticket, **_state(decision))
        self._note(rows, decision, statuses, quotas, _about(plan, about, ticket, asked_at))
        rows.wake_jobs()
        return decision.turn

    def _reserve(self, rows: LimitRows, plan: Plan, about: Sequence[Any], asked: int) -> LimitAnswer:
        quotas = {use.key: Quota(use.max_count, micros(use.per)) for use in plan.uses}
        turn = rows.turn(list(quotas), asked, self._longest)
        statuses = []
        for key, quota in quotas.items():
            standing, others = rows.standing(key, quota, NO_TICKET, turn, NO_TICKET)
            if others >= port.MAX_ON_A_KEY:
                return Full(key)
            statuses.append(standing)
        decision = admit(statuses, rows.now, None, "", start=plan.start)
        values = {"owner": plan.owner, "caller": plan.caller, "session": plan.session}
        (ticket,) = rows.one(sql.add_reservation, turn=turn, **values, **_state(decision))
        for key, quota in quotas.items():
            rows.one(sql.add_use, key=key, ticket=ticket, **quota._asdict())
        self._note(rows, decision, statuses, quotas, _about(plan, about, ticket, rows.now))
        rows.wake_jobs()
        return decision.turn

    def _note(
        self,
        rows: LimitRows,
        decision: Decision,
        statuses: Sequence[KeyStatus],
        quotas: dict[str, Quota],
        about: dict[str, Any],
    ) -> None:
        """Store what a decision means for the keys. Processes of the next waiters notice the commit."""
        if decision.free_since is not None:
            rows.free(decision.key, decision.free_since)
        if not decision.start:
            return
        for standing in statuses:
            longest = max(quota.per for quota in standing.quotas)
            if longest:
                values = about | quotas[standing.key]._asdict() | {"counts_until": rows.now + longest}
                rows.one(sql.delete_old_starts, key=standing.key, before=rows.now - longest)
                rows.one(sql.add_start, key=standing.key, **values)

    def _set(
        self, db: sqlite3.Connection, name: str, figure: Use | None, attribution: Attribution
    ) -> LimitOverride | None:
        rows = self._rows(db)
        found = rows.one(sql.read_override, name=name)
        before = None if found is None else _override(found)
        actor, reason, *_ = attribution
        if figure is None:
            if before is None:
                return None
            rows.one(sql.delete_override, name=name)
            action, after = Action.LIMIT_RESET, None
        else:
            after = LimitOverride(name, figure.max_count, figure.per, actor, reason, seconds(rows.now))
            if before is not None and before[:5] == after[:5]:
                return before
            per = micros(figure.per)
            rows.one(sql.set_override, name=name, max_count=figure.max_count, per=per, set_by=actor, reason=reason)
            if per:
                rows.one(sql.extend_starts, name=name, per=per)
                rows.one(sql.extend_job_starts, name=name, per=per)
            action = Action.LIMIT_RESIZE
        keys = [key for (key,) in rows.all(sql.keys_of_name, name=name)]
        rows.one(sql.replan, keys=json.dumps(keys))
        for key in keys:
            rows.free(key, rows.now)
        rows.freed.update(keys)
        rows.wake_jobs()
        entry = new_entry(attribution, action, name, override_data(before), override_data(after))
        add_entry(db, self._namespace, seconds(rows.now), entry)
        return before

    def _finish(self, rows: LimitRows, session: str, owner: str) -> Finished:
        found = rows.one(sql.reservation, owner=owner)
        alive, *_ = rows.one(sql.session, session=session) or (False,)
        if found is None or found[4] != session or not alive:
            return Finished(False, False, ())
        ticket, *_, started, _, _, stale = found
        keys = rows.drop([(ticket, rows.now, bool(started))])
        rows.wake_jobs()
        if stale:
            return Finished(False, False, ())
        frees = {key: max(0, rows.room(key)[0].free) for key in keys}
        next_ones = [one for key, free in frees.items() for one in rows.all(sql.first_waiting, key=key, free=free)]
        mine = dict.fromkeys(owner for owner, of_session in next_ones if of_session == session)
        return Finished(True, bool(started), tuple(mine))

    def _turns(self, rows: LimitRows, session: str, owners: Sequence[str]) -> Turns:
        unknown = rows.all(sql.unknown_owners, session=session, owners=json.dumps(owners)) if owners else []
        waiting = [
            (owner, self._due_in(rows, owner, key) if due_in is None else due_in)
            for owner, due_in, key in rows.all(sql.turns, session=session, turn=TURN)
        ]
        due = [owner for owner, due_in in waiting if due_in <= 0]
        recheck_in = min((due_in for _, due_in in waiting if due_in > 0), default=math.inf)
        return Turns((*(owner for (owner,) in unknown), *due), recheck_in)

    def _due_in(self, rows: LimitRows, owner: str, key: str) -> float:
        """Return in how many seconds a reservation that waits for a slot of a key should ask again; jobs count too."""
        ticket, turn, mark = rows.one(sql.place, owner=owner)
        (quota,) = (
            Quota(max_count, per) for name, max_count, per in rows.all(sql.uses_of, ticket=ticket) if name == key
        )
        status, _ = rows.standing(key, quota, ticket, turn, mark, drop=False)
        due_at = slot_due_at(status)
        return min(status.ends_at - seconds(rows.now), math.inf if due_at is None else seconds(due_at - rows.now))

    # -- what people see -------------------------------------------------------------------------------------------

    def _look(self, rows: LimitRows, key: str | None, limit: int, after: str) -> Sequence[LimitView]:
        if key is not None:
            keys = [name for (name,) in rows.all(sql.limit_in_use, key=key)]
        else:
            keys = [name for (name,) in rows.all(sql.limits_in_use, after=after, limit=limit)]
        wanted = json.dumps(keys)
        noted = dict(rows.all(sql.free_times, keys=wanted))
        deaths: dict[str, list[tuple[int, bool, int | None]]] = {name: [] for name in keys}
        for name, *death in rows.all(sql.undropped_deaths, keys=wanted):
            deaths[name].append((death[0], bool(death[1]), death[2]))
        started: dict[str, list[LimitUser]] = {name: [] for name in keys}
        waiting: dict[str, list[LimitUser]] = {name: [] for name in keys}
        rooms = {name: Room(UNLIMITED, 0) for name in keys}
        for name, *who, max_count, per, asked_at, at in rows.all(sql.counted_starts, keys=wanted):
            started[name].append(
                LimitUser._make((*who, max_count, seconds(per), seconds(asked_at), seconds(at), True, ""))
            )
        for name, *who, max_count, per, asked_at, at, is_started, wait_kind, waits_for in rows.all(
            sql.reservations, keys=wanted
        ):
            waits = wait_kind == WaitKind.SLOT
            quotas = (max_count, seconds(per), seconds(asked_at), None if waits else seconds(at))
            user = LimitUser._make((*who, *quotas, bool(is_started), waits_for if waits else ""))
            if not is_started:
                waiting[name].append(user)
            elif per == 0:
                started[name].append(user)
            room = rooms[name]
            rooms[name] = Room(min(room.slots, UNLIMITED if per else max_count), room.started + is_started)
        views = []
        for name in keys:
            awaited = rooms[name].free > 0 and any(user.waits_for == name for user in waiting[name])
            at_work = tuple(sorted(started[name], key=lambda user: user.at or 0))
            since = seconds(room_since(noted.get(name, 0), rooms[name], deaths[name])) if awaited else None
            views.append(LimitView(name, at_work, tuple(waiting[name]), since, seconds(rows.now)))
        return views


def _override(row: Sequence[Any]) -> LimitOverride:
    name, max_count, per, set_by, reason, set_at = row
    return LimitOverride(name, max_count, seconds(per), set_by, reason, seconds(set_at))


def _state(decision: Decision) -> dict[str, Any]:
    """Return the columns of a reservation that change."""
    wait_kind, waits_for = (WaitKind.NOTHING, "") if decision.start else (decision.waits, decision.key)
    return {"at": decision.at, "started": decision.start, "wait_kind": int(wait_kind), "waits_for": waits_for}


def _about(plan: Plan, about: Sequence[Any], ticket: int, asked_at: int) -> dict[str, Any]:
    """Return the columns of a start."""
    host, pid, program = about
    who = {"owner": plan.owner, "caller": plan.caller, "session": plan.session, "ticket": ticket, "asked_at": asked_at}
    return who | {"host": host, "pid": pid, "program": program}
