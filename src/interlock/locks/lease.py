"""The ownership of a key: who, with which fence, until when, and whether it still holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from interlock.clock import as_datetime
from interlock.errors import LeaseLostError
from interlock.leases.owned_lease import OwnedLease

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from interlock.callers import Caller
    from interlock.ports.locks import Transaction, Want
    from interlock.sessions import Session

    class Keeper(Protocol):
        """What a lease needs of the engine that granted it."""

        def monotonic(self) -> float: ...
        def fenced(self, lease: Lease) -> AbstractAsyncContextManager[Transaction]: ...
        async def release(self, lease: Lease) -> None: ...
        def abandon(self, lease: Lease) -> None: ...


__all__ = ["Lease"]


class Lease(OwnedLease):
    """One grant of one key.

    Used as ``async with lease:`` (which ``async with locks.acquire(key)`` does) its body is cancelled before the
    lease can run out, and :class:`LeaseLostError` is raised. Held without a block, ask :attr:`lost` or
    :meth:`ensure`, and call :meth:`release` in the end.
    """

    want: Want

    def __init__(
        self, keeper: Keeper, want: Want, caller: Caller, session: Session, fence: int, store_expiry: float
    ) -> None:
        self._keeper = keeper
        self._monotonic = keeper.monotonic
        self.want = want
        self.caller = caller
        self.session = session
        self.fence = fence
        self.store_expiry = store_expiry

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self.released else "held"
        return f"<Lease {self.key!r} fence={self.fence} {state}>"

    @property
    def expires_at(self) -> datetime:
        """When the lease ends by the store's clock, unless it is renewed before."""
        return as_datetime(self.store_expiry)

    def fenced(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in the lease's own store that commits only while the lease is live.

        Nobody else can be granted the key before the transaction ends.
        """
        return self._keeper.fenced(self)

    async def release(self) -> None:
        """Give the key back. Raises :class:`LeaseLostError` if it was no longer held; twice is harmless."""
        await self._keeper.release(self)

    # -- for the engine --------------------------------------------------------------------------------------------

    def settle(self, error: BaseException | None) -> Awaitable[None]:
        """The block has ended: release."""
        return self._keeper.release(self)

    def abandon(self) -> None:
        """The block was stopped: release in the background."""
        self._keeper.abandon(self)

    def error(self) -> LeaseLostError:
        """What to raise when the lease is lost."""
        why = self.lost_why or "it was not renewed in time"
        return LeaseLostError(f"The lease on {self.key!r} (fence {self.fence}) was lost: {why}.")
