"""A SQLite file that cannot be used raises a clear error in bounded time and works again when it can be."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import sqlite3
import tempfile
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks
from interlock.errors import LeaseLostError, StoreError, StoreUnavailableError
from interlock.testing.processes import Worker, receive, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


from tests.backends.outages import (
    SHORT,
    SMALL,
    SOON,
    SQLITE,
    Events,
    no_longer_than,
    own_threads,
    queue_of,
    take,
    until,
    until_free,
)

pytestmark = pytest.mark.full

# -- SQLite ------------------------------------------------------------------------------------------------------


def hold_the_file(path: str) -> None:
    """In another process: keep all others from writing until told to stop."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin exclusive")
        report("holding")
        receive("stop")


@asynccontextmanager
async def locked_by_another_process(path: Path) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """The file is locked inside the block, until the function it gives is called."""
    async with Worker.spawn(f"{__name__}:hold_the_file", [str(path)]) as worker:
        await worker.wait_for("holding", timeout=30)

        async def let_go() -> None:
            worker.send("stop")
            assert await worker.wait() == 0

        yield let_go


async def test_a_file_that_stays_locked_raises_in_bounded_time_and_works_again(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks:
        async with locks.acquire("before"):
            pass

        async with locked_by_another_process(path) as let_go:
            async with no_longer_than(SQLITE.store_wait + SMALL):
                answers = await asyncio.gather(
                    *(take(locks, f"during {number % 3}") for number in range(30)), return_exceptions=True
                )
            assert {type(answer) for answer in answers} == {StoreUnavailableError}
            assert str(path) in str(answers[0])
            await let_go()

        async with locks.acquire("after", wait=SOON) as lease:
            lease.ensure()
        for number in range(3):
            await until_free(locks, f"during {number}")


async def test_a_release_while_the_file_is_locked_is_logged_and_made_good(tmp_path: Path, events: Events) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks:
        lease = await locks.acquire("key", ttl=300)

        async with locked_by_another_process(path) as let_go:
            async with no_longer_than(2 * SQLITE.store_wait + SMALL):
                await lease.release()
            assert events["lock_release_failed"]
            await let_go()

        await until_free(locks, "key")


async def test_a_file_locked_for_long_cancels_the_body_before_the_lease_can_pass_on(
    tmp_path: Path, events: Events
) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SHORT) as locks:
        lease = await locks.acquire("key", ttl=300)
        async with locked_by_another_process(path) as let_go:
            with pytest.raises(LeaseLostError):
                async with lease:
                    await asyncio.wait_for(asyncio.get_running_loop().create_future(), 10)
            assert locks._store_client.clock.monotonic() < lease._session.deadline + SHORT.session_margin
            await let_go()

        async with locks.acquire("key", wait=SOON) as newer:
            assert newer.fence > lease.fence
    assert not events["work_overran_session"]


async def test_a_waiter_outlasts_a_locked_file(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    url = f"sqlite:///{path}"
    async with Locks.from_url(url, settings=SQLITE) as locks, Locks.from_url(url, settings=SQLITE) as others:
        lease = await locks.acquire("key")
        waiter = asyncio.create_task(take(others, "key", wait=30))
        await queue_of(locks, "key", 1)

        async with locked_by_another_process(path) as let_go:
            await lease.release()
            assert not waiter.done()
            await let_go()

        granted = await asyncio.wait_for(waiter, SOON)
        await granted.release()


async def test_opening_a_file_that_stays_locked_raises_in_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    locks = Locks.from_url(f"sqlite:///{path}", settings=SQLITE)

    async with locked_by_another_process(path) as let_go:
        async with no_longer_than(SQLITE.store_wait + SMALL):
            with pytest.raises(StoreUnavailableError):
                await locks.open()
        await let_go()

    assert not own_threads()
    async with locks, locks.acquire("key") as lease:
        lease.ensure()


async def test_opening_waits_for_a_locked_file_and_says_so(
    tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.store_client._TELL_AFTER", 0.05, raising=False)
    path = tmp_path / "interlock.db"
    locks = Locks.from_url(f"sqlite:///{path}", session_ttl=30, store_wait=20)

    async with locked_by_another_process(path) as let_go:
        opening = asyncio.create_task(locks.open())
        await until(lambda: events["store_unavailable"])
        await let_go()

    await opening
    assert events["store_available"]
    await locks.close()


@pytest.mark.parametrize("content", [b"this is no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "interlock.db"
    path.write_bytes(content)

    async with no_longer_than(SQLITE.store_wait + SMALL):
        with pytest.raises(StoreError, match=r"not a database|malformed") as raised:
            await Locks.from_url(f"sqlite:///{path}", settings=SQLITE).open()

    assert not isinstance(raised.value, StoreUnavailableError)  # waiting would not help
    assert str(path) in str(raised.value)
    assert path.read_bytes() == content
    assert not own_threads()


async def test_a_missing_directory_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "interlock.db"

    async with no_longer_than(SQLITE.store_wait + SMALL):
        with pytest.raises(StoreError, match="No such file or directory") as raised:
            await Locks.from_url(f"sqlite:///{path}", settings=SQLITE).open()

    assert str(path) in str(raised.value)
    assert not isinstance(raised.value, StoreUnavailableError)  # waiting would not help


async def open_as_an_ordinary_user(path: str) -> str:
    """In another process: what opening says to someone who may not write there."""
    locks = Locks.from_url(f"sqlite:///{path}", settings=SQLITE)  # first, as modules may be out of reach later
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setresgid(nobody.pw_gid, nobody.pw_gid, nobody.pw_gid)
        os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)
    begun = time.monotonic()
    try:
        async with locks:
            return "it opened"
    except StoreError as error:
        assert time.monotonic() - begun < SQLITE.store_wait + SMALL
        return str(error)


@pytest.mark.parametrize("existing", [False, True])
async def test_a_directory_without_the_right_to_write_is_a_clear_error(existing: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "interlock.db")
        if existing:
            async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE):
                pass
        Path(directory).chmod(0o555)
        try:
            async with Worker.spawn(f"{__name__}:open_as_an_ordinary_user", [str(path)]) as worker:
                said = await worker.result(30)
        finally:
            Path(directory).chmod(0o755)

    assert str(path) in said
    assert ("unable to open database file" if existing else "Permission denied") in said
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
