"""The page of the journal: who changed what, and the same as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.web.pages.asking import Asker

if TYPE_CHECKING:
    from tests.web.pages.bot import Bot


async def test_the_journal_shows_who_did_what_and_why(bot: Bot) -> None:
    asker = Asker(bot.app)
    await asker.post("/lanes/mine", act="hold", reason="mine <b>for now</b>")
    page = await asker.get("/journal?kind=lane&key=mine")
    data = await asker.get("/api/journal?kind=lane&key=mine")

    assert page.status == data.status == 200
    assert "mine &lt;b&gt;for now&lt;/b&gt;" in page.text
    assert '"action":"lane.hold"' in data.text


async def test_an_empty_journal_says_so(bot: Bot) -> None:
    page = await Asker(bot.app).get("/journal?kind=lane&key=nothing")
    assert "No matching entries" in page.text
