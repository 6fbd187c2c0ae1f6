"""``interlock events``: looking, and having an event handled again."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Event, GitHub, Retry
from interlock.testing.conformance.events.apps import SECRET, delivery, issue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOT = f"""
from interlock import App, Event, GitHub

app = App("{{url}}")
app.source(GitHub({SECRET!r}))


@app.on("github.issues.*")
async def today(event: Event) -> None: ...
"""


@pytest.fixture
async def seeded(store_url: str) -> tuple[str, list[int]]:
    """A store with three events, the last of which has failed."""
    app = App(store_url)
    app.source(GitHub(SECRET))

    @app.on("github.**", retry=Retry.NEVER)
    async def handle(event: Event) -> None:
        if event.payload["issue"]["number"] == 13:
            raise RuntimeError("\x1b[31munlucky")

    assert handle.name
    ids: list[int] = []
    async with app:
        for number in (1, 2, 13):
            receipt = await app.events.receive("github", *delivery(issue(number), f"guid-{number}"))
            ids.append(receipt.event or 0)
        await app.drain()
    return store_url, ids


def test_list_shows_the_newest_first(cli: Callable[..., Any], seeded: tuple[str, list[int]]) -> None:
    url, ids = seeded
    result = cli("events", "list", "--url", url)
    lines = [line.split() for line in result.stdout.splitlines() if "guid-" in line]

    assert result.exit_code == 0
    assert [line[0] for line in lines] == [str(number) for number in reversed(ids)]
    assert lines[0][3:7] == ["github", "issues.opened", "ann", "guid-13"]


def test_list_by_what_is_wanted(cli: Callable[..., Any], seeded: tuple[str, list[int]]) -> None:
    url, ids = seeded

    def listed(*args: str) -> list[int]:
        result = cli("events", "list", "--json", "--url", url, *args)
        assert result.exit_code == 0
        return [event["id"] for event in json.loads(result.stdout)]

    assert listed() == ids[::-1]
    assert listed("--limit", "1") == ids[-1:]
    assert listed("--before", str(ids[2])) == ids[1::-1]
    assert listed("--delivery", "guid-2") == [ids[1]]
    assert listed("--type", "push") == listed("--actor", "eva") == listed("--source", "gitlab") == []
    assert "No events match" in cli("events", "list", "--url", url, "--type", "push").stderr


def test_show_says_what_came_of_it_and_what_was_sent(cli: Callable[..., Any], seeded: tuple[str, list[int]]) -> None:
    url, ids = seeded
    shown = cli("events", "show", str(ids[2]), "--url", url)
    data = json.loads(cli("events", "show", str(ids[2]), "--json", "--url", url).stdout)
    brief = cli("events", "show", str(ids[0]), "--no-payload", "--url", url)

    assert f"event {ids[2]} is github.issues.opened by ann" in shown.stdout
    assert "is failed: RuntimeError: \\x1b[31munlucky" in shown.stdout
    assert '"full_name": "acme/api"' in shown.stdout
    assert (data["reason"], data["payload"]) == ("failed", issue(13))
    assert "acme/api" not in brief.stdout
    assert "is done" in brief.stdout


@pytest.mark.parametrize("args", [("events", "show"), ("explain", "event")])
def test_an_event_that_is_not_known(cli: Callable[..., Any], file_url: str, args: tuple[str, str]) -> None:
    words = cli(*args, "4711", "--url", file_url)
    shown = cli(*args, "4711", "--json", "--url", file_url)

    assert (words.exit_code, shown.exit_code) == (0, 0)
    assert "Event 4711 does not exist" in words.output
    line = "Event 4711 does not exist: it was never accepted here, or is no longer kept."
    assert json.loads(shown.stdout) == {"id": 4711, "reason": None, "explain": [line]}


def test_replay_has_it_handled_by_the_handlers_of_today(
    cli: Callable[..., Any],
    seeded: tuple[str, list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, ids = seeded
    (tmp_path / "bot_of_today.py").write_text(BOT.format(url=url))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("bot_of_today", None)
    said = cli("events", "replay", str(ids[0]), "--app", "bot_of_today:app", "--by", "eva", "--yes")
    data = json.loads(
        cli("events", "replay", str(ids[0]), "--yes", "--json", env={"INTERLOCK_APP": "bot_of_today:app"}).stdout
    )
    newest = json.loads(cli("events", "list", "--json", "--url", url, "--limit", "2").stdout)

    assert said.exit_code == 0
    assert f"Replayed event {ids[0]} as event {newest[1]['id']}" in said.stdout
    assert (newest[1]["by"], newest[1]["replay_of"]) == ("eva", ids[0])
    assert (data["status"], data["event"], data["jobs"]) == ("accepted", newest[0]["id"], newest[0]["jobs"])
    refused = cli("events", "replay", str(ids[0]), "--app", "bot_of_today:app")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    missing = cli("events", "replay", "999999", "--app", "bot_of_today:app", "--yes")
    assert (missing.exit_code, "does not exist" in missing.stderr) == (1, True)


def test_all_events_that_match_are_replayed(
    cli: Callable[..., Any],
    seeded: tuple[str, list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, ids = seeded
    (tmp_path / "bot_of_today.py").write_text(BOT.format(url=url))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("bot_of_today", None)
    how = ("--app", "bot_of_today:app", "--by", "eva")
    some = cli("events", "replay", "--delivery", "guid-2", *how, "--reason", "fixed", "--yes", "--json")
    everything = cli("events", "replay", "--source", "github", *how, "--yes")
    nothing = cli("events", "replay", "--type", "push", *how, "--yes")
    asked = cli("events", "replay", "--all", *how)
    journal = json.loads(cli("journal", "list", "--json", "--url", url).stdout)

    assert json.loads(some.stdout) == {"by": "eva", "reason": "fixed", "changed": [ids[1]], "unchanged": []}
    assert everything.stdout == "Replayed 4 of 4 events.\n"
    assert (nothing.exit_code, nothing.stderr) == (1, "No events match.\n")
    assert (asked.exit_code, "--yes" in asked.stderr) == (2, True)
    assert [entry["action"] for entry in journal] == ["event.replay"] * 5
    assert [entry["subject_key"] for entry in journal][::-1][:4] == [str(number) for number in (ids[1], *ids)]


@pytest.mark.parametrize("number", ["99999999999999999999", "9" * 5000])
@pytest.mark.parametrize("command", [("list", "--before"), ("list", "--limit"), ("show",)])
def test_numbers_that_no_event_has_are_refused_in_words(
    cli: Callable[..., Any], seeded: tuple[str, list[int]], command: tuple[str, ...], number: str
) -> None:
    result = cli("events", *command, number, "--url", seeded[0])
    assert result.exit_code == 2
    assert "Invalid value" in result.stderr
