"""What a store of limits must do, as a model of its own: plain, slow, and written against the port's contract only."""

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
    """One that stood before another in line and did not come for its slot in time."""

    at: float
    stay: Stay
    by: Stay
    key: str


class LimitModel:
    """Follows a store's limits event by event."""

    def __init__(self, sessions: Sessions) -> None:
        self.violations: list[Violation] = []
        self.passed_over: list[PassedOver] = []
        self.state = LimitState(sessions)
        self._sessions = sessions
        self._at = 0.0

    def apply(self, event: Event) -> None:
        """Take one more event into account."""
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
        """Note what time has ended by now, and look at every span of every pace once more."""
        self._at = at
        self.state.advance(at)
        for key, limit in self.state.limits.items():
            figures = {(start.most, start.per) for start in limit.starts if start.per}
            for most, per in figures if len(figures) == 1 else ():
                times = sorted(start.at for start in limit.starts)
                for first, last in zip(times, times[most:], strict=False):
                    if last - first < per:
                        self._broken("pace", f"{most + 1} starts under {key} within {(last - first) / 1e6:.6f} s")

    # -- asking ----------------------------------------------------------------------------------------------------

    def _asked(self, event: LimitAsked) -> None:
        plan, answer, now = event.plan, event.answer, self.state.now
        alive = self._sessions.ends_at(plan.session) > now / 1e6
        if isinstance(answer, SessionEnded):
            if alive:
                self._broken("sessions", "a reservation was told that its live session had ended")
            return
        if not isinstance(answer, Turn):
            self._broken("odd", f"a reservation was answered {answer!r}")
            return
        if not alive:
            self._broken("sessions", "a reservation of an ended session was answered")
        stay = self.state.find(plan.owner) or self.state.add(plan, event.process)
        different = next((use.key for use in stay.uses if len(self.state.figures(use.key)) > 1), "")
        if answer.differs != different:
            self._broken("figures", f"different figures for {different or 'nothing'} were seen at {answer.differs!r}")
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
        """Its time: as it was planned, unless that would come too soon after what really started."""
        now = self.state.now
        if stay.at is None or (stay.at <= now and not self.state.in_pace(stay)):
            stay.at = self.state.earliest(stay)

    def _started(self, stay: Stay, plan: Plan, answer: Turn) -> None:
        now = self.state.now
        if not plan.start:
            self._broken("asked", f"a reservation under {stay.key} started unasked")
        if answer.at is None or abs(micros(answer.at) - now) > _CLOSE:
            self._broken("idempotent", f"a start under {stay.key} bears another time than its own")
        if stay.at is not None and stay.at > now + _CLOSE:
            promise = "planned" if self.state.in_pace(stay) else "pace"
            self._broken(promise, f"a start under {stay.key} came {(stay.at - now) / 1e6:.6f} s too soon")
        for use in stay.uses:
            limit = self.state.limits[use.key]
            free, ahead = self.state.free(use.key), self.state.ahead(use.key, stay)
            if free <= 0:
                self._broken("slots", f"one more started under {use.key} than may work at once")
            elif len(ahead) >= free:
                if now < limit.free_since + (len(ahead) - free + 1) * _TURN - _CLOSE:
                    self._broken("fair", f"one started under {use.key} before {len(ahead)} in line, with {free} free")
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
            self._broken("planned", f"one under {stay.key} was planned for later though it fits now")
            stay.at = at
            return
        early, late = self._blocked(stay, lenient=True), self._blocked(stay, lenient=False)
        if at is None:
            stay.line = answer.key
            if answer.key not in (early, late):
                self._broken("fair", f"one under {stay.key} was sent to the line of {answer.key}, not of {late!r}")
            elif answer.ahead != len(self.state.ahead(answer.key, stay)):
                self._broken("fair", f"one in the line of {answer.key} was told that {answer.ahead} are ahead")
        else:
            if early:
                self._broken("fair", f"one under {stay.key} was told to start though {early} has no room for it")
            stay.line = next((use.key for use in stay.uses if not use.per), "")
            if stay.line:
                self.state.limits[stay.line].kept_from = now

    def _blocked(self, stay: Stay, *, lenient: bool) -> str:
        """The first of its limits that has no slot for it now; empty if all have."""
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
            self._broken("finishes", f"finishing under {stay.key} was told {found.started=}")
        self.state.drop(stay, self.state.now)
        for use in stay.uses:
            for other in self.state.next_in_line(use.key):
                if other.session == stay.session and other.owner not in found.next_owners:
                    self._broken("wakes", f"finishing under {use.key} did not name the next one in line")

    def _seen(self, event: LimitsSeen) -> None:
        """Whatever operations answered, the store must have just this."""
        views = {view.key: view for view in event.views}
        for key, limit in self.state.limits.items():
            if self.state.counted(key) or any(stay.shown(key) for stay in limit.stays.values()):
                if key in views:
                    self._same(key, views[key])
                else:
                    self._broken("kept", f"the store knows nothing of {key}")
        for key in views.keys() - self.state.limits.keys():
            self._broken("kept", f"the store knows {key}, under which nothing was ever asked for")
        if event.end:
            for stay in self.state.all():
                self._broken("leaves nothing", f"at the end {stay.key} is still taken or awaited")

    def _same(self, key: str, view: LimitView) -> None:
        stays = self.state.limits[key].stays.values()
        waiting = [stay.owner for stay in stays if stay.started_at is None]
        at_work = [stay.owner for stay in stays if stay.started_at is not None and stay.shown(key)]
        if [user.owner for user in view.waiting] != waiting:
            self._broken("kept", f"others wait for {key} in the store than should")
        if sorted(user.owner for user in view.started) != sorted([*at_work, *self.state.counted(key)]):
            self._broken("kept", f"other starts count for {key} in the store than were")

    def _broken(self, promise: str, what: str) -> None:
        self.violations.append(Violation(self._at, promise, what))
