"""The metrics have the promised names, any prefix, and never a label per key."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from interlock import Locks, Settings
from interlock.errors import InvalidArgumentError
from interlock.telemetry.metrics import Durations

PROMISED = {
    "lock_acquisitions_total": {"lock_type", "status"},
    "lock_acquisition_duration_seconds_bucket": {"lock_type", "le"},
    "lock_hold_duration_seconds_bucket": {"lock_type", "le"},
    "lock_contentions_total": {"lock_type"},
    "lock_losses_total": {"lock_type", "cause"},
    "deadlock_detections_total": set(),
    "deadlock_retries_total": set(),
    "version_conflicts_total": set(),
    "version_conflict_retries_total": set(),
    "active_locks": {"lock_type"},
}


@pytest.mark.parametrize("prefix", ["interlock", "bridge"])
async def test_every_promised_metric_is_there_under_its_prefix(prefix: str) -> None:
    async with Locks.from_url("memory://", settings=Settings(metrics_prefix=prefix)) as locks:
        registry = CollectorRegistry()
        registry.register(locks.metrics)
        for number in range(50):
            async with locks.acquire(f"secret-key-{number}"):
                pass
        lost = await locks.acquire("secret-key")
        await asyncio.sleep(0)  # lets the engine listen
        await locks.force_release("secret-key", reason="test", by="test")
        assert lost.lost
        text = generate_latest(registry).decode()

    samples = {s.name: s for family in text_string_to_metric_families(text) for s in family.samples}
    for name, labels in PROMISED.items():
        assert set(samples[f"{prefix}_{name}"].labels) == labels
    assert "secret-key" not in text
    assert text.count("\n") < 150, "as many lines as there are keys?"


async def test_two_engines_share_a_registry_under_two_prefixes() -> None:
    one = Locks.from_url("memory://", metrics_prefix="one")
    two = Locks.from_url("memory://", metrics_prefix="two")
    async with one, two:
        registry = CollectorRegistry()
        registry.register(one.metrics)
        registry.register(two.metrics)
        assert b"one_active_locks" in generate_latest(registry)


def test_a_prefix_that_prometheus_would_refuse_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="metrics_prefix"):
        Settings(metrics_prefix="my-bot")


def test_durations_count_each_value_in_one_bucket() -> None:
    durations = Durations()
    for seconds in (0.00005, 0.0001, 0.0002, 0.3, 1000.0):
        durations.observe(seconds)
    buckets = dict(durations.buckets())

    assert durations.count == 5
    assert buckets["0.0001"] == 2
    assert buckets["0.00025"] == 3
    assert buckets["300.0"] == 4
    assert buckets["+Inf"] == 5
