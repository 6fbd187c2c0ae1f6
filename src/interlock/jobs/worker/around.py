"""Middleware around the handler of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.jobs.current import CurrentJob
    from interlock.jobs.jobs import Middleware

__all__ = ["run_around"]


async def run_around(middleware: Sequence[Middleware], job: CurrentJob, handler: Callable[[], Awaitable[Any]]) -> Any:
    """Run the handler inside the middleware, the first one outermost; returns the result of the outermost."""
    if not middleware:
        return await handler()
    first, *others = middleware
    called = False

    async def call_next() -> Any:
        nonlocal called
        if called:
            raise MisuseError(
                f"Middleware {getattr(first, '__name__', first)!r} called call_next() twice.",
                remedy="Call it once; a handler runs again by raising an error that its retry policy allows.",
            )
        called = True
        return await run_around(others, job, handler)

    return await first(job, call_next)
