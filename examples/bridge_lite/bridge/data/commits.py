"""Callbacks that run when a change of an intent is committed, and not if it is rolled back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    Callback = Callable[[], Awaitable[None]]

__all__ = ["after_commit", "change_of_intent", "in_change", "in_stage", "stage_of_pipeline"]


@dataclass
class _Change:
    """A change that one task makes. A child task inherits the context, but not the change."""

    callbacks: list[Callback] | None = field(default_factory=list)
    """None in a stage of a pipeline, which is committed outside of this program's code."""
    task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)


_change: ContextVar[_Change | None] = ContextVar("bridge_change", default=None)


def _current() -> _Change | None:
    change = _change.get()
    return change if change is not None and change.task is asyncio.current_task() else None


@asynccontextmanager
async def change_of_intent() -> AsyncGenerator[None]:
    """A change whose end commits it. What was registered inside happens then, or not at all if the block raises.

    Nested changes of one task are committed together with the outermost one.
    """
    outer = _current()
    if outer is not None and outer.callbacks is not None:
        count = len(outer.callbacks)
        try:
            yield
        except BaseException:
            del outer.callbacks[count:]  # the inner change alone is discarded
            raise
        return
    registered: list[Callback] = []
    token = _change.set(_Change(registered))
    try:
        yield
    finally:
        _change.reset(token)
    for callback in registered:
        await callback()


@asynccontextmanager
async def stage_of_pipeline() -> AsyncGenerator[None]:
    """A stage of a pipeline: Interlock journals it, and commits what it changed after its end."""
    token = _change.set(_Change(None))
    try:
        yield
    finally:
        _change.reset(token)


def in_change() -> bool:
    """Return whether the running code is part of a change or a stage, whose end writes what was changed."""
    return _current() is not None


def in_stage() -> bool:
    """Return whether the running code is a stage of a pipeline, which is journaled from its start to its end."""
    change = _current()
    return change is not None and change.callbacks is None


async def after_commit(callback: Callback) -> None:
    """Call a function when the current change is committed; at once if there is none, or in a stage."""
    change = _current()
    if change is None or change.callbacks is None:
        await callback()
    else:
        change.callbacks.append(callback)
