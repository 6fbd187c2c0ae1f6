"""The program, built from the environment: ``interlock run sentinel.program:app`` runs its workers."""

from __future__ import annotations

from sentinel.factory import create_console

__all__ = ["app", "console"]

console = create_console()
app = console.app
