"""Errors for people and programs: a status, a title, what happened, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException

from interlock.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    InterlockError,
    MisuseError,
    NotFoundError,
    StoreError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Fault", "fault_of"]


class Fault(NamedTuple):
    """An error for the client."""

    status: int
    code: str
    title: str
    message: str
    remedy: str
    headers: Mapping[str, str]
    retries: bool
    """Whether to ask again by itself."""


def fault_of(error: Exception) -> Fault:
    """Convert an error. Details of unknown errors are omitted, because they may be confidential."""
    if isinstance(error, HTTPException):
        return _of_http(error)
    if not isinstance(error, InterlockError):
        message = "The page could not be made. The log has the details."
        return Fault(500, "internal", "Something went wrong", message, "", {}, False)
    status, title = next((found for kind, found in _KINDS.items() if isinstance(error, kind)), (500, "Cannot be done"))
    away = isinstance(error, StoreUnavailableError)
    headers = {"retry-after": "3"} if away else {}
    return Fault(status, error.code, title, error.message, error.remedy, headers, away)


_KINDS: Mapping[type[InterlockError], tuple[int, str]] = {
    NotFoundError: (404, "Not found"),
    CapabilityError: (404, "Not here"),
    StoreUnavailableError: (503, "The store does not answer"),
    ConcurrencyConflictError: (409, "It changed meanwhile"),
    MisuseError: (400, "That cannot be done"),
    StoreError: (503, "The store cannot be used"),
}


def _of_http(error: HTTPException) -> Fault:
    missing = error.status_code == 404
    title = "Not found" if missing else "That cannot be done"
    message = "There is no such page." if missing else f"{error.detail}."
    return Fault(error.status_code, "not-found" if missing else "http", title, message, "", error.headers or {}, False)
