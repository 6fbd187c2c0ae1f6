"""Starting background work at once: its first step is taken now, only the rest waits for the event loop's next turn.

So that what one caller begins to give back is on its way to the store before anything the same caller asks for next.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

__all__ = ["begun"]


def begun(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Take the first step of ``work``; returns what is left of it to be run as a task, None if that was all of it.

    Should the first step fail, the task fails: whoever began the work has nothing to do with it.
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
            except BaseException as error:  # noqa: BLE001 - a cancellation, for instance, belongs to the work itself
                waits_for = work.throw(error)
            else:
                waits_for = work.send(value)
        except StopIteration:
            return
