"""The layout of machines: every status and transition is drawn, apart from the others, whatever the machine."""

from __future__ import annotations

import itertools
import random

import pytest

from interlock.insight.records import _machine_view
from interlock.records import Machine
from interlock.web.pages.machines import Drawing, draw


def _drawn(machine: Machine, status: str | None = None) -> Drawing:
    drawing = draw(_machine_view(machine), status)
    assert drawing is not None
    return drawing


def _check(machine: Machine, drawing: Drawing) -> None:
    """Boxes are inside the drawing and do not overlap; every transition has a tip."""
    for state in drawing.states:
        assert 0 <= state.x <= state.x + state.width <= drawing.width
        assert 0 <= state.y <= state.y + state.height <= drawing.height
    for one, other in itertools.combinations(drawing.states, 2):
        apart = one.x + one.width < other.x or other.x + other.width < one.x
        assert apart or one.y + one.height < other.y or other.y + other.height < one.y, (one, other)
    transitions = sum(len(set(followers) - {status}) for status, followers in machine.transitions.items())
    corrections = 0
    if machine.corrected is not None:
        corrections = sum(
            status not in machine.final and status != machine.corrected and machine.corrected not in followers
            for status, followers in machine.transitions.items()
        )
    assert sum(len(arrow.tips) for arrow in drawing.arrows) == transitions + corrections
    assert [state.name for state in drawing.states] == list(machine.statuses)


def test_a_pipeline_goes_from_left_to_right() -> None:
    machine = Machine(initial="a", transitions={"a": ["b", "d"], "b": ["c"], "c": ["d"]})
    drawing = _drawn(machine, "b")
    _check(machine, drawing)
    xs = [state.x for state in drawing.states]
    assert xs == sorted(xs)
    assert [state.name for state in drawing.states if state.here] == ["b"]
    assert [state.name for state in drawing.states if state.next] == ["c"]
    assert [arrow.title for arrow in drawing.arrows if arrow.out] == ["b to c"]
    assert [state.name for state in drawing.states if state.final] == ["d"]


def test_transitions_in_both_directions_share_a_line() -> None:
    machine = Machine(initial="a", transitions={"a": ["b"], "b": ["a", "c"], "c": ["a"]})
    drawing = _drawn(machine)
    _check(machine, drawing)
    assert sorted(len(arrow.tips) for arrow in drawing.arrows) == [1, 1, 2]


def test_corrections_are_drawn_apart() -> None:
    machine = Machine(initial="a", transitions={"a": ["b"], "b": ["c"], "d": ["c"]}, corrected="d")
    drawing = _drawn(machine)
    _check(machine, drawing)
    assert sorted(arrow.title for arrow in drawing.arrows if arrow.correction) == [
        "a to d by a correction",
        "b to d by a correction",
    ]


@pytest.mark.parametrize("seed", range(40))
def test_any_machine_can_be_drawn(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"status {number}" for number in range(dice.randrange(1, 14))]
    transitions = {name: dice.sample(names, dice.randrange(0, min(4, len(names)) + 1)) for name in names}
    machine = Machine(initial=names[0], transitions=transitions, corrected=dice.choice([None, *names]))
    _check(machine, _drawn(machine, dice.choice(names)))


def test_long_names_are_cut_and_huge_machines_are_not_drawn() -> None:
    machine = Machine(initial="x" * 100, transitions={"x" * 100: ["y"]})
    drawing = _drawn(machine)
    assert drawing.states[0].text == "x" * 17 + "…"
    huge = {f"s{number}": [f"s{number + 1}"] for number in range(60)}
    assert draw(_machine_view(Machine(initial="s0", transitions=huge))) is None
    wide = {f"s{number}": [f"s{number + 1}"] for number in range(20)}
    assert _drawn(Machine(initial="s0", transitions=wide)).wide
