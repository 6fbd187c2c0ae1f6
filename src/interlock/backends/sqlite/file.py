"""The database file: created with mode 0600, opened, and checked for being deleted or replaced.

SQLite continues to use a file that was deleted, and creates an empty one where a file is missing. In both cases two
databases exist, and two processes can hold the same lock. So only :meth:`DatabaseFile.create` creates a file, and a
store uses only the file it opened: :meth:`DatabaseFile.check` fails once the path leads to another one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from typing import TYPE_CHECKING

from interlock.errors import MisuseError, StoreError, StoreReplacedError, StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DatabaseFile"]

# The -wal file holds the latest commits, and processes coordinate through the -shm file: each is part of the database.
_PARTS = ("", "-wal", "-shm")
_Identity = tuple[tuple[int, int] | None, ...]
# Closing any descriptor of a file releases all POSIX locks that the process has on it. This lock keeps other threads
# from opening the new file before the descriptor that created it is closed.
_creating = threading.Lock()
_pinned: Counter[tuple[int, int]] = Counter()
"""How many stores of this process have each file open."""
_open_in_parent: set[tuple[int, int]] = set()
"""The files that were open when this process was forked."""


class DatabaseFile:
    """The file of one store, at an absolute path: a later change of the working directory does not move it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._uri = f"{self.path.as_uri()}?mode=rw"
        self._names: tuple[str, ...] = ()
        self._identity: _Identity | None = None
        self._anchor: sqlite3.Connection | None = None

    def create(self) -> None:
        """Create an empty file with mode 0600 unless one exists. SQLite gives the files beside it the same mode."""
        real = os.path.realpath(self.path)  # SQLite follows symbolic links too
        if os.path.exists(real):
            return
        if os.path.exists(f"{real}-wal") and not os.path.exists(real):
            raise StoreReplacedError(
                f"{self.path} does not exist, but {real}-wal does: the database was deleted without it, or a process "
                "still uses the deleted database.",
                remedy="Stop every process that uses it. Then restore the database, or, to begin with an empty one, "
                "delete the -wal and -shm files too.",
            )
        try:
            with _creating:
                os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return  # another process created it
        except OSError as error:
            raise StoreError(
                f"Could not create {self.path}: {error.strerror}.",
                remedy="Create its directory, and let this user write there.",
            ) from error

    def connect(self, *, any_thread: bool = False) -> sqlite3.Connection:
        """Open the existing file."""
        with _creating:
            self.check()
            if _open_in_parent and self.identify() in _open_in_parent:
                raise MisuseError(
                    f"{self.path} was open when this process was forked. SQLite cannot tell the locks of the two "
                    "processes apart, so using the file here could corrupt it.",
                    remedy="Fork while no call is under way and no lease is held, or start the process with spawn.",
                )
            try:
                connection = sqlite3.connect(
                    self._uri,
                    uri=True,
                    isolation_level=None,
                    timeout=0,
                    cached_statements=512,
                    check_same_thread=not any_thread,
                )
            except sqlite3.OperationalError as error:
                self.check()
                if self.path.is_dir():
                    raise StoreError(
                        f"{self.path} is a directory.", remedy="Let the URL name a file: sqlite:///directory/bot.db."
                    ) from error
                raise
        return connection

    def pin(self, connection: sqlite3.Connection) -> None:
        """Pin the file that ``connection`` has open and has read from. The connection stays open until :meth:`unpin`.

        While it is open, the inode number of a deleted file is not given to another one, and SQLite deletes neither
        the -wal nor the -shm file.
        """
        real = os.path.realpath(self.path)
        self._names = (str(self.path), *(real + part for part in _PARTS[1:]))
        self._anchor = connection
        self._identity = self._identify()
        _pinned[self._identity[0] or (0, 0)] += 1

    def unpin(self) -> None:
        """Close the connection that pins the file."""
        if self._identity is not None:
            _pinned[self._identity[0] or (0, 0)] -= 1
        self._identity = None
        anchor, self._anchor = self._anchor, None
        if anchor is not None:
            anchor.close()

    def identify(self) -> tuple[int, int] | None:
        """Return the device and inode number that the path leads to."""
        return _identity_of(str(self.path))

    def check(self) -> None:
        """Raise ``StoreReplacedError`` unless the path leads to the file that was pinned. Takes microseconds."""
        if self._identity is not None and self._identify() != self._identity:
            raise self._replaced(self._identity)

    def _identify(self) -> _Identity:
        return tuple(_identity_of(name) for name in self._names)

    def _replaced(self, before: _Identity) -> StoreReplacedError:
        name, now = next(
            ((name, now) for name, was, now in zip(self._names, before, self._identify(), strict=True) if was != now),
            (str(self.path), None),
        )
        what = "was deleted" if now is None else "was replaced by another file"
        return StoreReplacedError(f"{name} {what} while this process was using the database.")


def _identity_of(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(
            f"Could not look at {name}: {error.strerror}.", remedy="Check the permissions of its directory."
        ) from error
    return found.st_dev, found.st_ino


def _after_fork_in_child() -> None:
    """Remember the files that the parent process has open.

    SQLite keeps its locks per process and file. The child inherits the memory of them without the locks, so a new
    connection to such a file would believe that it has locks that it does not have.
    """
    global _creating
    _creating = threading.Lock()
    _open_in_parent.update(+_pinned)
    _pinned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
