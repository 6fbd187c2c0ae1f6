"""Base of the public class of each concept, which works alone or as a part of an App."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, Unpack, cast

from interlock.arguments import checked_url
from interlock.backends import from_url
from interlock.errors import MisuseError
from interlock.portal import Host, Portal, keep_forever
from interlock.settings import Settings
from interlock.store_client import StoreClient, present

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from interlock.clock import Clock
    from interlock.explanation import Explanation
    from interlock.operations import Operations
    from interlock.ports.store import Capability, Store
    from interlock.reasons import Reason
    from interlock.settings import SettingsChanges

    Explainer = Callable[[str, str | int], Awaitable[Explanation[Reason]]]

__all__ = ["Engine", "Service", "operations_of"]


class Engine(Protocol):
    """The engine behind a service."""

    async def open(self) -> None:
        """Start working."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


E = TypeVar("E", bound=Engine)


class Service(Generic[E]):
    """Opened with ``async with``, once at a time. Its engine lives from opening to closing."""

    needs: ClassVar[Capability]
    """The capability that it needs from a store."""
    _these: ClassVar[str]
    """Its name in errors."""

    def __init__(
        self, store: Store | StoreClient, settings: Settings | None = None, *, clock: Clock | None = None
    ) -> None:
        self._store_client = present(store, settings, clock)
        self._engine: E | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._explainer: Explainer | None = None
        self._portal: Portal | None = None
        self._app_portal: Portal | None = None

    @property
    def portal(self) -> Portal:
        """The way from synchronous code into this service, or into the App that it is a part of."""
        if self._app_portal is not None:
            return self._app_portal
        if self._portal is None:
            self._portal = Portal(
                Host(
                    type(self).__name__,
                    open=self.open,
                    close=self.close,
                    loop=lambda: None if self._engine is None else self._loop,
                    in_use=self.in_use,
                    forget=self.after_fork,
                )
            )
        return self._portal

    def enter_by(self, portal: Portal) -> None:
        """Let synchronous code enter by the App's portal, which opens the whole App."""
        self._app_portal = portal

    def in_use(self) -> bool:
        """Whether closing it now would take a lease from its holder, or jobs from a worker."""
        in_use: Callable[[], bool] | None = getattr(self._engine, "in_use", None)
        return in_use is not None and in_use()

    def after_fork(self) -> None:
        """Become closed in a process that was just forked. What was open belongs to its parent."""
        self._store_client.forget()
        self.forget_engine()

    def forget_engine(self) -> None:
        """Do so, except for the store, which other services may use as well."""
        forget: Callable[[], None] | None = getattr(self._engine, "forget", None)
        if forget is not None:
            forget()
        keep_forever(self._engine)
        self._engine = self._loop = None

    def uses(self, store_client: StoreClient) -> bool:
        """Whether it uses this client of a store."""
        return self._store_client is store_client

    def explain_with(self, explainer: Explainer) -> None:
        """Let an App's :class:`Insight` explain, which also knows the app's other stores."""
        self._explainer = explainer

    async def _explain(self, kind: str, ref: str | int) -> Explanation[Reason]:
        """Let the App's :class:`Insight` explain, or one on this service's store alone."""
        _ = self._running  # raises an error unless it is open
        if self._explainer is None:
            # Insight builds on the concepts, so it is loaded only when a concept that is used alone needs it.
            from interlock.insight import Insight

            self.explain_with(Insight(self._store_client.store, clock=self._store_client.clock).explain)
        explainer = cast("Explainer", self._explainer)
        return await explainer(kind, ref)

    @classmethod
    def from_url(cls, url: str, *, settings: Settings | None = None, **changes: Unpack[SettingsChanges]) -> Self:
        """Create it without an App: ``async with Locks.from_url("sqlite:///bot.db") as locks: …``.

        Other keywords are those of :class:`Settings`, such as ``namespace="…"``.
        """
        settings = Settings.of(settings, changes)
        remake = partial(from_url, checked_url(url), settings=settings, needs=[cls.needs])
        return cls(StoreClient(remake(), settings, remake=remake))

    async def __aenter__(self) -> Self:
        if self._portal is None or self._app_portal is not None:
            await self.open()
        else:
            async with self._portal.handed_over():
                await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store and start this process's session in it, unless another concept already has."""
        if self._engine is not None:
            raise MisuseError(f"{self._these} are already open.", remedy="Open them once.")
        engine = self._new_engine(self._store_client)
        await engine.open()
        self._engine, self._loop = engine, asyncio.get_running_loop()

    async def close(self) -> None:
        """Release everything, end the session and close the store, unless another concept still needs them."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    def _new_engine(self, store_client: StoreClient) -> E:
        raise NotImplementedError

    @property
    def _opened(self) -> E:
        """The engine, for operations that work from any thread."""
        if self._engine is None:
            raise MisuseError(f"{self._these} are not open.", remedy="Use them inside `async with`, or call open().")
        return self._engine

    @property
    def _running(self) -> E:
        """The engine, for operations that need the event loop on which it was opened."""
        engine = self._opened
        if asyncio._get_running_loop() not in (None, self._loop):  # noqa: SLF001 - the public one raises without a loop
            raise MisuseError(
                f"{self._these} were opened on another event loop.",
                remedy="Use them on that event loop, or from a thread without one: app.sync.",
            )
        return engine


def operations_of(service: Service[Any]) -> Operations:
    """The operations on the store of a service, for the dashboard."""
    return service._store_client.operations  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the accessor
