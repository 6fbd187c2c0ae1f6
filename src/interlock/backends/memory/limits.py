"""Limits in dictionaries. A key has an entry only while it has reservations or starts that count."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.admission import STALE, TURN, UNLIMITED, Decision, KeyStatus, Room, WaitKind, admit, freed_at
from interlock.backends.limit_sides import JobSide, LimitJobs, ReservedSide, quotas_in_force
from interlock.backends.pacing import Quota, micros, seconds
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
    override_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock.backends.memory.messages import MemoryMessages
    from interlock.backends.memory.sessions import MemorySessions
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution, NewEntry
    from interlock.ports.sessions import SessionCard

__all__ = ["MemoryLimits"]


class _Reservation:
    """One owner's reservation and its state."""

    __slots__ = (
        "asked_at",
        "at",
        "caller",
        "card",
        "last_asked",
        "mark",
        "owner",
        "quotas",
        "session",
        "started",
        "ticket",
        "waits",
        "where",
    )

    def __init__(self, plan: Plan, card: SessionCard, ticket: int, mark: int, now: int) -> None:
        self.owner, self.caller, self.session, self.card = plan.owner, plan.caller, plan.session, card
        self.ticket, self.mark = ticket, mark
        self.quotas = {use.key: Quota(use.max_count, micros(use.per)) for use in plan.uses}
        self.asked_at = self.last_asked = self.at = now
        self.started = False
        self.waits = WaitKind.NOTHING
        self.where = ""

    def stale(self, now: int) -> bool:
        """Return whether its owner has not asked for long."""
        return not self.started and now > max(self.last_asked, self.at) + STALE

    def in_line(self, key: str) -> bool:
        """Return whether it waits for a slot of a key."""
        return self.waits is WaitKind.SLOT and self.where == key

    def user(self, key: str, at: int | None) -> LimitUser:
        """Return it as the port has it."""
        who = (self.owner, self.caller, self.session, self.card.host, self.card.pid, self.card.program)
        max_count, per = self.quotas[key]
        waits_for = self.where if self.waits is WaitKind.SLOT else ""
        when = None if at is None else seconds(at)
        return LimitUser(*who, max_count, seconds(per), seconds(self.asked_at), when, self.started, waits_for)


class _Start(NamedTuple):
    """A start that counts against a rate or cooldown, even if its process ends."""

    at: int
    ticket: int
    counts_until: int
    user: LimitUser


class _LimitState:
    """One limit. ``uses`` are in the order of their first request."""

    def __init__(self) -> None:
        self.free_since = 0
        self.uses: dict[str, _Reservation] = {}
        self.starts: list[_Start] = []


