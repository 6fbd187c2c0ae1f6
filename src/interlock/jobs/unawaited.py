"""A coroutine that names what did not happen if nobody awaits it.

Python warns about a forgotten ``await`` too, but names only the method: ``coroutine 'Job.enqueue' was never awaited``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Unawaited"]

T_co = TypeVar("T_co", covariant=True)


class Unawaited(Coroutine[Any, Any, T_co]):
    """A coroutine that was created by the caller of the caller. The warning, if any, is computed only then."""

    __slots__ = ("_code", "_coroutine", "_line", "_not_done")

    def __init__(self, coroutine: Coroutine[Any, Any, T_co], not_done: Callable[[], tuple[str, str, str]]) -> None:
        # The line that may have forgotten the await.
        frame = sys._getframe(2)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        self._code, self._line = frame.f_code, frame.f_lineno
        self._coroutine = coroutine
        self._not_done: Callable[[], tuple[str, str, str]] | None = not_done
        """What was not enqueued, by which call, and that call for synchronous code; None once it has begun."""

    def __await__(self) -> Generator[Any, Any, T_co]:
        self._not_done = None
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Continue the work."""
        self._not_done = None
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the work."""
        self._not_done = None
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Give up the work."""
        self._not_done = None
        self._coroutine.close()

    def __del__(self) -> None:
        if self._not_done is None:
            return
        (subject, call, instead), file = self._not_done(), self._code.co_filename
        self._coroutine.close()  # Python would warn as well
        place = f"{file.rpartition('/')[2].rpartition(chr(92))[2]}:{self._line}"
        warnings.warn_explicit(
            f"{subject} never enqueued: {call}(…) at {place} was not awaited; write await {call}(…) or {instead}(…)",
            RuntimeWarning,
            file,
            self._line,
        )
