"""The lease on a key: its owner, fence, expiry and loss."""

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
    from interlock.ports.locks import LockRequest, Transaction
    from interlock.sessions import Session

    class Releases(Protocol):
        """The part of the engine that a lease needs."""

        def monotonic(self) -> float: ...
        def fenced(self, lease: Lease) -> AbstractAsyncContextManager[Transaction]: ...
        async def release(self, lease: Lease) -> None: ...
        def abandon(self, lease: Lease) -> None: ...


__all__ = ["Lease"]


class Lease(OwnedLease):
    """One grant of one key.

    In ``async with lease:``, which ``async with locks.acquire(key)`` does, the block is cancelled before the lease can
    expire, and :class:`LeaseLostError` is raised. Without a block, check :attr:`lost` or call :meth:`ensure`, and call
    :meth:`release` at the end.
    """

    _request: LockRequest

    def __init__(
        self, engine: Releases, request: LockRequest, caller: Caller, session: Session, fence: int, store_expiry: float
    ) -> None:
        self._engine = engine
        self._monotonic = engine.monotonic
        self._request = request
        self._caller = caller
        self._session = session
        self.fence = fence
        self._store_expiry = store_expiry

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self._released else "held"
        return f"<Lease {self.key!r} fence={self.fence} {state}>"

    @property
    def expires_at(self) -> datetime:
        """When the lease ends by the store's clock, unless it is renewed."""
        return as_datetime(self._store_expiry)

    def fenced(self) -> AbstractAsyncContextManager[Transaction]:
        """Return a transaction in the lease's own store that commits only while the lease is live.

        The key is not granted to another owner before the transaction ends.
        """
        return self._engine.fenced(self)

    async def release(self) -> None:
        """Release the key. Raises :class:`LeaseLostError` if it was no longer held. Releasing twice is harmless."""
        await self._engine.release(self)

    # -- for the engine --------------------------------------------------------------------------------------------

    def _finish(self, error: BaseException | None) -> Awaitable[None]:
        """Release, because the block has ended."""
        return self._engine.release(self)

    def _abandon(self) -> None:
        """Release in the background, because the block was cancelled."""
        self._engine.abandon(self)

    def _loss_error(self) -> LeaseLostError:
        """Return the error that reports the loss."""
        why = self._loss or "it was not renewed in time"
        return LeaseLostError(f"The lease on {self.key!r} (fence {self.fence}) was lost: {why}.")
