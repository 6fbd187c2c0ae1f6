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


async def test_an_entry_shows_the_difference_and_its_seal(bot: Bot) -> None:
    asker = Asker(bot.app)
    await asker.post("/lanes/mine", act="hold", reason="mine <b>for now</b>")
    await bot.app.journal.seal()
    (entry,) = await bot.app.journal.list(kind="lane", key="mine")
    page = await asker.get(f"/journal/{entry.id}")
    data = await asker.get(f"/api/journal/{entry.id}")
    absent = await asker.get("/journal/999999")

    assert page.status == data.status == 200
    assert "held_by" in page.text
    assert "<ins" in page.text
    assert "mine &lt;b&gt;for now&lt;/b&gt;" in page.text
    assert f"batch {entry.batch}" in page.text
    assert '"path":"held_by"' in data.text
    assert absent.status == 404


async def test_entries_are_filtered_by_time(bot: Bot) -> None:
    asker = Asker(bot.app)
    await asker.post("/lanes/mine", act="hold", reason="mine")
    found = await asker.get("/journal?since=2001-01-01T00:00&action=lane.hold")
    none = await asker.get("/journal?until=2001-01-01T00:00")
    wrong = await asker.get("/journal?since=yesterday")

    assert "lanes/mine" in found.text
    assert "No matching entries" in none.text
    assert wrong.status == 400


async def test_the_page_and_the_overview_tell_a_failed_verification(bot: Bot) -> None:
    asker = Asker(bot.app)
    await asker.post("/lanes/mine", act="hold", reason="mine")
    before = await asker.get("/journal")
    await bot.app.journal.seal()
    await bot.app.journal.verify()
    good = await asker.get("/journal")
    await bot.app.journal.verify(head="ab" * 32)
    bad = await asker.get("/journal")
    overview = await asker.get("/")

    assert "Never verified" in before.text
    assert "intact." in good.text
    assert "No seal has the hash abab" in bad.text
    assert "the journal was changed after it was sealed" in overview.text
