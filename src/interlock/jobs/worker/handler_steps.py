"""Steps of a handler, taken inside its runner's task but in a context of its own.

A task for each job would also give it a context, but would cost more than all other work on a short job. So the runner
advances the handler's coroutine itself: the first step at once, the others, if any, as the event loop resumes it.
"""

from __future__ import annotations

import types
from threading import get_ident
from typing import TYPE_CHECKING, Any

from interlock.jobs.current import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from contextvars import Context

    from interlock.jobs.current import CurrentJob

__all__ = ["call", "first_step", "other_steps"]


def first_step(current: CurrentJob, work: Coroutine[Any, Any, Any]) -> Any:
    """Start a handler in the present context. Returns what it awaits; StopIteration if it has ended."""
    CURRENT.set(current)
    return work.send(None)


@types.coroutine
def other_steps(context: Context, work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    """Run the rest of a handler; returns its result."""
    run, send, throw = context.run, work.send, work.throw
    while True:
        thrown: BaseException | None = None
        value: Any = None
        try:
            value = yield awaited
        except GeneratorExit:  # the runner is gone
            run(work.close)
            raise
        except BaseException as error:  # noqa: BLE001 - a cancellation, for instance, belongs to the handler
            thrown = error
        try:
            awaited = run(send, value) if thrown is None else run(throw, thrown.with_traceback(None))
        except StopIteration as end:
            return end.value
        except GeneratorExit as error:
            raise RuntimeError("The handler raised GeneratorExit.") from error
        finally:
            thrown = None  # its traceback refers to this frame


def call(current: CurrentJob, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a plain handler in the present context."""
    current.thread = get_ident()
    CURRENT.set(current)
    return function(**arguments)
