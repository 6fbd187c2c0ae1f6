"""Values that are kept in a store: JSON, and aware datetimes. Anything else is refused before it goes anywhere."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from interlock.errors import InvalidArgumentError

__all__ = ["describe_type", "decoded", "encoded"]

_DATETIME = "$datetime"
_PLAIN = "Use None, bool, int, float, str, aware datetime, and lists and dicts (with str keys) of these."


def encoded(what: str, value: object, *, max_bytes: int) -> str:
    """A value as JSON text; ``what`` names it in errors."""
    try:
        text = json.dumps(_plain(what, value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode())
    except InvalidArgumentError:
        raise
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} is not valid Unicode.", remedy="Remove lone surrogates.") from None
    except ValueError as error:
        raise InvalidArgumentError(f"{what} cannot be kept: {error}.", remedy=_PLAIN) from None
    except RecursionError:
        raise InvalidArgumentError(f"{what} is nested too deeply.", remedy="Make it flatter.") from None
    if size > max_bytes:
        raise InvalidArgumentError(
            f"{what} has {size:,} bytes as JSON, and may have {max_bytes:,}.",
            remedy="Keep it elsewhere and store where it is.",
        )
    return text


def decoded(text: str) -> Any:
    """The value that was kept."""
    return json.loads(text, object_hook=_restored)


def _plain(what: str, value: object) -> object:
    if isinstance(value, str) and "\0" in value:
        raise InvalidArgumentError(f"{what} contains a NUL character.", remedy="Remove it.")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidArgumentError(f"{what} has a datetime without a time zone.", remedy="Use an aware one.")
        return {_DATETIME: value.isoformat()}
    if isinstance(value, (list, tuple)):
        return [_plain(what, item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == _DATETIME or "\0" in key:
                raise InvalidArgumentError(f"{what} has the key {key!r} in a dict.", remedy=_PLAIN)
        return {key: _plain(what, item) for key, item in value.items()}
    raise InvalidArgumentError(f"{what} holds {describe_type(value)}, which cannot be kept.", remedy=_PLAIN)


def _restored(found: dict[str, Any]) -> Any:
    if len(found) == 1 and isinstance(found.get(_DATETIME), str):
        return datetime.fromisoformat(found[_DATETIME])
    return found


def describe_type(value: object) -> str:
    """Describe a value's type, for the middle of a sentence: ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
