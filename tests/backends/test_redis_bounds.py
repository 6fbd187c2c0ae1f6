"""Redis does one thing at a time: no script of ours does so much that the others wait for it, and a full memory takes
nothing from those who hold something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis

from interlock.backends import from_url
from interlock.ports.limits import Plan, Use
from interlock.ports.locks import LockRequest
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from tests.backends.redis_when_full import takes_what_keeps_or_ends

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEYS = 12_000
COMMANDS = 8_000
"""That a script of a look may run: a few for each of a thousand keys."""


@pytest.fixture(scope="module")
def kind() -> str:
    return "redis"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Any]:
    store = from_url(url, settings=Settings())
    await store.open()
    await store.sessions.begin(SessionCard("s", "host", 7, "test"), 600.0)
    yield store
    await store.close()


async def commands_of_a_script(client: redis.Redis, work: Any) -> tuple[Any, float]:
    """What comes of some work, and how many commands its scripts ran on average."""
    client.config_resetstat()
    found = await work
    stats: Any = client.info("commandstats")
    calls = {name: figures["calls"] for name, figures in stats.items()}
    return found, sum(calls.values()) / calls["cmdstat_evalsha"]


async def test_a_look_at_limits_reads_a_bounded_number_of_keys_at_a_time(store: Any, url: str) -> None:
    await store.limits.ask(Plan("s.1", "p", "s", (Use("zzz", 1, 0.0),), True))
    with redis.Redis.from_url(url) as client:
        client.zadd("interlock:default:limit_names", {f"idle-{number}": 0 for number in range(KEYS)})
        found, commands = await commands_of_a_script(client, store.limits.list(limit=10))

    assert [view.key for view in found] == ["zzz"]
    assert commands < COMMANDS


async def test_a_look_at_locks_reads_a_bounded_number_of_keys_at_a_time(store: Any, url: str) -> None:
    await store.locks.ask(LockRequest("zzz", "s.1", "p", "s", 600.0, 0, False))
    with redis.Redis.from_url(url) as client:
        client.zadd("interlock:default:names", {f"idle-{number}": 0 for number in range(KEYS)})
        found, commands = await commands_of_a_script(client, store.locks.list(limit=10))

    assert [view.key for view in found] == ["zzz"]
    assert commands < COMMANDS


async def test_a_page_of_a_look_goes_on_where_the_last_one_ended(store: Any) -> None:
    for number in range(5):
        await store.limits.ask(Plan(f"s.{number}", "p", "s", (Use(f"key-{number}", 1, 0.0),), True))

    first = await store.limits.list(limit=2)
    rest = await store.limits.list(limit=10, after=first[-1].key)

    assert [view.key for view in (*first, *rest)] == [f"key-{number}" for number in range(5)]


async def test_a_full_memory_takes_nothing_from_those_who_hold_something(url: str) -> None:
    await takes_what_keeps_or_ends(url)
