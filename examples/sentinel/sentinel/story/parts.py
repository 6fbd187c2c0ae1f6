"""The parts that the processes of the story share: the console, and the trace of every start and end of a report."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sentinel.factory import create_console

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from pathlib import Path

    from interlock.jobs import CurrentJob
    from sentinel.console import Console

__all__ = ["SESSION_SECONDS", "Trace", "story_console"]

SESSION_SECONDS = 3.0
"""How long a killed worker's work waits for the next worker. The default of 15 s would make a long story."""


class Trace:
    """A file to which every process appends: what started and ended, when and where."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def span(self, **what: Any) -> Generator[None]:
        """Note the start and the end of a block."""
        self.note(event="start", **what)
        try:
            yield
        finally:
            self.note(event="end", **what)

    def note(self, **what: Any) -> None:
        """Append a line with the time and the process."""
        line = json.dumps({"at": time.time(), "pid": os.getpid(), **what}) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self) -> list[dict[str, Any]]:
        """All lines, the oldest first."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text("utf-8").splitlines()]


def story_console(url: str, namespace: str, moderation_url: str, trace: Trace) -> Console:
    """The console of the story, the same in every process. Its middleware notes every run of a report."""
    console = create_console(url, moderation_url=moderation_url, namespace=namespace, session_ttl=SESSION_SECONDS)

    @console.app.middleware
    async def note_reports(job: CurrentJob, call_next: Callable[[], Awaitable[Any]]) -> Any:  # pyright: ignore[reportUnusedFunction]
        if job.name != console.report.name:
            return await call_next()
        with trace.span(job=job.id, target=job.arguments["target_id"], account=job.arguments["account_id"]):
            return await call_next()

    return console
