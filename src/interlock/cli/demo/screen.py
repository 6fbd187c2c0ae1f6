"""Shows the demo: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from interlock.cli.output import console

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.console import RenderableType

    from interlock.cli.demo.audit import Findings
    from interlock.cli.demo.scene import KeyScene, Scene

__all__ = ["LiveScreen", "PlainScreen", "Screen", "print_audit", "screen_for_this_terminal"]

_STYLES = {"kill": "bold red", "good": "bold green", "note": "yellow"}
_MARKS = {"kill": "✗", "good": "✓", "note": "•"}
_MOST_LINES = 12
_OTHER_LINES = 26
_PLAIN_EVERY = 2.0


class Screen(Protocol):
    """What the story is told to."""

    def title(self, what: str, how: str) -> None:
        """Say what is going to happen."""
        ...

    def tell(self, kind: str, text: str) -> None:
        """Something happened: a kill, something good, or a note."""
        ...

    def show(self, scene: Scene) -> None:
        """Things stand so now."""
        ...


@contextmanager
def screen_for_this_terminal() -> Generator[Screen]:
    """A live picture if standard output is a terminal, else plain lines."""
    out = console()
    if not out.is_terminal or out.is_dumb_terminal:
        yield PlainScreen()
        return
    with Live(console=out, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield LiveScreen(live)


class PlainScreen:
    """One line for everything worth a line, and every other second how things stand."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._next = 0.0

    def title(self, what: str, how: str) -> None:
        """Say what is going to happen."""
        self._print(f"Interlock demo. {what}")
        self._print(how)

    def tell(self, _kind: str, text: str) -> None:
        """Something happened."""
        self._print(f"{self._elapsed:6.1f} s  {text}")

    def show(self, scene: Scene) -> None:
        """Things stand so now."""
        self._elapsed = scene.elapsed
        if scene.elapsed >= self._next:
            self._next = scene.elapsed + _PLAIN_EVERY
            for key in scene.keys:
                waiters = f"; waiting in order: {', '.join(key.waiters)}" if key.waiters else ""
                gone = " (gone)" if key.gone else ""
                holder = f"held by {key.holder}{gone} with fence {key.fence}" if key.holder else "free"
                self._print(f"{scene.elapsed:6.1f} s    {key.key} {holder}{waiters}")
            for line in _others(scene):
                self._print(f"{scene.elapsed:6.1f} s    {line.plain}")

    def _print(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


class LiveScreen:
    """Keys, workers and the latest events, redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._title = Text()
        self._lines = max(3, min(_MOST_LINES, live.console.height - _OTHER_LINES))
        self._events: deque[tuple[float, str, str]] = deque(maxlen=self._lines)
        self._elapsed = 0.0

    def title(self, what: str, how: str) -> None:
        """Say what is going to happen."""
        self._title = Text.assemble((f"{what}\n", "bold"), how)
        self._live.update(Group(self._title, Text("Starting the workers …", "dim")), refresh=True)

    def tell(self, kind: str, text: str) -> None:
        """Something happened."""
        self._events.append((self._elapsed, kind, text))

    def show(self, scene: Scene) -> None:
        """Things stand so now."""
        self._elapsed = scene.elapsed
        self._live.update(self._picture(scene), refresh=True)

    def _picture(self, scene: Scene) -> RenderableType:
        counts = Text(f" {scene.elapsed:4.1f} of {scene.seconds:g} s   {scene.kills} killed")
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(scene.seconds, scene.elapsed, width=30), counts)
        body = Group(
            self._title,
            bar,
            _keys(scene.keys),
            *_others(scene),
            _workers(scene),
            Text(),
            self._feed(),
        )
        return Panel(body, title="Interlock demo", border_style="blue", width=min(self._live.console.width, 110))

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


def _keys(keys: tuple[KeyScene, ...]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    table.add_column("lock", style="bold", no_wrap=True)
    table.add_column("holder", no_wrap=True, min_width=10)
    table.add_column("fence", justify="right", min_width=5)
    table.add_column("for", justify="right", min_width=6)
    table.add_column("waiters in order", ratio=1, no_wrap=True)
    for key in keys:
        holder = Text(key.holder or "free", "strike red" if key.gone else "green" if key.holder else "dim")
        fence, seconds = ("", "") if key.fence is None else (str(key.fence), f"{key.seconds:.1f} s")
        table.add_row(key.key, holder, fence, seconds, Text(" → ".join(key.waiters), "cyan"))
    return table


def _others(scene: Scene) -> list[Text]:
    """What has no table: deliveries, containers, accounts and jobs, one line each."""
    deliveries, containers = scene.deliveries, scene.containers
    at_work = f"{len(containers.at_work)} of {containers.most} at work"
    names = f": {', '.join(containers.at_work)}" if containers.at_work else ""
    starts = ", ".join(f"{name} {f'in {wait:.1f} s' if wait else 'now'}" for name, wait in containers.accounts)
    lines = [
        _line(
            "deliveries",
            f"{deliveries.sent} sent, {deliveries.handled} handled, {deliveries.duplicates} duplicates turned away, ",
            f"{deliveries.in_progress} in progress",
        ),
        _line("containers", f"{containers.waiting} waiting, ", f"{at_work}{names}"),
        _line("accounts", "the next start: ", starts),
    ]
    if scene.comments is not None:
        comments = scene.comments
        left = sum(depth for _, _, depth in comments.lanes)
        done = f"{comments.enqueued} enqueued, {comments.done} done, {comments.failures} failures tried again, "
        lanes = ", ".join(
            f"{issue} {state}{f' +{depth - 1}' if depth > 1 else ''}" for issue, state, depth in comments.lanes
        )
        lines.append(_line("jobs", done, f"{left} in lanes"))
        lines.append(_line("lanes", "", lanes or "all are empty"))
    return lines


def _line(what: str, how: str, now: str) -> Text:
    return Text.assemble((f"{what} ", "bold"), how, (now, "green"), no_wrap=True, overflow="ellipsis")


def _workers(scene: Scene) -> RenderableType:
    styles = {"holds": "green", "waits": "cyan", "idle": "dim", "frozen": "bold red"}
    parts = [(f"{name} {doing.split()[0]}", styles[doing.split()[0]]) for name, doing in scene.workers]
    return Text("   ").join(Text(text, style) for text, style in parts)


def print_audit(findings: Findings) -> None:
    """Print what the audit found."""
    out = console()
    table = Table(
        title="Audit of what the workers, the senders and the target wrote down",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("")
    for what, count, note in _happened(findings):
        table.add_row(what, str(count), Text(note, "dim"))
    table.add_section()
    for what, count in findings.forbidden.items():
        verdict = Text("must be 0", "dim") if count == 0 else Text("must be 0!", "bold red")
        table.add_row(what, Text(str(count), "bold green" if count == 0 else "bold red"), verdict)
    out.print(table)
    if findings.clean:
        out.print(Text("Every promise was kept.", "bold green"))
    else:
        out.print(Text("A promise was broken.", "bold red"))


def _happened(findings: Findings) -> list[tuple[str, int, str]]:
    """What happened, how often, and a note."""
    locks, deliveries, containers = findings.locks, findings.deliveries, findings.containers
    rows = [
        ("workers killed", findings.kills, f"{findings.freezes} frozen" if findings.freezes else ""),
        ("locks granted", locks.grants, ""),
        ("locks taken over", len(locks.takeovers), _after(locks.takeovers)),
        ("stale writes refused", findings.refused, f"{findings.writes} writes accepted"),
        ("deliveries handled", deliveries.handled, f"of {deliveries.sent} sent"),
        ("duplicates turned away", deliveries.duplicates, ""),
        ("deliveries taken over", len(deliveries.takeovers), _after(deliveries.takeovers)),
        ("containers run", containers.started, f"{containers.at_once} at once at the most"),
    ]
    comments = findings.comments
    if comments.enqueued:  # on a store without jobs there are none
        rows += [
            ("comments done", comments.done, f"of {comments.enqueued} enqueued"),
            ("comments that failed", comments.failures, "tried again"),
            ("comments taken over", len(comments.takeovers), _after(comments.takeovers)),
            ("late comments refused", comments.refused, ""),
        ]
    return rows


def _after(took: list[float]) -> str:
    if not took:
        return ""
    least, most = f"{min(took):.1f}", f"{max(took):.1f}"
    return f"{least if least == most else f'{least} to {most}'} s after a kill or a freeze"
