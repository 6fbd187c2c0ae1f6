"""Strategies by configuration: what the program declares, the settings and the environment, in this order."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App, Settings
from interlock.arguments import FOREVER
from interlock.deadlocks import retry_on_deadlock
from interlock.errors import ConcurrencyConflictError, InvalidArgumentError, LockTimeoutError
from interlock.record_strategies import ENVIRONMENT, Operation, Plan, Strategy, StrategyOverrides, plans
from tests.records.worker import Counter, add, declare

if TYPE_CHECKING:
    from collections.abc import Mapping


def _plans(kind: str, settings: str | Mapping[str, Any] = "", **declared: Any) -> dict[Operation, Plan]:
    overrides = StrategyOverrides.read(Settings(record_strategies=settings).record_strategies)
    return plans(declared, 5, kind=kind, overrides=overrides)


def test_the_declared_strategies_hold_without_settings() -> None:
    found = _plans("Intent", update="pessimistic", transition=("optimistic", 2))
    assert found[Operation.UPDATE] == (Strategy.PESSIMISTIC, 5)
    assert found[Operation.TRANSITION] == (Strategy.OPTIMISTIC, 2)
    assert found[Operation.EDIT] == (Strategy.PESSIMISTIC, 5)
    assert found[Operation.CREATE] == (Strategy.OPTIMISTIC, 5)


def test_settings_override_the_declaration_for_one_kind_and_operation() -> None:
    settings = {"Intent.update": "none", "Intent.edit": ("pessimistic", 30), "*.delete": "pessimistic:forever"}
    found = _plans("Intent", settings, update=("pessimistic", 2))
    assert found[Operation.UPDATE] == (Strategy.NONE, 2), "the wait stays if none is set"
    assert found[Operation.EDIT].wait == 30
    assert found[Operation.DELETE] == (Strategy.PESSIMISTIC, None)
    other = _plans("Other", settings)
    assert other[Operation.UPDATE].strategy == Strategy.OPTIMISTIC
    assert other[Operation.DELETE].strategy == Strategy.PESSIMISTIC


def test_a_kind_is_more_specific_than_all_kinds_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = "Intent.update=none:1 *.update=pessimistic:9, *.correct=pessimistic"
    assert _plans("Intent", settings)[Operation.UPDATE] == (Strategy.NONE, 1)
    assert _plans("Other", settings)[Operation.UPDATE] == (Strategy.PESSIMISTIC, 9)
    monkeypatch.setenv(ENVIRONMENT, "*.update=optimistic:3")
    assert _plans("Intent", settings)[Operation.UPDATE] == (Strategy.OPTIMISTIC, 3)
    assert _plans("Intent", settings)[Operation.CORRECT].strategy == Strategy.PESSIMISTIC


def test_settings_are_kept_as_text_that_can_be_read_again() -> None:
    given = {"B.update": ("none", 1.5), "A.edit": ("pessimistic", FOREVER), "*.delete": "none"}
    text = Settings(record_strategies=given).record_strategies
    assert text == "*.delete=none, A.edit=pessimistic:forever, B.update=none:1.5"
    assert Settings(record_strategies=text).record_strategies == text
    assert hash(Settings(record_strategies=text)) == hash(Settings(record_strategies=given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("Intent.update", "without '='"),
        ("Intent=none", "invalid key 'Intent'"),
        ("Intent.save=none", "Unknown operation in {}: 'save'"),
        ("Intent.update=careful", "Invalid strategy 'careful' for Intent.update"),
        ("Intent.create=pessimistic", "Invalid strategy 'pessimistic' for Intent.create"),
        ("Intent.edit=optimistic", "Invalid strategy 'optimistic' for Intent.edit"),
        ("Intent.update=none:soon", "Invalid wait 'soon' of Intent.update"),
        ("Intent.update=none:-1", "the wait of Intent.update is -1"),
        ("Intent.update=none:nan", "the wait of Intent.update is nan"),
        ("Intent.update=none, Intent.update=none", "sets 'Intent.update' twice"),
    ],
)
def test_what_cannot_work_is_refused_when_the_app_is_built(
    given: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        App("memory://", record_strategies=given)
    assert message.format("record_strategies") in str(refused.value)
    assert refused.value.remedy
    monkeypatch.setenv(ENVIRONMENT, given)
    with pytest.raises(InvalidArgumentError) as refused:
        App("memory://")
    assert message.format(ENVIRONMENT) in str(refused.value)


async def test_a_strategy_is_rolled_out_without_a_change_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "Counter.update=none")
    app = App("memory://")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))

        async def meanwhile(counter: Counter) -> None:
            if not counter.count:
                await records.correct("one", {"payload.a": 7}, source="s", reason="r")
            counter.count += 1

        with pytest.raises(ConcurrencyConflictError):
            await records.update("one", meanwhile)


async def test_strategies_for_a_kind_that_is_not_declared_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    app = App("memory://", record_strategies="Countre.update=none")
    declare(app)
    with caplog.at_level(logging.WARNING, "interlock.records"):
        async with app:
            pass
    assert "record_strategies_unused" in caplog.text
    assert "Countre" in caplog.text


async def test_a_lock_timeout_can_be_retried() -> None:
    tries = 0

    @retry_on_deadlock(max_retries=3, base_delay=0, jitter=0, lock_timeouts=True)
    async def write() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise LockTimeoutError("busy")
        return "done"

    assert await write() == "done"
    tries = -5
    with pytest.raises(LockTimeoutError):
        await write()
    assert tries == -2

    @retry_on_deadlock(max_retries=3, base_delay=0, jitter=0)
    def never() -> None:
        raise LockTimeoutError("busy")

    with pytest.raises(LockTimeoutError):
        never()


async def test_an_edit_waits_as_long_as_the_settings_say() -> None:
    app = App("memory://", record_strategies="Counter.edit=pessimistic:0")
    records = declare(app)
    async with app:
        await records.create(Counter(id="one"))
        async with app.locks.acquire("record:Counter:one"):
            with pytest.raises(LockTimeoutError):
                async with records.edit("one"):
                    pass
        assert (await records.update("one", add)).count == 1
