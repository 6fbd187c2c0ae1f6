"""Payloads from outside: a JSON object that every store can keep, or an error that says why not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from interlock.errors import MalformedEventError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["header", "inside", "is_form", "payload_of_form", "plain_text", "read_object"]

_MAX_FIELDS = 10
_MAX_TEXT = 200
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def read_object(body: bytes) -> tuple[str, dict[str, Any]]:
    """The payload as text and as an object."""
    from pydantic_core import from_json

    try:
        text = body.decode()
        value: Any = from_json(body, allow_inf_nan=False)  # refuses unpaired surrogates and deep nesting
    except UnicodeDecodeError:
        raise MalformedEventError("The payload is not UTF-8.") from None
    except ValueError as error:
        raise MalformedEventError(f"The payload is not valid JSON: {_short(error)}.") from None
    if not isinstance(value, dict):
        raise MalformedEventError(f"The payload is a JSON {type(value).__name__}, not an object.")
    if b"\\u0000" in body and _NUL.search(body):  # the pattern alone is slow
        raise MalformedEventError("The payload contains a NUL character.")
    return text, cast("dict[str, Any]", value)


def is_form(headers: Mapping[str, str]) -> bool:
    """Whether the body is a form instead of JSON."""
    kind = header(headers, "content-type") or ""
    return kind.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded"


def payload_of_form(body: bytes) -> bytes:
    """The one field ``payload`` of a form."""
    try:
        text = body.decode("ascii")
        fields = parse_qsl(text, True, strict_parsing=True, errors="strict", max_num_fields=_MAX_FIELDS)
        found = [value.encode() for name, value in fields if name == "payload"]
    except ValueError:
        raise MalformedEventError("The body is not a valid form.") from None
    if len(found) != 1:
        raise MalformedEventError(f"The form has {len(found)} fields named 'payload'; it must have one.")
    return found[0]


def header(headers: Mapping[str, str], name: str) -> str | None:
    """The value of a header, case-insensitively; ``name`` is in lower case."""
    value = headers.get(name)
    if value is not None:
        return value
    return next((value for key, value in headers.items() if key.lower() == name), None)


def inside(payload: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path; None if it is missing."""
    found: Any = payload
    for name in path:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, Any]", found).get(name)
    return found


def plain_text(what: str, value: object) -> str:
    """A short printable string, such as a delivery ID."""
    if type(value) is str and 0 < len(value) <= _MAX_TEXT and value.isprintable():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**_MAX_TEXT else "too long".rjust(_MAX_TEXT + 1)
    if value is None or value == "":
        raise MalformedEventError(f"{what} is missing.")
    if not isinstance(value, str):
        raise MalformedEventError(f"{what} is of type {type(value).__name__}, not a string.")
    if len(value) > _MAX_TEXT or not value.isprintable():
        raise MalformedEventError(f"{what} is not printable, or longer than {_MAX_TEXT} characters.")
    return value


def _short(error: ValueError) -> str:
    # The parser's message contains a position, never the content.
    text = str(error)
    return "a number is too large" if "out of range" in text else text[:120]
