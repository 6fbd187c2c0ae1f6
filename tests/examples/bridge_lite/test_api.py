"""The HTTP API with its status codes, and what a real scrape of /metrics has."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import uvicorn

from bridge.api.http import REEVAL_PATH, create_api
from bridge.core.concurrency import ConcurrencyConfig
from bridge.core.enums import IntentStatusEnum
from bridge.core.operations import update_intent_status
from bridge.factory import open_bridge
from interlock.web import Credentials
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bridge.factory import Bridge

RULES = Path(__file__).parents[3] / "monitoring" / "bridge_concurrency.rules.yml"


@asynccontextmanager
async def served(bridge: Bridge, **options: Any) -> AsyncIterator[str]:
    """The API on a port of its own."""
    web = bridge.app.web(credentials=Credentials({"prometheus": "a long password"}))
    config = uvicorn.Config(create_api(bridge, dashboard=web, **options), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    def call() -> tuple[int, Any]:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(call)


def wanted(intent_id: UUID, **changes: Any) -> dict[str, Any]:
    return {
        "intent_id": str(intent_id),
        "diff": {"payload": {"to": "eva"}},
        "source": "yuno",
        "reason": "wrong name",
    } | changes


async def test_reeval_answers_with_its_status_codes(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    done = await create_test_intent(bridge, IntentStatusEnum.COMPLETED)
    async with served(bridge) as url:

        async def post(body: Any) -> tuple[int, dict[str, Any]]:
            status, text = await ask(url + REEVAL_PATH, body)
            return status, json.loads(text)

        status, answer = await post(wanted(intent.id, metadata={"ticket": 7}))
        assert status == 200
        assert set(answer) == {
            "intent_id",
            "status",
            "already_applied",
            "correction_id",
            "applied_at",
            "correction_count",
        }
        assert (answer["status"], answer["already_applied"], answer["correction_count"]) == ("corrected", False, 1)
        status, again = await post(wanted(intent.id, diff={"payload.to": "eva"}))
        assert (status, again["already_applied"], again["applied_at"]) == (200, True, answer["applied_at"])

        refusals = [
            (wanted(intent.id, diff={"status": "completed"}), 400, "field-not-allowed"),
            (wanted(intent.id, diff={}), 400, "empty"),
            (wanted(intent.id, reason=""), 400, "invalid-request"),
            (wanted(intent.id, reason="x" * 1001), 400, "invalid-request"),
            (wanted(intent.id, source="nobody"), 400, "invalid-request"),
            (b"{", 400, "invalid-request"),
            (wanted(intent.id, source="tsumu"), 403, "source-not-allowed"),
            (wanted(uuid4()), 404, "record-not-found"),
            (wanted(done.id), 409, "invalid-transition"),
            (b"x" * 70_000, 413, "too-large"),
        ]
        for body, code, error in refusals:
            status, answer = await post(body)
            assert (status, answer["error"]) == (code, error), answer
            assert answer["message"]
            assert answer["remedy"]
    assert (await stored(bridge, intent.id)).version == 1


async def test_reeval_conflict_is_409(url: str, bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    hasty = open_bridge(url, config=ConcurrencyConfig(DEADLOCK_TIMEOUT=0.1, MAX_RETRIES=1))
    async with hasty, served(hasty) as address, bridge.data_bridge.lock_intent_for_update(intent.id):
        status, text = await ask(address + REEVAL_PATH, wanted(intent.id))
    assert (status, json.loads(text)["error"]) == (409, "concurrency-conflict")


async def test_a_token_says_who_the_source_is(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    async with served(bridge, tokens={"yuno": "y-secret", "kana": "k-secret"}) as url:
        path = url + REEVAL_PATH
        assert (await ask(path, wanted(intent.id)))[0] == 401
        assert (await ask(path, wanted(intent.id), Authorization="Bearer wrong"))[0] == 401
        assert (await ask(path, wanted(intent.id), Authorization="Bearer k-secret"))[0] == 403
        assert (await ask(path, wanted(intent.id), Authorization="Bearer y-secret"))[0] == 200


async def test_a_scrape_has_every_metric_of_the_rules(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)
    async with bridge.data_bridge.lock_intent_for_update(intent.id):
        blocked = asyncio.create_task(
            update_intent_status(intent.id, IntentStatusEnum.PROCESSED, other.data_bridge, other.audit_logger)
        )
        async with served(bridge) as url:
            status, text = await ask(f"{url}/metrics", Authorization="Basic cHJvbWV0aGV1czphIGxvbmcgcGFzc3dvcmQ=")
    await blocked
    await bridge.reeval_client.reeval(correction(intent.id, {"payload.a": 1}))

    assert status == 200
    samples = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    named = set(re.findall(r"bridge_\w+(?=\[)", RULES.read_text("utf-8")))
    assert len(named) == 4
    assert named <= samples
    assert samples >= {
        "bridge_lock_acquisitions_total",
        "bridge_deadlock_retries_total",
        "bridge_version_conflict_retries_total",
        "bridge_active_locks",
    }
    assert 'bridge_active_locks{lock_type="pessimistic"} 1.0' in text
    assert 'bridge_lock_acquisitions_total{lock_type="pessimistic",status="acquired"}' in text
