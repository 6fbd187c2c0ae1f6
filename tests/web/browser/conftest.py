"""A real Chromium, and houses for it to look at. A page that complains, or runs what it shows, fails its test."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright

from tests.web.browser.house import House
from tests.web.browser.visitor import Visitor
from tests.web.pages.furniture import furnish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A furnished house on SQLite."""
    folder = tmp_path_factory.mktemp("house")
    with House(f"sqlite:///{folder}/house.db") as served:
        served.run(furnish)
        yield served


@pytest.fixture
def visit(browser: Browser, house: House) -> Iterator[Callable[..., Visitor]]:
    """Makes visitors of the house; ``visit(phone=True, dark=False, javascript=False)``."""
    with ExitStack() as stack:

        def come(**how: Any) -> Visitor:
            visitor = stack.enter_context(Visitor(browser, house.address, **how))
            visitor.sign_in(house.login_url)
            return visitor

        yield come


@pytest.fixture
def visitor(visit: Callable[..., Visitor]) -> Visitor:
    """One at a desk."""
    return visit()
