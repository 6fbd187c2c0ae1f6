from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Jobs, selections
from interlock.limits import Cooldown, Slots
from interlock.ports.jobs import JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from tests.cli.job_floor import ONE, data, floor, run

if TYPE_CHECKING:
    from collections.abc import Callable


# -- list ----------------------------------------------------------------------------------------------------------


async def test_list_shows_each_job_and_what_happens_next(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        done = await jobs.ended(Outcome.DONE)
        failed = await jobs.ended(Outcome.FAILED, {"error": "ValueError: [red]no[/red]"})
        later = await jobs.add(delay=3600)
        ready = await jobs.add(lane="acme/api#7", name="sync")
        words = await run(cli, file_url, "jobs", "list")
        listed = await data(cli, file_url, "jobs", "list")

    rows = {int(row.split()[0]): row for row in words.stdout.splitlines() if row.split() and row.split()[0].isdigit()}
    assert list(rows) == [ready, later, failed, done]
    assert rows[ready].split()[1:4] == ["sync", "ready", "acme/api#7"]
    assert "is ready, but no worker serves queue 'default'" in rows[ready]
    assert rows[later].split()[1:3] == ["report", "scheduled"]
    assert "due in 60.0 min" in rows[later] or "due in 59." in rows[later]
    assert rows[failed].split()[1:4] == ["report", "failed", "1"]
    assert rows[failed].rstrip().endswith("ValueError: [red]no[/red]")
    assert [job["id"] for job in listed] == [ready, later, failed, done]
    assert [job["state"] for job in listed] == ["ready", "scheduled", "failed", "done"]
    assert "arguments" not in listed[0]


async def test_what_is_overdue_is_ready_since_it_was_due(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add(delay=1.1)
        await asyncio.sleep(1.2)
        words = await run(cli, jobs_url, "jobs", "list")
        (listed,) = await data(cli, jobs_url, "jobs", "list")
        queues = await run(cli, jobs_url, "queues", "list")

    (row,) = (row for row in words.stdout.splitlines() if row.split()[:1] == [str(number)])
    assert listed["reason"] == "no-worker"
    assert listed["due_at"][11:19] in row
    assert "No worker serves queue 'default'." in queues.stderr


async def test_list_by_state_name_queue_lane_and_limit(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        done = await jobs.ended(Outcome.DONE)
        failed = await jobs.ended(Outcome.FAILED)
        mail = await jobs.add(queue="mail", delay=60)
        sync = await jobs.add(name="sync", lane="l", delay=60)

        async def ids(*args: str) -> list[int]:
            return [job["id"] for job in await data(cli, jobs_url, "jobs", "list", *args)]

        assert await ids() == [sync, mail, failed, done]
        assert await ids("--state", "failed") == [failed]
        assert await ids("--state", "failed", "--state", "scheduled") == [sync, mail, failed]
        assert await ids("--name", "report", "--state", "scheduled") == [mail]
        assert await ids("--queue", "mail") == [mail]
        assert await ids("--lane", "l") == [sync]
        assert await ids("--name", "nobody") == []
        assert await ids("--limit", "2") == [sync, mail]
        cut = await run(cli, jobs_url, "jobs", "list", "--limit", "2")
        several = await run(cli, jobs_url, "jobs", "list")

    assert "there may be more" in cut.stderr
    assert "queue" in several.stdout.splitlines()[1]


def test_list_of_nothing_is_empty(cli: Callable[..., Any], file_url: str) -> None:
    words = cli("jobs", "list", "--url", file_url)
    chosen = cli("jobs", "list", "--name", "report", "--url", file_url)

    assert (words.exit_code, words.stdout) == (0, "")
    assert "There are no jobs." in words.stderr
    assert "No jobs match." in chosen.stderr
    assert json.loads(cli("jobs", "list", "--json", "--url", file_url).stdout) == []


@pytest.mark.parametrize("args", [("list", "--state", "new"), ("show", "x"), ("show", "0"), ("list", "--limit", "0")])
def test_what_does_not_exist_is_refused(cli: Callable[..., Any], file_url: str, args: tuple[str, ...]) -> None:
    assert cli("jobs", *args, "--url", file_url).exit_code == 2


@pytest.mark.parametrize("args", [("jobs", "list"), ("queues", "list"), ("lanes",), ("explain", "job", "1")])
def test_a_store_without_jobs_says_so(cli: Callable[..., Any], interlock_redis_url: str, args: tuple[str, ...]) -> None:
    result = cli(*args, "--url", interlock_redis_url)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "redis offers no jobs" in result.stderr


# -- show ----------------------------------------------------------------------------------------------------------


async def test_show_tells_all_about_a_job(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        arguments = '{"account":"a1","target":7}'
        how = {"lane": "acme/api#7", "uses": (ONE,), "arguments": arguments, "priority": 80, "keep_result": 60}
        number = await jobs.add(**how)
        trace = 'Traceback …\n  File "bot.py", line 41, in report\nConnectionError: {}\n'
        for text in ("first", "second"):
            job = await jobs.fetch()
            error = f"ConnectionError: {text}"
            await jobs.end(job, Outcome.RETRY, ran=0.25, error=error, trace=trace.format(text), delay=0.001)
            await jobs.jobs.retry(number, Attribution("ann"))
        job = await jobs.fetch()
        await jobs.register_worker("report")
        fetched = await run(cli, jobs_url, "jobs", "show", str(number))
        await jobs.jobs.report_started("worker", [(job.id, job.fence)])
        running = await run(cli, jobs_url, "jobs", "show", str(number))
        await jobs.end(job, Outcome.DONE, ran=1.5, result='"sent"')
        words = await run(cli, jobs_url, "jobs", "show", str(number))
        every = await run(cli, jobs_url, "jobs", "show", str(number), "--traces")
        shown = await data(cli, jobs_url, "jobs", "show", str(number))

    assert fetched.stdout.startswith(f"job {number} (report) was fetched by bot.py, process 7 on elsewhere at 20")
    assert "fetched, and not started yet" in fetched.stdout
    assert running.stdout.startswith(f"job {number} (report) runs in bot.py, process 7 on elsewhere since 20")
    assert "attempt 3 runs" in running.stdout
    assert words.stdout.startswith(f"job {number} (report) was done by bot.py, process 7 on elsewhere at 20")
    lines = [line.strip().partition("  ") for line in words.stdout.splitlines()]
    facts = {name: rest.strip() for name, _, rest in lines}
    assert facts["lane"] == "acme/api#7"
    assert facts["priority"] == "80"
    assert facts["limit"] == "slots:containers: 1 at once"
    assert json.loads(facts["arguments"]) == {"account": "a1", "target": 7}
    assert facts["result"] == '"sent"'
    what = [line for line in words.stdout.splitlines() if "attempt" in line and "bot.py@elsewhere:7" in line]
    assert "attempt 1 failed, to be retried: ConnectionError: first" in what[0]
    assert "250 ms" in what[0]
    assert "attempt 2 failed, to be retried: ConnectionError: second" in what[1]
    assert "attempt 3 done" in what[2]
    assert "1.5 s" in what[2]
    assert words.stdout.count("Traceback …") == 1
    assert "  ConnectionError: second" in words.stdout
    assert "Earlier attempts left another traceback: --traces." in words.stdout
    assert every.stdout.count("Traceback …") == 2
    assert (shown["state"], shown["attempt"], shown["result"]) == ("done", 3, "sent")
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["retry", "retry", "done"]
    assert shown["attempts"][0]["trace"].endswith("ConnectionError: first\n")
    assert shown["attempts"][0]["worker"] == {"session": "worker", "host": "elsewhere", "pid": 7, "program": "bot.py"}
    assert shown["uses"] == [{"key": "slots:containers", "max_count": 1, "per": 0.0}]
    assert shown["explain"][0].startswith(f"job {number} (report) was done by")


@pytest.mark.parametrize("args", [("jobs", "show"), ("explain", "job")])
async def test_a_job_that_is_not_known(cli: Callable[..., Any], file_url: str, args: tuple[str, str]) -> None:
    words = await run(cli, file_url, *args, "4711")
    shown = await data(cli, file_url, *args, "4711")

    assert "Job 4711 does not exist" in words.output
    assert shown["id"] == 4711
    assert shown["state"] is None


# -- retry ---------------------------------------------------------------------------------------------------------


async def test_retry_makes_jobs_ready(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        failed = await jobs.ended(Outcome.FAILED, {"error": "ValueError: no"})
        later = await jobs.add(delay=3600)
        words = await run(cli, jobs_url, "jobs", "retry", str(failed), str(later), "--yes")
        states = [job["state"] for job in await data(cli, jobs_url, "jobs", "list")]

    assert words.stdout.splitlines() == [
        f"Job {failed}, which was failed, is ready now.",
        f"Job {later}, which was scheduled, is ready now.",
    ]
    assert states == ["ready", "ready"]


async def test_retry_of_all_that_match_goes_through_every_page_oldest_first(
    cli: Callable[..., Any], jobs_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selections, "_PAGE", 40)
    async with floor(jobs_url) as jobs:
        failed = await jobs.fail_many(150, lane="l")
        other = await jobs.ended(Outcome.FAILED, name="sync")
        nothing = await run(cli, jobs_url, "jobs", "retry", "--state", "failed", "--name", "nobody", "-y", code=1)
        words = await run(cli, jobs_url, "jobs", "retry", "--state", "failed", "--name", "report", "--yes")
        left = await data(cli, jobs_url, "jobs", "list", "--state", "failed")
        first = await jobs.fetch()
        again = await data(cli, jobs_url, "jobs", "retry", "--state", "failed", "-y")

    assert "No jobs match." in nothing.stderr
    assert words.stdout == "Retried 150 of 150 jobs.\n"
    assert [job["id"] for job in left] == [other]
    assert first.id == failed[0], "a lane keeps its order when all of it is retried"
    assert (again["changed"], again["unchanged"]) == ([other], [])


@pytest.mark.parametrize("args", [(), ("7", "--state", "failed"), ("7", "--all"), ("7", "--name", "report")])
def test_retry_takes_numbers_or_a_filter(cli: Callable[..., Any], file_url: str, args: tuple[str, ...]) -> None:
    assert cli("jobs", "retry", *args, "-y", "--url", file_url).exit_code == 2


async def test_retry_of_what_needs_none_fails(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        done, ready = await jobs.ended(Outcome.DONE), await jobs.add()
        failed = await jobs.ended(Outcome.FAILED, lane="l", name="sync", priority=90)
        ids = [str(number) for number in (done, ready, failed, 4711)]
        words = await run(cli, file_url, "jobs", "retry", *ids[:2], "4711", "-y", code=1)
        mixed = await data(cli, file_url, "jobs", "retry", *ids, "--by", "ann", "-y", code=1)

    assert words.stdout == ""
    assert words.stderr.splitlines() == [
        f"Job {done} is done: there is nothing to retry.",
        f"Job {ready} is ready: there is nothing to retry.",
        "Job 4711 does not exist. List jobs with: interlock jobs list.",
    ]
    assert [(act["id"], act["done"], act["by"]) for act in mixed] == [
        (done, False, "ann"),
        (ready, False, "ann"),
        (failed, True, "ann"),
        (4711, False, "ann"),
    ]
    assert (mixed[2]["before"], mixed[2]["state"]) == ("failed", "ready")


# -- cancel --------------------------------------------------------------------------------------------------------


async def test_cancel_ends_what_waits_and_stops_what_runs(cli: Callable[..., Any], jobs_url: str) -> None:
    started = asyncio.Event()
    async with Jobs.from_url(jobs_url) as jobs, asyncio.timeout(30):

        @jobs.job()
        async def endless() -> None:
            started.set()
            await asyncio.Event().wait()

        waiting = await endless.options(delay=3600).enqueue()
        running = await endless.enqueue()
        async with jobs.worker():
            await started.wait()
            while (await running.status()).state is not JobState.RUNNING:
                await asyncio.sleep(0.01)
            args = (str(waiting.id), str(running.id), "--reason", "not needed", "--by", "carol", "--yes")
            words = await run(cli, jobs_url, "jobs", "cancel", *args)
            while not (await running.status()).state.final:
                await asyncio.sleep(0.01)
        again = await run(cli, jobs_url, "jobs", "cancel", *args, code=1)
        shown = [await data(cli, jobs_url, "jobs", "show", str(handle.id)) for handle in (waiting, running)]

    assert words.stdout.splitlines() == [
        f"Cancelled job {waiting.id}, which was scheduled.",
        f"Job {running.id} is running; its worker was asked to stop it.",
    ]
    assert again.stdout == ""
    assert f"Job {running.id} has already ended (cancelled): there is nothing to cancel." in again.stderr
    assert [job["state"] for job in shown] == ["cancelled", "cancelled"]
    assert all("carol" in job["error"] and "not needed" in job["error"] for job in shown)


async def test_cancel_of_nothing_fails(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        done = await jobs.ended(Outcome.DONE)
        args = ("jobs", "cancel", str(done), "4711", "--reason", "x", "--yes")
        words = await run(cli, file_url, *args, code=1)
        acts = await data(cli, file_url, *args, code=1)

    assert f"Job {done} has already ended (done): there is nothing to cancel." in words.stderr
    assert "Job 4711 does not exist." in words.stderr
    assert [(act["state"], act["done"], act["reason"]) for act in acts] == [("done", False, "x"), (None, False, "x")]


def test_acts_need_a_yes_and_a_cancellation_a_reason(cli: Callable[..., Any], file_url: str) -> None:
    assert cli("jobs", "cancel", "1", "--yes", "--url", file_url).exit_code == 2
    assert cli("jobs", "cancel", "1", "--yes", "--reason", " ", "--url", file_url).exit_code == 2
    assert cli("jobs", "retry", "--yes", "--url", file_url).exit_code == 2
    for args in (("cancel", "1", "--reason", "x"), ("retry", "1")):
        result = cli("jobs", *args, "--url", file_url)
        assert result.exit_code == 2
        assert "Add --yes." in result.stderr


@pytest.mark.parametrize(("answer", "status"), [("n\n", 1), ("y\n", 0)])
async def test_cancel_asks_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Any, answer: str, status: int
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    async with floor(url) as jobs, asyncio.timeout(30):
        first, second = await jobs.add(), await jobs.add()
        args = ("jobs", "cancel", str(first), str(second), "--reason=x", "--url", url)
        code, seen = await asyncio.to_thread(on_terminal, answer, *args)
        view = await jobs.insight.get(first)

    assert f"job {first} (report) has been ready since" in seen
    assert f"job {second} (report) has been ready since" in seen
    assert "Cancel them?" in seen
    assert code == status
    assert view is not None
    assert view.state == ("cancelled" if status == 0 else "ready")


# -- queues --------------------------------------------------------------------------------------------------------


async def test_queues_say_how_many_stand_how_and_who_works(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        empty = await run(cli, jobs_url, "queues", "list")
        await jobs.register_worker("report")
        await jobs.add()
        await jobs.fetch()
        for _ in range(2):
            await jobs.add()
        await jobs.add(delay=60)
        await jobs.add(queue="mail", name="sync")
        words = await run(cli, jobs_url, "queues", "list")
        queues = {queue["queue"]: queue for queue in await data(cli, jobs_url, "queues", "list")}

    assert "There are no queues" in empty.stderr
    (default,) = (row.split() for row in words.stdout.splitlines() if row.split()[:1] == ["default"])
    assert default[1:12] == ["2", "1", "0", "0", "1", "0", "0", "0", "0", "1", "10"]
    assert "No worker serves queue 'mail'." in words.stderr
    assert (queues["default"]["ready"], queues["default"]["workers"], queues["default"]["runners"]) == (2, 1, 10)
    assert (queues["mail"]["ready"], queues["mail"]["workers"]) == (1, 0)
    assert queues["mail"]["oldest_ready_at"].startswith("20")


async def test_queues_are_paused_and_resumed(cli: Callable[..., Any], jobs_url: str) -> None:
    async with floor(jobs_url) as jobs:
        number = await jobs.add(queue="mail")
        paused = await run(cli, jobs_url, "queues", "pause", "mail", "--reason", "provider is down", "--by", "ann")
        listed = await run(cli, jobs_url, "queues", "list")
        (shown,) = await data(cli, jobs_url, "queues", "show", "mail")
        why = await data(cli, jobs_url, "explain", "job", str(number))
        resumed = await data(cli, jobs_url, "queues", "resume", "mail", "--by", "bob")
        again = await run(cli, jobs_url, "queues", "resume", "mail", code=1)

    assert paused.stdout == "Paused 'mail'. To resume it: interlock queues resume mail\n"
    assert "by ann: provider is down" in listed.stderr
    assert (shown["paused_by"], shown["paused_reason"], shown["ready"]) == ("ann", "provider is down", 1)
    assert shown["paused_since"].startswith("20")
    assert (why["reason"], why["queue_paused"]["by"]) == ("queue-paused", "ann")
    assert resumed == {"queue": "mail", "by": "bob", "reason": "", "resumed": True}
    assert "is not paused" in again.stderr


def test_a_pause_needs_a_reason_and_a_possible_name(cli: Callable[..., Any], file_url: str) -> None:
    assert cli("queues", "pause", "mail", "--url", file_url).exit_code == 2
    assert cli("queues", "pause", "mail", "--reason", " ", "--url", file_url).exit_code == 2
    assert cli("queues", "pause", "a b", "--reason", "x", "--url", file_url).exit_code == 2


# -- what is in the store cannot play tricks ---------------------------------------------------------------------------


async def test_what_a_job_contains_cannot_steer_the_terminal(cli: Callable[..., Any], file_url: str) -> None:
    bad = "a\x1b[31m\nb\x9b\u202e"
    async with floor(file_url) as jobs:
        how = {"error": bad, "trace": f"Traceback\n{bad}\n"}
        arguments = json.dumps({"a": bad}, ensure_ascii=False)
        number = await jobs.ended(Outcome.FAILED, how, lane=bad, arguments=arguments, on_failure=OnFailure.PARK)
        done = await jobs.ended(Outcome.DONE, {"result": json.dumps(bad, ensure_ascii=False)}, name="sync")
        await jobs.add(lane=bad)
        await jobs.jobs.hold(bad, Attribution(bad, bad))
        shows = [("jobs", "show", str(job)) for job in (number, done)]
        for args in (("jobs", "list"), *shows, ("lanes",), ("lanes", "show", bad), ("explain", "lane", bad)):
            for more in ((), ("--json",)):
                result = await run(cli, file_url, *args, *more)
                assert not [c for c in result.stdout.replace("\n", "") if not c.isprintable()]


async def test_show_says_what_enqueued_a_job(cli: Callable[..., Any], file_url: str) -> None:
    async with floor(file_url) as jobs:
        texts = ("", "job:12;event:7", "end:12", "schedule:nightly@1800000000.000000")
        numbers = [await jobs.add(cause=text) for text in texts]
        shown = [await run(cli, file_url, "jobs", "show", str(number)) for number in numbers]
        stored = await data(cli, file_url, "jobs", "show", str(numbers[1]))

    found = [[line for line in words.stdout.splitlines() if "enqueued by" in line] for words in shown]
    assert [" ".join(line.split()) for (line,) in found[1:]] == [
        "enqueued by job 12",
        "enqueued by the end of job 12",
        "enqueued by schedule nightly",
    ]
    assert found[0] == []
    assert stored["cause"] == "job:12;event:7"


async def test_limits_of_a_job_are_shown_as_they_were_meant(cli: Callable[..., Any], file_url: str) -> None:
    async with Jobs.from_url(file_url) as jobs:

        @jobs.job(limits=[Slots("containers", 5), Cooldown("account", 90, key="{account}")])
        async def report(account: str) -> None: ...

        handle = await report.enqueue(account="a1")
        words = await run(cli, file_url, "jobs", "show", str(handle.id))

    assert "cooldown:account:a1: 1 every 90 s" in words.stdout
    assert "slots:containers: 5 at once" in words.stdout
