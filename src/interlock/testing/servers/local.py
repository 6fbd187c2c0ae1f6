"""A server process that its owner can stop, kill and start again over the same data and port."""

from __future__ import annotations

import abc
import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from interlock.testing.servers.installation import clean_environment, shared_temporary_directory
from interlock.testing.servers.process import (
    GONE_SECONDS,
    POLL_SECONDS,
    ServerFailedError,
    Watchdog,
    clear_crashed_postgres,
    kill_tree,
    wait_until_gone,
)
from interlock.testing.servers.tcp import can_bind, free_port

if TYPE_CHECKING:
    import signal

__all__ = ["START_SECONDS", "STOP_SECONDS", "LocalServer"]

START_SECONDS = 60.0
STOP_SECONDS = 20.0
PORT_ATTEMPTS = 5
LOG_LINES = 40


class LocalServer(abc.ABC):
    """A server process owned by this process, restartable over the same data directory and port.

    `stop` and `kill` keep the data for the next `start`; `close` (or leaving the `with` block) removes it.
    The methods block for a short, bounded time and are not meant for use from several threads at once.
    """

    name: ClassVar[str]
    shutdown_signal: ClassVar[signal.Signals]

    def __init__(self) -> None:
        self.port = free_port()
        self._directory: Path | None = None
        self._watchdog: Watchdog | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_once = False
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise ServerFailedError(f"{self.name} is not running: start() it first")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The temporary directory that holds the data and the log."""
        if self._directory is None:
            raise ServerFailedError(f"{self.name} has no directory yet: start() it first")
        return self._directory

    def start(self) -> None:
        """Start the server and return when it accepts connections; nothing happens when it already runs."""
        if self.running:
            return
        if self._watchdog is None:
            self._create()
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            try:
                self._launch()
            except ServerFailedError:
                # Another process may have taken the port after we chose it. Later starts must keep theirs.
                if self._started_once or not attempts_left or can_bind(self.port):
                    raise
                self.port = free_port()
            else:
                self._started_once = True
                return

    def stop(self) -> None:
        """Shut down in order: clients are disconnected, data is flushed. A server that hangs is killed."""
        if self._process is None:
            return
        self._process.send_signal(self.shutdown_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._forget()

    def kill(self) -> None:
        """SIGKILL the server and its children, as a crash would, and return when all of them are gone."""
        if self._process is None:
            return
        family = kill_tree(self._process.pid)
        self._process.wait(GONE_SECONDS)
        self._forget()
        wait_until_gone(family)
        clear_crashed_postgres(self.directory)

    def restart(self) -> None:
        """Stop if running, then start over the same data on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its directory. A later `start` begins with empty data."""
        if self._owner != os.getpid() or self._watchdog is None:
            return
        self.stop()
        self._watchdog.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._watchdog = self._directory = None
        atexit.unregister(self.close)

    def log(self) -> str:
        """The last lines that the server wrote to its log."""
        path = self.directory / "server.log"
        if not path.exists():
            return ""
        with path.open(errors="replace") as lines:
            return "".join(deque(lines, LOG_LINES))

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """The command line that runs the server in the foreground."""

    @abc.abstractmethod
    def _ready(self) -> bool:
        """Whether the server accepts connections."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Fill the new directory before the first start."""

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        assert self._watchdog is not None
        with (self.directory / "server.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=clean_environment(),
                start_new_session=True,
                **self._identity(),
            )
        self._watchdog.guard(process.pid)
        return process

    def _identity(self) -> dict[str, Any]:
        return {}

    def _create(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix=f"interlock-{self.name}-", dir=shared_temporary_directory()))
        self._directory = directory
        self._watchdog = Watchdog(directory)
        atexit.register(self.close)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _launch(self) -> None:
        process = self._process = self._spawn(self._command())
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if process.poll() is not None:
                self._forget()
                raise ServerFailedError(f"{self.name} ended while starting; its log ends with:\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailedError(
                    f"{self.name} was not ready after {START_SECONDS:g} s; its log ends with:\n{self.log()}"
                )
            time.sleep(POLL_SECONDS)

    def _forget(self) -> None:
        assert self._watchdog is not None
        self._process = None
        self._watchdog.guard(0)
