"""Errors of the simulator. Each message names the seed, so that the run can be replayed."""

from __future__ import annotations

__all__ = ["Crashed", "SimulationError", "SimulationOverrunError", "SimulationStuckError"]


class SimulationError(Exception):
    """The simulation cannot continue; ``seed`` replays it."""

    def __init__(self, message: str, seed: int) -> None:
        super().__init__(f"{message} Replay with seed {seed} (INTERLOCK_SEED={seed}).")
        self.seed = seed


class SimulationStuckError(SimulationError):
    """Nothing is ready, no timer is set, and the main coroutine has not ended."""


class SimulationOverrunError(SimulationError):
    """The run took more steps or more virtual time than allowed."""


class Crashed(BaseException):
    """A killed process tried to continue while its tasks were cleaned up."""
