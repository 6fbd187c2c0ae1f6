"""A furnished bot in this process, and somebody who asks its web app."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.pages.asking import Asker
from tests.web.pages.bot import Bot, make_bot
from tests.web.pages.furniture import furnish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def bot(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    """A bot in memory, at work, whose worker reports at once what it has started."""
    monkeypatch.setattr("interlock.jobs.worker.watchdog._INTERVAL", 0.02)
    monkeypatch.setattr("interlock.jobs.worker.start_reporter._INTERVAL", 0.0)
    monkeypatch.setattr("interlock.jobs.worker.start_reporter._MIN_SECONDS", 0.0)
    monkeypatch.setattr("interlock.jobs.worker.log_reporter._INTERVAL", 0.0)
    made = make_bot("memory://")
    async with made.app as app, app.worker(concurrency=20):
        await furnish(made)
        yield made
        for view in await app.jobs.list(limit=500):
            if not view.state.final:
                await app.jobs.cancel(view.id, reason="the test is over", by="test")
        await made.leave()


@pytest.fixture
def asker(bot: Bot) -> Asker:
    return Asker(bot.app)
