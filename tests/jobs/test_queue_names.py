"""The queues that a worker is told to serve."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.errors import InterlockError, InvalidArgumentError, MisuseError
from interlock.jobs.queue_names import parse_queues

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("default", ["default"]),
        (" a , b,", ["a", "b"]),
        ("mail=2,default=50", {"mail": 2, "default": 50}),
        ("mail = 2, default", {"mail": 2, "default": None}),
    ],
)
def test_queues_and_their_numbers_are_read(text: str, queues: object) -> None:
    assert parse_queues(text) == queues


@pytest.mark.parametrize("text", ["", ",", "a b", "mail=", "mail=0", "mail=-1", "mail=x", "mail=1e3", "a,a", "a=1,a=2"])
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_queues(text)


@pytest.mark.parametrize("queues", [{}, {"mail": 0}, {"mail": 10_001}, {"mail": True}, {"a b": 1}, {"mail": "2"}])
async def test_a_worker_refuses_numbers_that_cannot_be(queues: Mapping[str, Any]) -> None:
    async with App("memory://") as app:
        with pytest.raises((MisuseError, InvalidArgumentError)) as caught:
            app.worker(queues=queues)
        assert isinstance(caught.value, InterlockError)


async def test_a_queue_that_no_job_uses_is_named_with_what_was_meant(caplog: pytest.LogCaptureFixture) -> None:
    async with App("memory://") as app:

        @app.job(queue="mail")
        async def send() -> None: ...

        with caplog.at_level(logging.WARNING, "interlock.jobs"):
            app.worker(queues=["mail"])
            app.worker(queues={"mial": 2, "default": 50})
    found = [record.fields for record in caplog.records if getattr(record, "event", "") == "worker_queue_unused"]
    assert found == [
        {"queue": "mial", "used": ["mail"], "meant": "mail"},
        {"queue": "default", "used": ["mail"], "meant": ""},
    ]
