"""Callers, the nodes of the graph of waits: the running job, or else the asyncio task or the calling thread.

A caller holds leases and is blocked while it waits for one. A cycle of such waits is a deadlock. A child task is a
separate caller, because its parent keeps running while the child waits. So is a thread that calls from synchronous
code, unless it is the one that runs the handler of a job.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

from contextlib import contextmanager

__all__ = [
    "Caller",
    "Callers",
    "add_caller_lookup",
    "add_thread_lookup",
    "call_as_thread",
    "calling_as",
    "clear_caller",
    "forget_threads",
]

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
_thread_lookups: list[Callable[[], Caller | None]] = []
_threads = threading.local()


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


def add_thread_lookup(who: Callable[[], Caller | None]) -> None:
    """Add a lookup for the caller of a thread that calls from synchronous code."""
    _thread_lookups.append(who)


def call_as_thread() -> None:
    """Make everything in this context one caller: the job whose handler the thread runs, or else the thread."""
    global _any_caller_set
    _any_caller_set = True
    if _current.get() is None:
        _current.set(_caller_of_thread())


def forget_threads() -> None:
    """Begin anew in a process that was just forked: the leases of its thread belong to the parent process."""
    global _threads
    _threads = threading.local()


def _caller_of_thread() -> Caller:
    for who in _thread_lookups:
        if (caller := who()) is not None:
            return caller
    known: Caller | None = getattr(_threads, "caller", None)
    if known is None:
        name = _plain(threading.current_thread().name)
        known = Caller(f"{socket.gethostname()}:{os.getpid()}/{name}#{secrets.token_hex(2)}")
        _threads.caller = known
    return known


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
