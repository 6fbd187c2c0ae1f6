"""The caller's own database connections: which drivers are supported, and how a store's steps are executed on them.

A driver is recognized by the package of the connection's class, so none is imported that the caller does not use. Each
has one small adapter, which executes a step and says whether doing so blocks. :func:`register_adapter` adds others.
"""

from __future__ import annotations

from interlock.connections.adapters import Adapter, adapter_of, register_adapter
from interlock.connections.running import run_steps, run_steps_blocking
from interlock.connections.types import Connection

__all__ = ["Adapter", "Connection", "adapter_of", "register_adapter", "run_steps", "run_steps_blocking"]
