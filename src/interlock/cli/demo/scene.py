"""The state at one moment, for the screen."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LockScene", "Scene", "WorkerScene"]


@dataclass(frozen=True, slots=True)
class LockScene:
    """One lock that is held or has waiters."""

    key: str
    holder: str
    """The worker and its job."""
    gone: bool
    """Whether the holder is dead or frozen while its session has not ended."""
    fence: int
    waiting: int


@dataclass(frozen=True, slots=True)
class WorkerScene:
    """One worker process."""

    name: str
    frozen: bool
    doing: tuple[str, ...]
    """The handlers that it runs."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything."""

    elapsed: float
    seconds: float | None
    """None: until Ctrl-C."""
    webhooks: tuple[tuple[str, int], ...]
    """Posted webhooks by outcome."""
    jobs: tuple[tuple[str, int], ...]
    """Jobs by state."""
    locks: tuple[LockScene, ...]
    containers: tuple[int, int]
    """Containers in use, and the maximum."""
    held: str
    """The held lane and its reason; empty for none."""
    workers: tuple[WorkerScene, ...]
    kills: int
    under_way: int
    audit: tuple[tuple[str, int], ...]
    """The violations so far."""
