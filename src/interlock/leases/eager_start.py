"""Eager start of background work: the first step runs now, the rest runs as a task.

A release that a caller starts in the background therefore reaches the store before the caller's next request.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

__all__ = ["start_eagerly"]


def start_eagerly(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run the first step of ``work`` and return the rest, to be run as a task; None if the first step was all.

    If the first step raises, the returned coroutine raises the error, because the caller cannot handle it.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    except BaseException as error:  # noqa: BLE001
        return _failed(error)
    return _wrapped(work, waits_for)


async def _failed(error: BaseException) -> None:
    raise error


async def _wrapped(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _rest(work, waits_for)


@types.coroutine
def _rest(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    while True:
        try:
            try:
                value = yield waits_for
            except BaseException as error:  # noqa: BLE001 - the work itself handles a cancellation, for instance
                waits_for = work.throw(error)
            else:
                waits_for = work.send(value)
        except StopIteration:
            return
