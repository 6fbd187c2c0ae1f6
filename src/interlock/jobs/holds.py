"""Lanes that people let stand still or go on: whoever does it, from wherever, it is logged in their name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.ports.jobs import JobStore

__all__ = ["hold", "release"]

_log = logging.getLogger("interlock.jobs")


async def hold(jobs: JobStore, lane: str, reason: str, by: str) -> None:
    """Let no further job of the lane start."""
    await jobs.hold(lane, reason, by)
    emit(_log, logging.INFO, "lane_held", lane=lane, by=by, reason=reason)


async def release(jobs: JobStore, lane: str, by: str) -> bool:
    """Let it go on; False if it was neither held nor parked."""
    released = await jobs.release(lane)
    if released:
        emit(_log, logging.INFO, "lane_released", lane=lane, by=by)
    return released
