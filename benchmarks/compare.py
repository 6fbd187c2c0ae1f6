"""Compare the working tree with another commit: ``python -m benchmarks.compare BASE [--pairs 15] [--only FIGURE]``.

Both sides are measured in turns, in pairs whose order alternates (base first, then working tree first), on one server,
with the same interpreter and the same dependencies. Every measurement has a database of its own, copied from one that
the side itself set up and filled. A figure is the median of the pairs' ratios, working tree to base, so that what slows
the machine down for a while slows down both halves of a pair; above 1 the working tree is faster. The interval is
that of the order statistics: it contains the true median with at least 95 %, whatever the distribution.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import itertools
import json
import math
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
from rich.console import Console
from rich.table import Table

from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

__all__ = ["FIGURES", "Figure", "main", "median_interval"]

ROOT = Path(__file__).parent.parent
SCRIPT = Path(__file__).with_name("compare_side.py")
STEP_SECONDS = 120
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
"""Commits are on disk, and no checkpoint falls into a measurement."""
LEAST_RATIO = 0.97
"""A median below this is worse, not noise."""

console = Console(width=120)


@dataclass(frozen=True)
class Figure:
    """One thing that is measured on both sides."""

    name: str
    what: str
    """The step of the side script that is timed."""
    count: int
    """How many jobs, locks or webhooks a measurement takes."""
    filling: str = "plain"
    processes: int = 1
    store: str = "postgres"

    @property
    def filled(self) -> int:
        """How many jobs are in the store before the measurement begins."""
        return self.count if self.what == "drain" else 0


FIGURES = (
    Figure("drain, 1 worker", "drain", 60_000),
    Figure("drain, 2 workers", "drain", 60_000, processes=2),
    Figure("drain, 1,000 lanes", "drain", 40_000, filling="lanes"),
    Figure("drain, a limit", "drain", 50_000, filling="limit"),
    Figure("webhooks", "serve", 5_000),
    Figure("locks", "locks", 1_500),
    Figure("drain, SQLite", "drain", 50_000, store="sqlite"),
)


@dataclass(frozen=True)
class Side:
    """A commit whose sources are measured."""

    name: str
    source: Path
    commit: str


class Stores:
    """Databases filled by each side, and copies of them for single measurements."""

    def __init__(self, server: PostgresServer, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self._templates: dict[tuple[str, str, str, int], str] = {}
        self._numbers = itertools.count(1)

    async def fill(self, side: Side, figure: Figure) -> None:
        """Have the side set up and fill the store that its measurements of this figure start from."""
        key = self._key(side, figure)
        if key in self._templates:
            return
        name = self._new_name()
        if figure.store == "sqlite":
            url = f"sqlite:///{self._directory}/{name}"
        else:
            self._server.create_database(name)
            url = self._server.url(name)
        async with running(side, figure.filling, url, figure.filled) as step:
            await step.told("filled")
        if figure.store == "postgres":
            await tidy(url)
        self._templates[key] = name

    @asynccontextmanager
    async def copy(self, side: Side, figure: Figure) -> AsyncIterator[str]:
        """The URL of a copy that only this measurement uses."""
        template, name = self._templates[self._key(side, figure)], self._new_name()
        if figure.store == "sqlite":
            for path in self._directory.glob(f"{template}*"):
                shutil.copyfile(path, self._directory / (name + path.name.removeprefix(template)))
            os.sync()
            yield f"sqlite:///{self._directory}/{name}"
            for path in self._directory.glob(f"{name}*"):
                path.unlink()
        else:
            self._server.create_database(name, template)
            await checkpoint(self._server.url(name))
            yield self._server.url(name)
            self._server.drop_database(name)

    def _key(self, side: Side, figure: Figure) -> tuple[str, str, str, int]:
        return side.name, figure.store, figure.filling, figure.filled

    def _new_name(self) -> str:
        return f"compare_{next(self._numbers)}_"


class Step:
    """A running step of one side's script."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def told(self, field: str) -> dict[str, Any]:
        """The next line that the step prints, which must have this field."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), STEP_SECONDS)
        if not line:
            raise RuntimeError(f"a step ended without telling {field!r}; its error is above")
        message: dict[str, Any] = json.loads(line)
        assert field in message, message
        return message

    async def go(self) -> None:
        """Let the step go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        await self._process.stdin.drain()


