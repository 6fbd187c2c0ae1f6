"""This process in one store: the store opened, one session kept alive, messages heard.

All concepts that use the same store share one store_client, so that a process has one session in it. The first that
opens opens the store, the last that closes closes it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from interlock.clock import Clock, SystemClock
from interlock.errors import StoreUnavailableError
from interlock.operations import Operations
from interlock.sessions import Session, SessionKeeper
from interlock.settings import Settings
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.ports.journal import JournalStore
    from interlock.ports.store import Store

__all__ = ["Part", "StoreClient", "present", "repeat"]

_log = logging.getLogger("interlock.sessions")
_TELL_AFTER, _TELL_EVERY = 2.0, 10.0
T = TypeVar("T")


class Part(Protocol):
    """One concept at work in the store. Its owners' names are ``session.mark…``, which tells whom a message is for."""

    @property
    def mark(self) -> str:
        """What comes after the session in the names of its owners, before their numbers."""
        ...

    def session_began(self, session: Session) -> None:
        """There is a session; the first, or the one that follows a lost one."""
        ...

    def session_lost(self, session: Session) -> None:
        """The session is lost, and all that was held in it."""
        ...

    def turn(self, owner: str | None) -> None:
        """It may be this owner's turn; None: anything may have happened unheard."""
        ...

    def taken(self, owner: str, why: str) -> None:
        """What this owner held was taken from it."""
        ...


