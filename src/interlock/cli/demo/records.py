"""The records of the demo: lines of JSON through one pipe, with times of one monotonic clock.

All processes of a machine read the same clock. A line is written to the pipe in one write, so lines of several
processes are never mixed, and causes come before effects. Nothing is left on disk.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PIPE", "Minutes", "Notebook", "Record"]

PIPE = "records"
Record = dict[str, Any]
_PIPE_BYTES = 1 << 20
_CHUNK = 1 << 16
_KEPT = 20_000


class Notebook:
    """The log of one process. It blocks if the pipe is not read for a long time."""

    def __init__(self, directory: Path, who: str) -> None:
        self.who = who
        self._pipe = os.open(directory / PIPE, os.O_WRONLY)

    def write(self, what: str, **fields: Any) -> None:
        """Write a record. Only short lines are written atomically."""
        os.write(self._pipe, json.dumps(record(self.who, what, fields), separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._pipe)


class Minutes:
    """Reads the records of all processes, and keeps the last ones."""

    def __init__(self, directory: Path) -> None:
        path = directory / PIPE
        os.mkfifo(path, 0o600)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # also open for writing, so that it never reaches the end
        _enlarge(self._pipe)
        self._partial = b""
        self._unread: list[Record] = []
        self._last: deque[Record] = deque(maxlen=_KEPT)

    def new(self) -> list[Record]:
        """The records since the last call, in order."""
        self._drain()
        found, self._unread = self._unread, []
        self._last += found
        return found

    def note(self, who: str, what: str, **fields: Any) -> None:
        """Add a record of this process after everything that is already in the pipe."""
        self._drain()
        self._unread.append(record(who, what, fields))

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self._pipe, _CHUNK)
            except BlockingIOError:
                return
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._unread += [json.loads(line) for line in lines]

    def keep(self, path: Path) -> int:
        """Write the last records to a file, and return how many there are."""
        path.write_text("".join(f"{json.dumps(one)}\n" for one in self._last))
        return len(self._last)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._pipe)


def _enlarge(pipe: int) -> None:
    """Enlarge the pipe's buffer, if the system supports that."""
    import fcntl  # which Windows lacks

    operation = getattr(fcntl, "F_SETPIPE_SZ", None)
    if operation is not None:
        fcntl.fcntl(pipe, operation, _PIPE_BYTES)


def record(who: str, what: str, fields: dict[str, Any]) -> Record:
    """A record with the current time."""
    return {"at": time.monotonic(), "who": who, "what": what, **fields}
