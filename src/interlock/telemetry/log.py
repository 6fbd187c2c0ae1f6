"""Structured log events through the standard library's logging.

Each event has a stable name and named fields; both are on the record (``record.event``, ``record.fields``) for
structured handlers, and the message reads ``name field=value …`` for everyone else. A handler that fails does not fail
the code that logs. Code that must not wait for a handler either logs inside :meth:`BackgroundLog.used`.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BackgroundLog", "emit"]

_log = logging.getLogger("interlock.sessions")
_MAX_UNWRITTEN = 1000


def emit(logger: logging.Logger, level: int, event: str, **fields: Any) -> None:
    """Log one event."""
    if logger.isEnabledFor(level):
        with contextlib.suppress(Exception):  # of a handler or a filter; the standard ones report their own failures
            background = _background.get()
            text = " ".join(f"{name}={value!r}" for name, value in fields.items())
            extra = {"event": event, "fields": fields}
            if background is None:
                logger.log(level, "%s %s", event, text, extra=extra)
            else:
                made = logger.makeRecord(logger.name, level, __file__, 0, "%s %s", (event, text), None, "emit", extra)
                background.put(logger, made)


class BackgroundLog:
    """Passes log records to their handlers on a separate thread, so that a blocking handler delays nothing else.

    At most 1,000 records wait for it. Beyond that they are dropped, and counted in ``log_records_dropped``.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unwritten: deque[tuple[logging.Logger, logging.LogRecord]] = deque()
        self._writing = False
        self._dropped = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Use this log for everything that is logged in this context, and in tasks that start in it."""
        token = _background.set(self)
        try:
            yield
        finally:
            _background.reset(token)

    def put(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        """Pass on a record. Returns immediately."""
        with self._changed:
            if self._closed or len(self._unwritten) >= _MAX_UNWRITTEN:
                self._dropped += 1
                return
            self._unwritten.append((logger, record))
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="interlock-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        """Wait until all records are written, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unwritten and not self._writing, seconds)

    def close(self, seconds: float) -> None:
        """Write the remaining records within the given time, and accept no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._unwritten or self._closed)
                if not self._unwritten:
                    return
                logger, record = self._unwritten.popleft()
                dropped, self._dropped = self._dropped, 0
                self._writing = True
            with contextlib.suppress(Exception):
                logger.handle(record)
                if dropped:
                    emit(_log, logging.WARNING, "log_records_dropped", count=dropped)


_background: contextvars.ContextVar[BackgroundLog | None] = contextvars.ContextVar("interlock_log", default=None)
