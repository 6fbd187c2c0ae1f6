"""What can be done from pages and the API: done once, by whom and why, and only in the right way."""

from __future__ import annotations

import asyncio
import html
import logging
import re
from typing import TYPE_CHECKING

import pytest

from interlock.ports.journal import JournalFilter
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
    assert "The job was cancelled." in page.text


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


async def test_a_queue_is_paused_and_resumed_from_its_page_and_the_api(bot: Bot) -> None:
    asker = Asker(bot.app, credentials=True)
    try:
        answer = await asker.post("/queues/default", act="pause", reason="provider is down")
        assert (answer.status, answer.header("location")) == (303, "/queues/default?said=paused")
        page = (await asker.get("/queues/default?said=paused")).text
        assert "The queue is paused" in page
        assert "provider is down" in page
        assert "queue-paused" in page
        assert "provider is down" in (await asker.get("/workers")).text
        data = await asker.get("/api/queues/default")
        assert '"reason":"queue-paused"' in data.text
        view = await bot.app.queues.get("default")
        assert (view.paused_by, view.paused_reason) == (USER, "provider is down")
        assert (await asker.post("/queues/default", act="pause", reason=" ")).status == 400
    finally:
        answer = await asker.post("/queues/default", act="resume", reason="")
    assert answer.header("location") == "/queues/default?said=resumed"
    assert "Pause the queue?" in (await asker.get("/queues/default")).text
    assert "not paused" in (await asker.get("/queues/nothing")).text


async def test_a_form_says_what_becomes_of_a_reason(bot: Bot) -> None:
    asker = Asker(bot.app)
    for link, said in (
        (f"/jobs/{bot.things['running']}", "Kept with the job and in the journal"),
        (f"/jobs/{bot.things['failed']}", "Kept in the journal"),
        ("/lanes/done", "Shown with the lane and kept in the journal"),
        ("/lanes/held", "Kept in the journal"),
        (f"/locks/{quoted('repo:acme/api')}", "Sent to the holder and kept in the journal"),
        (f"/claims/{quoted(KEY)}", "Sent to the holder and kept in the journal"),
        (f"/events/{bot.things['event']}", "Kept in the journal"),
    ):
        page = (await asker.get(link)).text
        assert re.findall('name="reason"[^>]*placeholder="([^"]*)"', page) == [said]


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
    assert (await asker.call("/api/limits", {"act": "raise"})).status == 400


# -- everything that a list shows --------------------------------------------------------------------------------------


async def test_a_list_asks_before_it_acts_on_everything(bot: Bot) -> None:
    asker = Asker(bot.app, root="/ops")
    held = await bot.app.lanes.matching(show="held")
    assert held

    page = (await asker.get("/ops/lanes?show=held")).text
    (link,) = re.findall('href="([^"]*act=[^"]*)"', page)
    assert html.unescape(link) == "/ops/lanes?show=held&act=release", "a held lane cannot be held again"
    question = (await asker.get(html.unescape(link))).text
    assert f"Release {len(held)} lane" in question
    assert re.search('name="reason"[^>]*placeholder="Kept in the journal"', question)

    answer = await asker.post("/ops/lanes?show=held", act="release", reason="deployed", count=str(len(held)))
    location = answer.header("location") or ""
    assert answer.status == 303
    assert location == f"/ops/lanes?show=held&said=all-lanes-release&changed={len(held)}&unchanged=0&left=0"
    assert f"Released {len(held)} lane" in (await asker.get(location)).text
    entries = await bot.app.insight.journal(JournalFilter(action="lane.release"))
    assert sorted((entry.subject_key, entry.reason) for entry in entries) == [(lane, "deployed") for lane in held]


