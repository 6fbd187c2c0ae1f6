"""Flaws of other designs, each as a test that fails on the flawed design. Races run in separate processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock import App
from interlock.errors import (
    DeadlockError,
    InvalidArgumentError,
    LockTimeoutError,
    RecordNotFoundError,
    WaitTimeoutError,
)
from tests.records.worker import Counter, add, declare

if TYPE_CHECKING:
    from interlock.records import Records

ROOT = Path(__file__).parents[2]
PROCESSES = 5


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes can use."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


class _Open:
    """An app with counters ``one`` and ``two``."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.records: Records[Counter] = declare(self.app)

    async def __aenter__(self) -> Records[Counter]:
        await self.app.__aenter__()
        if not await self.records.list():
            await self.records.create(Counter(id="one"))
            await self.records.create(Counter(id="two"))
        return self.records

    async def __aexit__(self, *error: Any) -> None:
        await self.app.__aexit__(None, None, None)


def _start(url: str, task: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.records.worker", url, task, str(number)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


async def _run(url: str, task: str) -> None:
    """Run a task in several processes, and fail if one of them does."""
    running = [_start(url, task, number) for number in range(PROCESSES)]
    try:
        for process in running:
            _, errors = await asyncio.to_thread(process.communicate, timeout=60)
            assert process.returncode == 0, errors
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()


async def test_f_b1_a_wait_is_a_wait_and_not_a_refusal(url: str) -> None:
    async with _Open(url) as one, _Open(url) as two:
        entered = asyncio.Event()

        async def hold() -> None:
            async with one.edit("one") as counter:
                entered.set()
                await asyncio.sleep(0.1)
                counter.count = 1

        holding = asyncio.create_task(hold())
        await entered.wait()
        async with two.edit("one", wait=5) as counter:
            assert counter.count == 1
        await holding


async def test_f_b2_a_lock_that_is_not_free_in_time_has_its_own_error_that_names_the_holder(url: str) -> None:
    async with _Open(url) as one, _Open(url) as two, one.edit("one"):
        with pytest.raises(LockTimeoutError, match=r"held by .+ since") as refused:
            async with two.edit("one", wait=0.05):
                pytest.fail("two editors")
        assert refused.value.code == "lock-timeout"
        with pytest.raises(LockTimeoutError):
            await two.update("one", add, wait=0.05)


@pytest.mark.full
async def test_f_b3_a_real_deadlock_of_two_processes_is_recognized_and_retried(url: str) -> None:
    assert not issubclass(DeadlockError, WaitTimeoutError)
    async with _Open(url) as records:
        running = [_start(url, "cross", number) for number in (1, 2)]
        for process in running:
            assert process.stdout is not None
            assert (await asyncio.to_thread(process.stdout.readline)).strip() == "ready"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [await asyncio.to_thread(process.communicate, timeout=30) for process in running]
        deadlocks, seconds = zip(*(map(float, out.split()) for out, _ in outputs), strict=True)

        assert sum(deadlocks) == 1, "both wait for each other, and one of them is refused"
        assert [(one.version, one.count) for one in await records.list()] == [(2, 2), (2, 2)]
        assert max(seconds) < 1, "with default settings, the retry's delay included"


async def test_f_b4_concurrent_tasks_share_no_session_or_transaction(url: str) -> None:
    async with _Open(url) as records:
        for number in range(20):
            await records.create(Counter(id=f"r{number:02}"))
        inside = asyncio.Barrier(20)

        async def edit(number: int) -> None:
            async with records.edit(f"r{number:02}") as counter:
                await inside.wait()  # all of them are open at once, with four connections
                counter.count = number
                if number % 2:
                    raise ValueError("only this one is discarded")

        results = await asyncio.gather(*map(edit, range(20)), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), ValueError] * 10
        counts = [one.count for one in await records.list() if one.id.startswith("r")]
        assert counts == [0 if number % 2 else number for number in range(20)]


async def test_f_b7_a_new_object_of_a_stage_is_the_one_that_is_saved(url: str) -> None:
    def stage(counter: Counter) -> Counter:
        return counter.model_copy(update={"count": 7, "payload": {"new": True}})

    async with _Open(url) as records:
        await records.update("one", stage)
        async with records.edit("two") as counter:
            await records.update("two", stage)
            counter.payload["also"] = 1
        one, two = await records.list()
        assert (one.count, one.payload) == (7, {"new": True})
        assert (two.count, two.payload) == (7, {"new": True, "also": 1})


@pytest.mark.full
async def test_f_b8_all_of_fifty_contenders_in_five_processes_succeed(url: str) -> None:
    async with _Open(url) as records:
        await _run(url, "increment")
        one, two = await records.list()
        assert (one.count, one.version) == (250, 250)
        assert (two.count, two.version) == (100, 100)
        versions = [entry.to_version for entry in await records.history("one", limit=1000)]
        assert sorted(version for version in versions if version is not None) == list(range(251))


@pytest.mark.full
async def test_f_b8_all_of_fifty_corrections_in_five_processes_are_applied_once(url: str) -> None:
    async with _Open(url) as records:
        await _run(url, "correct")
        one = await records.get("one")
        assert one.version == 60
        assert one.payload == {f"p{p}t{t}": t for p in range(PROCESSES) for t in range(10)} | {
            f"all{t}": t for t in range(10)
        }


async def test_f_b9_there_and_back_again_is_not_already_applied(url: str) -> None:
    async with _Open(url) as records:
        for key, value in (("1", "A"), ("2", "B"), ("3", "A")):
            done = await records.correct("one", {"payload.x": value}, source="s", reason="r", key=key)
            assert not done.already_applied
        assert (await records.get("one")).payload == {"x": "A"}


async def test_f_b10_already_applied_answers_with_the_original_time(url: str) -> None:
    async with _Open(url) as records:
        first = await records.correct("one", {"payload.x": 1}, source="s", reason="r")
        await asyncio.sleep(0.01)
        again = await records.correct("one", {"payload.x": 1}, source="s", reason="r")
        assert again.already_applied
        assert again.applied_at == first.applied_at


async def test_f_b11_a_change_that_was_not_made_is_not_in_the_journal(url: str) -> None:
    async with _Open(url) as records:
        with pytest.raises(ZeroDivisionError):
            async with records.edit("one") as counter:
                counter.count = 1 // 0
        with pytest.raises(RecordNotFoundError):
            await records.update_many(["one", "three"], add)
        with pytest.raises(InvalidArgumentError):
            await records.update("one", {"count": "many"})
        assert [entry.action for entry in await records.history("one")] == ["record.create"]


async def test_f_b11_every_change_that_was_made_is_in_the_journal(url: str) -> None:
    async with _Open(url) as records:
        async with records.edit("one") as counter:
            counter.count = 1
        (entry, _) = await records.history("one")
        assert json.loads(entry.before or "") == {"count": 0}
        assert json.loads(entry.after or "")["count"] == 1


async def test_f_b12_an_error_that_can_never_succeed_is_not_retried(url: str) -> None:
    calls = 0

    def fail(_: Counter) -> None:
        nonlocal calls
        calls += 1
        raise ValueError("never")

    def spoil(counter: Counter) -> None:
        nonlocal calls
        calls += 1
        counter.count = "many"  # type: ignore[assignment]

    async with _Open(url) as records:
        for change, error in ((fail, ValueError), (spoil, InvalidArgumentError)):
            calls = 0
            with pytest.raises(error):
                await records.update("one", change)
            assert calls == 1
        with pytest.raises(RecordNotFoundError):
            await records.update("three", add)
