"""Pages and their links, without a browser: all lead somewhere, and nothing in them is HTML by chance."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from interlock import App
from interlock.errors import StoreUnavailableError
from interlock.web.pages.api import _json
from tests.web.pages.asking import Asker, links_in
from tests.web.pages.furniture import HOSTILE, KEY, LONG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.web.pages.bot import Bot

SECTIONS = ("jobs", "lanes", "locks", "limits", "events", "claims", "records", "workers")


@pytest.mark.parametrize("root", ["/ops/interlock", pytest.param("", marks=pytest.mark.full)])
async def test_every_link_leads_to_a_page_under_whatever_prefix(bot: Bot, root: str) -> None:
    asker = Asker(bot.app, root=root)
    seen: set[str] = set()
    waiting = {f"{root}/"}
    while waiting:
        await asyncio.sleep(0)  # no page waits for its store, and the app's session has to be renewed meanwhile
        link = waiting.pop()
        seen.add(link)
        if link.endswith("/stream"):
            continue
        answer = await asker.get(link)
        assert answer.status == 200, link
        if "html" in (answer.header("content-type") or ""):
            found = links_in(answer.text)
            assert [one for one in found if not one.startswith(f"{root}/")] == [], link
            waiting |= found - seen

    assert len(seen) > 80
    for section in SECTIONS:
        assert f"{root}/{section}" in seen
        assert any(link.startswith(f"{root}/{section}/") for link in seen), section


async def test_what_comes_from_a_store_is_never_html(bot: Bot, asker: Asker) -> None:
    shown = 0
    for link in sorted(links_in((await asker.get("/jobs")).text) | {f"/{section}" for section in SECTIONS}):
        if link.endswith("/stream") or "/static/" in link:
            continue
        text = (await asker.get(link)).text
        assert "<script>window" not in text, link
        assert "<img" not in text, link
        assert 'onerror="' not in text, link
        assert "\u202e" not in text, "what turns a line is written out"
        assert "}49{" not in text, link
        shown += "&lt;script&gt;window.hacked" in text
    assert shown > 5


async def test_long_texts_are_cut_in_lists_and_whole_in_the_api(bot: Bot, asker: Asker) -> None:
    job = bot.things["failed_long"]
    assert LONG not in (await asker.get("/jobs")).text
    assert len((await asker.get("/jobs")).text) < 120_000
    assert (await asker.get(f"/api/jobs/{job}")).json["job"]["arguments"]["text"] == LONG


def test_numbers_that_json_has_not_got_are_words_in_the_api() -> None:
    answer = bytes(_json({"deep": [{"x": math.inf}, (-math.inf, math.nan)], "y": 1.5}).body)

    assert json.loads(answer, parse_constant=pytest.fail) == {"deep": [{"x": "inf"}, ["-inf", "nan"]], "y": 1.5}


async def test_htmx_gets_the_living_part_only(bot: Bot, asker: Asker) -> None:
    for path in ("/", "/jobs", f"/jobs/{bot.things['running']}"):
        part = await asker.get(path, ("HX-Request", "true"))
        assert part.text.lstrip().startswith('<div id="live"'), path
        assert "<nav class" not in part.text.split("</div>")[0]
        assert part.header("vary") == "HX-Request"
        whole = await asker.get(path, ("HX-Request", "true"), ("HX-History-Restore-Request", "true"))
        assert whole.text.startswith("<!doctype html>"), path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nope", 404),
        ("/jobs/0", 404),
        ("/jobs/-1", 404),
        ("/jobs/x", 404),
        ("/jobs/99999999999999999999999", 404),
        ("/jobs/²", 404),
        ("/events/404", 404),
        ("/workers/nobody", 404),
        ("/lanes/", 400),
        ("/lanes/" + "x" * 600, 400),
        ("/lanes/%00", 400),
        ("/static/../asgi.py", 404),
        ("/static/nothing.css", 404),
        ("/jobs?state=nope", 400),
        ("/jobs?limit=0", 400),
        ("/jobs?limit=²", 400),
        ("/jobs?limit=501", 400),
        ("/jobs?before=nonsense", 400),
        ("/jobs?name=" + "%3Cscript%3E", 200),
        ("/jobs?lane=" + "x" * 600, 200),
        ("/lanes?show=nope", 400),
        ("/lanes?after=nonsense", 200),
        ("/claims?state=nope", 400),
        ("/claims?prefix=" + "x" * 600, 200),
        ("/events?before=-5", 400),
        ("/jobs?before=5&request=1", 200),
        ("/jobs?before=5&_Context__self=1", 200),
        ("/jobs?before=5&query=1&section=1", 200),
        ("/lanes?after=x&request=1", 200),
        ("/jobs?limit=000000001" + "0" * 5000, 400),
        ("/jobs?limit=000000001", 200),
        ("/events?before=0000000000000000000199999999999999999999", 400),
        ("/events?before=9223372036854775807", 200),
        ("/events?before=9223372036854775808", 400),
        ("/api/jobs?limit=0000000011000", 400),
        ("/api/jobs?before=00000000000000000001" + "0" * 5000, 400),
        ("/api/explain/job/00000000000000000001" + "0" * 5000, 400),
        ("/api/nope", 404),
        ("/api/jobs/0", 404),
        ("/api/jobs?state=nope", 400),
        ("/api/explain/nope/1", 400),
        ("/api/explain/job/x", 400),
        ("/api/explain/job/987654", 404),
        ("/api/activity?seconds=nan", 400),
        ("/api/activity?buckets=1e9", 400),
    ],
)
async def test_what_makes_no_sense_is_refused_in_words(empty: Asker, path: str, status: int) -> None:
    answer = await empty.get(path)
    assert answer.status == status
    if path.startswith("/api/"):
        assert set(answer.json) == {"error", "message", "remedy"} or status == 200
    else:
        assert "<h1" in answer.text


@pytest.fixture
async def empty() -> AsyncIterator[Asker]:
    """Somebody who asks an app that has nothing yet."""
    async with App("memory://") as app:
        yield Asker(app)


async def test_an_app_that_has_nothing_yet_has_pages(empty: Asker) -> None:
    for section in ("", *SECTIONS):
        answer = await empty.get(f"/{section}")
        assert answer.status == 200
        assert 'class="empty' in answer.text or not section


@pytest.fixture
async def away(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An app whose store does not answer."""
    async with App("memory://") as app:

        async def no_answer(*args: Any, **more: Any) -> Any:
            raise StoreUnavailableError("sqlite did not answer within 10 s.")

        for name in ("overview", "activity", "pulse", "jobs", "job"):
            monkeypatch.setattr(type(app.insight), name, no_answer)
        yield app


