"""How things stand at one moment, for the screen."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LockScene", "Scene", "WorkerScene"]


@dataclass(frozen=True, slots=True)
class LockScene:
    """One lock that is held or waited for."""

    key: str
    holder: str
    """Which worker, and which job of it."""
    gone: bool
    """Whether the holder is dead or frozen, and only its session not over yet."""
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
    """None: until somebody ends it."""
    webhooks: tuple[tuple[str, int], ...]
    """What became of those that were posted."""
    jobs: tuple[tuple[str, int], ...]
    """How many are in which state."""
    locks: tuple[LockScene, ...]
    containers: tuple[int, int]
    """At work, and at most."""
    held: str
    """The lane that somebody holds, and why; empty for none."""
    workers: tuple[WorkerScene, ...]
    kills: int
    under_way: int
    audit: tuple[tuple[str, int], ...]
    """What must be 0, and is."""
