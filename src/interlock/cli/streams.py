"""Standard output and standard error that never block and never fail.

A pipe whose reader has gone away makes every write fail; one whose reader has stopped makes every write block. Neither
may keep ``interlock run`` from its work or from ending. So output that a reader does not take at once is kept, up to a
bound, and written by a thread; beyond the bound it is dropped and the bytes are counted. After the reader has gone away
output is discarded.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import select
import socket
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_UNREAD", "flush_output", "protect_output"]

MAX_UNREAD = 4 * 1024 * 1024
"""Bytes of each stream that are kept while its reader does not read."""
_FLUSH_SECONDS = 1.0
_AT_ONCE = 64 * 1024
_GONE = frozenset((errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF))

_protected: list[_Output] = []


def protect_output() -> None:
    """Have this process's standard streams never block or fail from now on. Streams that are not its own are left."""
    if _protected:
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            output = _Output(stream.fileno())
            _protected.append(output)
            text = io.TextIOWrapper(
                io.BufferedWriter(output),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, text)
    if _protected:
        atexit.register(flush_output)


def flush_output(seconds: float = _FLUSH_SECONDS) -> None:
    """Wait until everything written so far has been read, or the time is up."""
    give_up = time.monotonic() + seconds
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    for output in _protected:
        output.wait_until_written(give_up - time.monotonic())


class _Output(io.RawIOBase):
    """One stream's end. Safe to use from several threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._end = _end_for(descriptor)
        self._changed = threading.Condition()
        self._unread = bytearray()
        self._dropped = 0
        self._gone = False
        self._thread: threading.Thread | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        """Write what the reader takes at once, and keep the rest."""
        block = bytes(data)
        with self._changed:
            rest = block
            if not self._end.may_block and not self._unread and not self._gone:
                rest = block[self._taken(self._try(block), block) :]
            if rest and not self._gone:
                self._keep(rest)
        return len(block)

    def close(self) -> None:
        """Write no more. What the descriptor leads to stays open."""
        with self._changed:
            self._gone = True
            self._unread.clear()
            self._changed.notify_all()
        if self._thread is None or not self._thread.is_alive():  # else it may be about to write
            self._end.close()
        super().close()

    def wait_until_written(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._unread or self._gone, max(0.0, seconds))

    def _keep(self, block: bytes) -> None:
        if self._dropped or len(self._unread) + len(block) > MAX_UNREAD:
            self._dropped += len(block)
            return
        self._unread += block
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_rest, name="interlock-output", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _try(self, block: bytes) -> int | None:
        """How much of it is dealt with; None if the reader has gone away."""
        try:
            return self._end.send(block)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:  # a full disk, say: then this block is lost, and the next one may not be
            return None if error.errno in _GONE else len(block)

    def _taken(self, count: int | None, block: bytes) -> int:
        """Make a note of what came of it."""
        if count is None:
            self._gone = True
            self._unread.clear()
            self._changed.notify_all()
            return len(block)
        return count

    def _write_rest(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unread or self._gone)
                if self._gone:
                    return
                block = bytes(self._unread[:_AT_ONCE])
            self._end.wait()
            written = self._try(block)
            with self._changed:
                del self._unread[: self._taken(written, block)]
                if self._dropped and not self._unread and not self._gone:
                    note = f"\n[{self._dropped:,} bytes of output were dropped: the reader was too slow]\n"
                    self._dropped = 0
                    self._unread += note.encode()
                self._changed.notify_all()


class _End:
    """A file of our own, to write to. Writing may block."""

    may_block = True

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, block: bytes) -> int:
        return os.write(self._descriptor, block)

    def wait(self) -> None:
        """Wait until it is worth trying."""

    def close(self) -> None:
        os.close(self._descriptor)


class _FileEnd(_End):
    """A file on disk: as quick as that is."""

    may_block = False


class _PipeEnd(_End):
    """A pipe or terminal, opened with O_NONBLOCK."""

    may_block = False

    def wait(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()


class _SocketEnd(_PipeEnd):
    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._socket = socket.socket(fileno=descriptor)

    def send(self, block: bytes) -> int:
        return self._socket.send(block, socket.MSG_DONTWAIT)

    def close(self) -> None:
        self._socket.close()


def _end_for(descriptor: int) -> _End:
    """A way to write there. The descriptor is left as it is: other processes share it, and its flags with it."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return _FileEnd(os.dup(descriptor))
    if stat.S_ISSOCK(mode):
        return _SocketEnd(os.dup(descriptor))
    try:  # opened again it has flags of its own
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return _PipeEnd(os.open(f"/proc/self/fd/{descriptor}", flags))
    except (OSError, AttributeError):  # no /proc, another user's terminal, or Windows, which lacks the flags
        return _End(os.dup(descriptor))
