"""Ways in which others take webhooks and go wrong, each shown not to be ours."""

from __future__ import annotations

import asyncio

import pytest

from interlock import App, Event, GitHub
from interlock.backends.sqlite import events as sqlite_events
from interlock.events import ReceiptStatus
from interlock.jobs.jobs import engine_of
from interlock.testing.conformance.events.apps import SECRET, delivery, issue


def door(url: str = "memory://", **settings: float) -> App:
    app = App(url, settings=None, stuck_work="report", **settings)
    app.source(GitHub(SECRET, own=["squadron[bot]"]))
    return app


async def test_a_delivery_is_not_marked_before_its_work_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-C1: marked as seen, and then lost. Here what goes wrong between the two undoes both."""
    app = door()

    @app.on("github.**")
    async def handle(event: Event) -> None: ...

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("in the middle")

    async with app:
        with monkeypatch.context() as broken:
            broken.setattr(sqlite_events, "enqueue", fail)
            with pytest.raises(MemoryError):
                await app.events.receive("github", *delivery(issue(), "g1"))
        again = await app.events.receive("github", *delivery(issue(), "g1"))

        assert again.status is ReceiptStatus.ACCEPTED
        assert await app.drain() == {"done": 1}
        assert handle.name == "handle"


async def test_what_is_known_of_deliveries_does_not_grow_for_ever() -> None:
    """F-C2: sets of what was seen, and maps of locks, that only grow."""
    app = door(keep_events=1.0)

    @app.on("github.**", lane="{issue.number}")
    async def handle(event: Event) -> None: ...

    async with app:
        for n in range(20):
            await app.events.receive("github", *delivery(issue(n), f"g{n}"))
        await app.drain()
        store = engine_of(app.events.jobs).store_client.store
        removed = 0
        async with asyncio.timeout(10):
            while removed < 20:
                removed += await store.events.prune()
        assert await app.events.list() == []
        assert await app.lanes.list() == []
        assert handle.name == "handle"


async def test_the_answer_does_not_wait_for_the_work() -> None:
    """F-C3: the agent runs inside the dispatch, and the forge gives up on the answer."""
    app = door()
    running, finish = asyncio.Event(), asyncio.Event()

    @app.on("github.**", lane="{issue.number}")
    async def agent(event: Event) -> None:
        running.set()
        await finish.wait()

    async with app, app.worker():
        await app.events.receive("github", *delivery(issue(), "g1"))
        await running.wait()
        second = await asyncio.wait_for(app.events.receive("github", *delivery(issue(), "g2")), 2)

        assert second.status is ReceiptStatus.ACCEPTED
        finish.set()
        await app.jobs.handle(*second.jobs).result()
        assert agent.name == "agent"


async def test_own_writes_do_not_look_like_a_humans() -> None:
    """F-C6: a bot that answers its own comments."""
    app = door()

    @app.on("github.issue_comment.*")
    async def answer(event: Event) -> None: ...

    async with app:
        own = delivery(issue(action="created", sender={"login": "Squadron[bot]"}), "g1", "issue_comment")
        receipt = await app.events.receive("github", *own)

        assert receipt.status is ReceiptStatus.IGNORED
        assert "is this app itself" in receipt.cause
        assert answer.name == "answer"
