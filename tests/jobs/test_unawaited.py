"""An enqueue that nobody awaited is named; one that somebody did is an ordinary coroutine."""

from __future__ import annotations

import asyncio
import re

import pytest

from interlock import App
from interlock.errors import InvalidArgumentError

app = App("memory://")


@app.job(name="reports.daily")
async def report(account: str) -> str:
    return account


def test_an_enqueue_that_was_never_awaited_is_named_with_its_line() -> None:
    with pytest.warns(RuntimeWarning) as warned:
        report.enqueue("a")  # type: ignore[unused-coroutine]

    (one,) = warned
    assert re.fullmatch(
        r"job 'reports\.daily' was never enqueued: report\.enqueue\(…\) at test_unawaited\.py:\d+ was not awaited; "
        r"write await report\.enqueue\(…\) or report\.enqueue_sync\(…\)",
        str(one.message),
    )
    assert one.filename == __file__
    assert str(one.message).partition("test_unawaited.py:")[2].startswith(f"{one.lineno} ")


def test_so_is_one_by_name_or_with_options() -> None:
    with pytest.warns(RuntimeWarning, match=r"'reports\.daily' was never enqueued: report\.enqueue"):
        report.options(delay=5).enqueue("a")  # type: ignore[unused-coroutine]
    with pytest.warns(RuntimeWarning, match=r"'reports\.daily' was never enqueued: jobs\.enqueue.+sync\.jobs\.enqueue"):
        app.jobs.enqueue("reports.daily", account="a")  # type: ignore[unused-coroutine]
    with pytest.warns(RuntimeWarning, match=r"'reports\.daily' was never enqueued"):
        app.jobs.enqueue(report.call("a"))  # type: ignore[unused-coroutine]


async def test_an_awaited_one_is_an_ordinary_coroutine() -> None:
    async with app:
        handles = [
            await report.enqueue("a"),
            await asyncio.create_task(report.enqueue("b")),
            await asyncio.wait_for(report.enqueue("c"), 5),
            *await asyncio.gather(report.enqueue("d"), app.jobs.enqueue("reports.daily", account="e")),
        ]
        cancelled = asyncio.create_task(report.enqueue("never"))
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        report.enqueue("never").close()
        twice = report.enqueue("f")
        handles.append(await twice)
        with pytest.raises(RuntimeError, match="already awaited"):
            await twice
        with pytest.raises(InvalidArgumentError):
            await report.enqueue(7)  # type: ignore[call-overload]

        await app.drain()
        assert [await handle.result() for handle in handles] == ["a", "b", "c", "d", "e", "f"]
