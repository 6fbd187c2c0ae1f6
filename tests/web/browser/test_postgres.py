"""The same pages on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.browser.house import House
from tests.web.browser.visitor import Visitor
from tests.web.pages.furniture import furnish

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.system


def test_pages_actions_and_live_updates_on_postgresql(browser: Browser, interlock_postgres_url: str) -> None:
    with House(interlock_postgres_url) as house, Visitor(browser, "") as visitor:
        house.run(furnish)
        visitor.address = house.address
        visitor.sign_in(house.login_url)
        things = house.bot.things
        for path in ("/", "/jobs", "/lanes", "/locks", "/limits", "/events", "/claims", "/workers"):
            assert visitor.go(path).status == 200
        for job in ("running", "waiting", "behind", "failed", "scheduled", "held", "lock_waits"):
            assert visitor.go(f"/jobs/{things[job]}").status == 200
        visitor.go(f"/events/{things['event']}")
        assert '"full_name": "acme/api"' in visitor.find("pre[aria-label=Payload]").inner_text()

        visitor.go("/lanes/deploy:api")
        visitor.act("release")
        visitor.hears("The lane was released")
        visitor.sees(f"section[aria-label=Ended] tr[data-key=job-{things['parked']}]")
        visitor.go("/locks/repo:acme%2Fapi")
        visitor.act("release", reason="it hangs")
        visitor.hears("The lock was taken from its holder")
        visitor.page.wait_for_function("() => document.querySelectorAll('.line-up > li').length === 3")
