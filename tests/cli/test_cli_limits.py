from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Cooldown, Limits, Rate, Slots
from interlock.callers import calling_as
from interlock.cli.insight_reader import whole_list
from interlock.insight.views import Listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock import Reservation
    from interlock.limits import Limit

ACCOUNT = Cooldown("account", 90, key="{account}")
TWO = Slots("containers", 2)


async def reserved(limits: Limits, caller: str, *limit: Limit, **values: Any) -> Reservation:
    """A reservation in somebody's name, started if its turn has come."""
    with calling_as(caller):
        reservation = await limits.reserve(*limit, **values)
        await reservation.start()
        return reservation


@pytest.mark.parametrize("command", [("limits",), ("limits", "list")])
async def test_list_shows_what_is_allowed_and_who_waits(
    cli: Callable[..., Any], ready_url: str, command: tuple[str, ...]
) -> None:
    async with Limits.from_url(ready_url) as limits:
        for caller in ("alice", "bob", "carol"):
            await reserved(limits, caller, TWO)
        await reserved(limits, "alice", ACCOUNT, account="[red]a1[/red]")
        await reserved(limits, "alice", Rate("api", 100, per=60))
        words = await asyncio.to_thread(cli, *command, "--url", ready_url)
        data = await asyncio.to_thread(cli, *command, "--json", "--url", ready_url)

    cooldown, rate, slots = (line.strip() for line in words.stdout.splitlines() if ":" in line)
    assert cooldown.split()[:7] == ["cooldown:account:[red]a1[/red]", "reservations", "1", "every", "90", "s", "1"]
    assert "1 of 1 started, room in " in cooldown
    assert rate.split()[:9] == ["rate:api", "reservations", "100", "in", "any", "60", "s", "1", "0"]
    assert rate.endswith("1 of 100 started")
    assert slots.split()[:7] == ["slots:containers", "reservations", "2", "at", "once", "2", "1"]
    assert slots.endswith("2 of 2 running, 1 waits")
    assert [(limit["key"], limit["max_count"], limit["per"]) for limit in json.loads(data.stdout)] == [
        ("cooldown:account:[red]a1[/red]", 1, 90.0),
        ("rate:api", 100, 60.0),
        ("slots:containers", 2, 0.0),
    ]


