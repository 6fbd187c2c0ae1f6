"""Machines: declarations, checks and diagrams."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import InvalidArgumentError, InvalidTransitionError
from interlock.records import Machine


def test_a_machine_knows_its_statuses_and_final_ones() -> None:
    machine = Machine(initial="a", transitions={"a": ["b", "c"], "b": ["c", "b"]})

    assert machine.statuses == ("a", "b", "c")
    assert machine.final == {"c"}
    assert machine.allows("a", "c")
    assert machine.allows("c", "c"), "a status may be set to itself"
    assert not machine.allows("c", "a")
    assert not machine.allows("a", "z")
    with pytest.raises(InvalidTransitionError, match="final") as refused:
        machine.check("It", "c", "a")
    assert (refused.value.status, refused.value.requested) == ("c", "a")


@pytest.mark.parametrize(
    "declaration",
    [
        {"initial": "z", "transitions": {"a": ["b"]}},
        {"initial": [], "transitions": {"a": ["b"]}},
        {"initial": "a", "transitions": {"a": ["b"]}, "corrected": "z"},
        {"initial": "a", "transitions": {"a": [""]}},
        {"initial": "a", "transitions": {"a": [7]}},
        {"initial": "a", "transitions": {"a\0": ["a"]}},
    ],
)
def test_a_machine_that_cannot_work_is_refused(declaration: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Machine(**declaration)


def test_a_machine_is_drawn_with_its_corrections() -> None:
    machine = Machine(initial="new", transitions={"new": ["done"], "fixed": ["done"]}, corrected="fixed")

    assert machine.diagram().splitlines() == [
        "stateDiagram-v2",
        '    state "new" as s0',
        '    state "fixed" as s1',
        '    state "done" as s2',
        "    [*] --> s0",
        "    s0 --> s2",
        "    s1 --> s2",
        "    s0 --> s1: correction",
        "    s2 --> [*]",
    ]
