"""Claims, "this was seen": the contract that every store keeps.

Of all who claim a key, one is told that it is new and holds the claim as a lease; check and mark are one step. While
it works the others hear that it is in progress; when it has settled the claim, that it is done, or that it failed and
from when on it may be tried again. Claimable are a key that nobody claimed, one that failed and is due, one whose
holder's lease ended, and one whose time to be kept is over. Each time a key is claimed anew its attempt and its fence
grow; an attempt starts at 1 again once the claim was forgotten.

A claim is kept for ``keep`` seconds after it was settled (after its next attempt is due, if it failed; after its lease
ended, if its holder died). A claim is bounded by time, never by count: nothing drops one that is still to be kept.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import Held, Renewed, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import Attribution

__all__ = [
    "ClaimAnswer",
    "ClaimState",
    "ClaimStore",
    "ClaimView",
    "ClaimWant",
    "Claimed",
    "Held",
    "Known",
    "Renewed",
    "SessionEnded",
    "Settled",
    "Settlement",
]


class ClaimState(StrEnum):
    """What a claimant is told. A stored claim is never ``new``: that is the answer to the one who holds it."""

    NEW = "new"
    IN_PROGRESS = "in progress"
    DONE = "done"
    FAILED = "failed"


class ClaimWant(NamedTuple):
    """A request for a claim."""

    key: str
    owner: str
    session: str
    lease: float
    """Seconds that the claim is held for at a time; renewed while its holder works."""
    keep: float
    """Seconds that it is kept for."""


class ClaimView(NamedTuple):
    """A claim as it is stored. Times are the store's."""

    key: str
    state: ClaimState
    attempt: int
    fence: int
    owner: str
    session: str
    host: str
    pid: int
    program: str
    """Who works on it, or did last. Host, pid and program are kept with the claim: sessions are forgotten sooner."""
    claimed_at: float
    expires_at: float | None
    """In progress: the earlier of its lease's and its session's end. In the past if the holder died; anyone may then
    claim it. None for the others."""
    settled_at: float | None
    retry_at: float | None
    """Failed: when it may be claimed again."""
    error: str
    result: str | None
    """Done: what the holder left, as JSON."""
    kept_until: float
    seen_at: float

    @property
    def live(self) -> bool:
        """Whether its holder is at work on it."""
        return self.expires_at is not None and self.expires_at > self.seen_at


class Claimed(NamedTuple):
    """It is new, and the asker's, until ``expires_at`` unless renewed."""

    fence: int
    expires_at: float
    attempt: int


class Known(NamedTuple):
    """It is not new: in progress, done, or failed and not due yet."""

    view: ClaimView


ClaimAnswer = Claimed | Known | SessionEnded


class Settlement(NamedTuple):
    """How the work on a claim ended."""

    key: str
    owner: str
    state: ClaimState
    """DONE or FAILED."""
    result: str | None
    """What to keep with a claim that is done, as JSON."""
    error: str
    retry_in: float
    """Seconds after which one that failed may be claimed again."""
    keep: float


class Settled(NamedTuple):
    """Whether the claim was the settler's to settle, and if not, why."""

    done: bool
    why: str


class ClaimStore(Protocol):
    """Claims in one store and namespace."""

    async def claim(self, want: ClaimWant) -> ClaimAnswer:
        """Take the claim if it can be had, else say how it stands; one atomic step.

        Who holds it already is granted it again, with the same fence and attempt and a new expiry.
        """
        ...

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Give each live claim its full lease again, all in one operation. What has ended is never brought back."""
        ...

    async def settle(self, settlement: Settlement) -> Settled:
        """Mark a claim as done or failed, if the owner holds it.

        Also if its lease has ended meanwhile but nobody claimed it since: the work was done, and to say so keeps
        others from doing it again. Settling again what the owner settled that way already is harmless.
        """
        ...

    async def forget(self, key: str, why: str, attribution: Attribution) -> ClaimView | None:
        """Remove a claim, so that the key is new again, and tell its holder why; None if there was none."""
        ...

    async def list(
        self,
        key: str | None = None,
        *,
        prefix: str = "",
        state: ClaimState | None = None,
        limit: int = 1000,
        after: str = "",
    ) -> Sequence[ClaimView]:
        """Claims that are still kept (or just the one) by key; at most ``limit`` of them, those after ``after``.

        As one snapshot, but in parts of a thousand where to look at more in one go would hold others up.
        """
        ...
