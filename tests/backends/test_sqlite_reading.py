"""Reading a SQLite file while another process mends it, as the first to come after a crash does: all others wait."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Settings
from interlock.backends import from_url
from interlock.backends.sqlite import connection as sqlite_connection
from interlock.errors import StoreUnavailableError
from interlock.testing.processes import Worker, receive, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from interlock.ports.store import Store

# Of the file beside the database that its users share: the head, and the bytes that who mends it has locked.
HEAD = 136
LOCKS = (120, 8)


def mend(shared: str) -> None:
    """In another process: have locked what one who mends the file locks, with nothing read yet, until told to stop."""
    with open(shared, "r+b", buffering=0) as file:
        head = file.read(HEAD)
        start, length = LOCKS
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        file.seek(0)
        file.write(bytes(HEAD))
        report("mending")
        receive("stop")
        file.seek(0)
        file.write(head)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = from_url(f"sqlite:///{tmp_path}/interlock.db", settings=Settings(store_wait=0.3))
    await store.open()
    await store.locks.list("k")  # its connection is kept for the next one
    yield store
    await store.close()


@pytest.fixture
async def mender(store: Store, tmp_path: Path) -> AsyncIterator[Any]:
    async with Worker.spawn(f"{__name__}:mend", [f"{tmp_path}/interlock.db-shm"]) as worker:
        await worker.wait_for("mending", timeout=30)
        yield worker
        worker.send("stop")
        assert await worker.wait() == 0


async def test_reading_waits_until_it_may(store: Store, mender: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        if not waited:
            mender.send("stop")
        waited.append(seconds)

    monkeypatch.setattr(sqlite_connection.time, "sleep", sleep)
    assert await store.locks.list("k") == []
    assert waited


async def test_reading_gives_up_in_time(store: Store, mender: Any) -> None:
    with pytest.raises(StoreUnavailableError, match="locked"):
        await store.locks.list("k")
