"""How things stand at one moment, for the screen."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CommentScene", "ContainerScene", "DeliveryScene", "KeyScene", "Scene"]


@dataclass(frozen=True, slots=True)
class KeyScene:
    """One lock."""

    key: str
    holder: str
    gone: bool
    """Whether the holder is dead or frozen, and only its session not over yet."""
    fence: int | None
    seconds: float
    waiters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeliveryScene:
    """All deliveries."""

    sent: int
    handled: int
    duplicates: int
    in_progress: int


@dataclass(frozen=True, slots=True)
class ContainerScene:
    """All containers."""

    most: int
    at_work: tuple[str, ...]
    """Who runs one, also if it is dead and only its session not over yet."""
    waiting: int
    accounts: tuple[tuple[str, float], ...]
    """In how many seconds the next start for each account may be."""


@dataclass(frozen=True, slots=True)
class CommentScene:
    """All comments, which are jobs with lanes."""

    enqueued: int
    done: int
    failures: int
    lanes: tuple[tuple[str, str, int], ...]
    """Each lane that is not empty: its issue, how its head stands, and how many jobs it has, the head included."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything."""

    elapsed: float
    seconds: float
    keys: tuple[KeyScene, ...]
    deliveries: DeliveryScene
    containers: ContainerScene
    comments: CommentScene | None
    """None on a store without jobs."""
    workers: tuple[tuple[str, str], ...]
    """Each worker's name, and what it does."""
    kills: int
