"""Bugs to plant in limits, in the memory store and in the engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from interlock.backends import admission
from interlock.backends.memory import limits as memory
from interlock.backends.memory.limits import MemoryLimits
from interlock.leases.store_access import StoreAccess
from interlock.leases.wait_queue import WaitQueue
from interlock.limits.engine import LimitEngine
from interlock.limits.reservation import Reservation
from tests.simulation.planting import around, bugs

if TYPE_CHECKING:
    import pytest

    from interlock.ports.limits import Finished, LimitAnswer, Plan

__all__ = ["BUGS"]

BUGS, _breaks = bugs()


# -- the store -----------------------------------------------------------------------------------------------------


@_breaks("fair", "newcomers pass those in line")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLimits, "_standing", lambda original, *about: replace(original(*about), ahead=0))


@_breaks("fair", "those who reserved and did not start yet lose their turn")
def _(patch: pytest.MonkeyPatch) -> None:
    async def ask(original: Any, self: Any, plan: Plan) -> LimitAnswer:
        answer: LimitAnswer = await original(self, plan)
        for reservation in self._by_session.get(plan.session, {}).values():
            if reservation.owner == plan.owner and not plan.start:
                reservation.waits, reservation.where = admission.WaitKind.NOTHING, ""
        return answer

    around(patch, MemoryLimits, "ask", ask)


@_breaks("slots", "one more may work than there are slots")
def _(patch: pytest.MonkeyPatch) -> None:
    def standing(original: Any, *about: Any) -> Any:
        found = original(*about)
        return replace(found, started=max(0, found.started - 1))

    around(patch, MemoryLimits, "_standing", standing)


@_breaks("slots", "where figures differ the larger one holds")
def _(patch: pytest.MonkeyPatch) -> None:
    def slots(self: Any) -> int | None:
        return max((quota.max_count for quota in self.quotas if not quota.per), default=None)

    patch.setattr(admission.KeyStatus, "slots", property(slots))


@_breaks("slots", "only the first of several limits is looked at")
def _(patch: pytest.MonkeyPatch) -> None:
    def admit(keys: Any, *about: Any, **more: Any) -> Any:
        return admission.admit(keys[:1], *about, **more)

    patch.setattr(memory, "admit", admit)


@_breaks("slots", "finishing frees a slot twice")
def _(patch: pytest.MonkeyPatch) -> None:
    async def finish(original: Any, self: Any, session: str, owner: str) -> Finished:
        mine = self._by_session.get(session, {}).get(owner)
        finished: Finished = await original(self, session, owner)
        if finished.started:
            others = [other for key in mine.quotas if key in self._keys for other in self._keys[key].uses.values()]
            self._drop([(round(self._now() * 1e6), other) for other in others if other.started][:1])
        return finished

    around(patch, MemoryLimits, "finish", finish)


@_breaks("fair", "slots of dead sessions are never free")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLimits, "_live", lambda _original, _self, key, _now: list(key.uses.values()))
    around(patch, MemoryLimits, "_alive", lambda _original, _self, _session, _now: True)


@_breaks("pace", "starts are checked against what was planned, not against what was")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "_in_pace", lambda _key, _now: True)


@_breaks("planned", "plans do not heed those that were made before")
def _(patch: pytest.MonkeyPatch) -> None:
    def standing(original: Any, self: Any, name: str, *about: Any) -> Any:
        found = original(self, name, *about)
        key = self._keys.get(name)
        starts = [start.at for start in key.starts] if key else []
        return replace(found, times=lambda after: sorted(at for at in starts if at > after))

    around(patch, MemoryLimits, "_standing", standing)


@_breaks("pace", "a pace is counted by the second of the clock")
def _(patch: pytest.MonkeyPatch) -> None:
    def standing(original: Any, self: Any, name: str, reservation: Any, now: int) -> Any:
        found = original(self, name, reservation, now)
        times, after = found.times, found.starts_after
        begins = now // 1_000_000 * 1_000_000 - 1
        return replace(
            found,
            times=lambda at: [time for time in times(at) if time > begins],
            starts_after=lambda at: after(max(at, begins)),
        )

    around(patch, MemoryLimits, "_standing", standing)


def _forget_starts(self: Any, reservation: Any) -> None:
    for name in reservation.quotas:
        key = self._keys.get(name)
        if key is not None:
            key.starts = [start for start in key.starts if start.user.owner != reservation.owner]


@_breaks("pace", "a crash frees the pace")
def _(patch: pytest.MonkeyPatch) -> None:
    def drop(original: Any, self: Any, gone: Any) -> None:
        for _, reservation in gone:
            if self._alive_until.get(reservation.session, 0.0) <= self._now():
                _forget_starts(self, reservation)
        original(self, gone)

    around(patch, MemoryLimits, "_drop", drop)


@_breaks("pace", "finishing frees the pace")
def _(patch: pytest.MonkeyPatch) -> None:
    def drop(original: Any, self: Any, gone: Any) -> None:
        for _, reservation in gone:
            _forget_starts(self, reservation)
        original(self, gone)

    around(patch, MemoryLimits, "_drop", drop)


@_breaks("idempotent", "asking again starts again")
def _(patch: pytest.MonkeyPatch) -> None:
    async def ask(original: Any, self: Any, plan: Plan) -> LimitAnswer:
        reservation = self._by_session.get(plan.session, {}).get(plan.owner)
        if reservation is not None:
            reservation.started = False
        answer: LimitAnswer = await original(self, plan)
        return answer

    around(patch, MemoryLimits, "ask", ask)


@_breaks("kept", "one that has to wait for a slot takes its paces all the same")
def _(patch: pytest.MonkeyPatch) -> None:
    def apply(original: Any, self: Any, reservation: Any, verdict: Any, standings: Any, now: int) -> None:
        original(self, reservation, verdict, standings, now)
        if verdict.waits is admission.WaitKind.SLOT:
            paces = [standing for standing in standings if reservation.quotas[standing.key].per]
            original(self, reservation, verdict._replace(start=True), paces, now)
            reservation.started, reservation.waits, reservation.where = False, verdict.waits, verdict.key

    around(patch, MemoryLimits, "_apply", apply)


@_breaks("wakes", "finishing wakes nobody")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, MemoryLimits, "_pass_on", lambda _original, *_about: [])


# -- the engine ----------------------------------------------------------------------------------------------------


@_breaks("exclusive", "a lost session does not stop what was started in it")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, Reservation, "_cancel", lambda _original, _self: None)


@_breaks("exclusive", "a start that is heard of after its session is used all the same")
def _(patch: pytest.MonkeyPatch) -> None:
    def admit(_original: Any, self: Any, reservation: Reservation) -> bool:
        reservation._granted_at = self.monotonic()
        return True

    around(patch, LimitEngine, "_admit", admit)
    around(patch, Reservation, "ensure", lambda _original, _self: None)


@_breaks("leaves nothing", "who stops waiting stays in line")
def _(patch: pytest.MonkeyPatch) -> None:
    def give_up(original: Any, self: Any, reservation: Reservation) -> None:
        if reservation.started:
            original(self, reservation)
        reservation._released = True

    around(patch, LimitEngine, "_give_up", give_up)


@_breaks("leaves nothing", "what a failed request reserved is never tidied away")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, StoreAccess, "suspect_leftovers", lambda _original, _self: None)


@_breaks("leaves nothing", "a reservation whose answer did not come is not withdrawn")
def _(patch: pytest.MonkeyPatch) -> None:
    def withdraw(original: Any, self: Any, want: Any) -> None:
        if self.owners.get(want.owner) is not None:
            original(self, want)

    around(patch, StoreAccess, "withdraw", withdraw)


@_breaks("leaves nothing", "closing limits alone leaves theirs to the session")
def _(patch: pytest.MonkeyPatch) -> None:
    async def release_all(_original: Any, _self: Any) -> None:
        return

    around(patch, StoreAccess, "release_all", release_all)


@_breaks("wakes", "a slot freed in the same process wakes nobody there")
def _(patch: pytest.MonkeyPatch) -> None:
    around(patch, StoreAccess, "_wake_next", lambda _original, _self, _left: None)


@_breaks("wakes", "those who wait for a slot rely on messages alone")
def _(patch: pytest.MonkeyPatch) -> None:
    async def poll(_original: Any, _self: Any) -> None:
        await asyncio.Event().wait()

    around(patch, WaitQueue, "_poll", poll)


@_breaks("bounded", "the time to wait is counted anew with each look")
def _(patch: pytest.MonkeyPatch) -> None:
    async def start(original: Any, self: Any, reservation: Reservation, give_up: float | None) -> bool:
        for _ in range(20):
            if await original(self, reservation, give_up):
                return True
            give_up = None if give_up is None else self.monotonic() + 0.5
        return False

    around(patch, LimitEngine, "_start", start)
