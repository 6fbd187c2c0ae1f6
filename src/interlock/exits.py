"""Process exit that a blocked log or output cannot delay."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["exit_process"]

_LAST_WORDS_SECONDS = 1.0


def exit_process(code: int, last_words: Callable[[], object]) -> NoReturn:
    """End the process with this status, at most a second from now.

    ``last_words`` writes down why. It may block, fail or find a log handler's lock taken: the process ends anyway.
    """
    try:
        writer = threading.Thread(target=_write, args=(last_words,), name="interlock-last-words", daemon=True)
        writer.start()
        writer.join(_LAST_WORDS_SECONDS)
    finally:
        os._exit(code)


def _write(last_words: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        last_words()
    with contextlib.suppress(Exception):
        logging.shutdown()
