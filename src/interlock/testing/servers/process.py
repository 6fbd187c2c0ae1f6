"""Ending a server together with all it started, and a watchdog that does so when the owner cannot.

The watchdog runs this very file in a bare interpreter, so nothing but the standard library is imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "GONE_SECONDS",
    "POLL_SECONDS",
    "ServerFailedError",
    "Watchdog",
    "clear_crashed_postgres",
    "descendants",
    "kill_tree",
    "state",
    "wait_until_gone",
]

GONE_SECONDS = 20.0
POLL_SECONDS = 0.005


class ServerFailedError(RuntimeError):
    """A server could not be started, or an administrative command failed; the message ends with its log."""


class Watchdog:
    """A process that outlives us just long enough to end the guarded server and remove its directory.

    It runs this file, sees our end as the end of its input, and lives in a session of its own so that what
    interrupts us does not reach it.
    """

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def guard(self, pid: int) -> None:
        """Name the process to end; 0 for none."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"%d\n" % pid)
            self._process.stdin.flush()

    def close(self) -> None:
        """End the guarded process, if one is named, and wait until all is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def kill_tree(pid: int) -> list[int]:
    """SIGKILL a process and its descendants, and name the descendants.

    PostgreSQL puts each child into a session of its own, so no process group holds them all. The process is
    stopped first, so that it starts no child that we would not see.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    _until(lambda: state(pid) in "TtZX", GONE_SECONDS, f"process {pid} to stop")
    family = descendants(pid)
    for member in (*family, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    return family


def wait_until_gone(pids: Iterable[int]) -> None:
    """Wait until none of the processes runs any more."""
    for pid in pids:
        _until(lambda pid=pid: state(pid) in "ZX", GONE_SECONDS, f"process {pid} to end")  # type: ignore[misc]


def state(pid: int) -> str:
    """The state letter of a process as `ps` prints it; X for one that is gone."""
    status = _processes().get(pid)
    return status.state if status else "X"


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    processes = _processes()
    found = [pid]
    for ancestor in found:
        found += [child for child, status in processes.items() if status.parent == ancestor]
    return found[1:]


def clear_crashed_postgres(directory: Path) -> None:
    """Remove the lock file and the shared memory of a killed PostgreSQL; nothing happens for another server.

    The lock file names a process id that may soon belong to another process, which would keep the server from
    starting. The memory segment would outlive its directory.
    """
    lock_file = directory / "data" / "postmaster.pid"
    if not lock_file.exists():
        return
    with contextlib.suppress(IndexError, ValueError):
        segment = int(lock_file.read_text().splitlines()[6].split()[1])
        remove_identifier = 0
        ctypes.CDLL(None).shmctl(segment, remove_identifier, None)
    lock_file.unlink(missing_ok=True)


class _Status(NamedTuple):
    parent: int
    state: str


def _processes() -> dict[int, _Status]:
    processes: dict[int, _Status] = {}
    if Path("/proc/self/stat").exists():
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
                processes[int(name)] = _Status(parent=int(fields[1]), state=fields[0])
        return processes
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,state="], check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        pid, parent, state = line.split()
        processes[int(pid)] = _Status(parent=int(parent), state=state[0])
    return processes


def _until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailedError(f"timed out after {seconds:g} s waiting for {what}")
        time.sleep(POLL_SECONDS)


def _watch(directory: Path) -> None:
    pid = 0
    for line in sys.stdin:
        pid = int(line)
    if pid:
        wait_until_gone([pid, *kill_tree(pid)])
        clear_crashed_postgres(directory)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
