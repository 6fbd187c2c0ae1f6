"""Functions of the app that compute keys: the lane of a job, the key of a limit.

A key function gets what the handler gets: the arguments by name, or the event in the case of an event handler. A limit
that is used alone (``app.limits``) passes the values given by keyword. docs/decisions/0040 says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError, InvalidArgumentError
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["call_key_function"]


def call_key_function(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Call a key function; returns text or None.

    Raises ``InvalidArgumentError`` with the function's own error if it fails, and if it returns anything else.
    """
    try:
        found = function(*args, **kwargs)
    except InterlockError:
        raise
    except Exception as error:
        raise InvalidArgumentError(
            f"The {what} function failed: {type(error).__name__}: {error}.",
            remedy="Fix the function or its arguments.",
        ) from error
    if found is None or isinstance(found, str):
        return found
    raise InvalidArgumentError(
        f"The {what} function returned {describe_type(found)}.", remedy="Return text, or None for none."
    )
