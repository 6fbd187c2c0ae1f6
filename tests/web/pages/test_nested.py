"""Deeply nested data: to indent it takes hundreds of times its size, so pages and commands show a part of it."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from typer.testing import CliRunner

from interlock import App, Event, GitHub
from interlock.cli import app as commands
from interlock.insight.json_text import DEEPEST, depth_exceeds, format_json
from interlock.testing.conformance.events.apps import SECRET, delivery
from interlock.web.pages.markup import json_html
from tests.web.pages.asking import Asker

if TYPE_CHECKING:
    from pathlib import Path


def nested(levels: int) -> Any:
    value: Any = "<deep>"
    for number in range(levels):
        value = [value] if number % 2 else {"x": value}
    return value


PAYLOAD = {"action": "opened", "sender": {"login": "ann"}, "parts": [nested(190)] * 150}  # 200 levels are too many
SIZE = len(json.dumps(PAYLOAD))


class Details(NamedTuple):
    url: str
    job: int
    event: int


@pytest.fixture
async def things(tmp_path: Path) -> Details:
    """A store with such a payload, such arguments, such a result of a job and of a claim."""
    url = f"sqlite:///{tmp_path / 'nested.db'}"
    app = make_app(url)
    async with app:
        handle = await app.jobs["deep"].enqueue(data=PAYLOAD)
        receipt = await app.events.receive("github", *delivery(PAYLOAD, "guid"))
        async with app.claims.claim("deep") as claim:
            claim.result = PAYLOAD
        await app.drain()
        assert receipt.event is not None
        return Details(url, handle.id, receipt.event)


def make_app(url: str) -> App:
    app = App(url)
    app.source(GitHub(SECRET))

    @app.job()
    async def deep(data: dict[str, Any]) -> dict[str, Any]:
        return data

    @app.on("github.issues.*")
    async def hear(event: Event) -> None: ...

    assert deep.name
    assert hear.name
    return app


@pytest.mark.full
async def test_every_page_shows_a_part_and_links_to_the_whole(things: Details) -> None:
    assert 100_000 < SIZE < 200_000
    async with make_app(things.url) as app:
        asker = Asker(app)
        for path, link in (
            (f"/jobs/{things.job}", f"/api/jobs/{things.job}"),
            (f"/events/{things.event}", f"/api/events/{things.event}"),
            ("/claims/deep", "/api/claims/?key=deep"),
        ):
            await asker.get(path)  # so that what is made once does not count
            tracemalloc.start()
            page = await asker.get(path)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert page.status == 200
            assert len(page.text) < 700_000, path
            assert peak < 12_000_000, path
            assert f"parts nested deeper than {DEEPEST} levels" in page.text
            assert f'href="{link}"' in page.text
            whole = await asker.get(link)
            assert len(whole.body) < 3 * SIZE
            assert whole.json != {}
        for path in ("/", "/jobs", "/events", "/claims"):
            assert len((await asker.get(path)).text) < 200_000, path


def cli(*args: str) -> Any:
    return CliRunner().invoke(commands, list(args))


@pytest.mark.full
def test_so_do_commands(things: Details) -> None:
    event = cli("events", "show", str(things.event), "--url", things.url)
    assert event.exit_code == 0
    assert len(event.stdout) < 100_000
    assert f"nested deeper than {DEEPEST} levels" in event.stderr
    assert f"interlock events show {things.event} --json" in event.stderr
    for command in (
        ("events", "show", str(things.event)),
        ("jobs", "show", str(things.job)),
        ("claims", "show", "deep"),
        ("explain", "job", str(things.job)),
        ("explain", "event", str(things.event)),
    ):
        shown = cli(*command, "--url", things.url)
        assert shown.exit_code == 0, command
        assert len(shown.stdout) < 100_000, command
        data = cli(*command, "--url", things.url, "--json")
        assert len(data.stdout) < 3 * SIZE, command
        json.loads(data.stdout)
    whole = cli("events", "show", str(things.event), "--url", things.url, "--json")
    assert json.loads(whole.stdout)["payload"] == PAYLOAD


def test_shallow_data_is_spread_as_ever() -> None:
    data = {"a": [1, 2.5, {"b": None, "c": []}], "d": {}, "é": 'q"\u2028', "f": True}
    assert format_json(data) == (json.dumps(data, indent=2, ensure_ascii=False), 0, False)
    assert format_json(data).missing == ""


@pytest.mark.parametrize("limit", [0, 1, 7, 100, 1000])
def test_what_is_long_is_cut(limit: int) -> None:
    data = [{"key": "x" * 50, "other": number} for number in range(100)]
    found = format_json(data, limit)
    assert found.text == json.dumps(data, indent=2)[:limit]
    assert found.cut
    assert f"the first {limit:,} characters" in found.missing


def test_what_is_deep_is_folded() -> None:
    found = format_json(nested(DEEPEST + 2))
    assert found.folded == 1
    assert found.text.count("{… 1 key}") + found.text.count("[… 1 item]") == 1
    assert "not shown: 1 part nested deeper than 20 levels" in found.missing
    assert format_json(nested(DEEPEST)).missing == ""
    assert format_json([[]]).text == "[\n  []\n]"


def test_depth() -> None:
    assert not depth_exceeds(7)
    assert not depth_exceeds(nested(3), 3)
    assert depth_exceeds(nested(4), 3)
    assert depth_exceeds(nested(900))


def test_a_page_that_cannot_be_parsed_is_cut_too() -> None:
    text = json_html("[" * 500_000, "/api/x")
    assert len(text) < 100_000
    assert '<a class="link" href="/api/x">' in text
