"""Who waits, in the graph of waits: the job that runs, else the asyncio task.

A caller holds leases and is blocked while it waits for one; a cycle of such waits is a deadlock. A child task is a
caller of its own, because its parent does not stand still when it waits.
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

_MOST_NAME = 100


class Caller:
    """One caller: its name in the graph and how many leases it holds in this process."""

    __slots__ = ("holds", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds = 0


_acting: ContextVar[Caller | None] = ContextVar("interlock_party", default=None)
_anybody_acts = False
_others: list[Callable[[asyncio.Task[Any] | None], Caller | None]] = []


@contextmanager
def calling_as(name: str) -> Generator[Caller]:
    """Make everything in this context, child tasks included, one caller: a job, for instance."""
    global _anybody_acts
    _anybody_acts = True
    caller = Caller(name)
    token = _acting.set(caller)
    try:
        yield caller
    finally:
        _acting.reset(token)


def clear_caller() -> None:
    """Forget in this context that anybody acts, as it is where something begins that has nothing to do with them."""
    _acting.set(None)


def add_caller_lookup(who: Callable[[asyncio.Task[Any] | None], Caller | None]) -> None:
    """Ask this too who acts in a task, where nobody said so by :func:`calling_as`."""
    _others.append(who)


class Callers:
    """The callers of one process. Entries last as long as their tasks."""

    def __init__(self) -> None:
        self._process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        self._by_task: dict[int, Caller] = {}
        self._count = 0

    def of(self, task: asyncio.Task[Any] | None) -> Caller:
        """The caller that a running task is, or is part of."""
        if _anybody_acts and (acting := _acting.get()) is not None:
            return acting
        for who in _others:
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
    """A task's name as text that every store can keep."""
    if name.isascii() and name.isprintable() and len(name) <= _MOST_NAME:
        return name
    return name[:_MOST_NAME].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
