"""Interlock makes automation safe to run concurrently."""

from interlock.app import App
from interlock.errors import (
    CapabilityError,
    DeadlockError,
    InterlockError,
    InvalidArgumentError,
    LeaseLostError,
    LockError,
    LockTimeoutError,
    MisuseError,
    NotFoundError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from interlock.locks import FOREVER, Lease, Locks
from interlock.settings import Settings

__all__ = [
    # the application
    "App",
    "Settings",
    # locks
    "Locks",
    "Lease",
    "FOREVER",
    # errors
    "InterlockError",
    "MisuseError",
    "InvalidArgumentError",
    "NotFoundError",
    "LockError",
    "LockTimeoutError",
    "LeaseLostError",
    "DeadlockError",
    "StoreError",
    "StoreUnavailableError",
    "SchemaMismatchError",
    "CapabilityError",
]

__version__ = "0.1.0"
