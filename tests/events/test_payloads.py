"""What can be a payload: an object that every store keeps and every worker reads back as it was."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from interlock.errors import MalformedEventError
from interlock.events.payloads import read_object

DEEP = 200


def nested(depth: int, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    return opening * (depth - 1) + b"{}" + closing * (depth - 1)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "JSON"),
        (b"Hello, World!", "JSON"),
        (b"[]", "not an object"),
        (b'"text"', "not an object"),
        (b"null", "not an object"),
        (b"17", "not an object"),
        (b"{}x", "JSON"),
        (b"\xef\xbb\xbf{}", "JSON"),
        (b'{"a": "\xff"}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'{"a": NaN}', "JSON"),
        (b'{"a": Infinity}', "JSON"),
        (b'{"a": -Infinity}', "JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too large"),
        (b'{"a": "\\ud800"}', "JSON"),
        (b'{"a": "\\udc00\\ud800"}', "JSON"),
        (b'{"\\ud800": 1}', "JSON"),
        (b'{"a": "\\u0000"}', "NUL"),
        (b'{"\\u0000": 1}', "NUL"),
        (b'{"a": "\\\\\\u0000"}', "NUL"),
        (b'{"a": "\x00"}', "JSON"),
        (b'{"a": "\n"}', "JSON"),
        (nested(DEEP + 2), "JSON"),
        (nested(100_000), "JSON"),
        (b'{"a":' + b"[" * 100_000, "JSON"),
        (b'{"a":' + b"[" * (DEEP + 1) + b"]" * (DEEP + 1) + b"}", "JSON"),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else value,
)
def test_what_cannot_be_kept_is_refused_and_says_why(body: bytes, why: str) -> None:
    with pytest.raises(MalformedEventError, match=why):
        read_object(body)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b' {"a" : [1, 2.5, -0.0, 1e308, true, null, "\\u00e4\\ud83d\\ude00"]}\n',
        b'{"a": "a backslash and \\\\u0000 are no NUL"}',
        nested(DEEP - 1),
        b'{"a":' + b"[" * (DEEP - 2) + b"]" * (DEEP - 2) + b"}",
        b'{"a": ' + b"9" * 400 + b"}",
        b'{"a": 1, "a": 2}',
        b'{"a": 1e400}',
        json.dumps({str(n): [n] for n in range(1000)}).encode(),
    ],
    ids=lambda body: repr(body[:30]),
)
def test_what_can_be_kept_is_read_as_workers_will_read_it(body: bytes) -> None:
    text, payload = read_object(body)

    assert text.encode() == body
    assert payload == json.loads(body)
    assert from_json(text) == payload


def test_an_error_does_not_repeat_what_was_sent() -> None:
    for body in (b'{"token": "canary-5f2c"', b'{"a": canary-5f2c}'):
        with pytest.raises(MalformedEventError) as refused:
            read_object(body)
        assert "canary" not in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def _texts(value: Any) -> list[str]:
    """All texts in a value, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in _texts(item))]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans())
def test_any_object_is_read_back_the_same_or_refused_for_its_nul(payload: dict[str, Any], ascii_only: bool) -> None:
    written = json.dumps(payload, ensure_ascii=ascii_only)
    if any("\0" in text for text in _texts(payload)):
        with pytest.raises(MalformedEventError, match="NUL"):
            read_object(written.encode())
        return
    text, read = read_object(written.encode())

    assert read == payload
    assert from_json(text) == payload


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(MalformedEventError):
        read_object(body)
