"""Values that are kept come back as they were; what cannot be kept is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import InvalidArgumentError
from interlock.values import decoded, encoded

_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts
    | st.datetimes(timezones=st.just(UTC)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts.filter(lambda key: key != "$datetime"), inner),
    max_leaves=20,
)


@given(_plain)
def test_what_is_kept_comes_back(value: Any) -> None:
    assert decoded(encoded("it", value, max_bytes=10**9)) == value


def test_text_that_looks_like_an_escape_is_text() -> None:
    assert decoded(encoded("it", "\\u0000", max_bytes=100)) == "\\u0000"


def test_a_time_keeps_its_zone() -> None:
    at = datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert decoded(encoded("it", at, max_bytes=100)).utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(
    "value",
    [
        *(float("nan"), float("inf"), len, b"bytes", {1, 2}, {1: 2}, {"$datetime": "x"}),
        *(datetime(2026, 1, 1), ["\0"], {"\0": 1}, "\ud800", "x" * 101),  # noqa: DTZ001
    ],
    ids=repr,
)
def test_what_cannot_be_kept_is_refused_once(value: object) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        encoded("The thing", value, max_bytes=100)
    assert str(refused.value).count("The thing") == 1


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArgumentError, match="too deeply"):
        encoded("it", deep, max_bytes=10**9)
