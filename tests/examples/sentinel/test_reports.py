"""D4: a report is accepted and runs, and after every end the target has a status and report_logs has a row."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from interlock import JobState
from sentinel import report_service
from sentinel.api import create_api
from sentinel.config import update_config
from sentinel.moderation_api import Behavior, Moderation
from sentinel.target_service import process_target
from tests.examples.sentinel.conftest import served
from tests.examples.sentinel.targets import create_test_target, logs_of, refuse_jobs, stored, until_status

if TYPE_CHECKING:
    from sentinel.console import Console
    from sentinel.database import Row


async def ask(url: str, method: str = "POST", body: Any = None, **headers: str) -> tuple[int, Any]:
    def call() -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(url, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await asyncio.to_thread(call)


def outcome(row: Row) -> tuple[Any, ...]:
    return row["target_id"], row["action"], bool(row["success"]), row["error_message"]


async def test_execute_answers_202_404_and_409(console: Console) -> None:
    target = await create_test_target()
    async with served(create_api(console)) as url:
        execute = f"{url}/targets/{target['id']}/execute"
        assert await ask(execute) == (202, {"status": "accepted"})
        assert (await stored(target["id"]))["status"] == "processing"
        assert await ask(execute) == (409, {"detail": "Target is already processing"})
        assert await ask(f"{url}/targets/12345/execute") == (404, {"detail": "Target not found"})

        await console.app.drain()
        assert (await stored(target["id"]))["status"] == "completed"
        assert [outcome(row) for row in await logs_of(target["id"])] == [(target["id"], "execute_report", True, None)]
        for _ in range(2):
            assert await ask(execute) == (409, {"detail": "Target is completed: reset it first"})
        assert (await ask(f"{url}/targets/{target['id']}/reset"))[0] == 200
        assert (await ask(execute))[0] == 202


async def test_twenty_clicks_at_once_are_one_report(console: Console, moderation: Moderation) -> None:
    target = await create_test_target()
    async with served(create_api(console)) as url:
        answers = await asyncio.gather(*(ask(f"{url}/targets/{target['id']}/execute") for _ in range(20)))
    await console.app.drain()

    assert sorted(status for status, _ in answers) == [202] + [409] * 19
    assert len(moderation.calls) == 1


@pytest.mark.parametrize("status", ["pending", "failed"])
async def test_a_report_that_cannot_be_queued_is_500_and_pending(console: Console, status: str) -> None:
    target = await create_test_target(status)
    await refuse_jobs(console)
    async with served(create_api(console)) as url:
        answer = await ask(f"{url}/targets/{target['id']}/execute")

    assert answer == (500, {"detail": "Failed to queue execution"})
    assert (await stored(target["id"]))["status"] == "pending"
    assert await console.app.jobs.matching(*JobState) == []


async def test_a_failure_fails_the_target_and_is_logged(console: Console, moderation: Moderation) -> None:
    moderation.behavior["item"] = Behavior(refuse=True)
    target = await create_test_target()
    await process_target(target)
    await console.app.drain()

    assert (await stored(target["id"]))["status"] == "failed"
    (row,) = await logs_of(target["id"])
    assert outcome(row)[:3] == (target["id"], "execute_report", False)
    assert "Item item is not open for reports." in row["error_message"]


async def test_a_person_can_retry_the_job_of_a_failed_target(console: Console, moderation: Moderation) -> None:
    await update_config(0.001, by="test")
    moderation.behavior["item"] = Behavior(refuse=True)
    target = await create_test_target()
    await process_target(target)
    await console.app.drain()
    job = (await until_status(target["id"], "failed"))["job_id"]
    moderation.behavior.clear()
    await console.app.jobs.retry(job, by="ann")
    async with console.app.worker():
        await until_status(target["id"], "completed")

    assert [row["success"] for row in await logs_of(target["id"])] == [0, 1]


async def test_a_transient_error_is_retried_by_the_same_job(console: Console, moderation: Moderation) -> None:
    moderation.behavior["item"] = Behavior(unavailable=1)
    target = await create_test_target()
    await process_target(target)
    await console.app.drain()

    waiting = await stored(target["id"])
    view = await console.app.jobs.get(waiting["job_id"])
    assert (waiting["status"], view.state, view.attempt) == ("processing", JobState.SCHEDULED, 1)
    assert "503" in view.error


async def test_a_cancelled_report_fails_the_target_and_is_logged(console: Console, moderation: Moderation) -> None:
    moderation.behavior["item"] = Behavior(seconds=0.3)
    waiting, running = await create_test_target(), await create_test_target()
    await process_target(waiting)
    async with served(create_api(console)) as url:
        assert (await ask(f"{url}/targets/{waiting['id']}/cancel", body={"by": "ann", "reason": "wrong item"}))[
            0
        ] == 202
        await process_target(running)
        async with console.app.worker():
            while not moderation.calls:
                await asyncio.sleep(0.01)
            assert (await ask(f"{url}/targets/{running['id']}/cancel"))[0] == 202
            for target in (waiting, running):
                await until_status(target["id"], "failed")
        assert (await ask(f"{url}/targets/{running['id']}/cancel"))[0] == 409
        assert (await ask(f"{url}/targets/12345/cancel"))[0] == 404

    (first,), (second,) = await logs_of(waiting["id"]), await logs_of(running["id"])
    assert outcome(first)[:3] == (waiting["id"], "execute_report", False)
    assert "wrong item" in first["error_message"]
    assert outcome(second)[:3] == (running["id"], "execute_report", False)


async def test_a_hook_that_runs_twice_logs_once(console: Console) -> None:
    target = await create_test_target()
    await process_target(target)
    job = (await stored(target["id"]))["job_id"]

    assert await report_service.record_failure(target["id"], job, "three workers died")
    assert not await report_service.record_failure(target["id"], job, "three workers died")
    assert len(await logs_of(target["id"])) == 1
    await process_target(target)  # it has another job now, which the hook of the first one leaves alone
    assert not await report_service.record_failure(target["id"], job, "three workers died")
    assert (await stored(target["id"]))["status"] == "processing"


async def test_the_console_refuses_other_sites_and_callers_without_its_token(console: Console) -> None:
    target = await create_test_target()
    async with served(create_api(console, token="secret")) as url:
        execute = f"{url}/targets/{target['id']}/execute"
        assert (await ask(execute))[0] == 401
        assert (await ask(execute, Authorization="Bearer wrong"))[0] == 401
        assert (await ask(execute, Authorization="Bearer secret", Origin="https://evil.example"))[0] == 403
        assert (await ask(execute, Authorization="Bearer secret", Origin=url))[0] == 202
        assert (await ask(f"{url}/targets", "GET", Authorization="Bearer secret"))[0] == 200


async def test_the_other_endpoints_answer(console: Console) -> None:
    async with served(create_api(console)) as url:
        status, account = await ask(f"{url}/accounts", body={"name": "ann"})
        assert status == 201
        assert [one["name"] for one in (await ask(f"{url}/accounts", "GET"))[1]] == ["ann"]
        assert await ask(f"{url}/accounts/{account['id']}/turn") == (200, {"wait": 0})
        assert (await ask(f"{url}/targets", body={"item": "a", "account_id": 99}))[0] == 404
        assert (await ask(f"{url}/targets", body={"item": "a/b", "account_id": 1}))[0] == 422
        status, target = await ask(f"{url}/targets", body={"item": "a", "account_id": account["id"]})
        assert (status, target["status"]) == (201, "pending")
        assert (await ask(f"{url}/targets/{target['id']}", "GET"))[1] == target
        assert (await ask(f"{url}/targets/{target['id']}/reset"))[0] == 409
        assert (await ask(f"{url}/targets?status=failed", "GET")) == (200, [])
        assert (await ask(f"{url}/logs", "GET")) == (200, [])
        assert (await ask(f"{url}/config", "GET")) == (200, {"cooldown": 90})
        assert (await ask(f"{url}/config", "PUT", {"cooldown": 30}))[1] == {"cooldown": 30}
        assert (await ask(f"{url}/config", "PUT", {"cooldown": 0}))[0] == 400
