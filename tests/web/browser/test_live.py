"""Pages that are open follow what happens, and leave the one who looks at them in peace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.web.pages.bot import until

if TYPE_CHECKING:
    from playwright.sync_api import Route

    from tests.web.browser.house import House
    from tests.web.browser.visitor import Visitor
    from tests.web.pages.bot import Bot

pytestmark = pytest.mark.system

PULSES = """() => new Promise((seen) => {
  let left = 2;
  new EventSource(document.documentElement.dataset.stream).addEventListener("pulse", function () {
    if (--left === 0) { this.close(); setTimeout(seen, 400); }
  });
})"""
"""Two pulses have come since, and what they brought was fetched."""


def _live(visitor: Visitor, path: str) -> None:
    """Open a page and mark it, to see that it is never loaded again."""
    visitor.go(path)
    visitor.sees("[data-live][data-state=live]")
    visitor.page.evaluate("window.mark = 1")


def _same_page(visitor: Visitor) -> bool:
    return bool(visitor.page.evaluate("window.mark === 1"))


async def _stay(bot: Bot) -> int:
    job = await bot.enqueue("sync", lane=f"live {asyncio.get_running_loop().time()}", how="stay")
    await bot.until(job, "running")
    return job


def test_a_new_job_appears_in_the_list_and_the_numbers_follow(visitor: Visitor, house: House) -> None:
    _live(visitor, "/jobs")
    count = visitor.find(".nav [data-pulse=open]").inner_text()
    job = house.run(_stay)
    visitor.sees(f"tr[data-key=job-{job}] >> text=running")
    visitor.page.wait_for_function(
        "before => document.querySelector('.nav [data-pulse=open]').textContent !== before", arg=count
    )
    assert _same_page(visitor)


def test_a_job_is_seen_to_end(visitor: Visitor, house: House) -> None:
    job = house.run(_stay)
    _live(visitor, f"/jobs/{job}")
    house.run(lambda bot: bot.app.jobs.cancel(job, reason="enough", by="test"))
    visitor.sees("h1 >> text=cancelled")
    visitor.sees(".acts > button[popovertarget=act-retry]")
    assert _same_page(visitor)


def test_the_overview_follows(visitor: Visitor, house: House) -> None:
    _live(visitor, "/")
    event = house.run(_hear)
    visitor.sees(f"section[aria-label='Recent events'] tr[data-key=event-{event}]")
    assert _same_page(visitor)


async def _hear(bot: Bot) -> int | None:
    payload = {
        "action": "closed",
        "issue": {"number": 1},
        "repository": {"full_name": "acme/live"},
        "sender": {"login": "ann"},
    }
    return (await bot.hear("issues", payload, "live-1")).event


def test_what_was_opened_stays_open_and_what_was_scrolled_stays_there(visitor: Visitor, house: House) -> None:
    _live(visitor, f"/jobs/{house.bot.things['failed_long']}")
    visitor.page.click("summary >> text=Traceback")
    visitor.page.evaluate("document.querySelector('.timeline pre').scrollTop = 50; window.scrollTo(0, 120)")
    visitor.page.evaluate(PULSES)
    assert visitor.find(".timeline pre").is_visible()
    assert visitor.page.evaluate("document.querySelector('.timeline pre').scrollTop") == 50
    assert visitor.page.evaluate("window.scrollY") == 120


def test_the_focus_stays_where_it_was(visitor: Visitor, house: House) -> None:
    _live(visitor, "/jobs")
    link = f"tr[data-key=job-{house.bot.things['running']}] a.main"
    visitor.page.focus(link)
    job = house.run(_stay)
    visitor.sees(f"tr[data-key=job-{job}]")
    assert visitor.page.evaluate(f"document.activeElement === document.querySelector('{link}')")


@pytest.mark.parametrize("how", ["selected", "sheet", "paused"])
def test_nothing_moves_while_somebody(visitor: Visitor, house: House, how: str) -> None:
    """… has selected text, has a sheet open, or has paused."""
    waiting = house.bot.things["waiting"]
    _live(visitor, f"/jobs/{waiting}" if how == "sheet" else "/jobs")
    if how == "selected":
        visitor.page.evaluate("getSelection().selectAllChildren(document.querySelector('tbody tr'))")
    elif how == "sheet":
        visitor.find(".acts > button[popovertarget=act-cancel]").click()
        visitor.find("#act-cancel input[name=reason]").type("half a rea")
    else:
        visitor.find("[data-live]").click()
        visitor.sees("[data-live][data-state=paused]")
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url) if "hx-request" in request.headers else None)
    job = house.run(_stay)
    visitor.page.evaluate(PULSES)
    assert asked == []
    if how == "sheet":
        assert visitor.find("#act-cancel input[name=reason]").input_value() == "half a rea"
        visitor.page.keyboard.press("Escape")
    elif how == "selected":
        visitor.page.evaluate("getSelection().removeAllRanges()")
    else:
        visitor.find("[data-live]").click()
    if how != "sheet":
        visitor.sees(f"tr[data-key=job-{job}]")


def test_typing_into_a_filter_is_not_disturbed(visitor: Visitor, house: House) -> None:
    _live(visitor, "/jobs")
    visitor.find("[data-filter]").click()
    visitor.page.keyboard.type("bui")
    house.run(_stay)
    visitor.page.evaluate(PULSES)
    visitor.page.keyboard.type("ld")
    assert visitor.find("[data-filter]").input_value() == "build"
    visitor.arrives("/jobs?name=build")
    visitor.sees(".tabs a[href='/jobs?state=failed&name=build']")
    visitor.page.wait_for_function(
        "() => [...document.querySelectorAll('tbody tr')].every(r => r.innerText.includes('build'))"
    )
    assert _same_page(visitor)


def test_an_answer_that_comes_late_does_not_undo_a_filter(visitor: Visitor) -> None:
    late: list[Route] = []

    def hold(route: Route) -> None:
        if "hx-request" in route.request.headers and not late:
            late.append(route)
        else:
            route.continue_()

    visitor.page.route("**/jobs", hold)
    with visitor.page.expect_request(lambda request: "hx-request" in request.headers):
        _live(visitor, "/jobs")
    visitor.find("[data-filter]").fill("deploy")
    others = "[...document.querySelectorAll('tbody tr')].some(row => !row.innerText.includes('deploy'))"
    visitor.page.wait_for_function(f"() => !{others}")
    visitor.page.evaluate(
        f"() => new MutationObserver(() => {{ window.undone ||= {others}; }})"
        ".observe(document.getElementById('live'), {childList: true, subtree: true})"
    )
    with visitor.page.expect_response(lambda answer: answer.request == late[0].request):
        late[0].continue_()
    visitor.page.evaluate(PULSES)
    assert not visitor.page.evaluate("window.undone")


def test_a_window_that_nobody_sees_takes_no_stream(visitor: Visitor, house: House) -> None:
    async def streams(count: int) -> None:
        await until(lambda: asyncio.sleep(0, len(house.web.hub) == count))

    _live(visitor, "/jobs")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    visitor.page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", True)
    house.run(lambda _: streams(0))
    job = house.run(_stay)
    visitor.page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", False)
    visitor.sees(f"tr[data-key=job-{job}]")
    house.run(lambda _: streams(1))


def test_what_is_no_longer_kept_stays_in_sight_and_says_so(visitor: Visitor, house: House) -> None:
    job = house.bot.things["done"]
    _live(visitor, f"/jobs/{job}")
    visitor.page.route(
        f"**/jobs/{job}", lambda route: route.fulfill(status=404) if "hx-request" in route.request.headers else None
    )
    visitor.sees("#gone >> text=no longer there")
    assert visitor.find("h1").inner_text().startswith("sync")
    visitor.complaints.clear()  # the browser says that it was refused


def test_times_go_on_between_looks(visitor: Visitor, house: House) -> None:
    _live(visitor, f"/jobs/{house.bot.things['running']}")
    visitor.find("[data-live]").click()
    before = visitor.find(".timeline time").first.inner_text()
    # A job that runs for minutes shows minutes, and the test need not wait for the next one.
    visitor.page.evaluate("() => { const now = Date.now; Date.now = () => now() + 3_600_000; }")
    visitor.page.wait_for_function(
        "before => document.querySelector('.timeline time').textContent !== before", arg=before
    )


def test_a_stream_that_cannot_be_had_is_told(visitor: Visitor) -> None:
    visitor.page.route("**/stream", lambda route: route.abort())
    visitor.go("/jobs")
    visitor.sees("[data-live][data-state=offline] >> text=Connecting")
    visitor.page.unroute("**/stream")
    visitor.sees("[data-live][data-state=live]")
    visitor.complaints.clear()  # the browser says that the stream was refused
