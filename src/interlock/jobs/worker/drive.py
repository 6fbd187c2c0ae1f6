"""Runs a handler inside its runner's task, but in a context of its own.

A task for each job would give it a context too, but costs more than the whole rest of a short job. So the runner takes
the handler's steps itself: the first one at once, and the others, if there are any, as the event loop calls.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from interlock.jobs.current import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from contextvars import Context

    from interlock.jobs.current import CurrentJob

__all__ = ["call", "first_step", "other_steps"]


def first_step(current: CurrentJob, work: Coroutine[Any, Any, Any]) -> Any:
    """Begin a handler, in the context that this is called in: what it waits for; StopIteration if it has ended."""
    CURRENT.set(current)
    return work.send(None)


@types.coroutine
def other_steps(context: Context, work: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Take the rest of a handler's steps; gives what it returns."""
    run, send, throw = context.run, work.send, work.throw
    while True:
        thrown: BaseException | None = None
        value: Any = None
        try:
            value = yield waits_for
        except GeneratorExit:  # this runner is no more
            run(work.close)
            raise
        except BaseException as error:  # noqa: BLE001 - a cancellation, for instance, belongs to the handler
            thrown = error
        try:
            waits_for = run(send, value) if thrown is None else run(throw, thrown.with_traceback(None))
        except StopIteration as end:
            return end.value
        except GeneratorExit as error:
            raise RuntimeError("The handler raised GeneratorExit.") from error
        finally:
            thrown = None  # whose traceback knows this frame


def call(current: CurrentJob, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a plain handler, in the context that this is called in."""
    CURRENT.set(current)
    return function(**arguments)
