"""Two versions of a real program share a store during a deploy: what one cannot read, the other runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from interlock import App, JobState
from interlock.jobs import Reason
from interlock.testing.clock import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PROGRAM = """
from interlock import App

app = App({url!r}, version={version!r}, recheck_interval=0.3)

@app.job(name="pay", lane="{{account}}")
async def pay({parameters}) -> str:
    return f"{version} {{account}}"
"""
VERSIONS = {"1.0": "account: str, amount: int", "2.0": "account: str, amount: int, currency: str = 'EUR'"}

pytestmark = pytest.mark.parametrize("every_store_url", ["sqlite", "postgres"], indirect=True)


class Deploy:
    """Workers of several versions, and the producer of the newest one."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.app = App(url, version="2.0")

        @self.app.job(name="pay", lane="{account}")
        async def pay(account: str, amount: int, currency: str = "EUR") -> str:
            raise NotImplementedError

        self.pay = pay
        for version, parameters in VERSIONS.items():
            text = PROGRAM.format(url=url, version=version, parameters=parameters)
            (directory / f"bot{version[0]}.py").write_text(text)

    async def start(self, version: str) -> None:
        """Start a worker of a version, and wait until it works."""
        before = await self.workers()
        command = [sys.executable, "-c", "from interlock.cli import main; main()", "run", f"bot{version[0]}:app"]
        with (self._directory / "stderr").open("a") as log:
            self._processes[version] = subprocess.Popen(
                command, cwd=self._directory, env={**os.environ}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        async def works() -> bool:
            return await self.workers() > before

        await until(works, within=60)

    async def workers(self) -> int:
        """How many workers say that they work."""
        return len(await self.app.jobs._store_client.store.insight.workers(limit=10))

    async def end(self, version: str) -> None:
        """Have a worker end in order."""
        process = self._processes.pop(version)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


@pytest.fixture
async def deploy(tmp_path: Path, every_store_url: str) -> AsyncIterator[Deploy]:
    deploy = Deploy(tmp_path, every_store_url)
    try:
        async with deploy.app:
            yield deploy
    finally:
        deploy.kill()


@pytest.mark.full
async def test_what_new_code_enqueues_is_run_by_new_workers_and_never_parked(deploy: Deploy) -> None:
    await deploy.start("1.0")
    first = await deploy.pay.enqueue(account="a", amount=1)
    assert await first.result(wait=30) == "1.0 a", "old workers run what they can read"

    await deploy.start("2.0")
    lane = [await deploy.pay.enqueue(account="b", amount=n, currency="USD") for n in range(4)]
    alone = [await deploy.pay.enqueue(account=f"c{n}", amount=n, currency="USD") for n in range(6)]
    parked: list[int] = []

    async def all_done() -> bool:
        states = [await handle.status() for handle in (*lane, *alone)]
        parked.extend(state.id for state in states if state.state is JobState.PARKED)
        return all(state.state is JobState.DONE for state in states)

    await until(all_done, within=60)
    assert not parked
    for handle in (*lane, *alone):
        assert (await handle.result(wait=5)).startswith("2.0")
    views = [await deploy.app.jobs.get(handle) for handle in lane]
    starts = [view.fetched_at for view in views if view is not None]
    assert starts == sorted(starts, key=lambda at: at or 0.0), "the lane kept its order"


@pytest.mark.full
async def test_producers_may_deploy_before_workers(deploy: Deploy) -> None:
    await deploy.start("1.0")
    handle = await deploy.pay.enqueue(account="a", amount=1, currency="USD")
    behind = await deploy.pay.enqueue(account="a", amount=2)

    async def is_parked() -> bool:
        return (await handle.status()).state is JobState.PARKED

    await until(is_parked, within=30)
    told = await deploy.app.jobs.explain(handle)
    assert told.reason is Reason.PARKED
    for part in ("version 1.0", "currency"):
        assert part in str(told)
    assert (await behind.status()).state is JobState.BEHIND

    await deploy.start("2.0")
    assert await handle.result(wait=30) == "2.0 a"
    assert (await behind.result(wait=30))[-1] == "a"
