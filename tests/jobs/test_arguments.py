"""Arguments and results: what was declared goes in and comes out, anything else is refused before it is stored."""

from __future__ import annotations

import dataclasses
import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from interlock.errors import InvalidArgumentError
from interlock.jobs.definition import Definition
from interlock.jobs.options import JobOptions
from interlock.ports.jobs import MAX_ARGUMENT_BYTES

NOW = datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
NAIVE = datetime(2030, 1, 2)  # noqa: DTZ001
NAN = float("nan")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    when: datetime | None = None
    more: list[Point] = dataclasses.field(default_factory=list)


class Issue(BaseModel):
    number: int
    at: datetime = NOW
    ratio: float = 0.5
    labels: list[str] = []
    renamed: int = Field(default=1, alias="other_name")


class Parts(TypedDict):
    a: int


def taking(hint: Any) -> Definition:
    """A job with one argument of this type."""

    async def handler(value: Any) -> None: ...

    handler.__annotations__ = {"value": hint, "return": None}
    return Definition(handler, JobOptions())


def returning(hint: Any) -> Definition:
    async def handler() -> Any: ...

    handler.__annotations__ = {"return": hint}
    return Definition(handler, JobOptions())


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 7),
        (int, 10**40),
        (str, "häß\u2028lich\\u0000"),
        (float, 0.1),
        (bool, False),
        (None, None),
        (int | None, None),
        (list[int], [1, 2]),
        (tuple[int, ...], (1, 2)),
        (set[str], {"a"}),
        (dict[str, float], {"a": 1.5}),
        (dict[int, str], {1: "x"}),
        (Literal["a", 1], "a"),
        (bytes, b"\xff\x00"),
        (datetime, NOW),
        (date, date(2030, 1, 2)),
        (timedelta, timedelta(seconds=90)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=5)),
        (Path, Path("/tmp/x")),
        (Colour, Colour.RED),
        (Parts, {"a": 1}),
        (Point, Point(1.5, NOW, [Point(2.5)])),
        (list[Point], [Point(1.5)]),
        (Issue, Issue(number=7, labels=["x"], other_name=3)),
        (dict[str, Issue], {"a": Issue(number=7)}),
        (Any, {"a": [1, "x", None, {"b": 1.5}]}),
    ],
    ids=str,
)
def test_what_was_declared_comes_out_as_it_went_in(hint: Any, value: Any) -> None:
    definition, result = taking(hint), returning(hint)
    text, values = definition.bind((), {"value": value})

    back = definition.read(text)

    assert back == values == {"value": value}
    assert type(back["value"]) is type(value)
    assert result.read_result(result.write(value)) == value


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "7"),
        (int, 7.0),
        (int, True),
        (int, None),
        (str, 7),
        (str, b"x"),
        (float, "0.1"),
        (bool, 1),
        (datetime, "2030-01-02T03:04:05Z"),
        (UUID, str(UUID(int=5))),
        (list[int], (1, 2)),
        (list[int], ["1"]),
        (Literal["a"], "b"),
        (Colour, "red"),
        (Point, {"x": 1.5}),
        (Point, Point("1.5")),  # type: ignore[arg-type]
        (Issue, 7),
        (Issue, Issue.model_construct(number="seven")),
    ],
    ids=str,
)
def test_what_was_not_declared_is_refused(hint: Any, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        taking(hint).bind((), {"value": value})
    with pytest.raises(InvalidArgumentError):
        returning(hint | None if hint is int else hint).write([value] if value is None else value)


@pytest.mark.parametrize(
    ("hint", "value", "why"),
    [
        (float, NAN, "finite"),
        (float, float("-inf"), "finite"),
        (list[float], [1.0, NAN], "finite"),
        (dict[str, float], {"a": NAN}, "finite"),
        (Any, NAN, "finite"),
        (Any, {"a": [NAN]}, "finite"),
        (Point, Point(NAN), "finite"),
        (Issue, Issue(number=1, ratio=NAN), "finite"),
        (Decimal, Decimal("NaN"), "finite"),
        (datetime, NAIVE, "naive datetime"),
        (Any, NAIVE, "naive datetime"),
        (list[datetime], [NOW, NAIVE], "naive datetime"),
        (dict[str, datetime], {"a": NAIVE}, "naive datetime"),
        (Point, Point(1.0, None, [Point(1.0, NAIVE)]), "naive datetime"),
        (Issue, Issue(number=1, at=NAIVE), "naive datetime"),
        (str, "a\0b", "NUL"),
        (dict[str, str], {"a\0": "b"}, "NUL"),
        (Any, ["\\\0"], "NUL"),
        (str, "\ud800", "JSON|Unicode|string"),
        (Any, {"a": "\udc00"}, "JSON|Unicode|string"),
        (str, "x" * MAX_ARGUMENT_BYTES, "bytes"),
        (str, "ä" * (MAX_ARGUMENT_BYTES // 2), "bytes"),
        (Any, NOW, "come back as a str"),
        (Any, {"a": [UUID(int=5)]}, "come back as a str"),
        (Any, Issue(number=7), "come back as a dict"),
        (Any, len, "JSON"),
        (Any, {1: "x"}, "key"),
        (str | datetime, NOW, "come back as a str"),
    ],
    ids=repr,
)
def test_what_cannot_be_kept_is_refused(hint: Any, value: Any, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        taking(hint).bind((), {"value": value})
    with pytest.raises(InvalidArgumentError, match=why):
        returning(hint).write(value)


def test_what_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    for wrong in (value, deep):
        with pytest.raises(InvalidArgumentError, match=r"deep|circular|recursion"):
            taking(Any).bind((), {"value": wrong})


def test_the_largest_that_is_kept() -> None:
    definition = taking(str)

    text, _ = definition.bind((), {"value": "x" * (MAX_ARGUMENT_BYTES - len('{"value":""}'))})

    assert len(text) == MAX_ARGUMENT_BYTES


def test_errors_name_the_place_and_never_the_value() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        taking(Issue).bind((), {"value": Issue.model_construct(number="hunter2", labels=[])})
    with pytest.raises(InvalidArgumentError) as other:
        taking(dict[str, int]).bind((), {"value": {"password": "hunter2"}})

    assert "'value.number' is a str" in str(caught.value)
    assert "'value.password' is a str" in str(other.value)
    assert "hunter2" not in f"{caught.value} {other.value}"


# -- calls -------------------------------------------------------------------------------------------------------------


async def report(account: str, target: int = 5, *, when: datetime | None = None) -> str:
    return f"{account} {target} {when}"


async def nothing() -> None: ...


JOB = Definition(report, JobOptions())
NOTHING = Definition(nothing, JobOptions())


def test_arguments_by_place_and_by_name() -> None:
    assert JOB.bind(("a",), {"when": NOW})[0] == '{"account":"a","when":"2030-01-02T03:04:05.000678Z"}'
    assert JOB.bind(("a",), {})[1] == {"account": "a", "target": 5, "when": None}, "templates see defaults"
    assert NOTHING.bind((), {}) == ("{}", {})


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "'account' is missing"),
        (("a",), {"targt": 7}, "'targt' is unknown"),
        (("a",), {"account": "b"}, "'account' twice"),
        (("a", 7, None, 1), {}, "takes 3 arguments, but got 4"),
        ((), {"account": "a", "target": "7"}, "'target' is a str"),
    ],
)
def test_wrong_calls(args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        JOB.bind(args, kwargs)


def test_a_job_without_arguments_takes_none() -> None:
    for args, kwargs in (((1,), {}), ((), {"a": 1})):
        with pytest.raises(InvalidArgumentError, match="takes"):
            NOTHING.bind(args, kwargs)


def test_arguments_of_an_older_version() -> None:
    """A parameter with a default may be added; one that is gone, or of another type, is not guessed at."""
    assert JOB.read('{"account":"a"}') == {"account": "a"}
    assert NOTHING.read("{}") == {}
    for old in ('{"account":"a","gone":1}', '{"account":7}', '{"account":"a","target":"7"}', "{}", "[]", "not JSON"):
        with pytest.raises(InvalidArgumentError, match="not match"):
            JOB.read(old)
    with pytest.raises(InvalidArgumentError, match="not match"):
        NOTHING.read('{"a":1}')


def test_results() -> None:
    assert JOB.write("done") == '"done"'
    assert JOB.write(None) is None
    assert NOTHING.write(None) is None
    assert NOTHING.write("whatever") is None, "it declares that it returns nothing"
    assert JOB.read_result(None) is None
    with pytest.raises(InvalidArgumentError, match="The result of 'report'"):
        JOB.write(7)
    with pytest.raises(InvalidArgumentError, match="bytes"):
        JOB.write("x" * MAX_ARGUMENT_BYTES)


ANYTHING = taking(Any)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=15,
    )
)
def test_any_plain_value_comes_back_or_is_refused(value: Any) -> None:
    try:
        text, _ = ANYTHING.bind((), {"value": value})
    except InvalidArgumentError:
        assert "\0" in repr(value) or "\\x00" in repr(value)
        return
    assert ANYTHING.read(text) == {"value": value}
