"""A deterministic world for the real engine: a seed decides interleavings, faults and the workload's random choices.

    world = World(seed=7, faults=Faults(latency=0.005, reply_lost=0.05))
    world.run(main)                                     # main(world) spawns processes and runs a workload
    verdict = check(world.history.events, Bounds.of(world.faults, world.settings))

``check`` checks locks; ``check_concepts`` checks claims, limits and cursors.

The same seed produces the same run, with an equal ``world.loop.digest`` and ``world.loop.trace``.
"""

from interlock.testing.simulator.callers import ClaimCaller, CursorCaller, LimitCaller, WorkError
from interlock.testing.simulator.checker import Bounds, Verdict, check
from interlock.testing.simulator.client import Client, FencedTarget, Request
from interlock.testing.simulator.concepts import check_concepts
from interlock.testing.simulator.errors import SimulationError, SimulationOverrunError, SimulationStuckError
from interlock.testing.simulator.faults import Faults
from interlock.testing.simulator.faulty_store import FaultyStore
from interlock.testing.simulator.history import History
from interlock.testing.simulator.loop import SeededLoop
from interlock.testing.simulator.model import StoreModel, Violation
from interlock.testing.simulator.processes import Process
from interlock.testing.simulator.world import SimulatedProcess, VirtualClock, World

__all__ = [
    # the world
    "World",
    "SimulatedProcess",
    "VirtualClock",
    "SeededLoop",
    "Process",
    # faults
    "Faults",
    "FaultyStore",
    # workloads
    "Client",
    "FencedTarget",
    "Request",
    "ClaimCaller",
    "LimitCaller",
    "CursorCaller",
    "WorkError",
    # histories and checks
    "History",
    "StoreModel",
    "Bounds",
    "Verdict",
    "Violation",
    "check",
    "check_concepts",
    # errors
    "SimulationError",
    "SimulationOverrunError",
    "SimulationStuckError",
]
