"""The streams to browsers: what is sent, how many there may be, and that nothing waits for them at the end."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING, Any

from interlock.errors import StoreUnavailableError
from interlock.web.stream import Hub
from tests.web.client import ask, scope_of

if TYPE_CHECKING:
    import pytest


class Browser:
    """A stream as its browser sees it."""

    def __init__(self, hub: Hub) -> None:
        self.started: list[dict[str, Any]] = []
        self.parts: asyncio.Queue[bytes] = asyncio.Queue()
        self.complete = False
        self.reads = asyncio.Event()
        self.reads.set()
        self._leaves = asyncio.Event()
        self.task = asyncio.ensure_future(hub(scope_of(path="/stream"), self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.started.append(message)
            return
        self.parts.put_nowait(message.get("body", b""))
        self.complete = not message.get("more_body", False)

    async def next(self) -> bytes:
        async with asyncio.timeout(5):
            return await self.parts.get()

    async def pulse(self) -> Any:
        part = await self.next()
        while part.startswith((b":", b"retry")):
            part = await self.next()
        name, data, _ = part.decode().split("\n", 2)
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    async def leave(self) -> None:
        self._leaves.set()
        await self.task


class Pulse:
    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def __call__(self) -> dict[str, int]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {"number": self.asked}


async def test_all_streams_get_one_pulse() -> None:
    pulse = Pulse()
    hub = Hub(pulse, every=0.01)
    ann, bob = Browser(hub), Browser(hub)
    assert await ann.next() == b"retry: 1000\n\n"
    name, first = await ann.pulse()
    assert name == "pulse"
    assert (await bob.pulse())[1] == first
    later = await ann.pulse()
    assert later[1]["number"] > first["number"]
    assert len(hub) == 2
    assert ann.started[0]["status"] == 200
    assert (b"content-type", b"text/event-stream") in ann.started[0]["headers"]
    await ann.leave()
    await bob.leave()
    assert len(hub) == 0


async def test_nobody_is_asked_while_no_stream_is_open() -> None:
    pulse = Pulse()
    hub = Hub(pulse, every=0.001)
    browser = Browser(hub)
    await browser.pulse()
    await browser.leave()
    asked = pulse.asked
    for _ in range(5):
        await asyncio.sleep(0.002)
    assert pulse.asked == asked
    again = Browser(hub)
    assert (await again.pulse())[1]["number"] > asked  # nothing old
    await again.leave()


async def test_who_comes_later_sees_at_once_how_things_stand() -> None:
    hub = Hub(Pulse(), every=60)
    ann = Browser(hub)
    assert (await ann.pulse())[1] == {"number": 1}
    bob = Browser(hub)
    assert (await bob.pulse())[1] == {"number": 1}
    await ann.leave()
    await bob.leave()


async def test_who_is_slow_gets_the_newest_and_not_what_it_missed() -> None:
    hub = Hub(Pulse(), every=0.001)
    ann, bob = Browser(hub), Browser(hub)
    await ann.pulse()
    await bob.pulse()
    bob.reads.clear()
    while (await ann.pulse())[1]["number"] < 20:
        pass
    bob.reads.set()
    numbers = [(await bob.pulse())[1]["number"] for _ in range(3)]
    assert numbers[2] >= 20
    await ann.leave()
    await bob.leave()


async def test_a_stream_with_no_news_shows_that_it_lives() -> None:
    async def never() -> dict[str, int]:
        await asyncio.Event().wait()
        return {}

    hub = Hub(never, heartbeat=0.01)
    browser = Browser(hub)
    assert await browser.next() == b"retry: 1000\n\n"
    assert await browser.next() == b": still here\n\n"
    assert await browser.next() == b": still here\n\n"
    await browser.leave()


async def test_a_store_that_is_away_is_told_and_the_stream_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    pulse = Pulse()
    pulse.error = StoreUnavailableError("a secret address")
    hub = Hub(pulse, every=0.001)
    browser = Browser(hub)
    assert await browser.pulse() == ("away", {"reason": "store-unavailable"})
    pulse.error = ZeroDivisionError()
    while await browser.pulse() != ("away", {"reason": "failed"}):
        pass
    assert "pulse_failed" in caplog.text
    pulse.error = None
    while (await browser.pulse())[0] != "pulse":
        pass
    await browser.leave()


async def test_there_are_only_so_many_streams() -> None:
    hub = Hub(Pulse(), limit=2)
    browsers = [Browser(hub), Browser(hub)]
    for browser in browsers:
        await browser.pulse()
    answer = await ask(hub, path="/stream")
    assert (answer.status, answer.header("retry-after")) == (503, "5")
    await browsers[0].leave()
    third = Browser(hub)
    await third.pulse()
    for browser in (browsers[1], third):
        await browser.leave()


async def test_closing_ends_all_streams_at_once_and_well() -> None:
    hub = Hub(Pulse(), every=60)
    browsers = [Browser(hub) for _ in range(3)]
    for browser in browsers:
        await browser.pulse()
    hub.close()
    async with asyncio.timeout(0.4):
        await asyncio.gather(*(browser.task for browser in browsers))
    assert all(browser.complete for browser in browsers)
    assert (await ask(hub, path="/stream")).status == 503
    hub.reopen()
    again = Browser(hub)
    await again.pulse()
    await again.leave()


async def test_closing_does_not_wait_for_who_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.stream._PARTING_SECONDS", 0.01)
    hub = Hub(Pulse(), every=0.001)
    browser = Browser(hub)
    await browser.pulse()
    browser.reads.clear()
    while not browser.parts.empty():
        browser.parts.get_nowait()
    hub.close()
    async with asyncio.timeout(2):
        await browser.task


async def test_who_reads_nothing_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.web.stream.STALLED_SECONDS", 0.01)
    hub = Hub(Pulse(), every=0.001)
    browser = Browser(hub)
    await browser.pulse()
    browser.reads.clear()
    async with asyncio.timeout(2):
        await browser.task
    assert len(hub) == 0


async def test_a_server_that_cancels_leaves_nothing_behind() -> None:
    hub = Hub(Pulse(), every=0.001)
    browser = Browser(hub)
    await browser.pulse()
    browser.task.cancel()
    await asyncio.gather(browser.task, return_exceptions=True)
    assert len(hub) == 0
    await asyncio.sleep(0)
    assert [task.get_name() for task in asyncio.all_tasks() if "pulse" in task.get_name()] == []


async def test_streams_end_when_the_uvicorn_around_us_is_told_to_end() -> None:
    """It waits for them, and tells nobody; also while the store hangs."""
    import uvicorn

    async def never() -> dict[str, int]:
        await asyncio.Event().wait()
        return {}

    server = uvicorn.Server(uvicorn.Config(lambda: None))
    hub = Hub(never, every=60)
    before = signal.signal(signal.SIGTERM, server.handle_exit)
    try:
        browser = Browser(hub)
        await browser.next()
        server.should_exit = True
        async with asyncio.timeout(1):
            await browser.task
    finally:
        signal.signal(signal.SIGTERM, before)
    assert browser.complete


async def test_head_is_answered_without_a_stream() -> None:
    hub = Hub(Pulse())
    answer = await ask(hub, "HEAD", "/stream")
    assert (answer.status, answer.body, answer.complete, len(hub)) == (200, b"", True, 0)
