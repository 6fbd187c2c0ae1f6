"""What the processes of a lock-set run write down, kept apart from the store under test.

A `Journal` is one append-only file per process. A `Target` is the thing that the locks protect: one file per key that
takes a write only if its fence is not smaller than the largest it has seen. Both append each line with one system
call, so that a process killed or stopped at any point leaves whole lines only.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Journal", "Target", "Written", "entered", "read_journals", "read_targets"]

_LINE = 160


class Journal:
    """One process's own record, stamped with the clock that all processes of a machine share."""

    def __init__(self, folder: Path, who: str) -> None:
        self._who = who
        self._file = os.open(folder / f"{who}.journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, event: str, **fields: Any) -> None:
        """Write one event down, as of now."""
        line = json.dumps({"t": time.monotonic(), "who": self._who, "event": event, **fields})
        os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_journals(folder: Path) -> list[dict[str, Any]]:
    """All events of all processes in order of time."""
    events = [json.loads(line) for path in folder.glob("*.journal") for line in path.read_bytes().splitlines()]
    return sorted(events, key=lambda event: event["t"])


def entered(folder: Path) -> int:
    """How often somebody came to what was asked for."""
    return sum(path.read_bytes().count(b'"event": "enter"') for path in folder.glob("*.journal"))


class Written(NamedTuple):
    """A write that a target took, in the order in which it took them."""

    key: str
    fence: int
    attempt: str
    at: float


class Target:
    """A file that takes fenced writes."""

    def __init__(self, folder: Path, key: str) -> None:
        self._file = os.open(folder / f"{key}.target", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    async def write(self, fence: int, attempt: str) -> bool:
        """Write with a fence; False if a larger one was here before."""
        await self._lock()
        try:
            size = os.fstat(self._file).st_size
            if size and json.loads(os.pread(self._file, _LINE, size - _LINE))["fence"] > fence:
                return False
            line = json.dumps({"fence": fence, "attempt": attempt, "t": time.monotonic()}).encode()
            assert len(line) < _LINE
            os.write(self._file, line.ljust(_LINE - 1) + b"\n")
            return True
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)

    async def _lock(self) -> None:
        # Never blocking: a process that is stopped while it has the file must not stop the others' event loops.
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(0.001)
            else:
                return


def read_targets(folder: Path) -> list[Written]:
    """Every write that was taken, key by key in the order of taking."""
    return list(_read_targets(folder))


def _read_targets(folder: Path) -> Iterator[Written]:
    for path in sorted(folder.glob("*.target")):
        for line in path.read_bytes().splitlines():
            row = json.loads(line)
            yield Written(path.stem, row["fence"], row["attempt"], row["t"])
