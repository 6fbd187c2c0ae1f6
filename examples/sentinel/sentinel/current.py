"""The console that the functions of this program work on, so that they need not pass it to one another."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from sentinel.console import Console

__all__ = ["current_console", "opened", "working_on"]

_opened: list[Console] = []
_chosen: ContextVar[Console] = ContextVar("sentinel_console")


def current_console() -> Console:
    """Return the console of this task, or else the one that was opened last."""
    console = _chosen.get(None)
    if console is not None:
        return console
    if not _opened:
        raise RuntimeError("No console is open. Use: async with create_console(url) as console: ….")
    return _opened[-1]


@contextmanager
def opened(console: Console) -> Generator[None]:
    """Make a console the one that was opened last, until the block ends."""
    _opened.append(console)
    try:
        yield
    finally:
        _opened.remove(console)


@contextmanager
def working_on(console: Console) -> Generator[None]:
    """Choose a console for the code of a block, where a process has several."""
    token = _chosen.set(console)
    try:
        yield
    finally:
        _chosen.reset(token)
