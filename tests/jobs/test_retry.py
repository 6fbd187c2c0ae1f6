"""What kind of failure an error is, and when it is tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock import Retry
from interlock.errors import InvalidArgumentError, LockTimeoutError, StoreUnavailableError
from interlock.jobs import ErrorClass

TRANSIENT, PERMANENT, UNKNOWN = ErrorClass.TRANSIENT, ErrorClass.PERMANENT, ErrorClass.UNKNOWN


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError(), TRANSIENT),
        (TimeoutError(), TRANSIENT),
        (StoreUnavailableError(), TRANSIENT),
        (LockTimeoutError(), TRANSIENT),
        (TypeError(), PERMANENT),
        (AttributeError(), PERMANENT),
        (NotImplementedError(), PERMANENT),
        (ModuleNotFoundError(), PERMANENT),
        (InvalidArgumentError("no"), PERMANENT),
        (ValueError(), UNKNOWN),
        (KeyError(), UNKNOWN),
        (RuntimeError(), UNKNOWN),
    ],
)
def test_what_holds_for_all(error: Exception, kind: ErrorClass) -> None:
    assert Retry().classify(error) is kind


def test_a_policy_s_own_lists_go_first() -> None:
    retry = Retry(transient=(TypeError,), permanent=(ConnectionError,))

    assert retry.classify(TypeError()) is TRANSIENT
    assert retry.classify(ConnectionResetError()) is PERMANENT
    assert retry.classify(TimeoutError()) is TRANSIENT


def test_the_nearest_type_decides() -> None:
    retry = Retry(transient=(ConnectionResetError, Exception), permanent=(ConnectionError,))

    assert retry.classify(ConnectionResetError()) is TRANSIENT
    assert retry.classify(ConnectionRefusedError()) is PERMANENT
    assert retry.classify(TypeError()) is TRANSIENT


def test_predicates_are_asked_before_types() -> None:
    def not_found(error: BaseException) -> bool:
        return "404" in str(error)

    retry = Retry(transient=(lambda error: "50" in str(error), RuntimeError), permanent=(not_found,))

    assert retry.classify(RuntimeError("404")) is PERMANENT
    assert retry.classify(RuntimeError("404 and 50x")) is PERMANENT
    assert retry.classify(TypeError("503")) is TRANSIENT
    assert retry.classify(ValueError("422")) is UNKNOWN


def test_transient_and_unknown_are_tried_again_until_the_attempts_are_used_up() -> None:
    retry = Retry(attempts=3, jitter=0)

    assert [retry.retry_delay(ValueError(), attempt) for attempt in (1, 2, 3, 4)] == [2, 4, None, None]
    assert [retry.retry_delay(TimeoutError(), attempt) for attempt in (1, 2, 3)] == [2, 4, None]
    assert retry.retry_delay(TypeError(), 1) is None
    assert Retry.NEVER.retry_delay(TimeoutError(), 1) is None


@pytest.mark.parametrize(
    ("retry", "attempts", "delays"),
    [
        (Retry.DEFAULT, 3, [2, 4, 8, 16, 32, 60, 60]),
        (Retry.AGGRESSIVE, 5, [1, 2, 4, 8, 16, 30, 30]),
        (Retry.CONSERVATIVE, 2, [5, 10, 20, 40, 80, 160, 300]),
        (Retry.HIGH_PRIORITY, 5, [0.5, 1, 2, 4, 8, 15, 15]),
    ],
)
def test_strategies(retry: Retry, attempts: int, delays: list[float]) -> None:
    assert retry.attempts == attempts
    for attempt, delay in enumerate(delays, 1):
        seen = [retry.delay_after(attempt) for _ in range(200)]
        assert all(0.9 * delay <= pause <= 1.1 * delay for pause in seen)
        assert max(seen) - min(seen) > 0.05 * delay, "the jobs that failed together come back together"


def test_a_pause_is_never_nothing_and_never_too_long() -> None:
    assert Retry(delay=0, jitter=1).delay_after(1) > 0
    assert Retry(delay=1, jitter=1, factor=100, max_delay=10).delay_after(1000) <= 10
    assert Retry(delay=timedelta(minutes=1), max_delay=timedelta(hours=1), jitter=0).delay_after(2) == 120


def test_a_long_delay_is_kept_and_nothing_exceeds_max_delay() -> None:
    assert Retry(delay=300, jitter=0).delay_after(1) == 300
    assert Retry(delay=timedelta(minutes=5)).max_delay == 300
    assert Retry(delay=1).max_delay == 60
    assert all(Retry(delay=8, max_delay=10, jitter=1).delay_after(2) <= 10 for _ in range(200))


def test_figures_of_older_code_are_read_with_a_cap_that_fits() -> None:
    assert Retry().with_numbers({"delay": 300.0, "max_delay": 60.0}).max_delay == 300
    assert Retry(delay=1, max_delay=5).with_numbers({"delay": 10.0}).max_delay == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": 2.0},
        {"attempts": 10**6},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": "2"},
        {"max_delay": float("inf")},
        {"delay": 60, "max_delay": 1},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"jitter": 1.5},
        {"transient": ConnectionError},
        {"transient": (int,)},
        {"permanent": ("TypeError",)},
        {"transient": (OSError,), "permanent": (OSError,)},
    ],
)
def test_what_is_no_policy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"(?s).+\. .+\."):
        Retry(**wrong)
