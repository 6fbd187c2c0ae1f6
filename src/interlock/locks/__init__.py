"""Locks: one holder per key at a time, first come, first served, with a fence for every grant."""

from interlock.arguments import FOREVER
from interlock.locks.lease import Lease
from interlock.locks.locks import Acquisition, Locks, ManyAcquisition
from interlock.locks.views import Holder, LockView, Waiter
from interlock.reasons import Reason

__all__ = ["FOREVER", "Acquisition", "Holder", "Lease", "LockView", "Locks", "ManyAcquisition", "Reason", "Waiter"]
