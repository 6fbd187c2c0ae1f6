"""What holds on the bundled Redis holds on Debian's Redis 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from tests.backends.redis_when_full import takes_what_keeps_or_ends
from tests.conformance.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.testing.servers import RedisServer

pytestmark = pytest.mark.system


class _OnRedis7:
    test_a_crashed_holders_key_is_granted_to_the_next_in_twenty_seconds_with_default_settings = (
        None  # 15 s, once is enough
    )

    @pytest.fixture
    def store_url(self, debian_redis: RedisServer) -> Iterator[str]:
        debian_redis.flush()
        yield debian_redis.url()
        debian_redis.flush()


for suite in SUITES:
    name = f"TestRedis7{suite.__name__}"
    globals()[name] = type(name, (_OnRedis7, suite), {})


def test_it_is_the_debian_build(debian_redis: RedisServer) -> None:
    with redis.Redis.from_url(debian_redis.url()) as client:
        assert client.info("server")["redis_version"].startswith("7.")


async def test_a_full_memory_takes_nothing_from_those_who_hold_something(debian_redis: RedisServer) -> None:
    debian_redis.flush()
    await takes_what_keeps_or_ends(debian_redis.url())
    debian_redis.flush()
