"""The watcher thread: notices commits of other processes by reading ``PRAGMA data_version``, which takes microseconds.

It checks every 5 ms while a caller in this process waits, and otherwise every 0.5 s, to notice force-released leases.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from interlock.backends.sqlite.connection import connect
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from interlock.backends.sqlite.file import DatabaseFile

__all__ = ["Watcher"]

_log = logging.getLogger("interlock.sqlite")
_EAGER = 0.005
_IDLE = 0.5


class Watcher:
    """Calls ``look(connection)`` in its thread whenever another connection has committed."""

    def __init__(self, file: DatabaseFile, look: Callable[[sqlite3.Connection], None]) -> None:
        self._file = file
        self._look = look
        self._eager = threading.Event()
        self._stop = threading.Event()
        self._look_anyway = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="interlock-watcher", daemon=True)
            self._thread.start()

    def eager(self, eager: bool) -> None:
        """Check often, or only twice a second."""
        if eager:
            self._eager.set()
        else:
            self._eager.clear()

    def check_now(self) -> None:
        """Check as soon as possible, whether or not there was a commit."""
        self._look_anyway = True

    def stop(self) -> None:
        """Stop the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            self._eager.set()
            thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        seen = -1
        while not self._stop.is_set():
            try:
                connection = connection or connect(self._file, time.monotonic() + _IDLE)
                (version,) = connection.execute("pragma data_version").fetchone()
                if version != seen or self._look_anyway:
                    seen = version
                    self._look_anyway = False
                    self._look(connection)
            except Exception as error:  # noqa: BLE001 - only hints are lost; waiters still check at intervals
                emit(_log, logging.WARNING, "sqlite_watch_failed", error=str(error))
                if connection is not None:
                    connection.close()
                    connection = None
                self._stop.wait(_IDLE)
            if self._eager.is_set():
                self._stop.wait(_EAGER)
            else:
                self._eager.wait(_IDLE)
        if connection is not None:
            connection.close()
