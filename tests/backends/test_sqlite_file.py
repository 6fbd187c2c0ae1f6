"""A SQLite file that is deleted or replaced under its users: they stop, and no second database comes into being."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from interlock import App, Locks, Settings
from interlock.backends import from_url
from interlock.errors import LeaseLostError, StoreError, StoreReplacedError, StoreUnavailableError
from interlock.testing.lookup import get_or_none
from interlock.testing.processes import Worker, receive_async, report
from tests.backends.outages import SQLITE, Events, events, own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["events"]

FAST = Settings(session_ttl=1.5, store_wait=0.5, recheck_interval=0.5, stuck_work="report")
SOON = 30.0


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def beside(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)


# -- creating --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022])
async def test_new_files_belong_to_their_owner_only(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "interlock.db"

    with umask(mask):
        async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks, locks.acquire("key"):
            modes = {part: mode_of(beside(path, part)) for part in ("", "-wal", "-shm")}

    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600}


async def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    path.touch()
    path.chmod(0o640)

    async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks, locks.acquire("key"):
        modes = {part: mode_of(beside(path, part)) for part in ("", "-wal", "-shm")}

    assert modes == {"": 0o640, "-wal": 0o640, "-shm": 0o640}


@pytest.mark.parametrize("name", ["a b?mode=memory#x%41.db", "grün&cache=shared.db", "file:x.db"])
async def test_any_name_leads_to_that_one_file(tmp_path: Path, name: str) -> None:
    store = from_url(f"sqlite:///{quote(str(tmp_path / name))}", settings=SQLITE)
    await store.open()
    await store.close()

    assert [path.name for path in tmp_path.iterdir()] == [name]


async def test_a_change_of_the_working_directory_does_not_lead_to_a_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    locks = Locks.from_url("sqlite:///interlock.db", settings=SQLITE)

    monkeypatch.chdir(tmp_path / "elsewhere")
    async with locks, locks.acquire("key") as lease, lease.fenced():
        pass

    assert (tmp_path / "interlock.db").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("dangling", [False, True])
async def test_a_symbolic_link_leads_to_the_file_behind_it(tmp_path: Path, dangling: bool) -> None:
    target, link = tmp_path / "data" / "real.db", tmp_path / "link.db"
    target.parent.mkdir()
    link.symlink_to(target)
    if not dangling:
        async with Locks.from_url(f"sqlite:///{target}", settings=SQLITE):
            pass

    async with (
        Locks.from_url(f"sqlite:///{link}", settings=SQLITE) as one,
        Locks.from_url(f"sqlite:///{target}", settings=SQLITE) as other,
        one.acquire("key"),
    ):
        assert await other.try_acquire("key") is None

    assert mode_of(target) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path != target.parent] == ["link.db"]


async def test_a_directory_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory") as raised:
        await Locks.from_url(f"sqlite:///{tmp_path}", settings=SQLITE).open()

    assert not isinstance(raised.value, StoreUnavailableError)  # waiting would not help
    assert not list(tmp_path.iterdir())


async def test_no_empty_database_is_made_beside_the_remains_of_another(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    beside(path, "-wal").write_bytes(b"commits that nobody has moved into the database yet")

    with pytest.raises(StoreReplacedError, match=r"interlock\.db-wal does"):
        await Locks.from_url(f"sqlite:///{path}", settings=SQLITE).open()

    assert [found.name for found in tmp_path.iterdir()] == ["interlock.db-wal"]
    assert not own_threads()


# -- deleted or replaced under its users -----------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for part in ("", "-wal", "-shm"):
        beside(path, part).unlink()


def delete_wal(path: Path) -> None:
    beside(path, "-wal").unlink()


def delete_shm(path: Path) -> None:
    beside(path, "-shm").unlink()


def restore(path: Path) -> None:
    """Put a backup in its place, as a person does who believes that everything was stopped."""
    backup = beside(path, ".backup")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    delete_wal(path)
    delete_shm(path)
    backup.rename(path)


LOSSES = {act.__name__: act for act in (delete, delete_all, delete_wal, delete_shm, restore)}


async def hold_and_work(url: str) -> dict[str, Any]:
    """In another process: hold a lock in a block, and say how that ended and what comes after."""
    async with Locks.from_url(url, settings=FAST) as locks:
        outcome = {}
        try:
            async with locks.acquire("key", ttl=300):
                report("holds")
                await asyncio.wait_for(asyncio.get_running_loop().create_future(), SOON)
        except LeaseLostError:
            outcome["body"] = "cancelled"
        for name, use in {
            "acquire": lambda: locks.acquire("other"),
            "look": lambda: get_or_none(locks, "key"),
        }.items():
            try:
                await use()
            except StoreReplacedError as error:
                outcome[name] = str(error)
        return outcome


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_processes_stop_when_their_file_is_lost(
    tmp_path: Path, events: Events, loss: Callable[[Path], None]
) -> None:
    path = tmp_path / "interlock.db"
    url = f"sqlite:///{path}"
    async with Worker.spawn(f"{__name__}:hold_and_work", [url]) as worker:
        await worker.wait_for("holds", SOON)
        locks = Locks.from_url(url, settings=FAST)
        await locks.open()
        lease = await locks.acquire("mine")
        before = path.stat().st_ino

        loss(path)

        with pytest.raises(StoreReplacedError, match="while this process was using the database"):
            await locks.acquire("after")
        with pytest.raises(LeaseLostError):
            async with asyncio.timeout(SOON), lease:
                await asyncio.get_running_loop().create_future()
        await locks.close()
        outcome = await worker.result(SOON)

    assert outcome["body"] == "cancelled"
    assert str(path) in outcome["acquire"]
    assert "start them again" in outcome["acquire"]
    assert outcome["look"] == outcome["acquire"]
    assert events["store_replaced"]
    if loss in (delete, delete_all):
        assert not path.exists()
    elif loss is restore:
        assert path.stat().st_ino != before
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("select count(*) from interlock_lock where key = 'after'").fetchone() == (0,)


@pytest.mark.full
async def test_a_second_process_does_not_begin_anew_while_the_first_still_uses_the_deleted_file(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    async with Worker.spawn(f"{__name__}:hold_until_told", [f"sqlite:///{path}"]) as worker:
        await worker.wait_for("holds", SOON)
        path.unlink()

        with pytest.raises(StoreReplacedError, match="does not exist"):
            await Locks.from_url(f"sqlite:///{path}", settings=SQLITE).open()

        worker.send("stop")
        assert await worker.result(SOON) == "StoreReplacedError"
    assert not path.exists()


async def hold_until_told(url: str) -> str:
    """In another process: hold a lock until told, then ask for another."""
    async with Locks.from_url(url, settings=SQLITE) as locks:
        await locks.acquire("key")
        report("holds")
        await receive_async("stop")
        try:
            await locks.acquire("other")
        except StoreError as error:
            return type(error).__name__
    return "granted"


async def test_a_fenced_write_to_a_deleted_file_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks:
        lease = await locks.acquire("key")

        async def write() -> None:
            async with lease.fenced() as transaction:
                await transaction.execute("create table pushed (fence integer)")
                delete_all(path)

        with pytest.raises(StoreReplacedError):
            await write()

        with pytest.raises(StoreReplacedError):
            async with lease.fenced():
                pytest.fail("it began")


# -- jobs ------------------------------------------------------------------------------------------------------------


async def work(url: str) -> str:
    """In another process: run jobs until the worker ends by itself, and say of what."""
    app = App(url, settings=FAST)

    @app.job()
    async def forever() -> None:
        report("runs")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            report("stopped")

    async with app:
        await forever.enqueue()
        try:
            await app.worker(concurrency=2).run()
        except StoreReplacedError:
            pass
        else:
            return "it ended without an error"
        try:
            await forever.enqueue()
        except StoreReplacedError as error:
            return str(error)
    return "it was accepted"


async def test_a_worker_stops_its_jobs_and_ends_when_the_file_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    async with Worker.spawn(f"{__name__}:work", [f"sqlite:///{path}"]) as worker:
        await worker.wait_for("runs", SOON)

        delete_all(path)

        await worker.wait_for("stopped", SOON)
        assert f"{path} was deleted" in await worker.result(SOON)
    assert not list(tmp_path.iterdir())
