"""Somebody who looks at the dashboard with a browser, and notices whatever goes wrong in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Response

DESK, PHONE = (1440, 900), (360, 740)


class Visitor:
    """A browser window. Leaving asserts that no page complained, broke its own rules or ran what it was shown."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        *,
        phone: bool = False,
        dark: bool = True,
        javascript: bool = True,
        **more: Any,
    ) -> None:
        width, height = PHONE if phone else DESK
        self.width = width
        self.address = address
        self.complaints: list[str] = []
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            is_mobile=phone,
            has_touch=phone,
            java_script_enabled=javascript,
            **more,
        )
        self._context.set_default_timeout(10_000)
        self.page = self._context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self._javascript = javascript

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self._context.close()

    def sign_in(self, login_url: str) -> None:
        """Open the address that was printed at the start. The token does not stay in it."""
        self.page.goto(login_url)
        assert self.page.url == login_url.partition("?")[0]

    def go(self, path: str) -> Response:
        """Open a page by its path."""
        answer = self.page.goto(self.address + path)
        assert answer is not None
        return answer

    def find(self, selector: str) -> Locator:
        """What a selector selects."""
        return self.page.locator(selector)

    def arrives(self, path: str) -> None:
        """Wait until we are there."""
        self.page.wait_for_url(self.address + path)

    def sees(self, selector: str) -> Locator:
        """Wait until something can be seen."""
        found = self.page.locator(selector)
        found.first.wait_for()
        return found

    def check(self) -> None:
        """Nothing has gone wrong so far."""
        assert self.complaints == []
        if self._javascript:
            assert self.page.evaluate("window.hacked === undefined"), "text from a store was run"
            assert self.page.locator("#live img, #live script, #live iframe").count() == 0

    def wider_than_its_window(self) -> int:
        """By how many pixels a page would have to be scrolled sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth")) - self.width

    def offers(self, name: str) -> bool:
        """Whether there is such an action."""
        return self.find(f".acts > button[popovertarget=act-{name}]").count() == 1

    def act(self, name: str, *, reason: str | None = None, first: str = "") -> None:
        """Open an action's sheet, fill it in and send it; ``first`` is a script that meddles with it."""
        self.find(f".acts > button[popovertarget=act-{name}]").click()
        sheet = self.find(f"#act-{name}")
        if first:
            self.page.evaluate(first)
        if reason is not None:
            sheet.locator("input[name=reason]").fill(reason)
        sheet.locator("button.primary").click()

    def hears(self, text: str) -> None:
        """Wait until the page says what came of an action."""
        self.sees(f"#said >> text={text}")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")
