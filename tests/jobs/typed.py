# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What a type checker sees of jobs. Checked by `make lint`: each comment below that ignores an error is needed."""

from __future__ import annotations

from typing import assert_type

from interlock import App, Handle, Jobs, Retry, Slots

app = App("memory://")
jobs = Jobs.from_url("memory://")


@app.job(lane="{account}#{target}", limits=[Slots("one", 1)], retry=Retry.NEVER, timeout=5, on_failure="skip")
async def report(account: str, target: int = 5) -> str:
    return f"{account} {target}"


@jobs.job()
def plain(number: int) -> list[int]:
    return [number]


async def right() -> None:
    handle = await report.enqueue("a", target=7)
    assert_type(handle, Handle[str])
    assert_type(await handle.result(wait=5), str)
    assert_type(await report("a"), str)
    assert_type(plain(7), list[int])
    assert_type(await (await plain.options(priority=80, delay=30).enqueue(number=7)).result(), list[int])
    assert_type(await app.jobs.enqueue_many([report.call("a"), report.call(account="b", target=7)]), list[Handle[str]])


async def wrong() -> None:
    await report.enqueue(7)  # pyright: ignore[reportArgumentType]
    await report.enqueue(account="a", target="7")  # pyright: ignore[reportArgumentType]
    await report.enqueue()  # pyright: ignore[reportCallIssue]
    await report.enqueue("a", unknown=1)  # pyright: ignore[reportCallIssue]
    report.call("a", 7, 8)  # pyright: ignore[reportCallIssue]
    report.options(priority="high")  # pyright: ignore[reportArgumentType]
    report.options(prio=80)  # pyright: ignore[reportCallIssue]
    app.job(on_failure="explode")  # pyright: ignore[reportArgumentType]
    number: int = await (await report.enqueue("a")).result()  # pyright: ignore[reportAssignmentType]
    del number
