"""How a job is to be treated: what may be said, and what becomes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from interlock import Cooldown, Event, Rate, Retry, Slots
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.events.handler import EventDefinition
from interlock.jobs.definition import Definition
from interlock.jobs.options import JobOptions
from interlock.ports.jobs import OnFailure
from interlock.ports.limits import Use

if TYPE_CHECKING:
    from interlock.events.loader import Loader


async def report(account: str, target: int = 5) -> str:
    return f"{account} {target}"


def defined(**options: Any) -> Definition:
    return Definition(report, JobOptions.of(options))


def changed(**changes: Any) -> JobOptions:
    return defined(lane="{account}").options.changed("report", ("account", "target"), changes)


def test_what_holds_when_nothing_is_said() -> None:
    options = defined().options

    assert (options.queue, options.lane, options.priority, options.limits) == ("default", None, 50, ())
    assert (options.retry, options.timeout, options.on_failure) == (Retry.DEFAULT, None, OnFailure.BLOCK)
    assert (options.coalesce, options.keep_result, options.delay, options.at) == (False, 3600, 0, None)
    assert options.stored == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": ""},
        {"queue": "a b"},
        {"queue": None},
        {"queue": "x" * 64},
        {"lane": ""},
        {"lane": 7},
        {"lane": "{"},
        {"lane": "{account}{target}"},
        {"lane": "{nobody}"},
        {"priority": 101},
        {"priority": -1},
        {"priority": 1.5},
        {"priority": True},
        {"limits": Slots("one", 1)},
        {"limits": [5]},
        {"limits": None},
        {"limits": [Cooldown("account", 90, key="{nobody}")]},
        {"retry": 3},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": "5"},
        {"on_failure": "explode"},
        {"coalesce": 1},
        {"coalesce": True},
        {"keep_result": -1},
        {"keep_result": float("inf")},
    ],
)
def test_what_cannot_work_is_refused_when_it_is_defined(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\. .+\."):
        defined(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": 1, "at": datetime.now(UTC)},
        {"delay": -1},
        {"delay": float("nan")},
        {"at": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"at": 1_900_000_000},
        {"lane": "{nobody}"},
        {"limits": [Slots("one", 1, key="{nobody}")]},
        {"lane": None, "coalesce": True},
    ],
)
def test_what_cannot_work_is_refused_when_it_is_changed(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\. .+\."):
        changed(**wrong)


def test_an_unknown_option_is_rejected() -> None:
    with pytest.raises(MisuseError, match=r"Unknown option 'priorty'.+priority"):
        defined(priorty=5)


def test_changes_build_on_one_another() -> None:
    first = changed(priority=80, delay=30, queue="slow")
    second = first.changed("report", ("account",), {"at": datetime(2030, 1, 1, tzinfo=UTC)})

    assert (first.priority, first.delay, first.at, first.queue) == (80, 30, None, "slow")
    assert (second.priority, second.delay, second.queue) == (80, 0, "slow")
    assert second.at == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    assert second.changed("report", (), {"lane": None, "delay": timedelta(seconds=5)}).at is None


def test_only_what_the_worker_has_to_know_travels_with_a_job() -> None:
    assert changed(priority=80, lane=None, queue="x", keep_result=5, limits=[Slots("one", 1)]).stored == ""
    assert json.loads(changed(timeout=5).stored) == {"timeout": 5.0}
    assert json.loads(changed(timeout=None).stored) == {"timeout": None}
    stored = changed(retry=Retry(attempts=7, permanent=(OSError,)), timeout=5).stored
    assert json.loads(stored) == {
        "retry": {"attempts": 7, "delay": 2.0, "max_delay": 60.0, "factor": 2.0, "jitter": 0.1},
        "timeout": 5.0,
    }


def test_the_worker_reads_what_travelled_and_keeps_its_own_classes_of_errors() -> None:
    definition = defined(retry=Retry(transient=(TypeError,)), timeout=60)
    stored = definition.options.changed("report", (), {"retry": Retry(attempts=7, permanent=(OSError,))}).stored

    retry, timeout = definition.terms(stored)

    assert (retry.attempts, retry.transient, retry.permanent, timeout) == (7, (TypeError,), (), 60)
    assert definition.terms("") == (definition.retry, 60)
    assert definition.terms('{"timeout":null}').timeout is None
    assert definition.terms(stored) is definition.terms(stored), "read once"
    newer = definition.terms('{"retry":{"attempts":9,"patience":5},"mood":"good"}')
    assert (newer.retry.attempts, newer.retry.delay) == (9, 2.0), "what only newer code knows is left alone"


def test_lanes_and_limits_come_from_the_arguments() -> None:
    options = defined(
        lane="{account}#{target}",
        limits=[
            Slots("all", 5),
            Cooldown("account", 90, key="{account}"),
            Rate("api", 10, per=60, key=lambda **_: "x"),
        ],
    ).options
    values = {"account": "a#1", "target": 7}

    assert options.lane_of("report", values) == "a%231#7"
    assert options.uses_of(values) == (
        Use("cooldown:account:a#1", 1, 90),
        Use("rate:api:x", 10, 60),
        Use("slots:all", 5, 0),
    )


def test_a_lane_may_be_a_function() -> None:
    lane = defined(lane=lambda account, target: f"{account}/{target}" if target else None).options.lane_of

    assert lane("report", {"account": "a", "target": 7}) == "a/7"
    assert lane("report", {"account": "a", "target": 0}) == ""
    for wrong in (lambda **_: 7, lambda **_: "", lambda **_: "x" * 513, lambda **_: "\0"):
        with pytest.raises(InvalidArgumentError):
            defined(lane=wrong).options.lane_of("report", {"account": "a", "target": 7})


def test_a_lane_that_comes_out_empty_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 512"):
        defined(lane="{account}").options.lane_of("report", {"account": ""})


def test_the_error_of_a_key_function_is_shown() -> None:
    def key(account: str, target: int) -> str:
        raise LookupError(f"no team for {account} and {target}")

    values = {"account": "a1", "target": 7}
    for make in (defined(lane=key).options.lane_of, lambda _, values: Slots("team", 1, key=key).use(values)):
        with pytest.raises(InvalidArgumentError, match=r"function failed: LookupError: no team for a1 and 7\."):
            make("report", values)


def test_key_functions_of_lanes_and_limits_of_an_event_handler_get_the_event() -> None:
    async def triage(event: Event) -> None: ...

    def actor(event: Event) -> str:
        return event.actor

    options = JobOptions.of({"lane": actor, "limits": [Slots("actor", 1, key=actor)]})
    definition = EventDefinition(triage, options, cast("Loader", None))
    event = Event(
        id=7, source="github", type="push", delivery="d1", actor="ann", payload={}, received_at=datetime.now(UTC)
    )
    _, values = definition.bind((event,), {})

    assert definition.lane_of(options, values) == "ann"
    assert [use.key for use in definition.uses_of(options, values)] == ["slots:actor:ann"]


def test_capturing_logs_is_a_matter_of_the_definition() -> None:
    assert defined().options.capture_logs is None
    assert defined(capture_logs="warning").options.capture_logs == 30
    with pytest.raises(InvalidArgumentError, match="Invalid capture_logs 'loud'"):
        defined(capture_logs="loud")
    with pytest.raises(MisuseError, match="capture_logs was given for a call"):
        JobOptions().changed("report", ("account",), {"capture_logs": "INFO"})
