"""Every reason why a job can wait, and every way in which it can end, in words and as data.

That stores tell the same about a job is for the conformance suite; what is made of it here does not depend on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.ports.jobs import OnFailure, Outcome
from interlock.ports.journal import Attribution
from tests.cli.job_floor import ONE, PACE, data, floor, run

if TYPE_CHECKING:
    from collections.abc import Callable


async def explained(cli: Callable[..., Any], url: str, number: int) -> tuple[str, str]:
    """The reason and the words."""
    words = await run(cli, url, "explain", "job", str(number))
    told = await data(cli, url, "explain", "job", str(number))
    assert told["id"] == number
    assert len(told["explain"]) == len(words.stdout.splitlines())
    return told["reason"], words.stdout


async def test_explain_ready(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        number = await jobs.add()
        nobody = await explained(cli, file_url, number)
        await jobs.register_worker("sync")
        unknown = await explained(cli, file_url, number)
        await jobs.register_worker("report")
        soon = await explained(cli, file_url, number)

    assert nobody[0] == "no-worker"
    assert "interlock run" in nobody[1]
    assert unknown[0] == "unknown-name"
    assert "none knows a job called 'report'" in unknown[1]
    assert soon[0] == "ready"
    assert "it is the next" in soon[1]


async def test_explain_later(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        delayed = await jobs.add(delay=3600)
        retried = await jobs.ended(Outcome.RETRY, {"delay": 60, "error": "ConnectionError: away"})
        snoozed = await jobs.ended(Outcome.SNOOZED, {"delay": 60})
        found = [await explained(cli, file_url, number) for number in (delayed, retried, snoozed)]

    assert [reason for reason, _ in found] == ["delayed", "to-be-retried", "snoozed"]
    assert "ConnectionError: away" in found[1][1]
    assert f"interlock jobs retry {retried}" in found[1][1]


async def test_explain_behind_says_what_the_head_waits_for(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        head = await jobs.ended(Outcome.RETRY, {"delay": 60, "error": "ConnectionError: away"}, lane="l")
        behind = await jobs.add(lane="l")
        await jobs.stand()
        reason, words = await explained(cli, file_url, behind)

    assert reason == "behind"
    assert f"job {head} (report) has failed in one attempt" in words
    assert "ConnectionError: away" in words


async def test_explain_waiting_for_a_limit(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        holder, full = await jobs.add(uses=(ONE,)), await jobs.add(uses=(ONE,))
        await jobs.fetch()
        await jobs.add(uses=(PACE,))
        await jobs.fetch()
        early = await jobs.add(uses=(PACE,))
        await jobs.stand()
        slots, pace = await explained(cli, file_url, full), await explained(cli, file_url, early)
        listed = await run(cli, file_url, "jobs", "list", "--state", "waiting")

    assert slots[0] == "limit"
    assert "'slots:containers'" in slots[1]
    assert f"taken by job {holder}" in slots[1]
    assert pace[0] == "pace"
    assert "the next may start at 20" in pace[1]
    assert listed.stdout.count("waits for limit") == 2


async def test_explain_held_and_parked(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        await jobs.jobs.hold("held", Attribution("ann", "look first"))
        held = await jobs.add(lane="held")
        await jobs.ended(Outcome.FAILED, {"error": "ValueError: no"}, lane="parked", on_failure=OnFailure.PARK)
        stuck = await jobs.add(lane="parked")
        aside = await jobs.ended(Outcome.PARKED, {"error": "'target' is missing"})
        await jobs.stand()
        found = [await explained(cli, file_url, number) for number in (held, stuck, aside)]

    assert [reason for reason, _ in found] == ["lane-held", "lane-parked", "parked"]
    assert "held by ann since 20" in found[0][1]
    assert "interlock lanes release held" in found[0][1]
    assert "ValueError: no" in found[1][1]
    assert "'target' is missing" in found[2][1]


async def test_explain_the_end_of_a_job(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        numbers = [
            await jobs.ended(Outcome.DONE),
            await jobs.ended(Outcome.FAILED, {"error": "ValueError: no"}),
            await jobs.ended(Outcome.DISCARDED, {"error": "closed"}),
        ]
        numbers.append(await jobs.add())
        await jobs.jobs.cancel(numbers[-1], Attribution("ann", "not needed"))
        numbers.append(await jobs.add())
        await jobs.crash(numbers[-1], 3)
        numbers.append(await jobs.add(lane="l", coalesce=True))
        newest = await jobs.add(lane="l", coalesce=True)
        job = await jobs.fetch()
        await jobs.add()
        gone = await explained(cli, file_url, (await jobs.fetch_and_die()).id)
        await jobs.register_worker("report")
        fetched = await explained(cli, file_url, job.id)
        await jobs.jobs.report_started("worker", [(job.id, job.fence)])
        found = [await explained(cli, file_url, number) for number in (*numbers, job.id)]
        listed = await run(cli, file_url, "jobs", "list")

    reasons = ["done", "failed", "discarded", "cancelled", "quarantined", "superseded", "running"]
    assert [reason for reason, _ in found] == reasons
    assert gone[0] == "worker-gone"
    assert fetched[0] == "fetched"
    assert "waits for a free runner there (0 of 10 are running jobs)" in fetched[1]
    assert "which is gone or silent" in gone[1]
    assert "not needed" in found[3][1]
    assert "3 workers died" in found[4][1]
    assert f"job {newest} of its lane" in found[5][1]
    assert f"gave way to job {newest} of its lane" in listed.stdout
    assert "in bot.py@elsewhere:7" in listed.stdout


async def test_explain_a_suspect(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        number = await jobs.add()
        await jobs.crash(number, 1)
        _, words = await explained(cli, file_url, number)
        page = await run(cli, file_url, "jobs", "show", str(number))

    assert "it is a suspect: bot.py, process 7 on elsewhere died while it had this job" in words
    assert "a worker has died while it was the only suspect" in words
    assert "it is a suspect" in page.stdout
    assert "attempt 1 ended when its worker died  " in page.stdout
