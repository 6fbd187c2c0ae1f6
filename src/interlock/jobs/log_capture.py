"""Keeps the log records of handlers in the logs of their jobs, where the app asks for it (``capture_logs``).

A logging handler on the root logger belongs to all workers of the process that capture anything. It takes the records
that are emitted in the context of a job: in its handler, and in tasks and threads that the handler starts with its
context. Which records reach it is decided by the levels of the loggers, as for every other logging handler.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from interlock.jobs.current import CURRENT, LOGGER_NAME
from interlock.jobs.log_buffer import message_text

if TYPE_CHECKING:
    from interlock.jobs.log_buffer import LogBuffers

__all__ = ["LogCapture"]

_lock = threading.Lock()
_users = 0


class LogCapture:
    """The part that one worker has in capturing, from :meth:`start` to :meth:`stop`."""

    def __init__(self, logs: LogBuffers) -> None:
        self._logs = logs
        self._started = False

    def start(self) -> None:
        """Capture records, if any job wants that."""
        global _users
        if self._logs.captures and not self._started:
            self._started = True
            with _lock:
                _users += 1
                logging.getLogger().addHandler(_handler)  # does nothing if it is there already

    def stop(self) -> None:
        """Capture no more; the last one removes the handler."""
        global _users
        if self._started:
            self._started = False
            with _lock:
                _users -= 1
                if not _users:
                    logging.getLogger().removeHandler(_handler)


class _Handler(logging.Handler):
    """Writes records into memory, so it needs no lock and never waits."""

    def createLock(self) -> None:  # noqa: N802 - the name in the standard library
        """Use no lock: a buffer has its own."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, if it belongs to a job that wants it."""
        job = CURRENT.get()
        if job is None or job.logs is None or record.name == LOGGER_NAME:  # its own log has kept that already
            return
        level = job.logs.capture_level(job.name)
        if level is not None and record.levelno >= level:
            text = message_text(record.msg, record.args or (), record.exc_info)  # type: ignore[arg-type]
            job.write(record.levelno, f"{record.name}: {text}")


_handler = _Handler()