async def test_a_refused_operation_on_everything_asks_again(bot: Bot) -> None:
    asker = Asker(bot.app)
    before = await bot.app.insight.journal()
    answer = await asker.post("/lanes?all=true", act="hold", reason=" ", count="10")
    assert answer.status == 400
    assert "needs a reason" in answer.text
    assert "Hold " in answer.text
    assert (await bot.app.insight.journal()).rows == before.rows


async def test_every_operation_of_the_api_on_everything_that_matches(bot: Bot) -> None:
    asker = Asker(bot.app, credentials=True)
    for link, act, reason in (
        ("/api/events?type=issues.opened", "replay", ""),
        ("/api/claims?state=failed", "forget", "again"),
        ("/api/locks?all=true", "release", "it hangs"),
        ("/api/lanes?show=parked", "release", ""),
        ("/api/jobs?state=failed", "retry", ""),
    ):
        counted = (await asker.get(f"{link}&act={act}")).json
        answer = await asker.call(link, {"act": act, "reason": reason})
        assert (answer.status, answer.json["done"], answer.json["left"]) == (200, act, 0), link
        assert 1 <= len(answer.json["changed"]) <= counted["count"], link
        assert counted == {"act": act, "count": counted["count"], "more": False}
    entries = await bot.app.insight.journal(JournalFilter(actor=USER))
    assert {entry.action for entry in entries} == {
        "event.replay",
        "claim.forget",
        "lock.force_release",
        "lane.release",
        "job.retry",
    }


async def test_no_more_is_changed_than_was_confirmed(bot: Bot) -> None:
    asker = Asker(bot.app, credentials=True)
    every = await bot.app.lanes.matching()
    answer = await asker.call("/api/lanes?all=true", {"act": "hold", "reason": "stop", "count": "2"})
    assert len(answer.json["changed"]) + len(answer.json["unchanged"]) == 2
    assert 0 < answer.json["left"] <= len(every) - 2


@pytest.mark.parametrize(
    ("link", "body"),
    [
        ("/api/jobs", {"act": "retry"}),
        ("/api/jobs?limit=5", {"act": "retry"}),
        ("/api/lanes?show=nonsense", {"act": "release"}),
        ("/api/lanes?all=true", {"act": "hold"}),
        ("/api/lanes?all=true", {"act": "nope"}),
        ("/api/lanes?all=true", {"act": "release", "count": "x"}),
        ("/api/workers?all=true", {"act": "stop"}),
    ],
)
async def test_an_operation_on_everything_is_refused(bot: Bot, link: str, body: dict[str, str]) -> None:
    asker = Asker(bot.app, credentials=True)
    before = await bot.app.insight.journal()
    answer = await asker.call(link, body)
    assert (answer.status, answer.json["error"]) == (400, "invalid-argument")
    assert (await bot.app.insight.journal()).rows == before.rows
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


async def test_a_limit_is_resized_and_reset_from_its_page_and_the_api(bot: Bot) -> None:
    asker = Asker(bot.app, credentials=True)
    link = f"/limits/{quoted('rate:deploys')}"
    try:
        answer = await asker.post(link, act="resize", size="7", per="60", reason="a larger plan")
        assert (answer.status, answer.header("location")) == (303, f"{link}?said=resized")
        page = (await asker.get(f"{link}?said=resized")).text
        assert "The limit was resized" in page
        assert "Set to 7 in any 60 s by" in page
        assert "a larger plan" in page
        assert "a larger plan" in (await asker.get("/limits")).text
        assert [(one.name, one.count, one.by) for one in await bot.app.limits.overrides()] == [
            ("rate:deploys", 7, USER)
        ]
        for fields in ({"size": "7"}, {"size": "x", "per": "60"}, {"per": "60"}):
            assert (await asker.post(link, act="resize", reason="no", **fields)).status == 400
    finally:
        answer = await asker.call(f"/api{link}", {"act": "reset"})
    assert '"done":"reset"' in answer.text
    answer = await asker.post(link, act="reset", reason="")
    assert answer.header("location") == f"{link}?said=not-resized"
