"""The acknowledgements that one worker owes the store for the jobs it fetched under one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.ports.jobs import Acknowledgement, FetchedJob
    from interlock.sessions import Session

__all__ = ["SessionBatch"]


class SessionBatch:
    """Exists from the start of a session until the store has answered for every job fetched under it."""

    __slots__ = ("acknowledgements", "blocked", "jobs", "lost", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lost = False
        """Whether the worker has dropped the jobs it fetched under this session."""
        self.acknowledgements: list[Acknowledgement] = []
        """Acknowledgements the store has not answered, in the order to send them."""
        self.jobs: list[FetchedJob] = []
        """The job of each acknowledgement."""
        self.blocked: list[tuple[Acknowledgement, FetchedJob]] = []
        """Acknowledgements the store could not apply because other transactions had locked their rows."""

    @property
    def unanswered(self) -> bool:
        """Whether the store has not answered some acknowledgements."""
        return bool(self.acknowledgements or self.blocked)
