"""A lease that a block of code relies on: the block is cancelled before the lease can expire.

Names with an underscore are for the engines in ``leases``, ``locks``, ``claims`` and ``limits``.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Protocol, Self

from interlock.errors import LeaseLostError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from interlock.sessions import Session

    class GrantedRequest(Protocol):
        """The request that was granted."""

        @property
        def key(self) -> str: ...
        @property
        def owner(self) -> str: ...
        @property
        def ttl(self) -> float: ...


__all__ = ["OwnedLease"]


class OwnedLease:
    """One grant of any concept."""

    # One object is created for every grant, so initial values that are always the same are defaults of the class.
    _noun = "lease"
    _loss = ""
    """Why it was lost; empty while it is not."""
    _released = False
    _granted_at = 0.0  # local monotonic times: when it was granted, has to be renewed, has to be stopped
    _renew_at = math.inf
    _deadline = math.inf
    _store_expiry = math.inf
    _task: asyncio.Task[Any] | None = None
    _in_block = False
    """Whether a block relies on it."""
    _cancelling = 0
    _cancelled = False

    def __init__(self, request: GrantedRequest, session: Session, monotonic: Callable[[], float]) -> None:
        self._request = request
        self._session = session
        self._monotonic = monotonic

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self._released else "held"
        return f"<{type(self).__name__} {self.key!r} {state}>"

    @property
    def key(self) -> str:
        """The key that is owned."""
        return self._request.key

    @property
    def owner(self) -> str:
        """The ID of the request that was granted."""
        return self._request.owner

    @property
    def lost(self) -> bool:
        """Whether it may have ended while it was held. Known without asking the store, and never too late."""
        if self._loss:
            return True
        if self._released:
            return False
        now = self._monotonic()
        return now >= self._deadline or now >= self._session.deadline or self._session.lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless it is certainly held."""
        if self._released:
            raise LeaseLostError(f"The {self._noun} on {self.key!r} was already released.", remedy="Acquire it again.")
        if self.lost:
            raise self._loss_error()

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave(kind, error)

    # -- for the engines: how it ends ------------------------------------------------------------------------------

    def _finish(self, error: BaseException | None) -> Awaitable[None]:
        """Release it after its block has ended by itself, successfully or with an error."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Release it in the background after its block was cancelled."""
        raise NotImplementedError

    @property
    def _abandoned(self) -> bool:
        """Whether it was lost with its session and no block relies on it."""
        return bool(self._loss) and self._session.lost and self._task is None

    # -- for the engines: the block --------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Start a block."""
        if self._task is not None:
            raise MisuseError(f"The {self._noun} on {self.key!r} is already in a block.", remedy="Enter it once.")
        self.ensure()
        self._tie(asyncio.current_task())

    def _enter_thread(self) -> None:
        """Start a block of synchronous code. It cannot be cancelled, but counts as work that relies on the session."""
        if self._in_block:
            raise MisuseError(f"The {self._noun} on {self.key!r} is already in a block.", remedy="Enter it once.")
        self.ensure()
        self._tie(None)

    def _tie(self, task: asyncio.Task[Any] | None) -> None:
        """Tie it to the running task, which is cancelled if it is lost."""
        self._task = task
        self._in_block = True
        if task is not None and (cancelling := task.cancelling()):
            self._cancelling = cancelling
        self._session.at_work += 1

    def _untie(self) -> None:
        """Note that no block relies on it any more: the block has ended, or released it early."""
        if self._in_block:
            self._in_block = False
            self._session.at_work -= 1

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None) -> Awaitable[None]:
        """End the block: release the lease, and turn our own cancellation into the error that explains it."""
        self._untie()
        if error is None and not self._loss:
            self._task = None
            return self._finish(None)
        return self._leave_with_error(kind, error)

    async def _leave_with_error(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        task, self._task = self._task, None
        ours = self._cancelled and task is not None and task.uncancel() <= self._cancelling
        if self._loss:
            self._abandon()
            if kind is None or (ours and kind is asyncio.CancelledError):
                raise self._loss_error() from None
            if error is not None:
                error.add_note(str(self._loss_error()))
        elif self._released:
            pass  # released early
        elif kind is asyncio.CancelledError:
            # The task must end now, perhaps because another lease is about to expire.
            self._abandon()
        else:
            try:
                await self._finish(error)
            except LeaseLostError as lost:
                if error is not None:
                    error.add_note(str(lost))

    def _lose(self, why: str) -> None:
        """Mark it as lost and cancel the block that relies on it."""
        if self._loss or self._released:
            return
        self._loss = why
        self._cancel()

    def _loss_error(self) -> LeaseLostError:
        """Return the error that reports the loss."""
        why = self._loss or "it was not renewed in time"
        return LeaseLostError(f"The {self._noun} on {self.key!r} was lost: {why}.")

    def _cancel(self) -> None:
        if self._task is None:
            return  # it is in no block, or the block has ended meanwhile and raised the error
        if self._task is asyncio.current_task():
            # The block caused the loss itself. Cancelled while it runs, it would be cancelled again after the block.
            asyncio.get_running_loop().call_soon(self._cancel)
            return
        self._cancelled = True
        self._task.cancel(f"{self._noun} on {self.key!r} lost: {self._loss}")