class MemoryLimits:
    """Implements the limits port for everything in this process."""

    def __init__(
        self, clock: Clock, sessions: MemorySessions, messages: MemoryMessages, record: Callable[[NewEntry], None]
    ) -> None:
        self._record = record
        self._now = clock.now
        self._alive_until = sessions.alive_until
        self._cards = sessions.cards
        self._tell = messages.turn
        self._tickets = count()
        self._keys: dict[str, _LimitState] = {}
        self._by_session: dict[str, dict[str, _Reservation]] = {}
        self._overrides: dict[str, LimitOverride] = {}
        self._freed: set[str] = set()
        self.jobs: LimitJobs | None = None
        """The jobs that count under the same keys."""

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Reserve, and start if possible."""
        now = micros(self._now())
        if not self._alive(plan.session, now):
            return SessionEnded()
        reservation = self._find(plan.session, plan.owner, now)
        new = reservation is None
        if reservation is None:
            mark = 0 if self.jobs is None else self.jobs.mark()
            reservation = _Reservation(plan, self._cards[plan.session], next(self._tickets), mark, now)
        statuses = [self._standing(key, reservation, now) for key in reservation.quotas]
        if reservation.started:
            differs = next((standing.key for standing in statuses if len(standing.quotas) > 1), "")
            return Turn(True, seconds(reservation.at), "", 0, math.inf, differs)
        if new:
            for key in reservation.quotas:
                held = self._keys.get(key)
                if held and len(held.uses) >= port.MAX_ON_A_KEY <= len(self._live(held, now)):
                    return Full(key)
            self._add(reservation)
        held_by = reservation.where if reservation.waits is WaitKind.TIME else ""
        decision = admit(statuses, now, None if new else reservation.at, held_by, start=plan.start)
        self._apply(reservation, decision, statuses, now)
        self._wake_jobs()
        return decision.turn

    async def finish(self, session: str, owner: str) -> Finished:
        """Finish a reservation and free its slots."""
        now = micros(self._now())
        reservation = self._find(session, owner, now)
        if reservation is None:
            return Finished(False, False, ())
        self._drop([(now, reservation)])
        mine = self._pass_on(reservation.quotas, now, session)
        self._wake_jobs()
        return Finished(True, reservation.started, tuple(dict.fromkeys(mine)))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiting owners whose turn may have come."""
        now = micros(self._now())
        mine = {owner: r for owner, r in self._by_session.get(session, {}).items() if self._counts(r, now)}
        found = [owner for owner in owners if owner not in mine]
        waiting = [reservation for reservation in mine.values() if not reservation.started]
        recheck_in = math.inf
        lines = {key: self._line(key, now) for key in {r.where for r in waiting if r.waits is WaitKind.SLOT}}
        for reservation in waiting:
            due_in = seconds(reservation.at - now)
            if reservation.waits is WaitKind.SLOT:
                due_in = lines[reservation.where][reservation.owner]
            if due_in <= 0:
                found.append(reservation.owner)
            else:
                recheck_in = min(recheck_in, due_in)
        return Turns(tuple(found), recheck_in)

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return all reservations of a session."""
        now = micros(self._now())
        mine = self._by_session.get(session, {}).items()
        return [(next(iter(r.quotas)), owner) for owner, r in mine if self._counts(r, now)]

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """List limits in use."""
        now = micros(self._now())
        keys = (
            sorted(name for name in self._keys if name > after) if key is None else [key] if key in self._keys else []
        )
        views = (self._view(key, held, now) for key in keys if (held := self._keys.get(key)) is not None)
        return [view for view in views if view.started or view.waiting][:limit]

    async def resize(self, figure: Use, attribution: Attribution) -> LimitOverride | None:
        """Set the figure of a limit."""
        before = self._overrides.get(figure.key)
        now = self._now()
        after = LimitOverride(figure.key, figure.max_count, figure.per, attribution.actor, attribution.reason, now)
        if before is not None and before[:5] == after[:5]:
            return before
        entry = new_entry(attribution, Action.LIMIT_RESIZE, figure.key, override_data(before), override_data(after))
        self._record(entry)
        self._overrides[figure.key] = after
        per = micros(figure.per)
        for key in self._keys_of(figure.key):
            starts = self._keys[key].starts
            starts[:] = [start._replace(counts_until=max(start.counts_until, start.at + per)) for start in starts]
        if self.jobs is not None:
            self.jobs.extend_starts(figure.key, per)
        self._resized(figure.key)
        return before

    async def reset(self, name: str, attribution: Attribution) -> LimitOverride | None:
        """Remove the figure that a person set."""
        before = self._overrides.get(name)
        if before is not None:
            self._record(new_entry(attribution, Action.LIMIT_RESET, name, override_data(before)))
            del self._overrides[name]
            self._resized(name)
        return before

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """List the figures that people have set."""
        return [self._overrides[name] for name in sorted(self._overrides)[:limit]]

    def session_ended(self, session: str) -> None:
        """Delete an ended session's reservations and notify the next waiters."""
        now = micros(self._now())
        gone = [(now, reservation) for reservation in self._by_session.get(session, {}).values()]
        self._drop(gone)
        self._pass_on(dict.fromkeys(key for _, reservation in gone for key in reservation.quotas), now, session)
        self._wake_jobs()

    def sweep(self) -> int:
        """Delete stale reservations and starts that no longer count."""
        now = micros(self._now())
        stale = [(now, r) for mine in self._by_session.values() for r in mine.values() if r.stale(now)]
        self._drop(stale)
        for name, key in list(self._keys.items()):
            self._forget_starts(key, now)
            self._forget_if_idle(name)
        self._wake_jobs()
        return len(stale)

    # -- for the jobs under the same keys --------------------------------------------------------------------------

    def side(self, key: str) -> ReservedSide | None:
        """Return the live reservations on a key; None if there are none."""
        state, now = self._keys.get(key), micros(self._now())
        if state is None:
            return None
        live = [r for r in state.uses.values() if self._counts(r, now)]
        holders = [micros(self._alive_until[r.session]) for r in live if r.started and not r.quotas[key].per]
        return ReservedSide(
            started=sum(r.started for r in live),
            quotas=frozenset(r.quotas[key] for r in live),
            waiting=[r.mark for r in live if r.in_line(key)],
            plans=[(r.mark, r.at) for r in live if r.quotas[key].per and not r.started and not r.in_line(key)],
            starts=[start.at for start in state.starts],
            free_since=state.free_since,
            ends_at=min(holders, default=None),
        )

    def override(self, key: str) -> Quota | None:
        """Return the figure that a person set for a key."""
        name, all_keys = override_names(key)
        found = self._overrides.get(name) or self._overrides.get(all_keys)
        return None if found is None else Quota(found.max_count, micros(found.per))

    def set_free_since(self, key: str, at: int) -> None:
        """Record since when a key with waiters has had room."""
        self._keys[key].free_since = at

    def jobs_freed(self, keys: Iterable[str]) -> None:
        """Notify the first waiters under keys where jobs have freed something."""
        now = micros(self._now())
        self._pass_on(keys, now, "")
        for name in keys:
            for r in self._keys[name].uses.values() if name in self._keys else ():
                if r.waits is WaitKind.TIME and r.where == name:
                    self._tell(r.session, r.owner)

    def _keys_of(self, name: str) -> Sequence[str]:
        return [key for key in self._keys if key == name or key.startswith(f"{name}:")]

    def _resized(self, name: str) -> None:
        """Let all waiters under a limit try again."""
        now = micros(self._now())
        keys = self._keys_of(name)
        for key in keys:
            self._keys[key].free_since = now
            for reservation in self._keys[key].uses.values():
                if reservation.waits is WaitKind.TIME and reservation.where == key:
                    reservation.at = now
        self.jobs_freed(keys)
        if self.jobs is not None:
            self.jobs.wake([*keys, *self.jobs.waiting_keys(name)])

    def _jobs_on(self, name: str) -> JobSide | None:
        return None if self.jobs is None else self.jobs.side(name)

    def _wake_jobs(self) -> None:
        """Make jobs ready that wait for what reservations have freed."""
        freed, self._freed = self._freed, set()
        if freed and self.jobs is not None:
            self.jobs.wake(freed)

    # -- one reservation -------------------------------------------------------------------------------------------

    def _alive(self, session: str, now: int) -> bool:
        return self._alive_until.get(session, 0.0) > seconds(now)

    def _counts(self, reservation: _Reservation, now: int) -> bool:
        return not reservation.stale(now) and self._alive(reservation.session, now)

    def _find(self, session: str, owner: str, now: int) -> _Reservation | None:
        """Return the reservation if it counts; a stale one is dropped."""
        reservation = self._by_session.get(session, {}).get(owner)
        if reservation is None or not self._alive(session, now):
            return None
        if reservation.stale(now):
            self._drop([(now, reservation)])
            return None
        return reservation

    def _add(self, reservation: _Reservation) -> None:
        self._by_session.setdefault(reservation.session, {})[reservation.owner] = reservation
        for key in reservation.quotas:
            self._keys.setdefault(key, _LimitState()).uses[reservation.owner] = reservation

    def _apply(self, reservation: _Reservation, decision: Decision, statuses: Sequence[KeyStatus], now: int) -> None:
        """Store a decision."""
        left = reservation.where if reservation.waits is WaitKind.SLOT and reservation.where != decision.key else None
        if left:
            self._freed.add(left)
        reservation.last_asked = now
        reservation.started, reservation.at = decision.start, decision.at
        reservation.waits, reservation.where = decision.waits, decision.key
        if decision.free_since is not None:
            self._keys[decision.key].free_since = decision.free_since
        if decision.start:
            for standing in statuses:
                longest = max(quota.per for quota in standing.quotas)
                if longest:
                    key = self._keys[standing.key]
                    self._forget_starts(key, now)
                    user = reservation.user(standing.key, now)
                    insort(key.starts, _Start(now, reservation.ticket, now + longest, user))
            return
        # A slot that was kept for it goes to those behind it.
        self._pass_on([*([left] if left else []), *([decision.key] if decision.behind else [])], now, "")

    def _drop(self, gone: Sequence[tuple[int, _Reservation]]) -> None:
        """Drop reservations, each as of a time, in that order. Slots that this frees count as free from then on."""
        for _, reservation in gone:
            mine = self._by_session[reservation.session]
            del mine[reservation.owner]
            if not mine:
                del self._by_session[reservation.session]
        for name in {name for _, reservation in gone for name in reservation.quotas}:
            key = self._keys[name]
            gone_here = [(at, reservation.started) for at, reservation in gone if name in reservation.quotas]
            before = self._room(name, key.uses.values())
            for _, reservation in gone:
                key.uses.pop(reservation.owner, None)
            self._freed.add(name)
            at = freed_at(before, self._room(name, key.uses.values()), gone_here)
            if at is not None:
                key.free_since = at
            self._forget_if_idle(name)

    # -- one key ---------------------------------------------------------------------------------------------------

    def _standing(self, name: str, reservation: _Reservation, now: int) -> KeyStatus:
        key = self._keys.get(name) or _LimitState()
        quotas = {reservation.quotas[name]}
        started = ahead = 0
        ends_at = math.inf
        before = True
        for other in self._live(key, now):
            if other is reservation:
                before = False
                continue
            quotas.add(other.quotas[name])
            if other.started:
                started += 1
            elif before and other.in_line(name):
                ahead += 1
            else:
                continue
            ends_at = min(ends_at, self._alive_until[other.session])

        jobs = self._jobs_on(name)
        jobs_ahead = 0
        if jobs is not None:
            quotas |= jobs.quotas
            started += jobs.taken
            jobs_ahead = jobs.ahead(reservation.mark)
        job_starts = () if jobs is None else jobs.starts

        def starts_after(at: int) -> int:
            count = len(key.starts) - bisect_right(key.starts, at, key=lambda start: start.at)
            return count + len(job_starts) - bisect_right(job_starts, at)

        def times(after: int) -> list[int]:
            found = [start.at for start in key.starts if start.at > after]
            found += [at for at in job_starts if at > after]
            for other in self._live(key, now):
                if other is reservation:
                    break
                if not other.started and other.at > after:
                    found.append(other.at)
            return sorted(found)

        def nth_start(count: int) -> int | None:
            found = sorted([*(start.at for start in key.starts), *job_starts])
            return found[-count] if job_starts and len(found) >= count else None

        in_force = quotas_in_force(quotas, self.override(name))
        return KeyStatus(
            name, in_force, started, ahead, key.free_since, ends_at, starts_after, times, jobs_ahead, nth_start
        )

    def _live(self, key: _LimitState, now: int) -> Sequence[_Reservation]:
        """Return the live reservations on a key, in order. Dead ones are dropped in the order in which they died."""
        alive_until = self._alive_until
        at = seconds(now)
        dead = [r for r in key.uses.values() if alive_until.get(r.session, 0.0) <= at]
        if dead:
            deaths = [(micros(alive_until.get(r.session, 0.0)), r) for r in dead]
            self._drop(sorted(deaths, key=lambda death: death[0]))
        return [reservation for reservation in key.uses.values() if not reservation.stale(now)]

    def _line(self, name: str, now: int) -> dict[str, float]:
        """Return the waiters of a key, and in how many seconds their turn may come."""
        key = self._keys[name]
        live = self._live(key, now)
        free = self._room(name, live).free
        jobs = self._jobs_on(name)
        ends_at = min((self._alive_until[r.session] for r in live if r.started), default=math.inf)
        line: dict[str, float] = {}
        for place, reservation in enumerate(r for r in live if r.in_line(name)):
            due_in = ends_at - seconds(now)
            ahead = place
            if free > 0:
                ahead += 0 if jobs is None else min(free, jobs.ahead(reservation.mark))
                due_in = min(due_in, seconds(key.free_since + max(0, ahead - free + 1) * TURN - now))
            line[reservation.owner] = 0.0 if ahead < free else due_in
            ends_at = min(ends_at, self._alive_until[reservation.session])
        return line

    def _pass_on(self, keys: Iterable[str], now: int, leaver: str) -> Sequence[str]:
        """Notify the first waiters of keys, one per free slot. Those of the releasing session are returned instead."""
        mine = []
        for name in keys:
            key = self._keys.get(name)
            live = [] if key is None else self._live(key, now)
            room = self._room(name, live).free
            line = [reservation for reservation in live if reservation.in_line(name)]
            for reservation in line[: max(0, room)]:
                if reservation.session == leaver:
                    mine.append(reservation.owner)
                else:
                    self._tell(reservation.session, reservation.owner)
        return mine

    def _room(self, name: str, uses: Iterable[_Reservation]) -> Room:
        """Return a key's slots, and how many of them reservations and jobs use."""
        slots, started = UNLIMITED, 0
        for reservation in uses:
            max_count, per = reservation.quotas[name]
            if not per and max_count < slots:
                slots = max_count
            started += reservation.started
        jobs, override = self._jobs_on(name), self.override(name)
        if jobs is not None:
            started += jobs.taken
            slots = min([slots, *(quota.max_count for quota in jobs.quotas if not quota.per)])
        if override is not None:
            slots = UNLIMITED if override.per else override.max_count
        return Room(slots, started)

    def _forget_starts(self, key: _LimitState, now: int) -> None:
        key.starts = [start for start in key.starts if start.counts_until > now]

    def _forget_if_idle(self, name: str) -> None:
        key = self._keys.get(name)
        if key is not None and not key.uses and not key.starts:
            del self._keys[name]

    def _view(self, name: str, key: _LimitState, now: int) -> LimitView:
        live = self._live(key, now)
        started = [start.user for start in key.starts if start.at + micros(start.user.per) > now]
        started += [r.user(name, r.at) for r in live if r.started and not r.quotas[name].per]
        waiting = [r.user(name, None if r.waits is WaitKind.SLOT else r.at) for r in live if not r.started]
        awaited = any(reservation.in_line(name) for reservation in live)
        free_since = seconds(key.free_since) if awaited and self._room(name, live).free > 0 else None
        return LimitView(
            name, tuple(sorted(started, key=lambda user: user.at or 0)), tuple(waiting), free_since, seconds(now)
        )
