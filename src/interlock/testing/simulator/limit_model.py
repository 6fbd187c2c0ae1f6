"""A model of a limit store: plain, slow, and written only from the port's contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.limits import TURN_SECONDS, SessionEnded, Turn
from interlock.testing.simulator.events import LimitAsked, LimitFinished, LimitsSeen
from interlock.testing.simulator.limit_state import LimitState, Stay, micros
from interlock.testing.simulator.model import Violation

if TYPE_CHECKING:
    from interlock.ports.limits import LimitView, Plan
    from interlock.testing.simulator.history import Event
    from interlock.testing.simulator.lives import Sessions

__all__ = ["LimitModel", "PassedOver"]

_TURN = micros(TURN_SECONDS)
_CLOSE = 2  # microseconds


class PassedOver(NamedTuple):
    """A reservation that was ahead in the queue and did not take its slot in time."""

    at: float
    stay: Stay
    by: Stay
    key: str


class LimitModel:
    """Follow a store's limits event by event."""

    def __init__(self, sessions: Sessions) -> None:
        self.violations: list[Violation] = []
        self.passed_over: list[PassedOver] = []
        self.state = LimitState(sessions)
        self._sessions = sessions
        self._at = 0.0

    def apply(self, event: Event) -> None:
        """Process one event."""
        self._at = event.at
        match event:
            case LimitAsked():
                self.state.advance(event.at)
                self._asked(event)
                self.state.see_who_is_ready()
            case LimitFinished():
                self.state.advance(event.at)
                self._finished(event)
                self.state.see_who_is_ready()
            case LimitsSeen():
                self.state.advance(event.at)
                self._seen(event)
            case _ if self._sessions.cleared(event):
                self.state.advance(event.at, cleared=True)
            case _:
                pass

    def finish(self, at: float) -> None:
        """Record what has expired by now, and check every span of every pace once more."""
        self._at = at
        self.state.advance(at)
        for key, limit in self.state.limits.items():
            figures = {(start.max_count, start.per) for start in limit.starts if start.per}
            for max_count, per in figures if len(figures) == 1 else ():
                times = sorted(start.at for start in limit.starts)
                for first, last in zip(times, times[max_count:], strict=False):
                    if last - first < per:
                        self._broken("pace", f"{max_count + 1} starts under {key} within {(last - first) / 1e6:.6f} s")

    # -- asking ----------------------------------------------------------------------------------------------------

    def _asked(self, event: LimitAsked) -> None:
        plan, answer, now = event.plan, event.answer, self.state.now
        alive = self._sessions.ends_at(plan.session) > now / 1e6
        if isinstance(answer, SessionEnded):
            if alive:
                self._broken("sessions", "a reservation was refused although its session is live")
            return
        if not isinstance(answer, Turn):
            self._broken("odd", f"a reservation was answered {answer!r}")
            return
        if not alive:
            self._broken("sessions", "a reservation of an ended session was accepted")
        stay = self.state.find(plan.owner) or self.state.add(plan, event.process)
        different = next((use.key for use in stay.uses if len(self.state.figures(use.key)) > 1), "")
        if answer.differs != different:
            self._broken("figures", f"figures differ for {different or 'nothing'}, not for {answer.differs!r}")
        if stay.started_at is not None:
            if not answer.started or answer.at is None or abs(micros(answer.at) - stay.started_at) > _CLOSE:
                self._broken("idempotent", f"asking again changed the start under {stay.key}")
            return
        self._plan(stay)
        if answer.started:
            self._started(stay, plan, answer)
        else:
            self._waits(stay, answer)

    def _plan(self, stay: Stay) -> None:
        """Its time: as planned, unless that would be too soon after the actual starts."""
        now = self.state.now
        if stay.at is None or (stay.at <= now and not self.state.in_pace(stay)):
            stay.at = self.state.earliest(stay)

    def _started(self, stay: Stay, plan: Plan, answer: Turn) -> None:
        now = self.state.now
        if not plan.start:
            self._broken("asked", f"a reservation under {stay.key} started without a request")
        if answer.at is None or abs(micros(answer.at) - now) > _CLOSE:
            self._broken("idempotent", f"a start under {stay.key} has a different time than its own")
        if stay.at is not None and stay.at > now + _CLOSE:
            promise = "planned" if self.state.in_pace(stay) else "pace"
            self._broken(promise, f"a start under {stay.key} came {(stay.at - now) / 1e6:.6f} s too soon")
        for use in stay.uses:
            limit = self.state.limits[use.key]
            free, ahead = self.state.free(use.key), self.state.ahead(use.key, stay)
            if free <= 0:
                self._broken("slots", f"more started under {use.key} than are allowed at once")
            elif len(ahead) >= free:
                if now < limit.free_since + (len(ahead) - free + 1) * _TURN - _CLOSE:
                    self._broken("fair", f"one started under {use.key} before {len(ahead)} waiters, with {free} free")
                else:
                    self.passed_over += [PassedOver(self._at, other, stay, use.key) for other in ahead]
        self.state.start(stay)

    def _waits(self, stay: Stay, answer: Turn) -> None:
        now = self.state.now
        at = None if answer.at is None else micros(answer.at)
        assert stay.at is not None
        stay.line = ""
        if stay.at > now + _CLOSE:
            if at is None or abs(at - stay.at) > _CLOSE:
                self._broken("planned", f"one under {stay.key} was planned for {answer.at}, not for {stay.at / 1e6}")
            stay.at = stay.at if at is None else at
            return
        if at is not None and at > now + _CLOSE:
            self._broken("planned", f"one under {stay.key} was planned for later although it could start now")
            stay.at = at
            return
        early, late = self._blocked(stay, lenient=True), self._blocked(stay, lenient=False)
        if at is None:
            stay.line = answer.key
            if answer.key not in (early, late):
                self._broken("fair", f"one under {stay.key} was queued for {answer.key}, not for {late!r}")
            elif answer.ahead != len(self.state.ahead(answer.key, stay)):
                self._broken("fair", f"a waiter for {answer.key} was answered that {answer.ahead} are ahead")
        else:
            if early:
                self._broken("fair", f"one under {stay.key} was allowed to start although {early} has no room")
            stay.line = next((use.key for use in stay.uses if not use.per), "")
            if stay.line:
                self.state.limits[stay.line].kept_from = now

    def _blocked(self, stay: Stay, *, lenient: bool) -> str:
        """The first of its limits that has no slot for it now; empty if all of them have one."""
        for use in stay.uses:
            limit = self.state.limits[use.key]
            free, ahead = self.state.free(use.key), len(self.state.ahead(use.key, stay))
            since = limit.free_since if lenient else max(limit.free_since, limit.kept_from)
            if free <= 0 or (ahead >= free and self.state.now < since + (ahead - free + 1) * _TURN):
                return use.key
        return ""

    # -- finishing, and looking ------------------------------------------------------------------------------------

    def _finished(self, event: LimitFinished) -> None:
        found = event.finished
        stay = self.state.find(event.owner)
        if found.known != (stay is not None):
            self._broken("finishes", "finishing found a reservation that had ended, or missed one that had not")
        if stay is None:
            return
        if found.started != (stay.started_at is not None):
            self._broken("finishes", f"finishing under {stay.key} was answered {found.started=}")
        self.state.drop(stay, self.state.now)
        for use in stay.uses:
            for other in self.state.next_in_line(use.key):
                if other.session == stay.session and other.owner not in found.next_owners:
                    self._broken("wakes", f"finishing under {use.key} did not name the next waiter")

    def _seen(self, event: LimitsSeen) -> None:
        """Check that the store contains exactly this, regardless of what its operations answered."""
        views = {view.key: view for view in event.views}
        for key, limit in self.state.limits.items():
            if self.state.counted(key) or any(stay.shown(key) for stay in limit.stays.values()):
                if key in views:
                    self._same(key, views[key])
                else:
                    self._broken("kept", f"the store does not have {key}")
        for key in views.keys() - self.state.limits.keys():
            self._broken("kept", f"the store has {key}, which was never requested")
        if event.end:
            for stay in self.state.all():
                self._broken("leaves nothing", f"at the end {stay.key} is still taken or has waiters")

    def _same(self, key: str, view: LimitView) -> None:
        stays = self.state.limits[key].stays.values()
        waiting = [stay.owner for stay in stays if stay.started_at is None]
        at_work = [stay.owner for stay in stays if stay.started_at is not None and stay.shown(key)]
        if [user.owner for user in view.waiting] != waiting:
            self._broken("kept", f"the store has other waiters for {key} than expected")
        if sorted(user.owner for user in view.started) != sorted([*at_work, *self.state.counted(key)]):
            self._broken("kept", f"the store counts other starts for {key} than expected")

    def _broken(self, promise: str, what: str) -> None:
        self.violations.append(Violation(self._at, promise, what))
