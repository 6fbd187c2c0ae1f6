"""Claims, "this key is being or was handled": the contract that every store keeps.

When several processes claim a key, one of them gets ``new`` and holds the claim as a lease; check and mark are one
step. While it works, the others get ``in progress``. After it has finished the claim, they get ``done``, or ``failed``
with the time of the next possible retry. A key can be claimed if it has no claim, if its claim failed and the retry is
due, if the lease of the holder has ended, or if its retention has ended. Every new claim of a key increases its attempt
and its fence. The attempt starts at 1 again after the claim was forgotten.

A claim is kept for ``keep`` seconds after it was finished (after its retry is due, if it failed; after its lease ended,
if its holder died). Retention is bounded by time, never by count: a claim is not dropped early.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import Held, Renewed, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import Attribution

__all__ = [
    "EVERY_CLAIM",
    "ClaimAnswer",
    "ClaimFilter",
    "ClaimState",
    "ClaimStore",
    "ClaimView",
    "ClaimRequest",
    "Claimed",
    "Held",
    "Known",
    "Renewed",
    "SessionEnded",
    "ClaimFinished",
    "ClaimOutcome",
]


class ClaimState(StrEnum):
    """The state of a claim. A stored claim is never ``new``; only the answer to its holder is."""

    NEW = "new"
    IN_PROGRESS = "in progress"
    DONE = "done"
    FAILED = "failed"


class ClaimRequest(NamedTuple):
    """A request for a claim."""

    key: str
    owner: str
    session: str
    lease: float
    """The duration of the lease in seconds; it is renewed while the holder works."""
    keep: float
    """Seconds of retention."""


class ClaimView(NamedTuple):
    """A stored claim. Times are the store's."""

    key: str
    state: ClaimState
    attempt: int
    fence: int
    owner: str
    session: str
    host: str
    pid: int
    program: str
    """The last holder. Host, PID and program are stored with the claim, which outlives its session."""
    claimed_at: float
    expires_at: float | None
    """In progress: when its lease or its session ends, whichever is earlier. In the past if the holder died; then the
    key can be claimed. None in other states."""
    finished_at: float | None
    retry_at: float | None
    """Failed: when the key can be claimed again."""
    error: str
    result: str | None
    """Done: the result that the holder stored, as JSON."""
    kept_until: float
    seen_at: float

    @property
    def live(self) -> bool:
        """Whether it has a live holder."""
        return self.expires_at is not None and self.expires_at > self.seen_at


class Claimed(NamedTuple):
    """The key is new; the request holds it until ``expires_at``, unless it is renewed."""

    fence: int
    expires_at: float
    attempt: int


class Known(NamedTuple):
    """The key is not new: in progress, done, or failed and not due yet."""

    view: ClaimView


ClaimAnswer = Claimed | Known | SessionEnded


class ClaimOutcome(NamedTuple):
    """The end of the work on a claim."""

    key: str
    owner: str
    state: ClaimState
    """DONE or FAILED."""
    result: str | None
    """The result to store with a claim that is done, as JSON."""
    error: str
    retry_in: float
    """Seconds after which a failed key can be claimed again."""
    keep: float


class ClaimFinished(NamedTuple):
    """Whether the claim was the owner's to finish, and if not, why."""

    done: bool
    why: str


class ClaimFilter(NamedTuple):
    """Which claims to list. Empty means any."""

    prefix: str = ""
    state: ClaimState | None = None


EVERY_CLAIM = ClaimFilter()


class ClaimStore(Protocol):
    """Claims in one store and namespace."""

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Claim the key if possible; otherwise return the existing claim. One atomic step.

        A holder is granted its claim again, with the same fence and attempt and a new expiry.
        """
        ...

    async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]:
        """Extend each live claim by its full lease, all in one operation. A claim that has ended is never revived."""
        ...

    async def finish(self, outcome: ClaimOutcome) -> ClaimFinished:
        """Mark a claim as done or failed, if the owner holds it.

        This also works after its lease has ended if no other owner claimed the key since: the work was done, and
        saying so keeps others from repeating it. Finishing again what the owner finished that way already is harmless.
        """
        ...

    async def forget(self, key: str, why: str, attribution: Attribution) -> ClaimView | None:
        """Remove a claim, so that the key is new again, and notify its holder; return None if there was none."""
        ...

    async def list(
        self, key: str | None = None, wanted: ClaimFilter = EVERY_CLAIM, *, limit: int = 1000, after: str = ""
    ) -> Sequence[ClaimView]:
        """List claims (or one) that match, by key: at most ``limit``, those after ``after``.

        The list is one snapshot; on Redis, one for each thousand keys, so that a long list does not block the server.
        """
        ...