async def test_a_store_that_is_away_gives_a_page_that_tries_again(away: App) -> None:
    asker = Asker(away)
    for path in ("/", "/jobs", "/jobs/1"):
        answer = await asker.get(path)
        assert answer.status == 503
        assert answer.header("retry-after") == "3"
        assert '<meta http-equiv="refresh" content="3">' in answer.text
        assert "sqlite did not answer within 10 s." in answer.text
    api = await asker.get("/api/jobs")
    assert (api.status, api.json["error"]) == (503, "store-unavailable")
    assert api.header("retry-after") == "3"


async def test_an_error_of_ours_gives_a_page_without_details(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*args: Any, **more: Any) -> Any:
        raise KeyError("a secret detail")

    monkeypatch.setattr(type(bot.app.insight), "jobs", broken)
    asker = Asker(bot.app)
    for path in ("/jobs", "/api/jobs"):
        with pytest.raises(KeyError):  # the server sees it too
            await asker.get(path)


async def test_an_app_without_jobs_says_so(interlock_redis_url: str) -> None:
    async with App(interlock_redis_url) as app:
        asker = Asker(app)
        async with app.locks.acquire("repo"):
            overview = await asker.get("/")
            assert overview.status == 200
            assert "Locks held" in overview.text
            assert 'href="/jobs"' not in overview.text
            assert "repo" in (await asker.get("/locks")).text
        for path in ("/jobs", "/lanes", "/events", "/workers", "/jobs/1"):
            answer = await asker.get(path)
            assert answer.status == 200, path
            assert "This app has none of that" in answer.text
            assert (await asker.get(f"/api{path}")).json["error"] == "capability"


async def test_files_are_kept_by_browsers_until_they_change(asker: Asker) -> None:
    links = {link for link in links_in((await asker.get("/")).text) if "/static/" in link}
    assert len(links) == 5
    for link in links:
        answer = await asker.get(link)
        assert "immutable" in (answer.header("cache-control") or ""), link
        again = await asker.get(link.partition("?")[0], ("If-None-Match", answer.header("etag") or ""))
        assert (again.status, again.body) == (304, b"")


async def test_htmx_comes_with_its_licence(asker: Asker) -> None:
    licence = await asker.get("/static/htmx.LICENSE.txt")
    assert "Zero-Clause BSD" in licence.text
    assert b'version:"2.' in (await asker.get("/static/htmx.min.js")).body


async def test_further_pages_keep_what_was_asked_for_and_nothing_else(bot: Bot, asker: Asker) -> None:
    page = await asker.get("/jobs?state=running&state=done&state=waiting&limit=1&nonsense=1&said=held")
    (further,) = (link for link in links_in(page.text) if "before=" in link)
    asked = parse_qsl(urlsplit(further).query)
    assert asked[:-1] == [("state", "running"), ("state", "done"), ("state", "waiting"), ("limit", "1")]
    back = links_in((await asker.get(further)).text)
    assert "/jobs?state=running&state=done&state=waiting&limit=1" in back
    assert page.text.count('<input type="hidden" name="state"') == 3


async def test_hostile_keys_have_pages(bot: Bot, asker: Asker) -> None:
    for section in ("locks", "claims"):
        (link,) = (
            link for link in links_in((await asker.get(f"/{section}")).text) if link.startswith(f"/{section}/%3Cscript")
        )
        answer = await asker.get(link)
        assert answer.status == 200
        assert "window.hacked" in answer.text
    assert KEY in HOSTILE
