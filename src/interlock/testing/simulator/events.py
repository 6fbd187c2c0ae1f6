"""What happens to claims, limits and cursors in a run: more events for a history.

The store's side says what an operation found and did at the moment it took effect. The processes' side is the same
for all concepts: a call begins, asks under a name, ends; code works under what it got; the caller is through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.ports.claims import Claimed, Known
from interlock.ports.cursors import Moved
from interlock.ports.limits import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.claims import ClaimAnswer, ClaimView, ClaimWant, Held, Renewed, Settled, Settlement
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
    want: ClaimWant
    answer: ClaimAnswer

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        said = [name(self.want.owner), self.want.key, type(self.answer).__name__]
        if isinstance(self.answer, Claimed):
            said.append(f"attempt {self.answer.attempt} fence {self.answer.fence}")
        elif isinstance(self.answer, Known):
            said.append(str(self.answer.view.state))
        return said


class ClaimsRenewed(NamedTuple):
    """Claims were renewed, or not."""

    at: float
    process: str
    leases: Sequence[Held]
    answers: Sequence[Renewed]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        pairs = zip(self.leases, self.answers, strict=False)
        return [f"{name(lease.owner)}:{'ok' if answer.expires_at else 'ended'}" for lease, answer in pairs]


class ClaimSettled(NamedTuple):
    """A claim was settled, or the settlement refused."""

    at: float
    process: str
    settlement: Settlement
    settled: Settled

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        said = self.settlement
        return [name(said.owner), said.key, str(said.state), "settled" if self.settled.done else "refused"]


class ClaimForgotten(NamedTuple):
    """A claim was removed by hand."""

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
    """A cursor was moved, or the move refused."""

    at: float
    process: str
    move: Move
    answer: Moved | Overtaken

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        moved = isinstance(self.answer, Moved)
        return [self.move.name, name(self.move.id), str(self.move.expected), "moved" if moved else "overtaken"]


class ClaimsSeen(NamedTuple):
    """All claims that the store has, as looked at from outside."""

    at: float
    process: str
    views: Sequence[ClaimView]

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{view.key}:{view.state}" for view in self.views]


class LimitsSeen(NamedTuple):
    """All limits in use, as looked at from outside. At the ``end`` nobody works and nobody waits."""

    at: float
    process: str
    views: Sequence[LimitView]
    end: bool

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"{view.key}:{len(view.started)}+{len(view.waiting)}" for view in self.views]


# -- the processes' side -------------------------------------------------------------------------------------------


class CallBegan(NamedTuple):
    """A client began to ask for something. Kinds are ``claim``, ``acquire``, ``reserve`` and ``start``."""

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
    """The engine asks on behalf of a client's call under this name."""

    at: float
    process: str
    call: int
    owner: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", name(self.owner)]


class CallEnded(NamedTuple):
    """The client has its answer."""

    at: float
    process: str
    call: int
    outcome: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}", self.outcome]


class WorkBegan(NamedTuple):
    """Code begins that relies on what the owner got."""

    at: float
    process: str
    call: int
    owner: str
    guarded: bool
    """Whether it is stopped when that is lost; otherwise it has to ask."""

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
    """A client was told what became of its ``done`` or ``fail``: settled, lost, unavailable or cancelled."""

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
    """A client is through with its call: what it got was given back, lost, or never had."""

    at: float
    process: str
    call: int

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [f"r{self.call}"]


class CursorSaid(NamedTuple):
    """A client was told what became of its move of a cursor to a value."""

    at: float
    process: str
    name: str
    value: str
    outcome: str

    def words(self, name: Name) -> list[str]:
        """For the trace."""
        return [self.name, self.outcome]


class NeverClaimed(NamedTuple):
    """Someone asked for a claim long enough after all had ended, and got it neither new nor done."""

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
