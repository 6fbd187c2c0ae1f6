"""The errors, each also the error of Interlock that it stands for: callers may catch either.

BridgeError
├── BridgeExecutionError           a bridge of the pipeline failed
├── IntentNotFoundError
├── InvalidStatusTransitionError
├── InvalidCorrectionError         the diff or the reason of a correction is invalid
├── SourceNotAllowedError          this actor may not make corrections
├── LockTimeoutError
├── ConcurrencyConflictError
└── DeadlockError
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock import errors as interlock_errors
from interlock.deadlocks import is_deadlock_error

if TYPE_CHECKING:
    from collections.abc import Generator

    from bridge.core.enums import BridgeTypeEnum

__all__ = [
    "BridgeError",
    "BridgeExecutionError",
    "ConcurrencyConflictError",
    "DeadlockError",
    "IntentNotFoundError",
    "InvalidCorrectionError",
    "InvalidStatusTransitionError",
    "LockTimeoutError",
    "SourceNotAllowedError",
    "bridge_errors",
    "is_deadlock_error",
]


class BridgeError(Exception):
    """Something went wrong in the bridge."""


class BridgeExecutionError(BridgeError):
    """A bridge could not do its part. Raised by bridges, and by the pipeline for the bridge that failed it."""

    def __init__(self, message: str = "", *, bridge_type: BridgeTypeEnum | str = "") -> None:
        super().__init__(message or "The bridge failed.")
        self.bridge_type = str(bridge_type)


class IntentNotFoundError(BridgeError, interlock_errors.RecordNotFoundError):
    """The intent does not exist."""


class InvalidStatusTransitionError(BridgeError, interlock_errors.InvalidTransitionError):
    """The intent's status does not allow the requested one."""


class InvalidCorrectionError(BridgeError, interlock_errors.CorrectionRefusedError):
    """The correction is invalid."""


class SourceNotAllowedError(BridgeError, interlock_errors.CorrectionRefusedError):
    """This actor may not make corrections."""


class LockTimeoutError(BridgeError, interlock_errors.LockTimeoutError):
    """The lock on the intent was not free in time."""


class ConcurrencyConflictError(BridgeError, interlock_errors.ConcurrencyConflictError):
    """Another writer was faster, and the lock that the operation queued for was not free in time."""


class DeadlockError(BridgeError, interlock_errors.DeadlockError):
    """Transactions wait for one another. ``deadlock_info`` has the details."""


@contextmanager
def bridge_errors() -> Generator[None]:
    """Turn Interlock's errors inside the block into the bridge's own."""
    try:
        yield
    except BridgeError:
        raise
    except interlock_errors.RecordNotFoundError as error:
        raise IntentNotFoundError(error.message) from error
    except interlock_errors.InvalidTransitionError as error:
        raise InvalidStatusTransitionError(
            error.message, status=error.status, requested=error.requested, remedy=error.remedy
        ) from error
    except interlock_errors.CorrectionRefusedError as error:
        refused = SourceNotAllowedError if error.reason == "source-not-allowed" else InvalidCorrectionError
        raise refused(error.message, reason=error.reason, remedy=error.remedy) from error
    except interlock_errors.LockTimeoutError as error:
        raise LockTimeoutError(error.message, remedy=error.remedy) from error
    except interlock_errors.ConcurrencyConflictError as error:
        raise ConcurrencyConflictError(error.message, remedy=error.remedy) from error
    except interlock_errors.DeadlockError as error:
        raise DeadlockError(error.message, error.deadlock_info, cycle=error.cycle) from error
