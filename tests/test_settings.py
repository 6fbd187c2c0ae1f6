"""Settings that cannot work are refused before anything opens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock import App, Locks, Settings
from interlock.errors import InvalidArgumentError


@pytest.mark.parametrize(
    "changes",
    [
        {"namespace": ""},
        {"namespace": "A b"},
        {"namespace": "x" * 64},
        {"session_ttl": 0.5},
        {"session_ttl": float("nan")},
        {"recheck_interval": 0},
        {"store_wait": float("inf")},
        {"keep_history": 0},
        {"seal_interval": 0},
        {"seal_limit": 0},
        {"seal_limit": 10_001},
        {"seal_limit": True},
        {"job_log_lines": -1},
        {"job_log_lines": 1.5},
        {"job_log_lines": True},
        {"job_log_bytes": 0},
        {"job_log_bytes": 2**40},
        {"capture_logs": "loud"},
        {"capture_logs": True},
        {"capture_logs": -1},
        {"stuck_work": "ignore"},
        {"metrics_prefix": "1st"},
        {"session_ttl": "5"},
        {"session_ttl": True},
        {"session_ttl": timedelta(0)},
        {"store_wait": None},
        {"namespace": 5},
        {"metrics_prefix": None},
        {"listen_url": 5},
    ],
)
def test_what_cannot_work_is_refused_by_name(changes: dict[str, Any]) -> None:
    (name,) = changes
    with pytest.raises(InvalidArgumentError, match=name):
        Settings(**changes)
    with pytest.raises(InvalidArgumentError, match=name):
        App("memory://", **changes)


def test_seconds_may_be_a_timedelta() -> None:
    assert App("memory://", session_ttl=timedelta(seconds=5)).settings.session_ttl == 5.0


def test_what_is_no_setting_and_no_store_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Unknown setting: foo\. Valid settings: namespace, session_ttl, "):
        App("memory://", foo=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="settings is a dict"):
        App("memory://", settings={"namespace": "x"})  # type: ignore[arg-type]
    for make in (App, Locks.from_url):
        with pytest.raises(InvalidArgumentError, match="A int names no store"):
            make(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="names no store"):
        App("memory://", locks=5)  # type: ignore[arg-type]


def test_settings_are_passed_one_way_or_the_other() -> None:
    with pytest.raises(InvalidArgumentError, match="not both"):
        Locks.from_url("memory://", settings=Settings(), namespace="x")
    with pytest.raises(InvalidArgumentError, match="not both"):
        App("memory://", settings=Settings(), namespace="x")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "without a scheme"),
        ("bot.db", "without a scheme"),
        ("mysql://host/db", "mysql"),
        ("sqlite://", "does not name a file"),
        ("sqlite://:host@x/file.db", "does not name a file"),
        ("memory://a/b", "mean nothing"),
        ("postgresql://:hostpassword@x:notaport/db", "cannot be read"),
    ],
)
def test_a_url_that_cannot_work_is_refused_and_not_repeated(url: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says) as caught:
        App(url)
    assert "host" not in str(caught.value), "a URL may hold a password"


def test_locks_can_live_in_another_store() -> None:
    app = App("memory://", locks="sqlite:///elsewhere.db")
    assert app.locks._store_client.store.name == "sqlite"


def test_a_level_of_logs_may_be_a_name_or_a_number() -> None:
    assert Settings().capture_logs is None
    assert [Settings(capture_logs=level).capture_logs for level in ("info", "ERROR", 15)] == [20, 40, 15]
