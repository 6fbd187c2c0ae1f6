"""A model of a claim store, written only from the port's contract."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.ports.claims import Claimed, ClaimState, Known, SessionEnded
from interlock.testing.simulator.events import ClaimAsked, ClaimForgotten, ClaimSettled, ClaimsRenewed, ClaimsSeen
from interlock.testing.simulator.lives import Tenure
from interlock.testing.simulator.model import Violation

if TYPE_CHECKING:
    from interlock.ports.claims import ClaimRequest, ClaimView
    from interlock.testing.simulator.history import Event
    from interlock.testing.simulator.lives import Sessions

__all__ = ["Attempt", "ClaimModel"]

_CLOSE = 1e-5


class Attempt(Tenure):
    """One attempt at a claim. Its tenure is the time during which its holder may work on it."""

    __slots__ = ("expires_at", "fence", "finished_at", "gone", "keep", "number", "result", "retry_at", "state")

    def __init__(self, request: ClaimRequest, claimed: Claimed, process: str, at: float) -> None:
        super().__init__(request.owner, request.key, request.session, process, at, request.lease)
        self.fence, self.number, self.keep = claimed.fence, claimed.attempt, request.keep
        self.expires_at = at + request.lease
        self.state = ClaimState.IN_PROGRESS
        self.finished_at = self.retry_at = math.inf
        self.result: str | None = None
        self.gone = False
        """Whether the claim was forgotten, or another attempt followed."""


class ClaimModel:
    """Follow a store's claims event by event."""

    def __init__(self, sessions: Sessions) -> None:
        self.violations: list[Violation] = []
        self.attempts: list[Attempt] = []
        self.finished: set[tuple[str, str]] = set()
        """Owners that finished a claim, with its state; a late request of such an owner may claim it once more."""
        self._of_owner: dict[str, Attempt] = {}
        self._sessions = sessions
        self._last: dict[str, Attempt] = {}
        self._fence = 0
        self._now = 0.0

    def apply(self, event: Event) -> None:
        """Process one event."""
        self._now = event.at
        match event:
            case ClaimAsked():
                self._asked(event)
            case ClaimsRenewed(_, _, leases, answers):
                for lease, answer in zip(leases, answers, strict=True):
                    self._renewed(lease.key, lease.owner, lease.ttl, answer.expires_at)
            case ClaimSettled():
                self._settled(event)
            case ClaimForgotten(_, _, key, view):
                self._forgotten(key, view)
            case ClaimsSeen():
                self._seen(event)
            case _:
                pass

    def of(self, owner: str) -> Attempt | None:
        """The last attempt of an owner."""
        return self._of_owner.get(owner)

    def live(self, attempt: Attempt, at: float) -> bool:
        """Whether it is held at a time that is not before the last event."""
        return self._notice(attempt, at) is not None

    def finish(self, at: float) -> None:
        """Record what has expired by now."""
        for attempt in self._last.values():
            self._notice(attempt, at)

    # -- operations ------------------------------------------------------------------------------------------------

    def _asked(self, event: ClaimAsked) -> None:
        request, answer = event.request, event.answer
        alive = self._sessions.ends_at(request.session) > self._now
        if isinstance(answer, SessionEnded):
            if alive:
                self._broken("sessions", f"a claim on {request.key} was refused although its session is live")
            return
        if not alive:
            self._broken("sessions", f"a claim on {request.key} of an ended session was accepted")
        last = self._kept(request.key)
        held = last is not None and self._notice(last, self._now) is not None
        if isinstance(answer, Known):
            self._known(request, answer.view, last, held=held)
        elif last is not None and held and last.owner == request.owner:
            if (answer.fence, answer.attempt) != (last.fence, last.number):
                self._broken("exclusive", f"the holder of {request.key} asked again and got another attempt")
            last.expires_at = self._now + request.lease
        else:
            self._claimed(event, request, answer, last, held=held)

    def _claimed(
        self, event: ClaimAsked, request: ClaimRequest, answer: Claimed, last: Attempt | None, *, held: bool
    ) -> None:
        if last is not None:
            if held:
                self._broken("exclusive", f"{request.key} was claimed again while attempt {last.number} was held")
                last.ended_at = self._now
            if last.state is ClaimState.DONE:
                self._broken(
                    "once", f"{request.key} was claimed again {self._now - last.finished_at:.3f} s after it was done"
                )
            if last.state is ClaimState.FAILED and self._now < last.retry_at - _CLOSE:
                self._broken("retry", f"{request.key} was claimed again {last.retry_at - self._now:.3f} s too early")
            last.gone = True
        if answer.fence <= self._fence:
            self._broken("exclusive", f"{request.key} was claimed with fence {answer.fence}, after {self._fence}")
        numbers = {1 if last is None else last.number + 1} | (
            {1} if last is not None and self._may_be_gone(last) else set()
        )
        if answer.attempt not in numbers:
            self._broken("exclusive", f"{request.key} was claimed as attempt {answer.attempt}, not {min(numbers)}")
        self._fence = max(self._fence, answer.fence)
        attempt = self._last[request.key] = self._of_owner[request.owner] = Attempt(
            request, answer, event.process, self._now
        )
        self.attempts.append(attempt)

    def _known(self, request: ClaimRequest, view: ClaimView, last: Attempt | None, *, held: bool) -> None:
        if last is None:
            self._broken("claimable", f"{request.key} was reported as {view.state} although no claim is kept")
            return
        if last.state is ClaimState.IN_PROGRESS and not held:
            self._broken("claimable", f"{request.key} could not be claimed although its holder's lease had ended")
        if last.state is ClaimState.FAILED and self._now >= last.retry_at + _CLOSE:
            self._broken("claimable", f"{request.key} had failed and was due, but could not be claimed")
        self._same(view, last)

    def _renewed(self, key: str, owner: str, lease: float, expires_at: float | None) -> None:
        last = self._kept(key)
        live = last is not None and last.owner == owner and self._notice(last, self._now) is not None
        if live != (expires_at is not None):
            self._broken("exclusive", f"a claim on {key} was renewed after its end, or not renewed while held")
        if last is not None and live:
            last.expires_at = self._now + lease

    def _settled(self, event: ClaimSettled) -> None:
        said, accepted = event.outcome, event.finished.done
        last = self._kept(said.key)
        mine = last is not None and last.owner == said.owner
        if last is None or not mine or last.state not in (ClaimState.IN_PROGRESS, said.state):
            if accepted:
                self._broken("finishes", f"{said.key} was finished by an owner that did not hold it, or finished twice")
            return
        if not accepted:
            if not self._may_be_gone(last):
                self._broken("finishes", f"{said.key} could not be finished by its holder")
            return
        if last.state is ClaimState.IN_PROGRESS:
            self._notice(last, self._now)
            last.ended_at = min(last.ended_at, self._now)
            last.state, last.finished_at, last.keep = said.state, self._now, said.keep
            self.finished.add((said.owner, str(said.state)))
            if said.state is ClaimState.FAILED:
                last.retry_at = self._now + said.retry_in
            else:
                last.result = said.result

    def _forgotten(self, key: str, view: ClaimView | None) -> None:
        last = self._kept(key)
        if last is None or view is None:
            if view is not None or (last is not None and not self._may_be_gone(last)):
                self._broken("kept", f"forgetting {key} found a different state than was kept")
            return
        self._same(view, last)
        if self._notice(last, self._now) is not None:
            last.forced = True
            last.ended_at = self._now
        last.gone = True
        del self._last[key]

    def _seen(self, event: ClaimsSeen) -> None:
        """Check that the store contains exactly this, regardless of what its operations answered."""
        views = {view.key: view for view in event.views}
        for key in list(self._last):
            last = self._kept(key)
            if last is not None and key in views:
                self._same(views[key], last)
            elif last is not None and not self._may_be_gone(last):
                self._broken("kept", f"the store does not have {key}, which is {last.state}")
        for key in views.keys() - self._last.keys():
            self._broken("kept", f"the store has {key}, which was forgotten or never claimed")

    # -- state -----------------------------------------------------------------------------------------------------

    def _kept(self, key: str) -> Attempt | None:
        """The last attempt, if the claim must or may still be kept."""
        last = self._last.get(key)
        if last is None or self._now < self._kept_until(last)[1]:
            return last
        self._notice(last, self._now)
        last.gone = True
        del self._last[key]
        return None

    def _may_be_gone(self, last: Attempt) -> bool:
        return self._now >= self._kept_until(last)[0]

    def _kept_until(self, last: Attempt) -> tuple[float, float]:
        """From when a claim may be gone, and from when it must not count any more."""
        if last.state is ClaimState.IN_PROGRESS:
            ended = min(last.expires_at, max(last.began_at, self._sessions.ends_at(last.session)))
            return ended + last.keep - _CLOSE, last.expires_at + last.keep
        since = last.retry_at if last.state is ClaimState.FAILED else last.finished_at
        return since + last.keep, since + last.keep

    def _notice(self, attempt: Attempt, at: float) -> Attempt | None:
        """The attempt if it is held; if it has expired, record when."""
        if attempt.gone or attempt.state is not ClaimState.IN_PROGRESS or attempt.ended_at < math.inf:
            return None
        ends_at = min(attempt.expires_at, self._sessions.ends_at(attempt.session))
        if ends_at > at:
            return attempt
        attempt.ended_at = max(ends_at, attempt.began_at)
        return None

    def _same(self, view: ClaimView, last: Attempt) -> None:
        found = (view.state, view.owner, view.fence, view.attempt, view.result)
        if found != (last.state, last.owner, last.fence, last.number, last.result):
            self._broken("kept", f"{last.key} is shown as {view.state}, attempt {view.attempt}, but is {last.state}")
        if view.state is ClaimState.FAILED and abs((view.retry_at or 0.0) - last.retry_at) > _CLOSE:
            self._broken("retry", f"{last.key} is due at a different time than its holder set")

    def _broken(self, promise: str, what: str) -> None:
        self.violations.append(Violation(self._now, promise, what))
