"""Threads for blocking calls of an event loop that keeps working while the interpreter exits."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LateExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class LateExecutor(ThreadPoolExecutor):
    """A thread pool that accepts work until the interpreter ends.

    Python's own pools refuse work as soon as the main thread has ended. A store that is closed at exit, or used by a
    thread that outlives the main one, still needs a thread then.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread of the pool, or in one of its own where the pool refuses."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            future: Future[T] = Future()
            threading.Thread(target=_run, args=(future, fn, args, kwargs), name="interlock-late", daemon=True).start()
            return future


def _run(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        future.set_exception(error)
    else:
        future.set_result(result)
