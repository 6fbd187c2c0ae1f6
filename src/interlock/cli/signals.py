"""Signals and processes that only POSIX systems have, guarded so that the command line also loads on Windows."""

from __future__ import annotations

import os
import signal

from interlock.errors import MisuseError

__all__ = ["require_posix", "stop_signals"]


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a process to stop. Windows has no SIGHUP."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def require_posix(what: str, *, remedy: str) -> None:
    """Refuse a command that relies on POSIX signals, pipes or descriptors on any other system."""
    if os.name != "posix":
        raise MisuseError(f"{what} requires a POSIX system, such as Linux or macOS.", remedy=remedy)
