"""What is written down during the demo: one append-only file of JSON lines, with times of one monotonic clock.

Every process of the machine reads the same clock, and a line goes to the file in one write, so that the lines of
many processes mix but never break.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Notebook", "Reader", "Record"]

Record = dict[str, Any]


class Notebook:
    """Where one process writes down what it does."""

    def __init__(self, path: Path, who: str) -> None:
        self._who = who
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, **fields: Any) -> None:
        """Write down one thing that is so now."""
        record = {"at": time.monotonic(), "who": self._who, "what": what, **fields}
        os.write(self._file, json.dumps(record).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Reader:
    """Follows the file while others write to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def skip(self) -> None:
        """Begin with what is written from now on."""
        self._offset = self._path.stat().st_size if self._path.exists() else 0

    def new(self) -> Iterator[Record]:
        """The records written since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield json.loads(line)
