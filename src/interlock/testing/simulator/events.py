"""Events of claims, limits and cursors in a history.

Events of the store record what an operation found and did at the moment it took effect. Events of processes are the
same for all concepts: a call begins, asks under an owner, and ends; code relies on it; the caller has finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.claims import Claimed, Known
from interlock.ports.cursors import Moved
from interlock.ports.limits import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.claims import ClaimAnswer, ClaimFinished, ClaimOutcome, ClaimRequest, ClaimView, Held, Renewed
    from interlock.ports.cursors import CursorView, Move, Overtaken
    from interlock.ports.limits import Finished, LimitAnswer, LimitView, Plan

    Name = Callable[[str], str]

__all__ = [
    "CallBegan",
    "CallEnded",
    "CallNamed",
    "CallOver",
    "ClaimAsked",
    "ClaimForgotten",
    "ClaimSettled",
    "ClaimsRenewed",
    "ClaimsSeen",
    "ConceptEvent",
    "CursorMoved",
    "CursorRead",
    "CursorSaid",
    "LimitAsked",
    "LimitFinished",
    "LimitsSeen",
    "NeverClaimed",
    "SettleEnded",
    "WorkBegan",
    "WorkEnded",
    "WorkRan",
]


# -- the store's side ----------------------------------------------------------------------------------------------


class ClaimAsked(NamedTuple):
    """A request for a claim took effect."""

    at: float
    process: str
    request: ClaimRequest
    answer: ClaimAnswer

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        said = [name(self.request.owner), self.request.key, type(self.answer).__name__]
        if isinstance(self.answer, Claimed):
            said.append(f"attempt {self.answer.attempt} fence {self.answer.fence}")
        elif isinstance(self.answer, Known):
            said.append(str(self.answer.view.state))
        return said


class ClaimsRenewed(NamedTuple):
    """An attempt to renew claims."""

    at: float
    process: str
    leases: Sequence[Held]
    answers: Sequence[Renewed]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        pairs = zip(self.leases, self.answers, strict=False)
        return [f"{name(lease.owner)}:{'ok' if answer.expires_at else 'ended'}" for lease, answer in pairs]


class ClaimSettled(NamedTuple):
    """A claim was finished, or that was refused."""

    at: float
    process: str
    outcome: ClaimOutcome
    finished: ClaimFinished

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        said = self.outcome
        return [name(said.owner), said.key, str(said.state), "finished" if self.finished.done else "refused"]


class ClaimForgotten(NamedTuple):
    """An operator forgot a claim."""

    at: float
    process: str
    key: str
    view: ClaimView | None

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.key, name(self.view.owner) if self.view else "nothing"]


class LimitAsked(NamedTuple):
    """A request to reserve or to start took effect."""

    at: float
    process: str
    plan: Plan
    answer: LimitAnswer

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        said = [name(self.plan.owner), "+".join(use.key for use in self.plan.uses)]
        if not isinstance(self.answer, Turn):
            return [*said, type(self.answer).__name__]
        turn = self.answer
        if turn.started:
            return [*said, "started"]
        return [*said, f"at {turn.at - self.at:+.3f} s" if turn.at else f"behind {turn.ahead} at", turn.key]


class LimitFinished(NamedTuple):
    """A reservation was finished."""

    at: float
    process: str
    owner: str
    finished: Finished

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        how = "started" if self.finished.started else "not started" if self.finished.known else "unknown"
        return [name(self.owner), how]


class CursorRead(NamedTuple):
    """A cursor was read."""

    at: float
    process: str
    name: str
    view: CursorView | None

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.name, str(self.view.version if self.view else 0)]


class CursorMoved(NamedTuple):
    """A cursor was moved, or the move was refused."""

    at: float
    process: str
    move: Move
    answer: Moved | Overtaken

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        moved = isinstance(self.answer, Moved)
        return [self.move.name, name(self.move.id), str(self.move.expected), "moved" if moved else "overtaken"]


class ClaimsSeen(NamedTuple):
    """All claims in the store, as seen from outside."""

    at: float
    process: str
    views: Sequence[ClaimView]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{view.key}:{view.state}" for view in self.views]


class LimitsSeen(NamedTuple):
    """All limits in use, as seen from outside. At the ``end`` nothing is running and nothing is waiting."""

    at: float
    process: str
    views: Sequence[LimitView]
    end: bool

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{view.key}:{len(view.started)}+{len(view.waiting)}" for view in self.views]


# -- the processes' side -------------------------------------------------------------------------------------------


class CallBegan(NamedTuple):
    """A client began a call. Kinds are ``claim``, ``acquire``, ``reserve`` and ``start``."""

    at: float
    process: str
    call: int
    kind: str
    what: str
    wait: float | None

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", self.kind, self.what, str(self.wait)]


class CallNamed(NamedTuple):
    """The engine asks on behalf of a client's call, under this owner."""

    at: float
    process: str
    call: int
    owner: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", name(self.owner)]


class CallEnded(NamedTuple):
    """The client was answered."""

    at: float
    process: str
    call: int
    outcome: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", self.outcome]


class WorkBegan(NamedTuple):
    """Code that relies on the owner's grant begins."""

    at: float
    process: str
    call: int
    owner: str
    guarded: bool
    """Whether it is cancelled on a loss; otherwise it has to check for one."""

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", name(self.owner)]


class WorkRan(NamedTuple):
    """Such code is running at this moment."""

    at: float
    process: str
    call: int
    owner: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}"]


class WorkEnded(NamedTuple):
    """Such code has ended."""

    at: float
    process: str
    call: int
    owner: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}"]


class SettleEnded(NamedTuple):
    """The outcome of a client's ``done`` or ``fail``: finished, lost, unavailable or cancelled."""

    at: float
    process: str
    call: int
    owner: str
    state: str
    outcome: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", self.state, self.outcome]


class CallOver(NamedTuple):
    """A client has finished with its call: its grant was released or lost, or there was none."""

    at: float
    process: str
    call: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}"]


class CursorSaid(NamedTuple):
    """The outcome of a client's move of a cursor to a value."""

    at: float
    process: str
    name: str
    value: str
    outcome: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.name, self.outcome]


class NeverClaimed(NamedTuple):
    """A claim that was requested long after everything had ended was neither new nor done."""

    at: float
    process: str
    key: str
    state: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.key, self.state]


ConceptEvent = (
    ClaimAsked
    | ClaimsRenewed
    | ClaimSettled
    | ClaimForgotten
    | LimitAsked
    | LimitFinished
    | CursorRead
    | CursorMoved
    | ClaimsSeen
    | LimitsSeen
    | CallBegan
    | CallNamed
    | CallEnded
    | WorkBegan
    | WorkRan
    | WorkEnded
    | SettleEnded
    | CallOver
    | CursorSaid
    | NeverClaimed
)
