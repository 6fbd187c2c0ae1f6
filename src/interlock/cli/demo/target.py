"""The target that workers change: files that know only the largest fence they have seen.

A write with a smaller fence is refused. Each attempt is recorded, in the order in which it happened.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from interlock.cli.demo.records import Notebook

__all__ = ["Target"]

_DIGITS = 20


class Target:
    """The files of a few keys, as one worker uses them."""

    def __init__(self, directory: Path, log: Notebook) -> None:
        self._directory = directory
        self._log = log

    def write(self, key: str, fence: int) -> bool:
        """Write with a fence; False if the fence is stale."""
        with self._locked(key) as file:
            largest = int(os.pread(file, _DIGITS, 0) or 0)
            accepted = fence >= largest
            if accepted:
                os.pwrite(file, f"{fence:0{_DIGITS}}".encode(), 0)
            self._log.write("write", key=key, fence=fence, accepted=accepted)
        return accepted

    @contextmanager
    def _locked(self, key: str) -> Generator[int]:
        """The key's file, locked for one process at a time; the kernel unlocks it when the process dies."""
        import fcntl  # which Windows lacks

        file = os.open(self._directory / f"{quote(key, safe='')}.target", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)
