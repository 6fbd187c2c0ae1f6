from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks
from interlock.callers import calling_as
from interlock.errors import LeaseLostError
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

KEY = "repo:[red]api[/red]"


@contextlib.asynccontextmanager
async def contended(url: str, key: str = KEY) -> AsyncGenerator[asyncio.Future[str]]:
    """A key that alice holds and bob waits for; the future tells how alice's hold ended."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    held = asyncio.Event()

    async def alice(locks: Locks) -> None:
        try:
            async with locks.acquire(key):
                held.set()
                await asyncio.Event().wait()
        except LeaseLostError as error:
            ended.set_result(error.message)

    async def bob(locks: Locks) -> None:
        async with locks.acquire(key):
            await asyncio.Event().wait()

    async with Locks.from_url(url) as locks:
        tasks = []
        for name, act in (("alice", alice), ("bob", bob)):
            with calling_as(name):
                tasks.append(asyncio.create_task(act(locks)))
            await held.wait()
        while not (view := await get_or_none(locks, key)) or len(view.waiters) < 1:
            await asyncio.sleep(0.01)
        try:
            yield ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_list_shows_holder_and_waiters_and_explains(cli: Callable[..., Any], ready_url: str) -> None:
    async with contended(ready_url):
        result = await asyncio.to_thread(cli, "locks", "list", "--url", ready_url)

    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if "1. bob" in line)
    assert row.split()[:2] == [KEY, "alice"]
    assert int(row.split()[2]) > 0
    assert f"{KEY!r} is held by alice" in result.stdout
    assert "bob (" in result.stdout
    assert "is next" in result.stdout


async def test_list_as_json_is_one_object_for_each_key(cli: Callable[..., Any], ready_url: str) -> None:
    async with contended(ready_url):
        result = await asyncio.to_thread(cli, "locks", "list", "--json", "--url", ready_url)

    (lock,) = json.loads(result.stdout)
    assert lock["key"] == KEY
    assert lock["holder"]["caller"] == "alice"
    assert lock["holder"]["fence"] > 0
    assert [waiter["caller"] for waiter in lock["waiters"]] == ["bob"]
    assert len(lock["explain"]) == 3
    assert (lock["reason"], lock["remedy"]) == ("awaited", lock["explain"][-1])


async def test_list_says_when_there_may_be_more(cli: Callable[..., Any], ready_url: str) -> None:
    async with Locks.from_url(ready_url) as locks, locks.acquire_many(["a", "b"]):
        result = await asyncio.to_thread(cli, "locks", "list", "--json", "--limit", "1", "--url", ready_url)

    assert [lock["key"] for lock in json.loads(result.stdout)] == ["a"]
    assert "there may be more" in result.stderr


def test_list_of_nothing_is_empty(cli: Callable[..., Any], ready_url: str) -> None:
    words = cli("locks", "list", "--url", ready_url)
    data = cli("locks", "list", "--json", "--url", ready_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "No locks are held, and none has waiters." in words.stderr
    assert json.loads(data.stdout) == []


async def test_show_and_explain_tell_of_one_key(cli: Callable[..., Any], ready_url: str) -> None:
    async with contended(ready_url):
        shown = await asyncio.to_thread(cli, "locks", "show", KEY, "--url", ready_url)
        words = await asyncio.to_thread(cli, "explain", "lock", KEY, "--url", ready_url)
        data = await asyncio.to_thread(cli, "explain", "lock", KEY, "--json", "--url", ready_url)

    assert "1. bob" in shown.stdout
    assert words.stdout.startswith(f"{KEY!r} is held by alice")
    assert len(words.stdout.splitlines()) == 3
    assert json.loads(data.stdout)["holder"]["caller"] == "alice"


def test_a_key_that_nobody_wants_is_said_to_be_so(cli: Callable[..., Any], ready_url: str) -> None:
    shown = cli("locks", "show", "key", "--url", ready_url)
    words = cli("explain", "lock", "key", "--url", ready_url)
    data = cli("locks", "show", "key", "--json", "--url", ready_url)

    assert shown.exit_code == words.exit_code == data.exit_code == 0
    assert "The lock 'key' is free and has no waiters." in shown.stderr
    assert words.stdout == "The lock 'key' is free and has no waiters.\n"
    assert json.loads(data.stdout)["holder"] is None


async def test_release_tells_the_holder_and_serves_the_next(cli: Callable[..., Any], ready_url: str) -> None:
    args = ("locks", "release", KEY, "--reason", "it hangs", "--by", "carol", "--yes", "--json", "--url", ready_url)
    async with contended(ready_url) as ended, asyncio.timeout(10):
        result = await asyncio.to_thread(cli, *args)
        why = await ended
        while True:
            after = await asyncio.to_thread(cli, "locks", "show", KEY, "--json", "--url", ready_url)
            if (holder := json.loads(after.stdout)["holder"]) is not None:
                break

    released = json.loads(result.stdout)
    assert (released["by"], released["reason"], released["released"]["caller"]) == ("carol", "it hangs", "alice")
    assert "carol released it by force: it hangs" in why
    assert holder["caller"] == "bob"


async def test_release_names_the_user_and_host_by_default(cli: Callable[..., Any], ready_url: str) -> None:
    async with contended(ready_url) as ended, asyncio.timeout(10):
        result = await asyncio.to_thread(
            cli, "locks", "release", KEY, "--reason", "why not", "--yes", "--url", ready_url
        )
        why = await ended

    assert f"Released {KEY!r}, which was held by alice" in result.stdout
    assert "@" in why.split(" released it by force")[0]


def test_release_of_a_free_key_fails(cli: Callable[..., Any], ready_url: str) -> None:
    result = cli("locks", "release", "key", "--reason", "why not", "--yes", "--url", ready_url)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "The lock 'key' is not held." in result.stderr


def test_release_without_a_terminal_needs_yes(cli: Callable[..., Any], ready_url: str) -> None:
    result = cli("locks", "release", "key", "--reason", "why not", "--url", ready_url)

    assert result.exit_code == 2
    assert "Add --yes." in result.stderr


def test_release_needs_a_reason(cli: Callable[..., Any], ready_url: str) -> None:
    assert cli("locks", "release", "key", "--yes", "--url", ready_url).exit_code == 2
    assert cli("locks", "release", "key", "--yes", "--reason", " ", "--url", ready_url).exit_code == 2


@pytest.mark.parametrize(("answer", "status"), [("n\n", 1), ("y\n", 0)])
async def test_release_asks_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], ready_url: str, answer: str, status: int
) -> None:
    async with contended(ready_url), asyncio.timeout(20):
        code, seen = await asyncio.to_thread(
            on_terminal, answer, "locks", "release", KEY, "--reason=x", "--url", ready_url
        )

    assert "held by alice" in seen
    assert "Release it by force?" in seen
    assert code == status


async def test_what_a_key_contains_cannot_steer_the_terminal(cli: Callable[..., Any], ready_url: str) -> None:
    async with Locks.from_url(ready_url) as locks, locks.acquire("a\x1b[31m\nb"):
        result = await asyncio.to_thread(cli, "locks", "list", "--url", ready_url)

    assert "\x1b" not in result.stdout
    assert "a\\x1b[31m\\nb" in result.stdout
