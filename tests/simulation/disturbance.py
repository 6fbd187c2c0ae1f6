"""What befalls simulated processes from outside, also while they compute or wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from interlock.testing.simulator import World

__all__ = ["bring_back_and_see_end", "disturb"]


async def disturb(world: World, dice: random.Random, *, pauses: float) -> None:
    """Stop some processes, as often as ``pauses`` says, and kill the others."""
    if not world.faults.paused:
        return
    for _ in range(dice.choice((0, 1, 2))):
        await asyncio.sleep(dice.random() * 2.0)
        if not world.faults.paused:  # healed meanwhile
            return
        process = dice.choice(world.processes)
        if dice.random() < pauses:
            process.pause(dice.random() * 6.0)
        else:
            process.crash()


def bring_back_and_see_end(world: World, dice: random.Random, start: Callable[[str], None]) -> bool:
    """Start others in place of some that died; whether nobody has anything to do any more."""
    for process in world.processes:
        if not process.alive and process.name.count("'") < 2 and process.tasks:
            process.tasks.clear()
            if dice.random() < 0.7:
                start(f"{process.name}'")
    return all(process.idle for process in world.processes)
