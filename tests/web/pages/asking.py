"""Somebody who asks a web app for pages as a browser does: with a token, and following links as they are written."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from interlock.web import Credentials
from tests.web.client import Answer, ask

if TYPE_CHECKING:
    from interlock import App

SAME = ("Sec-Fetch-Site", "same-origin")
USER, PASSWORD = "ann", "a long password"


class Asker:
    """Asks one app, under a prefix or none."""

    def __init__(self, app: App, *, root: str = "", credentials: bool = False) -> None:
        self.web = app.web(credentials=Credentials({USER: PASSWORD}) if credentials else None)
        self.root = root
        self._authorization = [("Authorization", "Basic YW5uOmEgbG9uZyBwYXNzd29yZA==")] if credentials else []

    async def get(self, link: str, *headers: tuple[str, str]) -> Answer:
        """A page, by a link as it stands in a page."""
        return await self._ask("GET", link, [*self._authorization, *headers])

    async def post(self, link: str, **fields: str) -> Answer:
        """A form that a page of ours sent."""
        page = await self.get(f"{self.root}/")
        cookie = (page.header("set-cookie") or "").partition(";")[0]
        answer = await self.get(f"{self.root}/claims/nobody")  # any page with a form would do
        token = re.search(r'name="csrf" value="([^"]+)"', answer.text) or re.search(r"=(\w+)$", cookie)
        assert token is not None
        headers = [("Content-Type", "application/x-www-form-urlencoded"), SAME, ("Cookie", cookie)]
        body = urlencode({**fields, "csrf": token[1]}).encode()
        return await self._ask("POST", link, [*self._authorization, *headers], body)

    async def call(self, link: str, body: Any) -> Answer:
        """The API, as a program calls it."""
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._ask("POST", link, [*self._authorization, ("Content-Type", "application/json")], given)

    async def _ask(self, method: str, link: str, headers: list[tuple[str, str]], body: bytes = b"") -> Answer:
        parts = urlsplit(link)
        assert parts.path.startswith(f"{self.root}/"), link
        path = unquote(parts.path[len(self.root) :])
        return await ask(
            self.web, method, f"{path}?{parts.query}" if parts.query else path, headers, body, root_path=self.root
        )


def links_in(text: str) -> set[str]:
    """All that a page leads to or loads, without fragments."""
    found = re.findall(r'(?<![\w-])(?:href|src|action|hx-get|data-href|data-stream)="([^"]*)"', text)
    return {html.unescape(link).partition("#")[0] for link in found} - {""}


def quoted(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="")
