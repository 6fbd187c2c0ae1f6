"""The promises as tests that any store can be held to.

Subclass what your store offers and say where it is::

    class TestMyStore(LockStoreConformance, LocksConformance, ProcessConformance):
        @pytest.fixture
        def store_url(self):
            return "mystore://…"          # a fresh, empty place for every test

A test that needs a capability which the store does not declare is skipped, and says so; no other test is ever skipped.
"""

from interlock.testing.conformance.lock_store import LockStoreConformance
from interlock.testing.conformance.locks import LocksConformance
from interlock.testing.conformance.processes import ProcessConformance

__all__ = ["LockStoreConformance", "LocksConformance", "ProcessConformance"]
