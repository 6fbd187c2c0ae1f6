"""Callers, the nodes of the graph of waits: the running job, or else the asyncio task.

A caller holds leases and is blocked while it waits for one. A cycle of such waits is a deadlock. A child task is a
separate caller, because its parent keeps running while the child waits.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

from contextlib import contextmanager

__all__ = ["Callers", "Caller", "calling_as", "add_caller_lookup", "clear_caller"]

_MAX_NAME = 100


class Caller:
    """One caller: its name in the graph, and the number of leases that it holds in this process."""

    __slots__ = ("holds", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds = 0


_current: ContextVar[Caller | None] = ContextVar("interlock_party", default=None)
_any_caller_set = False
_lookups: list[Callable[[asyncio.Task[Any] | None], Caller | None]] = []


@contextmanager
def calling_as(name: str) -> Generator[Caller]:
    """Make everything in this context, including child tasks, one caller, such as a job."""
    global _any_caller_set
    _any_caller_set = True
    caller = Caller(name)
    token = _current.set(caller)
    try:
        yield caller
    finally:
        _current.reset(token)


def clear_caller() -> None:
    """Clear the caller of this context, where something starts that does not belong to it."""
    _current.set(None)


def add_caller_lookup(who: Callable[[asyncio.Task[Any] | None], Caller | None]) -> None:
    """Add a lookup for the caller of a task that :func:`calling_as` does not cover."""
    _lookups.append(who)


class Callers:
    """The callers of one process. An entry lives as long as its task."""

    def __init__(self) -> None:
        self._process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        self._by_task: dict[int, Caller] = {}
        self._count = 0

    def of(self, task: asyncio.Task[Any] | None) -> Caller:
        """Return the caller that a running task is, or belongs to."""
        if _any_caller_set and (current := _current.get()) is not None:
            return current
        for who in _lookups:
            if (caller := who(task)) is not None:
                return caller
        known = self._by_task.get(id(task))
        if known is not None:
            return known
        if task is None:
            return Caller(f"{self._process}/callback")
        self._count += 1
        caller = self._by_task[id(task)] = Caller(f"{self._process}/{_plain(task.get_name())}#{self._count}")
        task.add_done_callback(self._forget)
        return caller

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._by_task.pop(id(task), None)


def _plain(name: str) -> str:
    """Return a task's name as text that every store can keep."""
    if name.isascii() and name.isprintable() and len(name) <= _MAX_NAME:
        return name
    return name[:_MAX_NAME].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
