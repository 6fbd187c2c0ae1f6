"""Webhooks while the store is away: the sender is told to come again, and nothing is lost or doubled by that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock.testing.proxy import ThreadedFaultProxy
from tests.web.client import ask
from tests.web.test_mounting import bot, delivery

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def proxy(interlock_postgres_server: Any) -> Iterator[ThreadedFaultProxy]:
    with ThreadedFaultProxy("127.0.0.1", interlock_postgres_server.port) as proxy:
        yield proxy


async def test_what_cannot_be_kept_is_to_be_sent_again(proxy: ThreadedFaultProxy, complete_postgres_url: str) -> None:
    app = bot(proxy.url(complete_postgres_url), store_wait=0.5)
    async with app:
        web = app.web(dashboard=False)
        while (answer := await ask(web, "POST", "/webhooks/github", *delivery(1))).status == 503:
            pass  # half a second is little on a busy machine
        assert answer.status in (200, 202)
        proxy.blackhole()
        answers = await asyncio.gather(*(ask(web, "POST", "/webhooks/github", *delivery(n)) for n in (1, 2, 3)))
        assert [answer.status for answer in answers] == [503, 503, 503]
        assert {answer.header("retry-after") for answer in answers} == {"5"}
        assert (await ask(web, path="/health")).status == 503
        forged = [("X-Hub-Signature-256", "sha256=0"), *delivery(4)[0][1:]]
        assert (await ask(web, "POST", "/webhooks/github", forged, delivery(4)[1])).status == 401  # needs no store
        proxy.heal()
        for number in (1, 2, 3):
            headers, body = delivery(number)
            while (answer := await ask(web, "POST", "/webhooks/github", headers, body)).status == 503:
                pass
            # One whose answer was lost may have been kept all the same.
            assert answer.json["status"] in (["duplicate"] if number == 1 else ["accepted", "duplicate"])
        events = await app.events.list()
        assert sorted(event.delivery for event in events) == ["delivery-1", "delivery-2", "delivery-3"]
        assert all(len(event.jobs) == 1 for event in events)


async def test_a_lost_answer_of_the_store_does_not_double_an_event(
    proxy: ThreadedFaultProxy, complete_postgres_url: str
) -> None:
    app = bot(proxy.url(complete_postgres_url), store_wait=5.0)
    async with app:
        web = app.web(dashboard=False)
        assert (await ask(web, "POST", "/webhooks/github", *delivery(1))).status == 202
        proxy.drop_replies(1)
        answer = await ask(web, "POST", "/webhooks/github", *delivery(2))
        assert answer.status in (202, 503)
        proxy.heal()
        while (answer := await ask(web, "POST", "/webhooks/github", *delivery(2))).status == 503:
            pass
        assert answer.json["status"] == "duplicate"
        assert len(await app.events.list()) == 2
