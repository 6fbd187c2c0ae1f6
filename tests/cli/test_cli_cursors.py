from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Cursors

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "gitlab:[red]notes[/red]"
WHEN = datetime(2025, 2, 3, 4, 5, tzinfo=UTC)


async def moved(url: str, *values: object, name: str = NAME) -> None:
    async with Cursors.from_url(url) as cursors:
        position = None
        for value in values:
            position = await cursors[name].move(value, after=position)


async def test_list_shows_where_each_stands(cli: Callable[..., Any], ready_url: str) -> None:
    await moved(ready_url, 1, WHEN)
    await moved(ready_url, {"page": 7, "since": WHEN}, name="other")
    words = await asyncio.to_thread(cli, "cursors", "list", "--url", ready_url)
    data = await asyncio.to_thread(cli, "cursors", "list", "--json", "--url", ready_url)

    assert words.exit_code == data.exit_code == 0
    (row,) = (line for line in words.stdout.splitlines() if NAME in line)
    assert row.split()[1] == "2025-02-03T04:05:00+00:00"
    ours, other = json.loads(data.stdout)
    assert (ours["name"], ours["value"]) == (NAME, "2025-02-03T04:05:00+00:00")
    assert other["value"] == {"page": 7, "since": "2025-02-03T04:05:00+00:00"}
    assert ours["version"] > 0
    assert ours["moved_at"].endswith("+00:00")
    assert "@" in ours["by"]


async def test_list_says_when_there_may_be_more(cli: Callable[..., Any], ready_url: str) -> None:
    await moved(ready_url, 1, name="a")
    await moved(ready_url, 1, name="b")
    result = await asyncio.to_thread(cli, "cursors", "list", "--json", "--limit", "1", "--url", ready_url)

    assert [cursor["name"] for cursor in json.loads(result.stdout)] == ["a"]
    assert "there may be more" in result.stderr


def test_list_of_nothing_is_empty(cli: Callable[..., Any], ready_url: str) -> None:
    words = cli("cursors", "list", "--url", ready_url)
    data = cli("cursors", "list", "--json", "--url", ready_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "There are no cursors." in words.stderr
    assert json.loads(data.stdout) == []


async def test_show_tells_the_last_moves_newest_first(cli: Callable[..., Any], ready_url: str) -> None:
    await moved(ready_url, "first", "second", "x" * 500)
    words = await asyncio.to_thread(cli, "cursors", "show", NAME, "--url", ready_url)
    data = await asyncio.to_thread(cli, "cursors", "show", NAME, "--json", "--url", ready_url)

    assert words.stdout.index("xxx…") < words.stdout.index('"second"') < words.stdout.index('"first"')
    cursor = json.loads(data.stdout)
    assert cursor["value"] == "x" * 500
    assert [move["value"] for move in cursor["history"]] == ["x" * 500, "second", "first"]


def test_a_cursor_that_was_never_moved_is_said_to_be_so(cli: Callable[..., Any], ready_url: str) -> None:
    words = cli("cursors", "show", "none", "--url", ready_url)
    data = cli("cursors", "show", "none", "--json", "--url", ready_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "The cursor 'none' has never moved." in words.stderr
    assert json.loads(data.stdout) == {"name": "none", "version": None, "history": []}


async def test_forget_removes_it(cli: Callable[..., Any], ready_url: str) -> None:
    await moved(ready_url, 7)
    words = await asyncio.to_thread(cli, "cursors", "forget", NAME, "--reason=anew", "--yes", "--url", ready_url)
    again = await asyncio.to_thread(cli, "cursors", "forget", NAME, "--reason=anew", "--yes", "--url", ready_url)
    await moved(ready_url, 8)
    data = await asyncio.to_thread(
        cli, "cursors", "forget", NAME, "--reason=anew", "--yes", "--json", "--url", ready_url
    )

    assert words.stdout == f"Forgot {NAME!r}, which was at 7.\n"
    assert (again.exit_code, again.stdout) == (1, "")
    assert "does not exist" in again.stderr
    assert json.loads(data.stdout)["forgotten"]["value"] == 8


async def test_forget_without_a_terminal_needs_yes(cli: Callable[..., Any], ready_url: str) -> None:
    await moved(ready_url, 7)
    result = await asyncio.to_thread(cli, "cursors", "forget", NAME, "--reason=anew", "--url", ready_url)

    assert result.exit_code == 2
    assert "Add --yes." in result.stderr


@pytest.mark.parametrize(("answer", "status"), [("n\n", 1), ("y\n", 0)])
async def test_forget_asks_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], ready_url: str, answer: str, status: int
) -> None:
    await moved(ready_url, 7)
    code, seen = await asyncio.to_thread(
        on_terminal, answer, "cursors", "forget", NAME, "--reason=anew", "--url", ready_url
    )

    assert "is at 7" in seen
    assert code == status


async def test_what_a_cursor_contains_cannot_steer_the_terminal(cli: Callable[..., Any], ready_url: str) -> None:
    name = "a\x1b[31m\nb\x9b"
    await moved(ready_url, "\x1b[2J\x9b\u202e", name=name)
    for args in (
        ("cursors", "list"),
        ("cursors", "show", name),
        ("cursors", "forget", name, "--reason=anew", "--yes"),
    ):
        for more in (("--json",), ()) if args[1] != "forget" else ((),):
            result = await asyncio.to_thread(cli, *args, *more, "--url", ready_url)
            assert result.exit_code == 0
            assert not [c for c in result.stdout.replace("\n", "") if not c.isprintable()]
