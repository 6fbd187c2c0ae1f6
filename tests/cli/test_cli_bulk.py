"""Operations on everything that matches: counted and confirmed first, reported afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Claims, Locks
from interlock.ports.claims import ClaimState
from interlock.settings import Settings
from tests.cli.job_floor import data, floor, run

if TYPE_CHECKING:
    from collections.abc import Callable

WHY = ("--reason", "deploying", "--by", "ann")


async def test_lanes_are_held_and_released_by_prefix(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        for lane in ("acme/api", "acme/web", "other"):
            await jobs.add(lane=lane)
        held = await run(cli, jobs_url, "lanes", "hold", "--prefix", "acme/", *WHY, "--yes")
        states = {lane["lane"]: lane["held_by"] for lane in await data(cli, jobs_url, "lanes")}
        again = await run(cli, jobs_url, "lanes", "hold", "--prefix", "acme/", *WHY, "--yes", code=1)
        released = await data(cli, jobs_url, "lanes", "release", "--show", "held", "--by", "bob", "--yes")
        journal = await data(cli, jobs_url, "journal", "list")

    assert held.stdout == "Held 2 of 2 lanes.\n"
    assert states == {"acme/api": "ann", "acme/web": "ann", "other": ""}
    assert "No lanes match." in again.stderr
    assert released == {"by": "bob", "reason": "", "changed": ["acme/api", "acme/web"], "unchanged": []}
    assert sorted((entry["action"], entry["subject_key"], entry["actor"], entry["reason"]) for entry in journal) == [
        ("lane.hold", "acme/api", "ann", "deploying"),
        ("lane.hold", "acme/web", "ann", "deploying"),
        ("lane.release", "acme/api", "bob", ""),
        ("lane.release", "acme/web", "bob", ""),
    ]


async def test_jobs_are_cancelled_by_filter(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        mine = [await jobs.add(name="sync") for _ in range(2)]
        await jobs.add()
        words = await data(cli, jobs_url, "jobs", "cancel", "--name", "sync", *WHY, "--yes")
        left = await data(cli, jobs_url, "jobs", "list", "--state", "ready")

    assert words["changed"] == mine
    assert [job["name"] for job in left] == ["report"]


async def test_claims_are_forgotten_by_state(cli: Callable[..., Any], ready_url: str) -> None:
    async with Claims.from_url(ready_url, settings=Settings(namespace="default")) as claims:
        for key in ("a:1", "a:2"):
            async with claims.claim(key):
                pass
        with contextlib.suppress(LookupError):
            async with claims.claim("a:3"):
                raise LookupError("no")
        words = await run(cli, ready_url, "claims", "forget", "--state", "done", *WHY, "-y")
        assert words.stdout == "Forgot 2 of 2 claims.\n"
        assert await claims.matching() == ["a:3"]
        assert await claims.matching(state=ClaimState.FAILED) == ["a:3"]


async def test_all_locks_are_released(cli: Callable[..., Any], ready_url: str) -> None:
    async with Locks.from_url(ready_url) as locks:
        for key in ("a:1", "a:2"):
            await locks.acquire(key)
        words = await run(cli, ready_url, "locks", "release", "--all", *WHY, "-y")
        assert words.stdout == "Released 2 of 2 held locks.\n"
        assert await locks.matching() == []


COMMANDS = [
    ("lanes", "hold", "--all", *WHY),
    ("lanes", "release", "--prefix", "l"),
    ("jobs", "cancel", "--state", "ready", *WHY),
    ("jobs", "retry", "--state", "scheduled"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_without_a_terminal_yes_is_needed(
    cli: Callable[..., Any], file_url: str, command: tuple[str, ...]
) -> None:
    async with floor(file_url) as jobs:
        await jobs.add(lane="l")
        await jobs.add(delay=60)
        if command[1] == "release":
            await run(cli, file_url, "lanes", "hold", "--all", *WHY, "--yes")
        words = await run(cli, file_url, *command, code=2)
        journal = await data(cli, file_url, "journal", "list")

    assert "needs a confirmation" in words.stderr
    assert len(journal) == (command[1] == "release")


async def test_the_count_is_shown_and_asked_about(on_terminal: Callable[..., tuple[int, str]], file_url: str) -> None:
    async with floor(file_url) as jobs:
        for lane in ("a", "b"):
            await jobs.add(lane=lane)
        no, seen = await asyncio.to_thread(on_terminal, "n\n", "lanes", "hold", "--all", *WHY, "--url", file_url)
        lane = await jobs.insight.lane("a")
        assert lane is not None
        assert (no, lane.held_by) == (1, "")
        yes, then = await asyncio.to_thread(on_terminal, "y\n", "lanes", "hold", "--all", *WHY, "--url", file_url)

    assert "2 lanes match, such as 'a', 'b'." in seen
    assert "Hold them?" in seen
    assert (yes, "Held 2 of 2 lanes." in then) == (0, True)


@pytest.mark.parametrize(
    "command",
    [
        ("lanes", "hold", *WHY),
        ("lanes", "hold", "l", "--all", *WHY),
        ("lanes", "release", "l", "--prefix", "l"),
        ("locks", "release", *WHY),
        ("locks", "release", "k", "--all", *WHY),
        ("claims", "forget", *WHY),
        ("claims", "forget", "k", "--state", "done", *WHY),
        ("jobs", "cancel", *WHY),
        ("events", "replay", "--app", "bot:app"),
        ("events", "replay", "7", "--source", "github", "--app", "bot:app"),
    ],
    ids=" ".join,
)
def test_a_subject_or_a_filter(cli: Callable[..., Any], file_url: str, command: tuple[str, ...]) -> None:
    words = cli(*command, "--yes", env={"INTERLOCK_URL": file_url})

    assert words.exit_code == 2
    assert "or --all" in " ".join(words.stderr.split())
