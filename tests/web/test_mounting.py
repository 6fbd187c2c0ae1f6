"""The web app alone and inside others: what opens the app, and that paths and links know the prefix."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from interlock import App, Event, GitHub
from interlock.web.links import path_of, url
from tests.web.client import ask, scope_of

SECRET = "a secret of some length"


def bot(address: str = "memory://", **changes: Any) -> App:
    app = App(address, **changes)
    app.source(GitHub(SECRET))

    @app.on("github.issues.*")
    async def triage(event: Event) -> None: ...

    return app


def delivery(number: int = 1) -> tuple[list[tuple[str, str]], bytes]:
    body = json.dumps({"action": "opened", "number": number}).encode()
    return [
        ("X-Hub-Signature-256", "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()),
        ("X-GitHub-Event", "issues"),
        ("X-GitHub-Delivery", f"delivery-{number}"),
        ("Content-Type", "application/json"),
    ], body


class Lifespan:
    """A server's part in opening and closing an app."""

    def __init__(self, app: Any) -> None:
        self._to: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self.task = asyncio.ensure_future(app(scope, self._to.get, self._from.put))

    async def say(self, what: str) -> dict[str, Any]:
        self._to.put_nowait({"type": f"lifespan.{what}"})
        return await self._from.get()


async def test_alone_it_opens_and_closes_the_app() -> None:
    app = bot()
    web = app.web()
    assert (await ask(web, "POST", "/webhooks/github", *delivery())).status == 503
    server = Lifespan(web)
    assert await server.say("startup") == {"type": "lifespan.startup.complete"}
    assert app.is_open
    answer = await ask(web, "POST", "/webhooks/github", *delivery())
    assert answer.status == 202
    assert (await ask(web, "POST", "/webhooks/github", *delivery())).json["status"] == "duplicate"
    assert await server.say("shutdown") == {"type": "lifespan.shutdown.complete"}
    await server.task
    assert not app.is_open


async def test_an_app_that_is_open_stays_so() -> None:
    app = bot()
    async with app:
        server = Lifespan(app.web())
        await server.say("startup")
        await server.say("shutdown")
        await server.task
        assert app.is_open


async def test_a_store_that_is_away_fails_the_start_and_says_why() -> None:
    app = App("postgresql://u:secret@127.0.0.1:1/x", store_wait=0.2)
    server = Lifespan(app.web())
    said = await server.say("startup")
    await server.task
    assert said["type"] == "lifespan.startup.failed"
    assert "store-unavailable" in said["message"]
    assert "secret" not in said["message"]


@pytest.mark.parametrize("outer", [Starlette, FastAPI])
@pytest.mark.parametrize(("prefix", "root"), [("/interlock", ""), ("/a/b", ""), ("/interlock", "/behind/proxy")])
async def test_it_mounts_under_any_prefix(outer: Any, prefix: str, root: str) -> None:
    app = bot()
    async with app:
        web = app.web()
        whole = outer(routes=[Mount(prefix, web)]) if outer is Starlette else outer()
        if outer is FastAPI:
            whole.mount(prefix, web)
        assert (await ask(whole, "POST", f"{prefix}/webhooks/github", *delivery(), root_path=root)).status == 202
        assert (await ask(whole, path=f"{prefix}/health", root_path=root)).status == 200
        token = [("Authorization", f"Bearer {web.token}")]
        assert (await ask(whole, path=f"{prefix}/metrics", root_path=root)).status == 401
        assert (await ask(whole, path=f"{prefix}/metrics", headers=token, root_path=root)).status == 200
        opened = await ask(whole, path=f"{prefix}/?token={web.token}", root_path=root)
        assert (opened.status, opened.header("location")) == (303, f"{root}{prefix}/")
        assert f"; Path={root}{prefix};" in (opened.header("set-cookie") or "")
        assert (await ask(whole, path=f"{prefix}/metrics", root_path=root, client=("10.0.0.1", 1))).status == 403


@pytest.mark.parametrize(
    ("root", "path", "inside"),
    [
        ("", "/health", "/health"),
        ("/a", "/a/health", "/health"),
        ("/a", "/health", "/health"),
        ("/a", "/a", ""),
        ("/a", "/ab", "/ab"),
        ("/a/", "/a/health", "/health"),
    ],
)
def test_the_path_below_the_prefix(root: str, path: str, inside: str) -> None:
    assert path_of({"path": path, "root_path": root}).removeprefix("/") == inside.removeprefix("/")


def test_links_know_the_prefix_and_escape_what_is_in_them() -> None:
    request = Request(scope_of(root_path="/op s"))
    assert url(request) == "/op%20s/"
    assert url(request, "jobs", 42) == "/op%20s/jobs/42"
    assert url(request, "lanes", "a/b#1?x=é&\ud800") == "/op%20s/lanes/a%2Fb%231%3Fx%3D%C3%A9%26%3F"
    assert url(request, "jobs", after="a b", before=None, n=0) == "/op%20s/jobs?after=a+b&n=0"
    assert url(Request(scope_of())) == "/"


async def test_the_prefix_alone_leads_to_the_first_page() -> None:
    """By a path without a host, as only a proxy may know under which scheme and name it was asked for."""
    answer = await ask(bot().web(dashboard=False), path="", root_path="/op s")
    assert (answer.status, answer.header("location")) == (308, "/op%20s/")
    assert (await ask(bot().web(dashboard=False), path="/metrics/")).status == 404


async def test_a_websocket_is_turned_away() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await bot().web()({"type": "websocket", "path": "/stream", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_without_a_dashboard_there_are_only_the_other_routes() -> None:
    app = bot()
    async with app:
        web = app.web(dashboard=False)
        assert (await ask(web, path="/")).status == 404
        assert (await ask(web, path="/stream")).status == 404
        assert (await ask(web, path="/metrics")).status == 200
        assert (await ask(web, "POST", "/webhooks/github", *delivery())).status == 202


async def test_a_store_without_events_has_no_sources(interlock_redis_url: str) -> None:
    async with App(interlock_redis_url) as app:
        web = app.web(dashboard=False)
        assert (await ask(web, "POST", "/webhooks/github", *delivery())).status == 404
        assert (await ask(web, path="/health")).status == 200


def test_without_its_packages_the_web_app_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from interlock import App\nfrom interlock.errors import MisuseError\n"
        "try: App('memory://').web()\n"
        "except MisuseError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'interlock[web]'" in said


def test_an_app_needs_no_web_packages_by_itself() -> None:
    names = "('starlette', 'uvicorn', 'jinja2')"
    code = f"import sys, interlock, interlock.cli; print([name for name in {names} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
