"""One worker under one session: what it has to say there about the jobs that it claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.ports.jobs import ClaimedJob, Settlement
    from interlock.sessions import Session

__all__ = ["Tenure"]


class Tenure:
    """From the beginning of a session until all that was claimed in it is settled."""

    __slots__ = ("aside", "jobs", "lost", "session", "settlements")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lost = False
        """Whether the worker has let go of all that it had claimed."""
        self.settlements: list[Settlement] = []
        """Not yet answered by the store, in the order to send them."""
        self.jobs: list[ClaimedJob] = []
        """Whose settlements these are."""
        self.aside: list[tuple[Settlement, ClaimedJob]] = []
        """Settlements that the store could not take because other transactions have locked rows that they change."""

    @property
    def unanswered(self) -> bool:
        """Whether there are settlements that the store has not answered."""
        return bool(self.settlements or self.aside)
