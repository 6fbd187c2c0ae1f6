"""Rounds, spreads and tables: everything is measured several times, alternating with its peers."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sqlite3
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Figure", "Report", "percentile", "versions"]

console = Console(width=170)
_PACKAGES = (
    "asyncpg",
    "uvloop",
    "filelock",
    "redis",
    "hiredis",
    "python-redis-lock",
    "pottery",
    "pgqueuer",
    "procrastinate",
    "saq",
    "psycopg",
    "huey",
    "sqlalchemy",
    "interlock",
)


@dataclass
class Figure:
    """One measurement: its name, its value in each round, and the peer that it is compared with."""

    name: str
    unit: str
    rounds: list[float] = field(default_factory=list)
    against: str = ""
    """The name of the peer's figure in the same run."""
    reach: str = ""
    """The target, as text."""
    reached: bool | None = None
    more_is_better: bool = True

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def spread(self) -> str:
        return f"{shown(min(self.rounds))} to {shown(max(self.rounds))}"


class Report:
    """All figures of one run."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.figures: dict[str, Figure] = {}
        self.notes: list[str] = []
        """Versions and settings of this run."""

    def add(self, name: str, value: float, unit: str, *, more_is_better: bool = True) -> Figure:
        figure = self.figures.setdefault(name, Figure(name, unit, more_is_better=more_is_better))
        figure.rounds.append(value)
        return figure

    def compare(self, name: str, against: str) -> float:
        """The ratio of a figure to that of its peer: above one is better."""
        figure, peer = self.figures[name], self.figures[against]
        figure.against = against
        return figure.median / peer.median if figure.more_is_better else peer.median / figure.median

    def judge(self, name: str, reach: str, reached: bool) -> None:
        self.figures[name].reach = reach
        self.figures[name].reached = reached

    def print(self) -> None:
        table = Table(title=self.title, title_justify="left", expand=False)
        for column, justify in (("benchmark", "left"), ("median", "right"), ("spread", "right"), ("", "left")):
            table.add_column(column, justify=justify)
        table.add_column("ratio to peer", justify="left")
        table.add_column("target", justify="left")
        for figure in self.figures.values():
            ratio = ""
            if figure.against:
                ratio = f"{self.compare(figure.name, figure.against):.2f}× {figure.against}"
            mark = {True: "[green]reached[/] ", False: "[red]MISSED[/] ", None: ""}[figure.reached]
            table.add_row(figure.name, shown(figure.median), figure.spread(), figure.unit, ratio, mark + figure.reach)
        console.print(table)
        console.print(" · ".join([versions(), *self.notes]), style="dim")

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {
            "versions": " · ".join([versions(), *self.notes]),
            "figures": [asdict(figure) for figure in self.figures.values()],
        }
        path.write_text(json.dumps(data, indent=1))


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def shown(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"


def versions() -> str:
    parts = [f"Python {platform.python_version()}", f"{os.cpu_count()} cores", f"SQLite {sqlite3.sqlite_version}"]
    parts += [f"{package} {importlib.metadata.version(package)}" for package in _PACKAGES]
    return " · ".join([*parts, time.strftime("%Y-%m-%d"), sys.platform])
