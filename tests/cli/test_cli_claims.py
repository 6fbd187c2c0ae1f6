from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Claims
from interlock.backends import from_url
from interlock.errors import LeaseLostError
from interlock.ports.claims import ClaimRequest
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from interlock.testing.lookup import get_or_none

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

KEY = "delivery:[red]7[/red]"


@contextlib.asynccontextmanager
async def abandoned(url: str, key: str) -> AsyncGenerator[None]:
    """A claim in progress whose holder did not renew it."""
    store = from_url(url, settings=Settings())
    await store.open()
    await store.sessions.begin(SessionCard("gone", "elsewhere", 7, "bot.py"), 30)
    await store.claims.claim(ClaimRequest(key, "gone.c1", "gone", 0.05, 60))
    while (await store.claims.list(key))[0].live:
        await asyncio.sleep(0.01)
    yield
    await store.sessions.end("gone")
    await store.close()


async def test_list_shows_each_claim_and_what_happens_next(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once, once.claim(KEY):
        await (await once.claim("done")).done()
        result = await asyncio.to_thread(cli, "claims", "list", "--url", ready_url)

    assert result.exit_code == 0
    (ours,) = (line for line in result.stdout.splitlines() if KEY in line)
    assert ours.split()[:4] == [KEY, "in", "progress", "1"]
    assert "another process can take it over in" in ours
    assert "It is not repeated before" in result.stdout


async def test_list_by_prefix_state_and_limit(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once, once.claim("a:1"), once.claim("b:1"):
        await (await once.claim("a:2")).done()
        await (await once.claim("a:3")).fail("no")

        async def keys(*args: str) -> list[str]:
            result = await asyncio.to_thread(cli, "claims", "list", "--json", "--url", ready_url, *args)
            assert result.exit_code == 0
            return [claim["key"] for claim in json.loads(result.stdout)]

        assert await keys() == ["a:1", "a:2", "a:3", "b:1"]
        assert await keys("--prefix", "a:") == ["a:1", "a:2", "a:3"]
        assert await keys("--state", "in-progress") == ["a:1", "b:1"]
        assert await keys("--state", "done") == ["a:2"]
        assert await keys("--state", "failed", "--prefix", "b") == []
        assert await keys("--limit", "2") == ["a:1", "a:2"]


def test_list_refuses_a_state_that_does_not_exist(cli: Callable[..., Any], ready_url: str) -> None:
    assert cli("claims", "list", "--state", "new", "--url", ready_url).exit_code == 2


def test_list_of_nothing_is_empty(cli: Callable[..., Any], ready_url: str) -> None:
    words = cli("claims", "list", "--url", ready_url)
    data = cli("claims", "list", "--json", "--url", ready_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "There are no claims." in words.stderr
    assert json.loads(data.stdout) == []


async def test_show_tells_all_about_one_claim(cli: Callable[..., Any], ready_url: str) -> None:
    when = datetime(2025, 2, 3, tzinfo=UTC)
    async with Claims.from_url(ready_url) as once:
        await (await once.claim(KEY)).done({"comment": 7, "at": when})
        words = await asyncio.to_thread(cli, "claims", "show", KEY, "--url", ready_url)
        data = await asyncio.to_thread(cli, "claims", "show", KEY, "--json", "--url", ready_url)

    assert f"{KEY!r} was done by" in words.stdout
    assert 'result: {"comment": 7, "at": "2025-02-03T00:00:00+00:00"}' in words.stdout
    claim = json.loads(data.stdout)
    assert (claim["state"], claim["attempt"], claim["live"]) == ("done", 1, False)
    assert claim["result"] == {"comment": 7, "at": "2025-02-03T00:00:00+00:00"}


@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_key_that_nobody_claimed_is_new(cli: Callable[..., Any], ready_url: str, command: str) -> None:
    args = ("claims", "show", KEY) if command == "show" else ("explain", "claim", KEY)
    words = cli(*args, "--url", ready_url)
    data = cli(*args, "--json", "--url", ready_url)

    assert words.exit_code == data.exit_code == 0
    assert "is new: no claim on it is kept." in words.output
    assert json.loads(data.stdout)["state"] is None


# -- every reason --------------------------------------------------------------------------------------------------


async def explained(cli: Callable[..., Any], url: str, key: str = "k") -> list[str]:
    result = await asyncio.to_thread(cli, "explain", "claim", key, "--url", url)
    data = await asyncio.to_thread(cli, "explain", "claim", key, "--json", "--url", url)
    assert (result.exit_code, data.exit_code) == (0, 0)
    assert len(json.loads(data.stdout)["explain"]) == len(result.stdout.splitlines())
    return list(result.stdout.splitlines())


async def test_explain_done(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once:
        await (await once.claim("k")).done()
        first, second, remedy = await explained(cli, ready_url)

    assert first.startswith("'k' was done by ")
    assert "on its first attempt at 20" in first
    assert second.startswith("It is not repeated before 20")
    assert remedy == "To repeat it: interlock claims forget k --reason …"


async def test_explain_failed_and_due(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once:
        await (await once.claim("k")).fail("the forge is away")
        await (await once.claim("k")).fail("the forge is away")
        first, second = await explained(cli, ready_url)

    assert "on attempt 2: the forge is away" in first
    assert second == "It can be claimed again now"


async def test_explain_failed_and_not_due(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once:
        await (await once.claim("k")).fail(retry_in=60)
        first, second, remedy = await explained(cli, ready_url)

    assert first.endswith("on its first attempt")
    assert second.startswith("It can be claimed again from 20")
    assert second.endswith(" s")
    assert remedy == "To retry it now: interlock claims forget k --reason …"


async def test_explain_in_progress(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once, once.claim("k"):
        first, second, remedy = await explained(cli, ready_url)

    assert first.startswith("'k' is in progress: ")
    assert "has been working on its first attempt since 20" in first
    assert second.startswith("Unless it is renewed, another process can take it over in ")
    assert remedy == "To end it: interlock claims forget k --reason …"


async def test_explain_in_progress_and_abandoned(cli: Callable[..., Any], ready_url: str) -> None:
    async with abandoned(ready_url, "k"):
        first, second = await explained(cli, ready_url)

    assert first.startswith("'k' is in progress: bot.py, process 7 on elsewhere started its first attempt at 20")
    assert first.endswith("and is gone or silent")
    assert second == "The next claimant takes it over"


# -- forgetting ----------------------------------------------------------------------------------------------------


async def test_forget_makes_it_new_and_stops_its_holder(cli: Callable[..., Any], ready_url: str) -> None:
    args = ("--reason", "wrong", "--by", "carol", "--yes", "--json", "--url", ready_url)

    async def work(once: Claims) -> None:
        async with once.claim(KEY):
            held.set()
            await asyncio.Event().wait()

    held = asyncio.Event()
    async with Claims.from_url(ready_url) as once, asyncio.timeout(20):
        working = asyncio.create_task(work(once))
        await held.wait()
        result = await asyncio.to_thread(cli, "claims", "forget", KEY, *args)
        with pytest.raises(LeaseLostError, match="carol forgot the claim: wrong"):
            await working
        again = await once.claim(KEY)

    forgotten = json.loads(result.stdout)
    assert (forgotten["by"], forgotten["reason"], forgotten["forgotten"]["state"]) == ("carol", "wrong", "in progress")
    assert (again.new, again.attempt) == (True, 1)


async def test_forget_says_what_it_was(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url) as once:
        await (await once.claim("k")).done()
        result = await asyncio.to_thread(cli, "claims", "forget", "k", "--reason=x", "-y", "--url", ready_url)

    assert (result.exit_code, result.stdout) == (0, "Forgot 'k', which was done. It can be claimed again.\n")


def test_forget_of_nothing_fails(cli: Callable[..., Any], ready_url: str) -> None:
    result = cli("claims", "forget", "k", "--reason", "x", "--yes", "--url", ready_url)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "The key 'k' is not claimed." in result.stderr


def test_forget_needs_a_reason_and_a_yes(cli: Callable[..., Any], ready_url: str) -> None:
    assert cli("claims", "forget", "k", "--yes", "--url", ready_url).exit_code == 2
    assert cli("claims", "forget", "k", "--yes", "--reason", " ", "--url", ready_url).exit_code == 2
    result = cli("claims", "forget", "k", "--reason", "x", "--url", ready_url)
    assert result.exit_code == 2
    assert "Add --yes." in result.stderr


@pytest.mark.parametrize(("answer", "status"), [("n\n", 1), ("y\n", 0)])
async def test_forget_asks_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], ready_url: str, answer: str, status: int
) -> None:
    async with Claims.from_url(ready_url) as once, asyncio.timeout(30):
        await (await once.claim("k")).done()
        args = ("claims", "forget", "k", "--reason=x", "--url", ready_url)
        code, seen = await asyncio.to_thread(on_terminal, answer, *args)
        left = await get_or_none(once, "k")

    assert "was done by" in seen
    assert "Forget it, so that its key can be claimed again?" in seen
    assert code == status
    assert (left is None) == (status == 0)


async def test_what_a_claim_contains_cannot_steer_the_terminal(cli: Callable[..., Any], ready_url: str) -> None:
    key = "a\x1b[31m\nb\x9b\u202e"
    async with Claims.from_url(ready_url) as once:
        await (await once.claim(key)).fail("\x1b]0;title\x07")
        await (await once.claim("r")).done("\x1b[2J\x9b")
        for args in (("claims", "list"), ("claims", "show", key), ("claims", "show", "r"), ("explain", "claim", key)):
            for more in ((), ("--json",)):
                result = await asyncio.to_thread(cli, *args, *more, "--url", ready_url)
                assert result.exit_code == 0
                assert not [c for c in result.stdout.replace("\n", "") if not c.isprintable()]
