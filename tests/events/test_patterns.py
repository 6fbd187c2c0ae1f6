"""Patterns over the names of events."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import InvalidArgumentError
from interlock.events.patterns import Pattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (
            "github.issues.opened",
            ["github.issues.opened"],
            ["github.issues", "github.issues.opened.x", "x.issues.opened"],
        ),
        ("github.issues.*", ["github.issues.opened", "github.issues.x y"], ["github.issues", "github.issues.a.b"]),
        ("*.push", ["github.push", "gitea.push"], ["github.push.forced", "push"]),
        ("github.*.opened", ["github.issues.opened", "github.pull_request.opened"], ["github.issues.closed"]),
        ("github.**", ["github", "github.push", "github.a.b.c"], ["githubb.push", "gitlab.push"]),
        ("**", ["github.push", "x"], []),
        ("*.**", ["github.push", "x"], []),
        ("github.push.", [], []),
    ],
)
def test_a_pattern_means_the_names_that_it_means(pattern: str, yes: list[str], no: list[str]) -> None:
    if not yes and not no:
        with pytest.raises(InvalidArgumentError):
            Pattern(pattern)
        return
    assert [name for name in yes if not Pattern(pattern).fits(name)] == []
    assert [name for name in no if Pattern(pattern).fits(name)] == []


@pytest.mark.parametrize("pattern", ["", ".", "a..b", "**.push", "a.**.b", "a.b*", "a.***", "a.\n", None, 7, ["a"]])
def test_what_is_no_pattern_is_refused(pattern: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid pattern"):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["github", "*", "github push", "github. push", "github.push "])
def test_what_no_event_can_fit_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid pattern"):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["GitHub.push", "GitHub.**", "git hub.push", "-.push"])
def test_a_source_that_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid source name"):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "source"), [("github.push", "github"), ("a.**", "a"), ("*.push", None), ("**", None), ("*.**", None)]
)
def test_a_pattern_names_its_source(pattern: str, source: str | None) -> None:
    assert Pattern(pattern).source == source
