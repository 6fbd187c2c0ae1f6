"""The program, built from the environment: ``interlock run bridge.program:app`` runs its workers."""

from __future__ import annotations

from bridge.factory import create_bridge

__all__ = ["app", "bridge", "bridge_set"]

bridge = create_bridge()
bridge_set = bridge.bridge_set()
app = bridge.app
