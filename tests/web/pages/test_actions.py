"""What can be done from pages and the API: done once, by whom and why, and only in the right way."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

import pytest

from tests.web.pages.asking import USER, Asker, quoted
from tests.web.pages.furniture import KEY

if TYPE_CHECKING:
    from tests.web.pages.bot import Bot


async def test_a_form_does_it_and_leads_back(bot: Bot) -> None:
    asker = Asker(bot.app, root="/ops")
    job = bot.things["paced_next"]
    answer = await asker.post(f"/ops/jobs/{job}", act="cancel", reason="not needed")
    assert answer.status == 303
    assert answer.header("location") == f"/ops/jobs/{job}?said=cancelled&state=cancelled"
    view = await bot.app.jobs.get(job)
    assert view is not None
    assert "dashboard" in view.error
    assert "not needed" in view.error
    page = await asker.get(answer.header("location") or "")
    assert "It was cancelled." in page.text


async def test_who_acts_is_the_one_who_signed_in(bot: Bot, caplog: pytest.LogCaptureFixture) -> None:
    asker = Asker(bot.app, credentials=True)
    answer = await asker.post("/lanes/mine", act="hold", reason="mine for now")
    assert answer.status == 303
    lane = await bot.app.lanes.get("mine")
    assert lane is not None
    assert (lane.held_by, lane.held_reason) == (USER, "mine for now")
    with caplog.at_level(logging.INFO, "interlock.operations"):
        assert (await asker.post("/lanes/mine", act="release")).status == 303
    released = [record.fields for record in caplog.records if getattr(record, "event", "") == "lane_released"]
    assert released == [{"lane": "mine", "by": USER, "reason": ""}]


async def test_a_form_says_what_becomes_of_a_reason(bot: Bot) -> None:
    asker = Asker(bot.app)
    for link, said in (
        (f"/jobs/{bot.things['running']}", "Kept with the job"),
        ("/lanes/done", "Logged, and told to whoever asks why it waits"),
        (f"/locks/{quoted('repo:acme/api')}", "Logged, and told to the holder"),
        (f"/claims/{quoted(KEY)}", "Logged, and told to whoever works on it"),
        (f"/events/{bot.things['event']}", "Logged"),
    ):
        page = (await asker.get(link)).text
        assert re.findall('name="reason"[^>]*placeholder="([^"]*)"', page) == [said]
    assert 'name="reason"' not in (await asker.get("/lanes/held")).text, "a release needs none"


async def test_every_act_of_the_api(bot: Bot) -> None:
    asker = Asker(bot.app, credentials=True)
    things = bot.things

    answer = await asker.call(f"/api/jobs/{things['failed']}", {"act": "retry"})
    assert (answer.status, answer.json["done"]) == (200, "retried")
    answer = await asker.call(f"/api/jobs/{things['running']}", {"act": "cancel", "reason": "enough"})
    assert answer.json == {"ref": things["running"], "done": "cancelling", "state": "running"}
    answer = await asker.call(f"/api/jobs/{things['done']}", {"act": "cancel", "reason": "too late"})
    assert answer.json == {"ref": things["done"], "done": "ended", "state": "done"}
    answer = await asker.call("/api/lanes/held", {"act": "release"})
    assert answer.json == {"ref": "held", "done": "released"}
    assert (await asker.call("/api/lanes/held", {"act": "release"})).json["done"] == "not-held"
    answer = await asker.call(f"/api/locks/{quoted('repo:acme/api')}", {"act": "release", "reason": "it hangs"})
    assert answer.json["done"] == "lock-released"
    assert answer.json["fence"] > 0
    assert (await asker.call("/api/locks/free", {"act": "release", "reason": "x"})).json["done"] == "lock-free"
    answer = await asker.call(f"/api/claims/{quoted(KEY)}", {"act": "forget", "reason": "again"})
    assert answer.json["done"] == "forgotten"
    assert (await asker.call(f"/api/claims/{quoted(KEY)}", {"act": "forget", "reason": "x"})).json["done"] == "no-claim"
    answer = await asker.call(f"/api/events/{things['event']}", {"act": "replay"})
    assert answer.json["done"] == "replayed"
    assert answer.json["ref"] == answer.json["event"] != things["event"]
    replayed = (await asker.get(f"/api/events/{answer.json['event']}")).json["event"]
    assert (replayed["replay_of"], replayed["by"]) == (things["event"], USER)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'"act"', b'{"act": 1}', b"\xff", {"act": "nope"}, {}, {"act": "cancel"}, b"[" * 100_000],
    ids=range(10),
)
async def test_what_the_api_cannot_do_it_refuses(bot: Bot, body: object) -> None:
    asker = Asker(bot.app, credentials=True)
    job = bot.things["waiting"]
    answer = await asker.call(f"/api/jobs/{job}", body)
    assert (answer.status, answer.json["error"]) == (400, "invalid-argument")
    view = await bot.app.jobs.get(job)
    assert view is not None
    assert view.state == "waiting"


@pytest.mark.parametrize("end", ["%0A", "%0D", "%00", "%7F"])
async def test_a_path_with_control_characters_names_nothing_else(bot: Bot, end: str) -> None:
    asker = Asker(bot.app, credentials=True)
    assert (await asker.call("/api/lanes/zz", {"act": "hold", "reason": "for the test"})).status == 200
    answer = await asker.call(f"/api/lanes/zz{end}", {"act": "release"})
    assert (answer.status, answer.json["error"]) == (400, "invalid-argument")
    assert (await asker.post(f"/lanes/zz{end}", act="release")).status == 400
    assert (await asker.get(f"/lanes/zz{end}")).status == 400
    assert (await asker.call("/api/lanes/?key=zz%0A", {"act": "release"})).json["done"] == "not-held"
    assert (await asker.call("/api/lanes/zz", {"act": "release"})).json["done"] == "released"


async def test_acts_on_what_is_not_there(bot: Bot) -> None:
    asker = Asker(bot.app, credentials=True)
    assert (await asker.call("/api/jobs/987654", {"act": "retry"})).status == 404
    assert (await asker.call("/api/events/987654", {"act": "replay"})).status == 404
    assert (await asker.call("/api/workers/x", {"act": "stop"})).status == 400
    assert (await asker.call("/api/limits/x", {"act": "raise"})).status == 400
    assert (await asker.call("/api/jobs", {"act": "retry"})).status == 405
    assert (await asker.post("/jobs/987654", act="retry")).status == 404


async def test_two_who_press_the_same_button_do_it_once(bot: Bot, asker: Asker) -> None:
    event = bot.things["event_failed"]
    (job,) = (await bot.app.insight.event(event)).event.jobs
    answers = await asyncio.gather(*(asker.post(f"/jobs/{job}", act="retry") for _ in range(5)))
    assert {answer.status for answer in answers} == {303}
    await bot.until(job, "failed")
    view = await bot.app.jobs.get(job)
    assert view is not None
    assert 2 <= len(view.attempts) <= 6