async def test_list_says_when_there_may_be_more(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        await reserved(limits, "alice", Slots("a", 1), Slots("b", 1))
        result = await asyncio.to_thread(cli, "limits", "list", "--json", "--limit", "1", "--url", ready_url)

    assert [limit["key"] for limit in json.loads(result.stdout)] == ["slots:a"]
    assert "there may be more" in result.stderr


def test_list_of_nothing_is_empty(cli: Callable[..., Any], ready_url: str) -> None:
    words = cli("limits", "--url", ready_url)
    data = cli("limits", "--json", "--url", ready_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "No limits are in use." in words.stderr
    assert json.loads(data.stdout) == []


def test_json_before_the_command_is_not_ignored(cli: Callable[..., Any], ready_url: str) -> None:
    result = cli("limits", "--json", "list", "--url", ready_url)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "goes after the command" in result.stderr


async def test_show_tells_all_about_one_limit(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        await reserved(limits, "alice", TWO)
        words = await asyncio.to_thread(cli, "limits", "show", "slots:containers", "--url", ready_url)
        data = await asyncio.to_thread(cli, "limits", "show", "slots:containers", "--json", "--url", ready_url)

    assert "2 at once" in words.stdout
    assert "'slots:containers' allows 2 at once; 1 running: alice (" in words.stdout
    limit = json.loads(data.stdout)
    assert [user["caller"] for user in limit["started"]] == ["alice"]
    assert limit["waiting"] == []


# -- every reason --------------------------------------------------------------------------------------------------


async def explained(cli: Callable[..., Any], url: str, key: str) -> list[str]:
    words = await asyncio.to_thread(cli, "explain", "limit", key, "--url", url)
    data = await asyncio.to_thread(cli, "explain", "limit", key, "--json", "--url", url)
    assert (words.exit_code, data.exit_code) == (0, 0)
    assert len(json.loads(data.stdout)["explain"]) == len(words.stdout.splitlines())
    return list(words.stdout.splitlines())


async def test_explain_unused(cli: Callable[..., Any], ready_url: str) -> None:
    lines = await explained(cli, ready_url, "slots:containers")
    shown = await asyncio.to_thread(cli, "limits", "show", "slots:containers", "--url", ready_url)

    assert lines == ["The limit 'slots:containers' is not in use: the next caller may start at once."]
    assert (shown.exit_code, shown.stdout) == (0, "")


async def test_explain_free(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        await reserved(limits, "alice", TWO)
        (line,) = await explained(cli, ready_url, "slots:containers")

    assert line.startswith("'slots:containers' allows 2 at once; 1 running: alice (")
    assert line.endswith("; the next caller may start now")


async def test_explain_full_with_a_line(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        for caller in ("alice", "bob", "carol", "dave"):
            await reserved(limits, caller, TWO)
        limit, carol, dave = await explained(cli, ready_url, "slots:containers")

    assert "2 running: alice (" in limit
    assert "; bob (" in limit
    assert carol.startswith("carol (")
    assert carol.endswith("and is next; it starts when a running one finishes")
    assert dave.endswith("and has 1 ahead of it; it starts when a running one finishes")


async def test_explain_pace(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        for caller in ("alice", "bob"):
            await reserved(limits, caller, ACCOUNT, account="a1")
        limit, bob = await explained(cli, ready_url, "cooldown:account:a1")

    assert limit.startswith(
        "'cooldown:account:a1' allows 1 every 90 s; 1 started in the last 90 s, the next start is possible"
    )
    assert bob.startswith("bob (")
    assert "; its turn comes at 20" in bob
    assert 80 < float(bob.rpartition(", in ")[2].removesuffix(" s")) <= 90


async def test_explain_waits_for_another_limit(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        await reserved(limits, "alice", Slots("a", 1))
        await reserved(limits, "bob", Slots("a", 1), Slots("b", 1))
        limit, bob = await explained(cli, ready_url, "slots:b")

    assert "0 running" in limit
    assert bob.endswith("for 'slots:a'; see: interlock explain limit slots:a")


async def test_explain_figures_differ(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        await reserved(limits, "alice", Slots("containers", 3))
        await reserved(limits, "bob", TWO)
        limit, differ, remedy = await explained(cli, ready_url, "slots:containers")

    assert "allows 2 at once" in limit
    assert (
        differ == "Processes disagree about it (2 at once and 3 at once); the smaller figure applies until they agree"
    )
    assert remedy.startswith("Finish the deployment")


async def test_explain_may_start_now(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        with calling_as("alice"):
            await limits.reserve(TWO)
        _, alice = await explained(cli, ready_url, "slots:containers")
        listed = await asyncio.to_thread(cli, "limits", "--url", ready_url)

    assert alice.startswith("alice (")
    assert alice.endswith("; it may start now")
    assert "alice may start now" in listed.stdout


async def test_what_a_limit_contains_cannot_steer_the_terminal(cli: Callable[..., Any], ready_url: str) -> None:
    async with Limits.from_url(ready_url) as limits:
        for _ in range(2):
            await reserved(limits, "al\x1b[31mice\x9b", Slots("s", 1, key="{k}"), k="a\x1b[31m\nb\x9b\u202e")
        key = (await limits.list())[0].key
        for args in (("limits",), ("limits", "show", key), ("explain", "limit", key)):
            for more in ((), ("--json",)):
                result = await asyncio.to_thread(cli, *args, *more, "--url", ready_url)
                assert result.exit_code == 0
                assert not [c for c in result.stdout.replace("\n", "") if not c.isprintable()]


async def test_a_list_is_never_longer_than_asked_for() -> None:
    async def page(max_count: int, after: str | None) -> Listing[str]:
        return Listing(("k of jobs", "k of reservations"), "k", 0.0)

    assert await whole_list(1, page) == ["k of jobs"]
    assert len(await whole_list(3, page)) == 3


async def test_resize_and_reset_change_a_figure_and_say_who_did(cli: Callable[..., Any], jobs_url: str) -> None:
    async with Limits.from_url(jobs_url) as limits:
        await reserved(limits, "alice", TWO)
        about = ("--url", jobs_url, "--by", "ann")
        resized = await asyncio.to_thread(cli, "limits", "resize", "containers", "5", "--reason", "more hosts", *about)
        assert resized.exit_code == 0
        assert "'slots:containers' allows 5 at once. To undo that: interlock limits reset slots:containers" in (
            resized.stdout
        )
        listed = await asyncio.to_thread(cli, "limits", "--url", jobs_url)
        assert "1 of 5 running; ann set it to 5 at once: more hosts" in " ".join(listed.stdout.split())
        explained = await asyncio.to_thread(cli, "limits", "explain", "slots:containers", "--json", "--url", jobs_url)
        data = json.loads(explained.stdout)
        assert (data["count"], data["declared"], data["override"]["by"]) == (5, "2 at once", "ann")
        reset = await asyncio.to_thread(cli, "limits", "reset", "containers", *about)
        again = await asyncio.to_thread(cli, "limits", "reset", "containers", *about)
        bad = await asyncio.to_thread(cli, "limits", "resize", "rate:api", "5", "--reason", "x", *about)

    assert "Reset 'slots:containers'." in reset.stdout
    assert again.exit_code != 0
    assert "was not resized" in again.stderr
    assert "The period of 'rate:api' is missing" in bad.stderr
