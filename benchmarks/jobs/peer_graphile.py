"""graphile-worker at its best: local queue and batched completion. Skipped without node or npm."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import subprocess
from pathlib import Path

import asyncpg

from interlock.testing.processes import Worker

__all__ = ["Graphile", "installed"]

_SCRIPT = Path(__file__).parent / "graphile.cjs"
_INSTALL_SECONDS = 120
_WARM = ("warm_1", "warm_2")
"""Schemas for the warm-up, one per worker process."""


def installed(directory: Path) -> Graphile | None:
    """Install the package into its own directory; None if that is not possible."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "package.json").write_text('{"private": true}')
    install = ["npm", "install", "--no-audit", "--no-fund", "graphile-worker"]
    try:
        subprocess.run(install, cwd=directory, capture_output=True, timeout=_INSTALL_SECONDS, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return Graphile(directory)


class Graphile:
    """The package, installed in a directory."""

    def __init__(self, directory: Path, local_queue: int = 500) -> None:
        self._directory = directory
        self._local_queue = local_queue
        self._warm = itertools.cycle(_WARM)

    def with_local_queue(self, size: int) -> Graphile:
        return Graphile(self._directory, size)

    @property
    def version(self) -> str:
        package = self._directory / "node_modules" / "graphile-worker" / "package.json"
        node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        return f"graphile-worker {json.loads(package.read_text())['version']} on Node {node}"

    def _command(self, what: str, url: str, *rest: str) -> list[str]:
        return ["node", str(_SCRIPT), str(self._directory), what, url, *rest]

    async def _run(self, what: str, url: str, *rest: str) -> None:
        process = await asyncio.create_subprocess_exec(*self._command(what, url, *rest), stdin=subprocess.DEVNULL)
        if await process.wait():
            raise RuntimeError(f"graphile-worker: {what} failed")

    async def prepare(self, url: str) -> None:
        await self._run("prepare", url, *_WARM)

    async def fill(self, url: str, jobs: int) -> None:
        await self._run("fill", url, str(jobs))

    async def left(self, url: str) -> int:
        connection = await asyncpg.connect(url)
        try:
            count: int = await connection.fetchval("select count(*) from graphile_worker._private_jobs")
            return count
        finally:
            await connection.close()

    def spawn(self, url: str) -> Worker:
        process = subprocess.Popen(
            self._command("work", url, str(self._local_queue), next(self._warm)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        return Worker(process, "graphile-worker")
