"""The locks and sessions ports, step by step on a clock that the test moves: exact, with nothing left to timing."""

from interlock.testing.conformance.locks.endings import EndingConformance
from interlock.testing.conformance.locks.fencing import FencingConformance
from interlock.testing.conformance.locks.granting import GrantingConformance
from interlock.testing.conformance.locks.graph import GraphConformance

__all__ = ["LockStoreConformance"]


class LockStoreConformance(GrantingConformance, EndingConformance, GraphConformance, FencingConformance):
    """What the locks and sessions ports promise."""
