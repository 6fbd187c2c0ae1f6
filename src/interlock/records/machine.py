"""Machines: the statuses that records of a kind can have, and the transitions between them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from interlock.errors import InvalidArgumentError, InvalidTransitionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Machine", "status_text"]

_MAX_STATUS = 100


class Machine:
    """A declared machine, checked on every write.

    ``transitions`` maps each status to those that may follow it. A status without transitions is final. A status may
    always be set to itself. A new record has an ``initial`` status. ``corrected`` is the status that a correction gives
    to a record with any status that is not final; without it a correction leaves the status as it is.
    """

    def __init__(
        self,
        *,
        initial: str | Iterable[str],
        transitions: Mapping[str, Iterable[str]],
        corrected: str | None = None,
    ) -> None:
        given = {status_text(status): _statuses(targets) for status, targets in transitions.items()}
        self.initial = _statuses(initial)
        self.corrected = None if corrected is None else status_text(corrected)
        targets = (target for followers in given.values() for target in followers)
        self.transitions = {status: given.get(status, ()) for status in dict.fromkeys([*given, *targets])}
        """Every status, with those that may follow it."""
        for status in (*self.initial, *(() if self.corrected is None else (self.corrected,))):
            if status not in self.transitions:
                raise InvalidArgumentError(
                    f"The machine has no transition from or to {status!r}.",
                    remedy=f"Statuses in its transitions: {', '.join(self.transitions)}.",
                )
        if not self.initial:
            raise InvalidArgumentError("The machine has no initial status.", remedy="Pass initial=….")

    def to_data(self) -> dict[str, Any]:
        """The machine as JSON data."""
        transitions = {status: list(followers) for status, followers in self.transitions.items()}
        return {"initial": list(self.initial), "transitions": transitions, "corrected": self.corrected}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The machine that :meth:`to_data` described."""
        return cls(initial=data["initial"], transitions=data["transitions"], corrected=data["corrected"])

    @property
    def statuses(self) -> tuple[str, ...]:
        """All statuses."""
        return tuple(self.transitions)

    @property
    def final(self) -> frozenset[str]:
        """Statuses that no other may follow."""
        return frozenset(status for status, followers in self.transitions.items() if not set(followers) - {status})

    def allows(self, status: str, requested: str) -> bool:
        """Whether a record may go from one status to another, or stay."""
        return requested in self.transitions and (status == requested or requested in self.transitions.get(status, ()))

    def check(self, what: str, status: str, requested: str) -> None:
        """Raise :class:`InvalidTransitionError` unless the transition is allowed; ``what`` names the record."""
        if not self.allows(status, requested):
            followers = ", ".join(self.transitions.get(status, ()))
            known = requested in self.transitions
            message = (
                f"{what} cannot go from {status!r} to {requested!r}."
                if known
                else f"{what} cannot get the unknown status {requested!r}."
            )
            remedy = f"From {status!r} it can go to: {followers}." if followers else f"{status!r} is a final status."
            raise InvalidTransitionError(message, status=status, requested=requested, remedy=remedy)

    def check_initial(self, what: str, requested: str) -> None:
        """Raise :class:`InvalidTransitionError` unless a record may be created with this status."""
        if requested not in self.initial:
            raise InvalidTransitionError(
                f"{what} cannot be created with the status {requested!r}.",
                requested=requested,
                remedy=f"Create it with: {', '.join(self.initial)}.",
            )

    def check_correctable(self, what: str, status: str) -> None:
        """Raise :class:`InvalidTransitionError` if the status is final."""
        if status in self.final:
            requested = self.corrected or status
            raise InvalidTransitionError(
                f"{what} cannot be corrected: {status!r} is a final status.",
                status=status,
                requested=requested,
                remedy="Create another record.",
            )

    def diagram(self) -> str:
        """The machine as the text of a Mermaid state diagram."""
        number = {status: f"s{index}" for index, status in enumerate(self.transitions)}
        lines = ["stateDiagram-v2"]
        lines += [f"    state {_quoted(status)} as {number[status]}" for status in self.transitions]
        lines += [f"    [*] --> {number[status]}" for status in self.initial]
        for status, followers in self.transitions.items():
            lines += [f"    {number[status]} --> {number[follower]}" for follower in followers if follower != status]
        if self.corrected is not None:
            listed = {(status, follower) for status, followers in self.transitions.items() for follower in followers}
            lines += [
                f"    {number[status]} --> {number[self.corrected]}: correction"
                for status in self.transitions
                if status not in self.final | {self.corrected} and (status, self.corrected) not in listed
            ]
        lines += [f"    {number[status]} --> [*]" for status in self.transitions if status in self.final]
        return "\n".join(lines) + "\n"


def status_text(status: object) -> str:
    """A status as it is kept: text, or an enum member whose value is text."""
    value = status.value if isinstance(status, Enum) else status
    if not isinstance(value, str) or not value or len(value) > _MAX_STATUS or not value.isprintable():
        raise InvalidArgumentError(
            f"Invalid status {status!r}.", remedy=f"Use 1 to {_MAX_STATUS} printable characters, or such an enum."
        )
    return value


def _statuses(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return (status_text(given),)
    return tuple(dict.fromkeys(status_text(status) for status in given))  # type: ignore[attr-defined]


def _quoted(status: str) -> str:
    return '"' + status.replace('"', "#quot;") + '"'
