"""One worker under one session: what it has to say there about the jobs that it fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.ports.jobs import Acknowledgement, FetchedJob
    from interlock.sessions import Session

__all__ = ["Tenure"]


class Tenure:
    """From the beginning of a session until all that was fetched in it is acknowledged."""

    __slots__ = ("acknowledgements", "aside", "jobs", "lost", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lost = False
        """Whether the worker has let go of all that it had fetched."""
        self.acknowledgements: list[Acknowledgement] = []
        """Not yet answered by the store, in the order to send them."""
        self.jobs: list[FetchedJob] = []
        """Whose acknowledgements these are."""
        self.aside: list[tuple[Acknowledgement, FetchedJob]] = []
        """Acknowledgements that the store could not take because other transactions have locked rows that they
        change."""

    @property
    def unanswered(self) -> bool:
        """Whether there are acknowledgements that the store has not answered."""
        return bool(self.acknowledgements or self.aside)
