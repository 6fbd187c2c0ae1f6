"""Something owned while a body of code runs: the body is stopped before the ownership can run out."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Protocol, Self

from interlock.errors import LeaseLostError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from interlock.sessions import Session

    class Wanted(Protocol):
        """The request that was granted."""

        @property
        def key(self) -> str: ...
        @property
        def owner(self) -> str: ...
        @property
        def ttl(self) -> float: ...


__all__ = ["OwnedLease"]


class OwnedLease:
    """One grant, whichever concept it belongs to. ``what`` and ``key`` name it in messages."""

    # One is made for every grant: what is the same for all of them at first is a default of the class.
    what = "lease"
    lost_why = ""
    released = False
    granted = 0.0  # local monotonic times: when it was granted, is to be renewed, has to be stopped
    renew_at = math.inf
    deadline = math.inf
    store_expiry = math.inf
    _task: asyncio.Task[Any] | None = None
    _relied_on = False
    _cancelling = 0
    _cancelled = False

    def __init__(self, want: Wanted, session: Session, monotonic: Callable[[], float]) -> None:
        self.want = want
        self.session = session
        self._monotonic = monotonic

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self.released else "held"
        return f"<{type(self).__name__} {self.key!r} {state}>"

    @property
    def key(self) -> str:
        """What is owned."""
        return self.want.key

    @property
    def owner(self) -> str:
        """Who owns it: the id of the request that was granted."""
        return self.want.owner

    @property
    def lost(self) -> bool:
        """Whether it may have ended under its holder. Known without asking the store, and never too late."""
        if self.lost_why:
            return True
        if self.released:
            return False
        now = self._monotonic()
        return now >= self.deadline or now >= self.session.deadline or self.session.lost

    def ensure(self) -> None:
        """Raise :class:`LeaseLostError` unless it is held for certain."""
        if self.released:
            raise LeaseLostError(f"The {self.what} on {self.key!r} was released already.", remedy="Acquire it again.")
        if self.lost:
            raise self.error()

    @property
    def tied(self) -> bool:
        """Whether a block relies on it."""
        return self._relied_on

    @property
    def abandoned(self) -> bool:
        """Whether it was lost with its session and no block relies on it."""
        return bool(self.lost_why) and self.session.lost and self._task is None

    # -- how it ends, which is each concept's own ---------------------------------------------------------------------

    def settle(self, error: BaseException | None) -> Awaitable[None]:
        """The block has ended by itself, well or with an error: give back what is owned."""
        raise NotImplementedError

    def abandon(self) -> None:
        """The block was stopped: give back in the background what may still be ours."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave(kind, error)

    # -- the body --------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Begin a block."""
        if self._task is not None:
            raise MisuseError(f"The {self.what} on {self.key!r} is in a block already.", remedy="Enter it once.")
        self.ensure()
        self.tie(asyncio.current_task())

    def tie(self, task: asyncio.Task[Any] | None) -> None:
        """Tie what is in no block yet to the running task, which is cancelled when it is lost."""
        self._task = task
        self._relied_on = True
        if task is not None and (cancelling := task.cancelling()):
            self._cancelling = cancelling
        self.session.at_work += 1

    def untie(self) -> None:
        """No block relies on it any more: the block has ended, or it was given back before that."""
        if self._relied_on:
            self._relied_on = False
            self.session.at_work -= 1

    def leave(self, kind: type[BaseException] | None, error: BaseException | None) -> Awaitable[None]:
        """End the block: give back, and turn our own cancellation into the error that says what happened."""
        self.untie()
        if error is None and not self.lost_why:
            self._task = None
            return self.settle(None)
        return self._leave_badly(kind, error)

    async def _leave_badly(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        task, self._task = self._task, None
        ours = self._cancelled and task is not None and task.uncancel() <= self._cancelling
        if self.lost_why:
            self.abandon()
            if kind is None or (ours and kind is asyncio.CancelledError):
                raise self.error() from None
            if error is not None:
                error.add_note(str(self.error()))
        elif self.released:
            pass  # given back early
        elif kind is asyncio.CancelledError:
            # Whoever cancelled wants an end now, perhaps because another lease is about to run out.
            self.abandon()
        else:
            try:
                await self.settle(error)
            except LeaseLostError as lost:
                if error is not None:
                    error.add_note(str(lost))

    def lose(self, why: str) -> None:
        """Mark it as lost and stop the body that relies on it."""
        if self.lost_why or self.released:
            return
        self.lost_why = why
        self._cancel()

    def error(self) -> LeaseLostError:
        """What to raise when it is lost."""
        why = self.lost_why or "it was not renewed in time"
        return LeaseLostError(f"The {self.what} on {self.key!r} was lost: {why}.")

    def _cancel(self) -> None:
        if self._task is None:
            return  # in no block, or it has ended meanwhile and said so
        if self._task is asyncio.current_task():
            # It lost it by what it does right now. Cancelled while it runs it would be so once more after the block.
            asyncio.get_running_loop().call_soon(self._cancel)
            return
        self._cancelled = True
        self._task.cancel(f"{self.what} on {self.key!r} lost: {self.lost_why}")
