from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from interlock.ports.jobs import OnFailure, Outcome
from interlock.ports.journal import Attribution
from tests.cli.job_floor import data, floor, run

if TYPE_CHECKING:
    from collections.abc import Callable

LANE = "acme/[red]api[/red]#7"


@pytest.mark.parametrize("command", [("lanes",), ("lanes", "list")])
async def test_list_shows_what_each_lane_is_at(
    cli: Callable[..., Any], file_url: str, command: tuple[str, ...]
) -> None:
    async with floor(file_url) as jobs:
        await jobs.ended(Outcome.FAILED, {"error": "ValueError: no"}, lane="parked", on_failure=OnFailure.PARK)
        await jobs.add(lane="parked")
        await jobs.jobs.hold("held", Attribution("ann", "look first"))
        head, *_ = [await jobs.add(lane=LANE) for _ in range(3)]
        assert (await jobs.fetch_and_die()).id == head
        words = await run(cli, file_url, *command)
        lanes = {lane["lane"]: lane for lane in await data(cli, file_url, *command)}

    rows = {row.split()[0]: row for row in words.stdout.splitlines() if row.split()}
    assert rows[LANE].split()[1:5] == ["fetched", "3", str(head), "report"]
    assert f"job {head} was given to bot.py@elsewhere:7, which is gone or silent" in rows[LANE]
    assert rows["held"].split()[1:3] == ["held", "0"]
    assert rows["held"].rstrip().endswith("held by ann: look first")
    assert "was parked after a failure: " in rows["parked"]
    assert "ValueError: no" in rows["parked"]
    assert (lanes[LANE]["state"], lanes[LANE]["depth"], lanes[LANE]["head"]) == ("fetched", 3, head)
    assert (lanes["held"]["held_by"], lanes["held"]["held_reason"]) == ("ann", "look first")
    assert (lanes["parked"]["held_by"], lanes["parked"]["parked_since"] is not None) == ("", True)


async def test_list_says_when_there_may_be_more(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        for lane in "ab":
            await jobs.add(lane=lane)
        result = await run(cli, file_url, "lanes", "list", "--json", "--limit", "1")

    assert len(json.loads(result.stdout)) == 1
    assert "there may be more" in result.stderr


def test_list_of_nothing_is_empty(cli: Callable[..., Any], file_url: str) -> None:
    words = cli("lanes", "--url", file_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "No lane has jobs or is held or parked." in words.stderr
    assert json.loads(cli("lanes", "--json", "--url", file_url).stdout) == []


def test_json_before_the_command_is_not_ignored(cli: Callable[..., Any], file_url: str) -> None:
    result = cli("lanes", "--json", "list", "--url", file_url)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "goes after the command" in result.stderr


async def test_show_tells_why_the_lane_waits(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        how = {"delay": 60, "error": "ConnectionError: away"}
        head = await jobs.ended(Outcome.RETRY, how, lane=LANE)
        await jobs.add(lane=LANE)
        words = await run(cli, file_url, "lanes", "show", LANE)
        shown = await data(cli, file_url, "lanes", "show", LANE)

    assert f"{LANE}  scheduled" in words.stdout
    assert f"job {head} failed in attempt 1, next try in " in words.stdout
    assert f"lane {LANE!r} has 2 jobs and is at job {head} (report)" in words.stdout
    assert "ConnectionError: away" in words.stdout
    assert f"interlock jobs retry {head}" in words.stdout
    assert (shown["lane"], shown["state"], shown["head"], shown["depth"]) == (LANE, "scheduled", head, 2)
    assert shown["reason"] == "to-be-retried"


async def test_explain_lane(cli: Callable[..., Any], file_url: str) -> None:
    async def explained(lane: str) -> tuple[str, str]:
        words = await run(cli, file_url, "explain", "lane", lane)
        told = await data(cli, file_url, "explain", "lane", lane)
        assert len(told["explain"]) == len(words.stdout.splitlines())
        return told["reason"], words.stdout

    async with floor(file_url) as jobs:
        idle = await explained("l")
        number = await jobs.add(lane="l")
        nobody = await explained("l")
        await jobs.fetch()
        await jobs.register_worker("report")
        await jobs.jobs.hold("l", Attribution("ann", "look first"))
        held = await explained("l")
        await jobs.ended(Outcome.FAILED, {"error": "ValueError: no"}, lane="p", on_failure=OnFailure.PARK)
        await jobs.add(lane="p")
        parked = await explained("p")

    assert idle == ("idle", "lane 'l' is empty and not held\n")
    assert nobody[0] == "no-worker"
    assert f"is at job {number} (report)" in nobody[1]
    assert held[0] == "lane-held"
    assert "held by ann since 20" in held[1]
    assert f"job {number} (report) was fetched by bot.py" in held[1]
    assert parked[0] == "lane-parked"
    assert "interlock lanes release p" in parked[1]


async def test_a_lane_that_is_not_there(cli: Callable[..., Any], file_url: str) -> None:
    words = await run(cli, file_url, "lanes", "show", LANE)
    shown = await data(cli, file_url, "lanes", "show", LANE)

    assert words.stdout == ""
    assert "is empty and not held" in words.stderr
    assert (shown["lane"], shown["depth"]) == (LANE, 0)


async def test_hold_and_release(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add(lane=LANE)
        held = await run(cli, jobs_url, "lanes", "hold", LANE, "--reason", "look first", "--by", "ann", "--yes")
        shown = await data(cli, jobs_url, "jobs", "show", str(number))
        released = await run(cli, jobs_url, "lanes", "release", LANE)
        assert (await jobs.fetch()).id == number
        again = await run(cli, jobs_url, "lanes", "release", LANE, code=1)

    assert held.stdout == f"Held {LANE!r}. To release it: interlock lanes release '{LANE}'\n"
    assert (shown["state"], shown["reason"]) == ("held", "lane-held")
    assert released.stdout == f"Released {LANE!r}.\n"
    assert "is neither held nor parked" in again.stderr


async def test_hold_and_release_for_programs(
    cli: Callable[..., Any], file_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "interlock.operations")
    held = await data(cli, file_url, "lanes", "hold", "l", "--reason", "x", "--by", "ann", "--yes")
    released = await data(cli, file_url, "lanes", "release", "l", "--by", "bob")

    assert held == {"lane": "l", "by": "ann", "reason": "x", "held": True}
    assert released == {"lane": "l", "by": "bob", "reason": "", "released": True}
    assert [record.event for record in caplog.records if hasattr(record, "event")] == ["lane_held", "lane_released"]


def test_hold_needs_a_reason_and_a_yes(cli: Callable[..., Any], file_url: str) -> None:
    assert cli("lanes", "hold", "l", "--yes", "--url", file_url).exit_code == 2
    assert cli("lanes", "hold", "l", "--yes", "--reason", " ", "--url", file_url).exit_code == 2
    result = cli("lanes", "hold", "l", "--reason", "x", "--url", file_url)
    assert result.exit_code == 2
    assert "Add --yes." in result.stderr


@pytest.mark.parametrize(("answer", "status"), [("n\n", 1), ("y\n", 0)])
async def test_hold_asks_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Any, answer: str, status: int
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    async with floor(url) as jobs, asyncio.timeout(30):
        await jobs.add(lane="l")
        code, seen = await asyncio.to_thread(on_terminal, answer, "lanes", "hold", "l", "--reason=x", "--url", url)
        lane = await jobs.insight.lane("l")

    assert "lane 'l' has 1 job" in seen
    assert "Hold it?" in seen
    assert code == status
    assert lane is not None
    assert (lane.held_by == "") == (status == 1)
