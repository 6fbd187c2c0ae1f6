"""Every action from its page: it is done, by whom and why is kept, and the page says what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock.testing.lookup import get_or_none
from tests.web.pages.furniture import HOSTILE, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.web.browser.house import House
    from tests.web.browser.visitor import Visitor
    from tests.web.pages.bot import Bot

pytestmark = pytest.mark.system


def test_a_failed_job_is_tried_again(visitor: Visitor, house: House) -> None:
    job = house.bot.things["failed"]
    visitor.go(f"/jobs/{job}")
    visitor.act("retry")
    visitor.hears("The job will be retried")
    visitor.arrives(f"/jobs/{job}")  # what was said is not said again after a reload
    visitor.page.wait_for_function("() => document.querySelectorAll('.timeline details').length === 2")


def test_a_waiting_job_is_cancelled_with_a_reason(visitor: Visitor, house: House) -> None:
    job = house.bot.things["paced_next"]
    visitor.go(f"/jobs/{job}")
    visitor.act("cancel", reason=HOSTILE)
    visitor.hears("The job was cancelled")
    assert "cancelled" in visitor.find("h1").inner_text()
    assert "<script>" in visitor.find(".explain").inner_text()
    assert visitor.offers("retry")
    assert not visitor.offers("cancel")


def test_a_running_job_is_told_to_stop_and_the_page_sees_it_end(visitor: Visitor, house: House) -> None:
    job = house.run(_new_running)
    visitor.go(f"/jobs/{job}")
    visitor.act("cancel", reason="it takes too long")
    visitor.hears("was asked to stop it")
    visitor.sees("h1 >> text=cancelled")
    assert "dashboard" in visitor.find(".explain").inner_text(), "who did it"


async def _new_running(bot: Bot) -> int:
    job = await bot.enqueue("sync", lane="to be stopped", how="stay")
    await bot.until(job, "running")
    return job


def test_a_lane_is_held_and_released(visitor: Visitor, house: House) -> None:
    visitor.go("/lanes/hands%20off")
    assert not visitor.offers("release")
    visitor.act("hold", reason="ann looks into it")
    visitor.hears("The lane is held")
    assert "ann looks into it" in visitor.find(".facts").inner_text()
    job = house.run(lambda bot: bot.enqueue("sync", lane="hands off"))
    visitor.sees(f"tr[data-key=job-{job}] >> text=held")
    visitor.act("release")
    visitor.hears("The lane was released")
    visitor.sees(f"section[aria-label=Ended] tr[data-key=job-{job}] >> text=done")


def test_a_parked_lane_goes_on(visitor: Visitor, house: House) -> None:
    visitor.go("/lanes/deploy:api")
    assert "parked" in visitor.find("h1").inner_text()
    visitor.act("release")
    visitor.hears("The lane was released")
    house.run(lambda bot: bot.until(bot.things["parked"], "done"))


def test_a_lock_is_taken_from_its_holder_and_the_next_has_it(visitor: Visitor) -> None:
    visitor.go("/locks/repo:acme%2Fapi")
    before = int(visitor.find(".facts dt:text-is('Fence') + dd").inner_text())
    visitor.act("release", reason="it hangs")
    visitor.hears("The lock was taken from its holder")
    visitor.page.wait_for_function("() => document.querySelectorAll('.line-up > li').length === 3")
    visitor.page.wait_for_function(
        f"() => Number([...document.querySelectorAll('.facts dt')].find(e => e.textContent === 'Fence')"
        f"?.nextElementSibling.textContent) > {before}"
    )


def test_a_claim_is_forgotten(visitor: Visitor, house: House) -> None:
    visitor.go("/claims")
    visitor.page.click(f"tr a.main >> text={KEY[:12]}")
    visitor.sees("h1 >> text=failed")
    visitor.act("forget", reason="do it again")
    visitor.hears("The claim was forgotten")
    assert "new" in visitor.find("h1").inner_text()
    assert house.run(lambda bot: get_or_none(bot.app.claims, KEY)) is None


def test_an_event_is_replayed_as_a_new_one(visitor: Visitor, house: House) -> None:
    event = house.bot.things["event"]
    visitor.go(f"/events/{event}")
    visitor.act("replay", reason="the handler was mended")
    visitor.hears("The event was replayed")
    assert visitor.find(".facts >> text=Replay of").count() == 1
    visitor.sees("section[aria-label='What it caused'] tbody tr >> text=done")
    visitor.page.click(f".facts .chip >> text=event {event}")
    visitor.arrives(f"/events/{event}")


@pytest.mark.parametrize("javascript", [True, False])
def test_all_lanes_of_a_list_are_held_and_released(
    visit: Callable[..., Visitor], house: House, javascript: bool
) -> None:
    visitor = visit(javascript=javascript)
    for lane in ("all:a", "all:b"):
        house.run(lambda bot, lane=lane: bot.app.lanes.hold(lane, by="ann", reason="looking"))  # type: ignore[misc]
    visitor.go("/lanes?show=held")
    visitor.page.click("text=Release all…")
    held = house.run(lambda bot: bot.app.lanes.matching(show="held"))
    assert f"Release {len(held)} lanes?" in visitor.find(".ask h2").inner_text()
    visitor.page.fill(".ask [name=reason]", "looked")
    visitor.page.click(".ask button.primary")
    visitor.hears(f"Released {len(held)} lanes.")
    if javascript:
        visitor.arrives("/lanes?show=held")
    assert house.run(lambda bot: bot.app.lanes.matching(show="held")) == []


def test_an_act_without_a_reason_is_refused_in_words(visitor: Visitor, house: House) -> None:
    job = house.bot.things["waiting"]
    visitor.go(f"/jobs/{job}")
    visitor.act("cancel", reason="   ", first="document.querySelector('#act-cancel [name=reason]').required = false")
    assert "needs a reason" in visitor.sees(".notice[role=alert]").inner_text()
    assert "waiting" in visitor.find("h1").inner_text()
    assert all("400" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


def test_a_form_that_is_not_ours_is_refused(visitor: Visitor, house: House) -> None:
    job = house.bot.things["waiting"]
    visitor.go(f"/jobs/{job}")
    meddle = "document.querySelector('#act-cancel [name=csrf]').value = 'made up'"
    with visitor.page.expect_response(lambda answer: answer.request.method == "POST") as answer:
        visitor.act("cancel", reason="not from here", first=meddle)
    assert answer.value.status == 403
    house.run(lambda bot: bot.until(job, "waiting"))
    visitor.complaints.clear()


def test_a_sheet_closes_by_itself_and_gives_the_focus_back(visitor: Visitor, house: House) -> None:
    visitor.go(f"/jobs/{house.bot.things['waiting']}")
    visitor.find(".acts > button[popovertarget=act-cancel]").click()
    assert visitor.page.evaluate("document.activeElement.name") == "reason"
    visitor.page.keyboard.press("Escape")
    assert not visitor.find("#act-cancel").is_visible()
    assert visitor.page.evaluate("document.activeElement.getAttribute('popovertarget')") == "act-cancel"
