"""Public tools for testing applications and stores, which Interlock's own tests use too.

``fresh``, ``virtual_time``, ``drain`` and ``simulate`` test an app of one's own. ``conformance`` tests every store
against the same promises, ``simulator`` runs the real engine on a seeded event loop, ``proxy`` breaks connections,
``processes`` runs and kills real workers, ``servers`` starts real databases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.testing.apps import VirtualTime, drain, fresh, virtual_time
    from interlock.testing.simulation import Simulation, SimulationFailedError, SimulationReport, simulate

__all__ = [
    "Simulation",
    "SimulationFailedError",
    "SimulationReport",
    "VirtualTime",
    "drain",
    "fresh",
    "simulate",
    "virtual_time",
]

_MODULES = {
    "VirtualTime": "apps",
    "drain": "apps",
    "fresh": "apps",
    "virtual_time": "apps",
    "Simulation": "simulation",
    "SimulationFailedError": "simulation",
    "SimulationReport": "simulation",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: the pytest plugin must not import Interlock itself."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
