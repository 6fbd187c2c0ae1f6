"""The ownership of a key: who, with which fence, until when, and whether it still holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from interlock.clock import as_datetime
from interlock.errors import LeaseLostError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from types import TracebackType

    from interlock.locks.parties import Party
    from interlock.ports.locks import Transaction, Want
    from interlock.sessions import Session

    class Keeper(Protocol):
        """What a lease needs of the engine that granted it."""

        def monotonic(self) -> float: ...
        def fenced(self, lease: Lease) -> AbstractAsyncContextManager[Transaction]: ...
        async def release(self, lease: Lease) -> None: ...
        def abandon(self, lease: Lease) -> None: ...


__all__ = ["Lease"]


class Lease:
    """One grant of one key.

    Used as ``async with lease:`` (which ``async with locks.acquire(key)`` does) its body is cancelled before the
    lease can run out, and :class:`LeaseLostError` is raised. Held without a block, ask :attr:`lost` or
    :meth:`ensure`, and call :meth:`release` in the end.
    """

    # One is made for every grant: what is the same for all of them at first is a default of the class.
    lost_why = ""
    released = False
    granted = 0.0  # local monotonic times: when it was granted, is to be renewed, has to be stopped
    renew_at = 0.0
    deadline = 0.0
    _task: asyncio.Task[Any] | None = None
    _cancelling = 0
    _cancelled = False

    def __init__(
        self, keeper: Keeper, want: Want, party: Party, session: Session, fence: int, store_expiry: float
    ) -> None:
        self._keeper = keeper
        self.want = want
        self.party = party
        self.session = session
        self.fence = fence
        self.store_expiry = store_expiry

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self.released else "held"
        return f"<Lease {self.key!r} fence={self.fence} {state}>"

    @property
    def key(self) -> str:
        """What is owned."""
        return self.want.key

    @property
    def owner(self) -> str:
        """Who owns it: the id of the request that was granted."""
        return self.want.owner

    @property
    def expires_at(self) -> datetime:
        """When the lease ends by the store's clock, unless it is renewed before."""
        return as_datetime(self.store_expiry)

    @property
    def lost(self) -> bool:
        """Whether the lease may have ended under its holder. Known without asking the store, and never too late."""
        if self.lost_why:
            return True
        if self.released:
            return False
        now = self._keeper.monotonic()
        return now >= self.deadline or now >= self.session.deadline or self.session.lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless the lease is held for certain."""
        if self.released:
            raise LeaseLostError(f"The lease on {self.key!r} was released already.", remedy="Acquire it again.")
        if self.lost:
            raise self.error()

    def fenced(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in the lease's own store that commits only while the lease is live.

        Nobody else can be granted the key before the transaction ends.
        """
        return self._keeper.fenced(self)

    async def release(self) -> None:
        """Give the key back. Raises :class:`LeaseLostError` if it was no longer held; twice is harmless."""
        await self._keeper.release(self)

    async def __aenter__(self) -> Lease:
        self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave(kind, error)

    @property
    def abandoned(self) -> bool:
        """Whether it was lost with its session and no block relies on it."""
        return bool(self.lost_why) and self.session.lost and self._task is None

    # -- for the engine --------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Begin a block."""
        if self._task is not None:
            raise MisuseError(f"The lease on {self.key!r} is in a block already.", remedy="Enter it once.")
        self.ensure()
        self.tie(asyncio.current_task())

    def tie(self, task: asyncio.Task[Any] | None) -> None:
        """Tie a lease that is in no block yet to the running task, which is cancelled when the lease is lost."""
        self._task = task
        if task is not None and (cancelling := task.cancelling()):
            self._cancelling = cancelling
        self.session.at_work += 1

    def leave(self, kind: type[BaseException] | None, error: BaseException | None) -> Awaitable[None]:
        """End the block: release, and turn our own cancellation into the error that says what happened."""
        self.session.at_work -= 1
        if error is None and not self.lost_why:
            self._task = None
            return self._keeper.release(self)
        return self._leave_badly(kind, error)

    async def _leave_badly(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        task, self._task = self._task, None
        ours = self._cancelled and task is not None and task.uncancel() <= self._cancelling
        if self.lost_why:
            self._keeper.abandon(self)
            if kind is None or (ours and kind is asyncio.CancelledError):
                raise self.error() from None
            if error is not None:
                error.add_note(str(self.error()))
        elif kind is asyncio.CancelledError:
            # Whoever cancelled wants an end now, perhaps because another lease is about to run out.
            self._keeper.abandon(self)
        else:
            try:
                await self._keeper.release(self)
            except LeaseLostError as lost:
                if error is not None:
                    error.add_note(str(lost))

    def lose(self, why: str) -> None:
        """Mark the lease as lost and stop the body that relies on it."""
        if self.lost_why or self.released:
            return
        self.lost_why = why
        if self._task is not None:
            self._cancel()

    def error(self) -> LeaseLostError:
        """What to raise when the lease is lost."""
        why = self.lost_why or "it was not renewed in time"
        return LeaseLostError(f"The lease on {self.key!r} (fence {self.fence}) was lost: {why}.")

    def _cancel(self) -> None:
        assert self._task is not None
        self._cancelled = True
        self._task.cancel(f"lease on {self.key!r} lost: {self.lost_why}")
