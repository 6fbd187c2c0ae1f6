"""What is written down during the demo: lines of JSON through one pipe, with times of one monotonic clock.

Every process of the machine reads the same clock. A line goes into the pipe in one write, so lines of many processes
mix but never break, and what caused something comes out before it. Nothing stays behind on the disk.
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
    """Where one process writes down what it does. It waits if nobody reads for a long time."""

    def __init__(self, directory: Path, who: str) -> None:
        self.who = who
        self._pipe = os.open(directory / PIPE, os.O_WRONLY)

    def write(self, what: str, **fields: Any) -> None:
        """Write down one thing that is so now. Short, as only short lines stay in one piece."""
        os.write(self._pipe, json.dumps(record(self.who, what, fields), separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._pipe)


class Minutes:
    """HandlerVersion what all of them write down, and keeps the last of it."""

    def __init__(self, directory: Path) -> None:
        path = directory / PIPE
        os.mkfifo(path, 0o600)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # to write too, so that it never ends
        _enlarge(self._pipe)
        self._partial = b""
        self._unread: list[Record] = []
        self._last: deque[Record] = deque(maxlen=_KEPT)

    def new(self) -> list[Record]:
        """What was written down since the last call, in order."""
        self._drain()
        found, self._unread = self._unread, []
        self._last += found
        return found

    def note(self, who: str, what: str, **fields: Any) -> None:
        """Write down something of this process's own, after all that is in the pipe already."""
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
        """Put the last of it into a file; says how much that is."""
        path.write_text("".join(f"{json.dumps(one)}\n" for one in self._last))
        return len(self._last)

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._pipe)


def _enlarge(pipe: int) -> None:
    """Give the pipe a larger buffer, where the system can."""
    import fcntl  # which Windows lacks

    operation = getattr(fcntl, "F_SETPIPE_SZ", None)
    if operation is not None:
        fcntl.fcntl(pipe, operation, _PIPE_BYTES)


def record(who: str, what: str, fields: dict[str, Any]) -> Record:
    """One thing that is so now."""
    return {"at": time.monotonic(), "who": who, "what": what, **fields}