class StoreClient:
    """Shared by all parts in one store."""

    def __init__(self, store: Store, settings: Settings, clock: Clock | None = None) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock or SystemClock()
        self.open_wait = settings.store_wait
        """How long opening keeps trying while the store is away."""
        self.journal: JournalStore | None = None
        """The app's journal, for a store that has none of its own."""
        self.keeper = self._new_keeper()
        self._parts: dict[str, Part] = {}
        self._waiting: dict[str, None] = {}
        self._turnstile = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None

    @property
    def session(self) -> Session:
        """The newest session."""
        return self.keeper.session

    @property
    def operations(self) -> Operations:
        """What people and programs do to this store, journaled."""
        return Operations(self.store, self.journal, repeat=self.repeat)

    async def repeat(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Call an operation that can be repeated safely, again and again while the store is unavailable."""
        return await repeat(operation, self.settings.store_wait, self.clock.monotonic)

    @property
    def shared(self) -> bool:
        """Whether the session goes on when one part closes."""
        return len(self._parts) > 1

    async def open(self, part: Part) -> Session:
        """Join. The first part opens the store and begins the session, and waits while the store is away."""
        async with self._turnstile:
            if not self._parts:
                self.keeper = self._new_keeper()
                give_up = self.clock.monotonic() + self.open_wait
                try:
                    with _Progress(self.store.name, self.clock.monotonic) as progress:
                        await self._open_store(give_up, progress)
                        self._parts[part.mark] = part
                        self.keeper.first_wait = give_up - self.clock.monotonic()
                        session = await self.keeper.start()
                except BaseException:
                    self._parts.clear()
                    await self.store.close()
                    raise
                await asyncio.sleep(0)  # so that a store which needs no round trip for it listens from the start
                return session
            self._parts[part.mark] = part
            part.session_began(self.session)
            return self.session

    async def close(self, part: Part) -> None:
        """Part. The last one ends the session and closes the store."""
        async with self._turnstile:
            if len(self._parts) > 1 or part.mark not in self._parts:
                self._parts.pop(part.mark, None)
                return
            try:
                if self._listening is not None:
                    self._listening.cancel()
                    await asyncio.gather(self._listening, return_exceptions=True)
                    self._listening = None
                await self._unlisten()
            finally:
                try:
                    await self.keeper.stop()
                finally:
                    self._parts.clear()
                    await self.store.close()
                    self._turnstile = asyncio.Lock()  # the next to open may do so on another event loop

    def watch(self, part: Part, *, waiting: bool) -> None:
        """Say whether anybody in a part waits, for stores that must look out while someone does."""
        if waiting:
            self._waiting[part.mark] = None
        else:
            self._waiting.pop(part.mark, None)
        self.store.messages.watch(waiting=bool(self._waiting))

    async def _open_store(self, give_up: float, progress: _Progress) -> None:
        pause = 0.05
        while True:
            try:
                await self.store.open()
            except StoreUnavailableError as error:
                if self.clock.monotonic() + pause >= give_up:
                    raise
                progress.failed(error)
                await self.store.close()
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _new_keeper(self) -> SessionKeeper:
        keeper = SessionKeeper(self.store, self.settings, self.clock)
        keeper.on_begin = self._began
        keeper.on_lost = self._lost
        return keeper

    def _began(self, session: Session) -> None:
        if self._listening is not None:
            self._listening.cancel()
        self._listening = asyncio.get_running_loop().create_task(self._listen(session), name="interlock-messages")
        for part in list(self._parts.values()):
            part.session_began(session)

    def _lost(self, session: Session) -> None:
        for part in list(self._parts.values()):
            part.session_lost(session)

    async def _listen(self, session: Session) -> None:
        """Have the store call back, however long it takes until it can."""
        pause = 0.05
        while not session.lost:
            try:
                await self.store.messages.listen(session.id, self._on_turn, self._on_taken)
            except Exception as error:  # noqa: BLE001 - messages are only hints; whatever failed is tried again
                emit(_log, logging.WARNING, "session_listen_failed", session=session.id, error=repr(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)

    async def _unlisten(self) -> None:
        if self.keeper.started:
            try:
                await self.store.messages.unlisten(self.session.id)
            except StoreUnavailableError as error:
                emit(_log, logging.DEBUG, "session_unlisten_failed", error=str(error))

    def _on_turn(self, owner: str | None) -> None:
        if owner is None:
            for part in list(self._parts.values()):
                part.turn(None)
        elif (part_of_owner := self._parts.get(_mark(owner))) is not None:
            part_of_owner.turn(owner)

    def _on_taken(self, owner: str, why: str) -> None:
        part = self._parts.get(_mark(owner))
        if part is not None:
            part.taken(owner, why)


class _Progress:
    """Logs that a store is awaited: at its first failure or after two seconds without an answer, then at intervals."""

    def __init__(self, store: str, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._begun = monotonic()
        self._loop = asyncio.get_running_loop()
        self._error = "no answer yet"
        self._told = False

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(_TELL_AFTER, self._tell)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if self._told and kind is None:
            emit(_log, logging.INFO, "store_available", store=self._store, seconds=self._seconds)

    def failed(self, error: StoreUnavailableError) -> None:
        """Note why the store cannot be opened yet."""
        self._error = error.message
        if not self._told:
            self._timer.cancel()
            self._tell()

    def _tell(self) -> None:
        self._told = True
        emit(_log, logging.WARNING, "store_awaited", store=self._store, seconds=self._seconds, error=self._error)
        self._timer = self._loop.call_later(_TELL_EVERY, self._tell)

    @property
    def _seconds(self) -> float:
        return round(self._monotonic() - self._begun, 1)


def present(store: Store | StoreClient, settings: Settings | None = None, clock: Clock | None = None) -> StoreClient:
    """The store_client to work in: the one given, or one of its own in the store given."""
    if isinstance(store, StoreClient):
        return store
    return StoreClient(store, settings or Settings(), clock)


def _mark(owner: str) -> str:
    return owner.rpartition(".")[2].rstrip("0123456789")


async def repeat(
    operation: Callable[[], Awaitable[T]],
    wait: float,
    monotonic: Callable[[], float],
    *,
    since: float | None = None,
    failed: Callable[[], bool] = lambda: True,
) -> T:
    """Do an operation, over and over while the store is away, for ``wait`` seconds from ``since`` or from now.

    ``failed`` is told of every failure and says whether to go on. Only for what may be repeated without harm.
    """
    give_up = (monotonic() if since is None else since) + wait
    pause = 0.02
    while True:
        try:
            return await operation()
        except StoreUnavailableError:
            if not failed() or monotonic() + pause >= give_up:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.5)
