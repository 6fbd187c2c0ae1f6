"""Keys from values: what fits, what is refused, and that no two values make one key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import InvalidArgumentError
from interlock.templates import Template


@dataclass
class Issue:
    number: int
    labels: list[str]


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("{repository.full_name}#{issue.number}", "octo%2Fhello#7"),
        ("{issue.labels.1}", "bug"),
        ("{{literal}} {id}", "{literal} 12345678-1234-5678-1234-567812345678"),
        ("at {when}", "at 2026-01-02T03:04:05+00:00"),
        ("plain", "plain"),
    ],
)
def test_rendering(template: str, key: str) -> None:
    values = {
        "repository": {"full_name": "octo/hello"},
        "issue": Issue(7, ["new", "bug"]),
        "id": UUID("12345678-1234-5678-1234-567812345678"),
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    }
    # A slash is escaped only where the template itself uses one.
    expected = key.replace("%2F", "/") if "/" not in template else key
    assert Template(template).render(values) == expected


@pytest.mark.parametrize(
    "template", ["{", "}", "{}", "{a b}", "{a!r}", "{a:>10}", "{a[0]}", "{a}{b}", "{a}x{b}", "{a.}"]
)
def test_what_cannot_be_read_is_refused(template: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Template(template)


@pytest.mark.parametrize(
    "value", [None, 1.5, ["x"], {"x": 1}, object(), 10**5000, type], ids=lambda value: type(value).__name__
)
def test_values_that_make_no_key_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError):
        Template("{a}").render({"a": value})


@pytest.mark.parametrize("path", ["missing", "a.missing", "a.5", "a.__class__", "a.append"])
def test_what_is_not_there_is_named(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not there"):
        Template(f"{{{path}}}").render({"a": ["x"]})


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=2, max_size=2, unique=True))
def test_different_values_never_make_the_same_key(both: list[tuple[str, str, str]]) -> None:
    template = Template("{a}:{b}!→{c}%")
    one, other = (template.render(dict(zip("abc", values, strict=True))) for values in both)
    assert one != other


def test_finding_gives_nothing_where_a_field_is_not_there() -> None:
    template = Template("{repository.full_name}#{issue.number}")
    whole = {"repository": {"full_name": "acme/api#2"}, "issue": {"number": 7}}

    assert template.find(whole) == template.render(whole) == "acme/api%232#7"
    for less in (
        {},
        {"repository": None, "issue": {"number": 7}},
        whole | {"issue": {}},
        whole | {"issue": {"number": None}},
        whole | {"issue": []},
        whole | {"issue": "number"},
    ):
        assert template.find(less) is None
    with pytest.raises(InvalidArgumentError, match="finds a dict"):
        template.find(whole | {"issue": {"number": {}}})
