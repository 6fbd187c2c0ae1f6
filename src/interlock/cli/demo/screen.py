"""The screen of the demo: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from interlock.cli.output import console

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from rich.console import RenderableType

    from interlock.cli.demo.scene import Scene, WorkerScene

__all__ = ["LiveScreen", "PlainScreen", "Screen", "screen_for_this_terminal"]

_STYLES = {"kill": "bold red", "good": "green", "note": "yellow"}
_MARKS = {"kill": "✗", "good": "✓", "note": "•"}
_MAX_LINES = 14
_OTHER_LINES = 26
_WIDTH = 118
_NAMES = 12
_LOW = 34
"""A terminal with fewer lines has no room for the introduction."""
_PLAIN_EVERY = 2.0
_AUDIT = "audit so far"


class Screen(Protocol):
    """Where the narration is shown."""

    def title(self, url: str | None, what: str, how: str) -> None:
        """Show the dashboard's URL, and what is going to happen."""
        ...

    def tell(self, kind: str, text: str) -> None:
        """Show an event: a kill, a success, or a note."""
        ...

    def show(self, scene: Scene) -> None:
        """Show the current state."""
        ...


@contextmanager
def screen_for_this_terminal() -> Generator[Screen]:
    """A live display if standard output is a terminal, otherwise plain lines."""
    out = console()
    if not out.is_terminal or out.is_dumb_terminal:
        yield PlainScreen()
        return
    with Live(console=out, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield LiveScreen(live)


class PlainScreen:
    """One line per event, and the current state every other second."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._next = 0.0

    def title(self, url: str | None, what: str, how: str) -> None:
        """Show the dashboard's URL, and what is going to happen."""
        self._print(f"Interlock demo. {what}")
        if url is not None:
            self._print(f"Dashboard: {url}")
        self._print(how)

    def tell(self, _kind: str, text: str) -> None:
        """Show an event."""
        self._print(f"{self._elapsed:6.1f} s  {text}")

    def show(self, scene: Scene) -> None:
        """Show the current state."""
        self._elapsed = scene.elapsed
        if scene.elapsed >= self._next:
            self._next = scene.elapsed + _PLAIN_EVERY
            for what, now in _rows(scene):
                self._print(f"{scene.elapsed:6.1f} s    {what}: {now.plain}")

    def _print(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


class LiveScreen:
    """The current state and the latest events, redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._title: RenderableType = Text()
        self._lines = max(3, min(_MAX_LINES, live.console.height - _OTHER_LINES))
        self._events: deque[tuple[float, str, str]] = deque(maxlen=self._lines)
        self._elapsed = 0.0

    def title(self, url: str | None, what: str, how: str) -> None:
        """Show the dashboard's URL, and what is going to happen."""
        link = Text()
        if url is not None:
            link = Text.assemble("\n", ("Dashboard  ", "bold"), (url, f"bold cyan underline link {url}"), "\n")
        explained = [Text(how, "dim"), Text()] if self._live.console.height >= _LOW else []
        self._title = Group(link, Text(what, "bold"), *explained)
        self._live.update(Group(self._title, Text("Starting the workers …", "dim")), refresh=True)

    def tell(self, kind: str, text: str) -> None:
        """Show an event."""
        self._events.append((self._elapsed, kind, text))

    def show(self, scene: Scene) -> None:
        """Show the current state."""
        self._elapsed = scene.elapsed
        self._live.update(self._picture(scene), refresh=True)

    def _picture(self, scene: Scene) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="bold", no_wrap=True, min_width=_NAMES)
        rows.add_column()
        for what, now in _rows(scene):
            if what != _AUDIT:
                now.no_wrap, now.overflow = True, "ellipsis"
            rows.add_row(what, now)
        of = f" of {scene.seconds:g} s" if scene.seconds is not None else " s"
        subtitle = f"{scene.elapsed:.0f}{of} · Ctrl-C ends the demo with the audit"
        return Panel(
            Group(self._title, rows, Text(), self._feed()),
            title="Interlock demo",
            subtitle=subtitle,
            border_style="blue",
            width=min(self._live.console.width, _WIDTH),
        )

    def _feed(self) -> RenderableType:
        feed = Table.grid(padding=(0, 1))
        feed.add_column(justify="right", width=7)
        feed.add_column(width=1)
        feed.add_column()
        for at, kind, text in self._events:
            feed.add_row(
                f"{at:.1f} s", _MARKS[kind], Text(text, no_wrap=True, overflow="ellipsis"), style=_STYLES[kind]
            )
        for _ in range(self._lines - len(self._events)):
            feed.add_row()
        return feed


def _rows(scene: Scene) -> Iterable[tuple[str, Text]]:
    """The rows of the display: a name and a state."""
    (_, posts), *verdicts = scene.webhooks
    yield "webhooks", Text(f"{posts} posted: {', '.join(f'{count} {verdict}' for verdict, count in verdicts)}")
    yield "jobs", Text(", ".join(f"{count} {told}" for told, count in scene.jobs if count or told == "running"))
    yield "locks", _locks(scene)
    at_work, limit = scene.containers
    yield "containers", Text(f"{at_work} of {limit} in use", "yellow" if at_work >= limit else "")
    yield "held lane", Text(scene.held, "yellow") if scene.held else Text("none", "dim")
    for worker in scene.workers:
        yield worker.name, _worker(worker)
    counts = ", ".join(f"{count} {what}" for what, count in scene.audit)
    clean = not any(count for _, count in scene.audit)
    yield _AUDIT, Text(counts, "bold green" if clean else "bold red")
    yield "in progress", Text(f"{scene.under_way} webhooks; workers killed so far: {scene.kills}")


def _locks(scene: Scene) -> Text:
    parts = []
    for lock in scene.locks:
        waiting = f", {lock.waiting} waiting" if lock.waiting else ""
        gone = " (gone)" if lock.gone else ""
        parts.append(Text(f"{lock.key} {lock.holder}{gone} fence {lock.fence}{waiting}", "red" if lock.gone else ""))
    return Text("; ").join(parts) if parts else Text("none is held", "dim")


def _worker(worker: WorkerScene) -> Text:
    if worker.frozen:
        return Text("frozen", "bold red")
    doing = ", ".join(f"{count} {name}" if count > 1 else name for name, count in Counter(worker.doing).items())
    return Text(f"runs {doing}") if doing else Text("idle", "dim")
