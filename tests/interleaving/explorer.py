"""Tries pairs of operations, with the first one standing still at one step after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.interleaving.acts import ACTS, LONG, MINOR, Side, possible
from tests.interleaving.checks import standing, worked_off
from tests.interleaving.gate import COMMIT
from tests.interleaving.scenes import Scene, prepare

if TYPE_CHECKING:
    from tests.interleaving.lab import Lab

__all__ = ["Case", "at_commit", "at_each_step", "attempt", "steps"]


class Case(NamedTuple):
    """Two operations in a scene, and where the first one stands still."""

    scene: str
    first: str
    second: str
    step: int = COMMIT
    third: bool = False
    """Whether a fetch by somebody else comes while both are under way."""

    def __str__(self) -> str:
        where = "before its commit" if self.step == COMMIT else f"at step {self.step}"
        third = " and another fetch" if self.third else ""
        return f"{self.scene}: {self.first!r} stands still {where}, {self.second!r} comes{third}"


async def at_commit(lab: Lab, scene: str) -> list[Case]:
    """All pairs of operations that a scene has something for, also with a third who fetches."""
    made = await prepare(lab, scene)
    acts = [act for act in ACTS if possible(act, made)]
    return [
        Case(scene, first, second, third=third)
        for first in acts
        if first not in LONG
        for second in acts
        for third in (False, True)
    ]


async def at_each_step(lab: Lab, scene: str) -> list[Case]:
    """The pairs alone at each other step, except with those that differ little from others."""
    pairs = [case for case in await at_commit(lab, scene) if not (case.third or {case.first, case.second} & MINOR)]
    count = {first: await steps(lab, scene, first) for first in dict.fromkeys(case.first for case in pairs)}
    return [case._replace(step=step) for case in pairs for step in range(1, count[case.first] + 1)]


async def steps(lab: Lab, scene: str, act: str) -> int:
    """How many steps an operation has there, if nobody is in its way."""
    side, _ = _sides(lab, await prepare(lab, scene), act, act)
    return await lab.gate.steps(ACTS[act](side))


async def attempt(lab: Lab, case: Case) -> list[str]:
    """Try one; says what was wrong."""
    scene = await prepare(lab, case.scene)
    first, second = _sides(lab, scene, case.first, case.second)
    works = [ACTS[case.first](first), ACTS[case.second](second)]
    if case.third:
        works.append(ACTS["fetch"](Side(lab.helper, "c", scene, scene.spare[2])))
    answers = await lab.gate.interleave(case.step, *works)
    wrong = [f"{type(answer).__name__}: {answer}" for answer in answers if isinstance(answer, BaseException)]
    wrong += await standing(lab)
    return wrong or await worked_off(lab, scene)


def _sides(lab: Lab, scene: Scene, first: str, second: str) -> tuple[Side, Side]:
    # What is sent again is what the other side sends.
    same = first.startswith("enqueue again") or second.startswith("enqueue again")
    return (
        Side(lab.first, "a", scene, scene.spare[0]),
        Side(lab.second, "b", scene, scene.spare[0 if same else 1]),
    )
