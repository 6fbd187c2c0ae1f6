"""A bot that is served: its app, a worker and its web app, on an event loop of its own in a thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, TypeVar

from interlock.web.serve import Address, Serving, listening
from tests.web.pages.bot import Bot, make_bot

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from interlock.web import Credentials, Web

T = TypeVar("T")


class House:
    """Entered, it serves; ``run`` has a coroutine run where the bot lives."""

    def __init__(self, url: str, *, credentials: Credentials | None = None) -> None:
        self._url = url
        self._credentials = credentials
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._ready: Future[None] = Future()
        self.loop: asyncio.AbstractEventLoop
        self.bot: Bot
        self.web: Web
        self.address = ""
        """Where a browser finds it."""
        self.login_url = ""
        """What somebody opens first."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(30)
        return self

    def __exit__(self, *exception: object) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def run(self, work: Callable[[Bot], Coroutine[Any, Any, T]]) -> T:
        """What the work gives."""
        return asyncio.run_coroutine_threadsafe(work(self.bot), self.loop).result(30)

    def _live(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self.bot = make_bot(self._url)
        app = self.bot.app
        async with app, app.worker(concurrency=20):
            self.web = app.web(credentials=self._credentials)
            async with Serving(self.web, listening(Address("127.0.0.1", 0))) as serving:
                self.address, self.login_url = serving.urls[0], serving.login_url
                self._ready.set_result(None)
                await self._over.wait()
                for view in await app.jobs.list(limit=500):
                    if not view.state.final:
                        await app.jobs.cancel(view.id, reason="the test is over", by="test")
                await self.bot.leave()