@asynccontextmanager
async def running(side: Side, what: str, url: str, count: int) -> AsyncIterator[Step]:
    """A step of the side's script in a process of its own, which has ended afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(SCRIPT), what, url, str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(side.source)},
    )
    try:
        yield Step(process)
        await asyncio.wait_for(process.wait(), STEP_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def measure(side: Side, figure: Figure, stores: Stores) -> float:
    """How many a second, once."""
    async with stores.copy(side, figure) as url:
        if figure.what == "serve":
            return await webhooks_per_second(side, figure, url)
        if figure.what == "locks":
            async with running(side, "locks", url, figure.count) as step:
                return rate([await step.told("ended")], figure)
        return await drained_per_second(side, figure, url)


async def drained_per_second(side: Side, figure: Figure, url: str) -> float:
    async with running(side, "drain", url, figure.count) as first:
        steps = [first]
        if figure.processes == 2:
            async with running(side, "drain", url, figure.count) as second:
                return await drain_with([first, second], figure)
        return await drain_with(steps, figure)


async def drain_with(steps: list[Step], figure: Figure) -> float:
    for step in steps:
        await step.told("ready")
    for step in steps:
        await step.go()
    return rate([await step.told("ended") for step in steps], figure)


def rate(messages: Sequence[dict[str, Any]], figure: Figure) -> float:
    done = sum(message["jobs"] for message in messages)
    assert done == figure.count, f"{done} of {figure.count} were done"
    began = min(message["began"] for message in messages)
    return float(figure.count / (max(message["ended"] for message in messages) - began))


async def webhooks_per_second(side: Side, figure: Figure, url: str) -> float:
    async with running(side, "serve", url, 0) as step:
        port = (await step.told("port"))["port"]
        program = "import json, sys; from benchmarks.webhook_sender import send_all; "
        program += "print(json.dumps(send_all(*map(int, sys.argv[1:]))))"
        sender = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(port), "500", str(figure.count)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        answer, _ = await asyncio.wait_for(sender.communicate(), STEP_SECONDS)
        await step.go()
    return float(json.loads(answer)["rate"])


async def tidy(url: str) -> None:
    """Give the planner its statistics, in the database that is copied."""
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum (analyze, freeze)")
    await connection.close()


async def checkpoint(url: str) -> None:
    """Have what was written so far on disk, so that no measurement waits for it."""
    connection = await asyncpg.connect(url)
    await connection.execute("checkpoint")
    await connection.close()


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """The narrowest interval between order statistics that contains the median with at least this probability.

    Fewer than six values cannot give 95 %: the interval is then all of them.
    """
    ordered, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - level:
            break
        rank += 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[count - rank]


def report(sides: Sequence[Side], found: dict[str, list[tuple[float, float]]], server_version: str) -> bool:
    """Print the table, and tell whether no median is worse than allowed."""
    table = Table(title=f"Working tree {sides[1].commit} against {sides[0].commit}", title_justify="left")
    for column, justify in (("figure", "left"), ("pairs", "right"), ("base a second", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for column in ("working tree a second", "median ratio", "95 % interval", f"≥{LEAST_RATIO:g}"):
        table.add_column(column, justify="right")
    good = True
    for name, pairs in found.items():
        ratios = [after / before for before, after in pairs]
        median, (low, high) = statistics.median(ratios), median_interval(ratios)
        good &= median >= LEAST_RATIO
        table.add_row(
            name,
            str(len(pairs)),
            f"{statistics.median(before for before, _ in pairs):,.0f}",
            f"{statistics.median(after for _, after in pairs):,.0f}",
            f"{median:.3f}",
            f"{low:.3f} to {high:.3f}",
            "yes" if median >= LEAST_RATIO else "NO",
        )
    console.print(table)
    packages = [f"{package} {importlib.metadata.version(package)}" for package in ("asyncpg", "uvloop", "uvicorn")]
    parts = [f"Python {platform.python_version()}", f"{os.cpu_count()} cores", f"PostgreSQL {server_version}"]
    parts += [f"SQLite {sqlite3.sqlite_version}", *packages, time.strftime("%Y-%m-%d %H:%M"), sys.platform]
    console.print(" · ".join(parts), style="dim")
    return good


def base_side(base: str, directory: Path) -> Side:
    """The sources of the base commit, written to a directory of their own."""
    commit = git("rev-parse", "--short", f"{base}^{{commit}}")
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return Side("base", directory / "src", commit)


def working_tree(directory: Path) -> Side:
    """A copy of the working tree's sources, which may change during the run."""
    shutil.copytree(ROOT / "src", directory / "src", ignore=shutil.ignore_patterns("__pycache__"))
    changed = "+" if git("status", "--porcelain", "--", "src") else ""
    return Side("working tree", directory / "src", git("rev-parse", "--short", "HEAD") + changed)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


async def compare(options: argparse.Namespace, directory: Path, server: PostgresServer) -> bool:
    sides = (base_side(options.base, directory / "base"), working_tree(directory / "working"))
    stores = Stores(server, directory)
    figures = [figure for figure in FIGURES if options.only in (None, figure.name)]
    for figure, side in itertools.product(figures, sides):
        console.print(f"filling for {figure.name} with {side.name} …", style="dim")
        await stores.fill(side, figure)
    found: dict[str, list[tuple[float, float]]] = {figure.name: [] for figure in figures}
    for pair in range(options.pairs):
        for number, figure in enumerate(figures):
            base_first = (pair + number) % 2 == 0
            rates = {}
            for side in sides if base_first else sides[::-1]:
                rates[side.name] = await measure(side, figure, stores)
            found[figure.name].append((rates["base"], rates["working tree"]))
        shown = " ".join(f"{pairs[-1][1] / pairs[-1][0]:.3f}" for pairs in found.values())
        console.print(f"{time.strftime('%H:%M:%S')} pair {pair + 1} of {options.pairs}: {shown}", style="dim")
    connection = await asyncpg.connect(server.url())
    version = await connection.fetchval("show server_version")
    await connection.close()
    if options.save:
        options.save.write_text(json.dumps({"commits": [side.commit for side in sides], "pairs": found}, indent=1))
    return report(sides, found, version)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", choices=[figure.name for figure in FIGURES], help="just this figure")
    parser.add_argument("--save", type=Path, help="write the rates of all pairs to this file, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, PostgresServer(settings=SETTINGS) as server:
        good = asyncio.run(compare(options, Path(directory), server))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
