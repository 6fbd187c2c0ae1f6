"""Health and metrics: what they say, to whom, and that asking costs the store little."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from interlock import App
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.web import Web
from tests.web.client import ask

if TYPE_CHECKING:
    import pytest


async def test_an_app_that_is_open_is_healthy(every_store_url: str) -> None:
    app = App(every_store_url)
    web = Web(app, dashboard=False)
    closed = await ask(web, path="/health")
    assert (closed.status, closed.json) == (503, {"status": "closed", "stores": []})
    async with app:
        answer = await ask(web, path="/health", client=("203.0.113.9", 1), host="10.0.0.7")
        assert answer.status == 200
        assert answer.json["status"] == "ok"
        (store,) = answer.json["stores"]
        assert store["state"] == "ok"
        assert store["store"] == app.locks._store_client.store.name
        assert {"locks", "claims", "cursors", "limits"} <= set(store["parts"])
        assert (await ask(web, "POST", "/health")).status == 405
        assert (await ask(web, "HEAD", "/health")).status == 200
    assert (await ask(web, path="/health")).status == 503


async def test_each_store_is_told_apart(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path}/a.db", locks="memory://")
    web = Web(app, dashboard=False)
    async with app:
        stores = (await ask(web, path="/health")).json["stores"]
    assert {store["store"]: store["parts"] for store in stores} == {
        "memory": ["locks"],
        "sqlite": ["claims", "cursors", "limits", "jobs"],
    }


async def test_a_store_that_is_away_is_said_to_be(
    interlock_redis_url: str, interlock_redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.web.health._PATIENCE", 0.2)
    monkeypatch.setattr("interlock.web.health._GOOD_FOR", 0.0)
    with ThreadedFaultProxy("127.0.0.1", interlock_redis_server.port) as proxy:
        app = App("memory://", locks=proxy.url(interlock_redis_url))
        web = Web(app, dashboard=False)
        async with app:
            assert (await ask(web, path="/health")).status == 200
            proxy.blackhole()
            answer = await ask(web, path="/health")
            assert answer.status == 503
            assert answer.json["status"] == "away"
            states = {store["store"]: store["state"] for store in answer.json["stores"]}
            assert states == {"memory": "ok", "redis": "away"}
            proxy.heal()
            while (await ask(web, path="/health")).status != 200:
                await asyncio.sleep(0)


async def test_however_many_ask_the_store_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("memory://")
    web = Web(app, dashboard=False)
    async with app:
        cursors = app.cursors._store_client.store.cursors
        asked = 0
        read = cursors.read

        async def counted(name: str) -> Any:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)
            return await read(name)

        monkeypatch.setattr(cursors, "read", counted)
        answers = await asyncio.gather(*(ask(web, path="/health") for _ in range(50)))
        assert {answer.status for answer in answers} == {200}
        assert (await ask(web, path="/health")).status == 200
        assert asked == 1


async def test_metrics_are_those_of_the_app_and_of_its_web_app() -> None:
    app = App("memory://")
    web = Web(app, dashboard=False)
    assert (await ask(web, path="/metrics")).status == 503
    async with app, app.locks.acquire("a", wait=1):
        answer = await ask(web, path="/metrics")
        assert answer.status == 200
        assert (answer.header("content-type") or "").startswith("text/plain")
        assert 'interlock_active_locks{lock_type="memory"} 1.0' in answer.text
        assert "interlock_web_streams 0.0" in answer.text
        newer = await ask(web, path="/metrics", headers=[("Accept", "application/openmetrics-text; version=1.0.0")])
        assert (newer.header("content-type") or "").startswith("application/openmetrics-text")
        assert newer.text.endswith("# EOF\n")
        assert (await ask(web, path="/metrics", client=("10.0.0.1", 1))).status == 403
