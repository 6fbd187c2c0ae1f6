"""This process as a client of one store: the open store, one session that is kept alive, and messages.

All concepts that use the same store share one store client, so a process has one session in it. The first concept to
open opens the store, and the last one to close closes it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from interlock.clock import Clock, SystemClock
from interlock.errors import StoreUnavailableError
from interlock.operations import Operations
from interlock.portal import keep_forever
from interlock.sessions import Session, SessionKeeper
from interlock.settings import Settings
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.ports.journal import JournalStore
    from interlock.ports.store import Store

__all__ = ["Component", "StoreClient", "present", "repeat"]

_log = logging.getLogger("interlock.sessions")
_LOG_AFTER, _LOG_INTERVAL = 2.0, 10.0
T = TypeVar("T")


class Component(Protocol):
    """One concept that uses the store. Its owner IDs are ``session.tag…``, so messages find their component."""

    @property
    def owner_tag(self) -> str:
        """The part of its owner IDs between the session and the number."""
        ...

    def session_began(self, session: Session) -> None:
        """Use a new session: the first one, or the successor of a lost one."""
        ...

    def session_lost(self, session: Session) -> None:
        """Handle the loss of the session and of everything held in it."""
        ...

    def turn(self, owner: str | None) -> None:
        """Handle that it may be this owner's turn. None means that messages may have been missed."""
        ...

    def taken(self, owner: str, why: str) -> None:
        """Handle that this owner's lease was released by force."""
        ...


class StoreClient:
    """Shared by all concepts that use one store."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock | None = None,
        *,
        remake: Callable[[], Store] | None = None,
    ) -> None:
        self.store = store
        self._remake = remake
        """Creates the same store once more, for a forked process."""
        self.settings = settings
        self.clock = clock or SystemClock()
        self.open_wait = settings.store_wait
        """How long opening keeps trying while the store is away."""
        self.journal: JournalStore | None = None
        """The app's journal, for a store that has none of its own."""
        self.keeper = self._new_keeper()
        self._components: dict[str, Component] = {}
        self._waiting: dict[str, None] = {}
        self._opening_lock = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None

    def use(self, store: Store, clock: Clock | None = None) -> None:
        """Use another store, and clock, from the next opening on. Everything that has this client uses it too."""
        self.store = store
        self.clock = clock or SystemClock()
        self.keeper = self._new_keeper()

    @property
    def session(self) -> Session:
        """The newest session."""
        return self.keeper.session

    @property
    def operations(self) -> Operations:
        """The journaled operations on this store."""
        return Operations(self.store, self.journal, repeat=self.repeat)

    async def repeat(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Call an operation that can be repeated safely, again and again while the store is unavailable."""
        return await repeat(operation, self.settings.store_wait, self.clock.monotonic)

    @property
    def shared(self) -> bool:
        """Whether the session continues when one component closes."""
        return len(self._components) > 1

    async def open(self, component: Component) -> Session:
        """Add a component. The first one opens the store, waiting while it is unavailable, and starts the session."""
        async with self._opening_lock:
            if not self._components:
                self.keeper = self._new_keeper()
                give_up = self.clock.monotonic() + self.open_wait
                try:
                    with _Progress(self.store.name, self.clock.monotonic) as progress:
                        await self._open_store(give_up, progress)
                        self._components[component.owner_tag] = component
                        self.keeper.first_wait = give_up - self.clock.monotonic()
                        session = await self.keeper.start()
                except BaseException:
                    self._components.clear()
                    await self.store.close()
                    raise
                await asyncio.sleep(0)  # so that a store that needs no round trip listens from the start
                return session
            self._components[component.owner_tag] = component
            component.session_began(self.session)
            return self.session

    async def close(self, component: Component) -> None:
        """Remove a component. The last one ends the session and closes the store."""
        async with self._opening_lock:
            if len(self._components) > 1 or component.owner_tag not in self._components:
                self._components.pop(component.owner_tag, None)
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
                    self._components.clear()
                    await self.store.close()
                    self._opening_lock = asyncio.Lock()  # the next component may open on another event loop

    def forget(self) -> None:
        """Become closed in a process that was just forked, without touching what belongs to its parent.

        All objects that refer to the store, or to one of its ports, continue with those of a new one.
        """
        keep_forever(self.keeper, self._components, self._listening)
        if self._remake is not None:
            store, remade = vars(self.store), self._remake()
            keep_forever(store, remade)
            for name, port in vars(remade).items():
                before = store.get(name)
                if type(before) is type(port) and hasattr(port, "__dict__"):
                    keep_forever(vars(before))
                    before.__dict__ = vars(port)
            self.store.__dict__ = vars(remade)
        self.keeper = self._new_keeper()
        self._components, self._waiting = {}, {}
        self._opening_lock = asyncio.Lock()
        self._listening = None

    def watch(self, component: Component, *, waiting: bool) -> None:
        """Note whether a component has waiters, for stores that poll only while there are any."""
        if waiting:
            self._waiting[component.owner_tag] = None
        else:
            self._waiting.pop(component.owner_tag, None)
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
        for component in list(self._components.values()):
            component.session_began(session)

    def _lost(self, session: Session) -> None:
        for component in list(self._components.values()):
            component.session_lost(session)

    async def _listen(self, session: Session) -> None:
        """Subscribe to the store's messages, however long that takes."""
        pause = 0.05
        while not session.lost:
            try:
                await self.store.messages.listen(session.id, self._on_turn, self._on_taken)
            except Exception as error:  # noqa: BLE001 - messages are only hints; any failure is retried
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
            for component in list(self._components.values()):
                component.turn(None)
        elif (component_of_owner := self._components.get(_tag_of(owner))) is not None:
            component_of_owner.turn(owner)

    def _on_taken(self, owner: str, why: str) -> None:
        component = self._components.get(_tag_of(owner))
        if component is not None:
            component.taken(owner, why)


class _Progress:
    """Logs that a store is unavailable: at the first failure or after two seconds, then at intervals."""

    def __init__(self, store: str, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._begun = monotonic()
        self._loop = asyncio.get_running_loop()
        self._error = "no answer"
        self._logged = False

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(_LOG_AFTER, self._log_wait)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if self._logged and kind is None:
            emit(_log, logging.INFO, "store_available", store=self._store, seconds=self._seconds)

    def failed(self, error: StoreUnavailableError) -> None:
        """Note why the store cannot be opened."""
        self._error = error.message
        if not self._logged:
            self._timer.cancel()
            self._log_wait()

    def _log_wait(self) -> None:
        self._logged = True
        emit(_log, logging.WARNING, "store_unavailable", store=self._store, seconds=self._seconds, error=self._error)
        self._timer = self._loop.call_later(_LOG_INTERVAL, self._log_wait)

    @property
    def _seconds(self) -> float:
        return round(self._monotonic() - self._begun, 1)


def present(store: Store | StoreClient, settings: Settings | None = None, clock: Clock | None = None) -> StoreClient:
    """Return the store client that was passed, or a new one for the store that was passed."""
    if isinstance(store, StoreClient):
        return store
    return StoreClient(store, settings or Settings(), clock)


def _tag_of(owner: str) -> str:
    return owner.rpartition(".")[2].rstrip("0123456789")


async def repeat(
    operation: Callable[[], Awaitable[T]],
    wait: float,
    monotonic: Callable[[], float],
    *,
    since: float | None = None,
    failed: Callable[[], bool] = lambda: True,
) -> T:
    """Repeat an operation while the store is unavailable, for ``wait`` seconds from ``since`` or from now.

    ``failed`` is called for every failure and returns whether to continue. Only for operations that are idempotent.
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
