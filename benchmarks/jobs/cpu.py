"""CPU time of processes and their threads, as the kernel counts it."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["cpu_seconds", "with_children"]


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds that these processes have used so far; processes that are gone do not count."""
    used = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    used += int((task / "schedstat").read_text().split()[0])
    return used / 1e9


def with_children(pid: int) -> list[int]:
    """A process and those it started: for PostgreSQL, every backend and the writers."""
    found = [pid]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found
