"""Every page in a browser: it says what it should, holds its layout, and runs nothing that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.web.browser.contrast import FIND_FAINT
from tests.web.pages.furniture import HOSTILE, KEY, ODD_LANES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.web.browser.house import House
    from tests.web.browser.visitor import Visitor

pytestmark = pytest.mark.system

LISTS = ("/", "/jobs", "/lanes", "/locks", "/limits", "/events", "/claims", "/records", "/workers", "/journal")
JOBS = (
    "running",
    "waiting",
    "behind",
    "done",
    "failed",
    "failed_long",
    "scheduled",
    "paced_next",
    "parked",
    "held",
    "locked",
)
KEYS = (
    "/lanes/deploy:api",
    "/lanes/held",
    "/lanes/nobody",
    "/locks/repo:acme%2Fapi",
    "/locks/nobody",
    "/limits/slots:containers",
    "/limits/cooldown:account:a1",
    "/limits/nobody",
    "/claims/delivery:1",
    "/claims/delivery:2",
    "/claims/nobody",
    "/records?kind=Order&status=failed",
    "/records/Order/order-1",
    "/records/Order/order-2",
    "/records/Order/order-3",
    "/records/Order/?key=..",
    "/records/Order/nobody",
)


def _paths(house: House) -> list[str]:
    things = house.bot.things
    jobs = [f"/jobs/{things[name]}" for name in JOBS]
    events = [f"/events/{things[name]}" for name in ("event", "event_failed", "event_hostile")]
    workers = [f"/workers/{row.worker.session}" for row in house.run(lambda bot: bot.app.insight.workers())]
    return [*LISTS, *jobs, *events, *KEYS, *workers]


@pytest.mark.parametrize(("phone", "dark"), [(False, True), (True, False)], ids=["desk, dark", "phone, light"])
def test_every_page_holds_its_layout_and_complains_of_nothing(
    visit: Callable[..., Visitor], house: House, phone: bool, dark: bool
) -> None:
    visitor = visit(phone=phone, dark=dark)

    for path in _paths(house):
        assert visitor.go(path).status == 200, path
        assert visitor.page.locator("h1").count() == 1, path
        assert visitor.wider_than_its_window() <= 0, path
        visitor.check()


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_every_text_can_be_read(visit: Callable[..., Visitor], house: House, dark: bool) -> None:
    visitor = visit(dark=dark)
    things = house.bot.things

    pages = (
        "/",
        "/jobs",
        "/locks",
        "/limits",
        "/records",
        "/records/Order/order-1",
        "/records/Order/order-2",
        "/journal",
    )
    for path in (*pages, f"/jobs/{things['failed']}", f"/events/{things['event']}", "/nope"):
        visitor.go(path)
        assert visitor.page.evaluate(FIND_FAINT) == [], path
    visitor.complaints.clear()  # of the page that is not there


def test_the_overview_tells_how_everything_stands(visitor: Visitor, house: House) -> None:
    visitor.go("/")

    assert "mail" in visitor.find(".problems").inner_text()
    assert "deploy:api" in visitor.find(".problems").inner_text()
    assert visitor.find(".chart rect.bar").count() > 0
    assert (
        "waits for limit 'slots:containers' (2 of 2)" in visitor.find("section[aria-label='What waits']").inner_text()
    )
    assert visitor.find("section[aria-label='Recent failures'] tbody tr").count() >= 3
    assert visitor.find("section[aria-label='Recent events'] tbody tr").count() == 3
    visitor.find(".chart .bucket").last.hover()
    assert "accepted" in visitor.find("#tip").inner_text()


def test_a_waiting_job_says_why_and_leads_to_what_it_waits_for(visitor: Visitor, house: House) -> None:
    things = house.bot.things
    visitor.go(f"/jobs/{things['waiting']}")

    assert "waits for the limit 'slots:containers'" in visitor.find(".explain").inner_text()
    visitor.page.click(".explain .chip >> text=slots:containers")
    visitor.arrives("/limits/slots%3Acontainers")
    assert f"job {things['waiting']}" in visitor.find("section[aria-label='Who waits, in order']").inner_text()
    visitor.page.click(f"section[aria-label='Who has room'] >> text=job {things['running']} ")
    visitor.arrives(f"/jobs/{things['running']}")
    visitor.page.click(".facts .chip >> text=acme/api")
    visitor.arrives("/lanes/acme%2Fapi")
    visitor.page.click(f"tr[data-key=job-{things['behind']}] a.main")
    visitor.arrives(f"/jobs/{things['behind']}")


def test_a_failed_job_shows_its_timeline_and_where_it_failed(visitor: Visitor, house: House) -> None:
    visitor.go(f"/jobs/{house.bot.things['failed']}")

    assert visitor.find(".timeline > li").count() == 2
    trace = visitor.find(".timeline pre")
    assert not trace.is_visible()
    visitor.page.click("summary >> text=Traceback")
    assert "RuntimeError: <script>" in trace.inner_text()
    assert "{{7*7}}" in trace.inner_text()


def test_a_lock_shows_its_holder_its_fence_and_who_waits_in_order(visitor: Visitor, house: House) -> None:
    visitor.go("/locks/repo:acme%2Fapi")

    holder = visitor.find("section[aria-label=Holder]").inner_text()
    assert "Fence" in holder
    assert visitor.find(".line-up > li").count() == 4
    last = visitor.find(".line-up > li").last
    assert f"job {house.bot.things['lock_waits']}" in last.inner_text()
    last.locator("a").click()
    assert "repo:acme/api" in visitor.sees("section[aria-label='Locks it waits for']").inner_text()


def test_a_record_shows_its_machine_its_versions_and_who_edits_it(visitor: Visitor) -> None:
    visitor.go("/records")
    visitor.page.fill("input[name=id]", "order-1")
    visitor.page.wait_for_url("**/records?kind=Order&id=order-1")
    visitor.sees("tbody tr:only-child")
    visitor.page.click("tr a.main >> text=order-1")
    visitor.arrives("/records/Order/order-1")

    assert visitor.find(".machine .state").count() == 6
    assert visitor.find(".machine .here text").text_content() == "corrected"
    assert sorted(visitor.find(".machine .next text").all_text_contents()) == ["completed", "failed"]
    boxes = [box for box in (state.bounding_box() for state in visitor.find(".machine .state").all()) if box]
    card = visitor.find(".machine").bounding_box()
    assert card is not None
    assert all(card["x"] <= box["x"] and box["x"] + box["width"] <= card["x"] + card["width"] for box in boxes)
    assert "corrected" in visitor.find("section[aria-label=Versions] ins").first.inner_text()
    assert visitor.find("section[aria-label=Versions] .timeline > li").count() == 3
    assert visitor.find("section[aria-label=Editor] .line-up > li").count() == 1
    visitor.page.click("summary >> text=As text")
    assert visitor.find(".as-text dt").first.is_visible()
    visitor.page.click("section[aria-label=Editor] >> text=The lock")
    visitor.sees("h1 >> text=record:Order:order-1")
    visitor.page.click("text=The record that it protects")
    visitor.arrives("/records/Order/order-1")
    visitor.page.click("section[aria-label=Versions] >> text=In the journal")
    visitor.sees("h1 >> text=Journal")
    visitor.page.click("tbody tr:first-child td.first a")
    visitor.arrives("/records/Order/order-1")
    visitor.check()


def test_an_event_shows_its_payload_and_what_it_caused(visitor: Visitor, house: House) -> None:
    visitor.go(f"/events/{house.bot.things['event_failed']}")

    assert '"full_name": "acme/api"' in visitor.find("pre[aria-label=Payload]").inner_text()
    visitor.find("section[aria-label='What it caused'] a.main").click()
    visitor.sees("h1 >> text=triage")
    visitor.page.click(".facts .chip >> text=github.issues.opened")
    visitor.arrives(f"/events/{house.bot.things['event_failed']}")


def test_hostile_names_are_shown_as_they_are_and_lead_where_they_should(visitor: Visitor, house: House) -> None:
    for number, lane in enumerate(ODD_LANES):
        job = house.bot.things[f"odd_{number}"]
        visitor.go(f"/jobs/{job}")
        visitor.page.click(".facts dt:text-is('Lane') + dd a")
        visitor.sees(f"tr[data-key=job-{job}]")
        assert visitor.find("h1 bdi").inner_text().startswith(lane[:1])
    visitor.go(f"/jobs/{house.bot.things['done']}")
    assert "\\u202egnp.exe" in visitor.find("pre[aria-label=Result]").inner_text(), "what turns a line is written out"
    assert "{{7*7}}" in visitor.find("pre[aria-label=Result]").inner_text()
    visitor.go("/claims")
    visitor.page.click(f"tr a.main >> text={KEY[:12]}")
    assert HOSTILE[:30] in visitor.sees("pre.text").inner_text()


def test_a_page_that_is_not_there_says_so(visitor: Visitor) -> None:
    assert visitor.go("/nope").status == 404
    assert "Not found" in visitor.find("h1").inner_text()
    assert visitor.go("/jobs/987654321").status == 404
    assert "Job 987654321 does not exist" in visitor.find(".centered").inner_text()
    assert visitor.wider_than_its_window() <= 0
    assert all("404" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


def test_the_theme_is_the_systems_until_somebody_chooses(visit: Callable[..., Visitor]) -> None:
    def background(visitor: Visitor) -> Any:
        return visitor.page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = visit(dark=False), visit(dark=True)
    light.go("/jobs")
    dark.go("/jobs")
    system = background(light), background(dark)
    assert system[0] != system[1]

    light.find("[data-theme-toggle]").click()
    assert background(light) == system[1]
    light.go("/lanes")
    assert background(light) == system[1], "the choice is kept"
    light.find("[data-theme-toggle]").click()
    assert background(light) == system[0]


def test_keys_filter_move_and_open(visitor: Visitor) -> None:
    visitor.go("/jobs")
    visitor.page.keyboard.press("/")
    assert visitor.page.evaluate("document.activeElement.name") == "name"
    visitor.page.keyboard.press("Escape")
    visitor.page.keyboard.press("j")
    visitor.page.keyboard.press("j")
    second = visitor.find("tbody tr").nth(1)
    assert "at" in (second.get_attribute("class") or "")
    href = second.get_attribute("data-href")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url(f"**{href}")


def test_filters_narrow_the_list_and_can_be_linked_to(visitor: Visitor, house: House) -> None:
    visitor.go("/jobs")
    visitor.find("[data-filter]").fill("deploy")
    visitor.page.wait_for_url("**name=deploy**")
    visitor.page.wait_for_function("() => document.querySelectorAll('tbody tr').length === 2")
    visitor.page.click(".tabs >> text=Failed")
    visitor.page.wait_for_url("**state=failed**")
    visitor.go("/jobs?state=failed&name=deploy")
    assert visitor.find("tbody tr").count() == 1
    visitor.go("/lanes?show=parked")
    assert visitor.find("tbody tr").count() == 1


def test_long_lists_come_in_parts(visitor: Visitor) -> None:
    visitor.go("/jobs?limit=5")
    first = visitor.find("tbody tr").first.get_attribute("data-key")
    assert visitor.find("tbody tr").count() == 5
    visitor.page.click("a[rel=next]")
    visitor.page.wait_for_url("**before=**")
    assert visitor.find("tbody tr").count() == 5
    assert visitor.find("tbody tr").first.get_attribute("data-key") != first
    visitor.page.click(".pager >> text=Back to the first")
    visitor.arrives("/jobs?limit=5")
    assert visitor.find("tbody tr").first.get_attribute("data-key") == first


def test_without_javascript_everything_can_be_read_and_done(visit: Callable[..., Visitor], house: House) -> None:
    visitor = visit(javascript=False)
    visitor.go("/")
    assert "deploy:api" in visitor.find(".problems").inner_text()
    assert not visitor.find("[data-live]").is_visible()
    visitor.go("/jobs")
    visitor.find("[data-filter]").fill("build")
    visitor.page.click("button >> text=Filter")
    visitor.page.wait_for_url("**name=build**")
    job = house.run(lambda bot: bot.enqueue("sync", lane="held"))
    visitor.go(f"/jobs/{job}")
    visitor.act("cancel", reason="no script was needed")
    visitor.hears("The job was cancelled")
