"""Turns records and snapshots into sentences and scenes for the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.cli.demo.records import Record
    from interlock.cli.demo.screen import Screen
    from interlock.ports.locks import LockView

__all__ = ["KeyScene", "Scene", "Story"]


@dataclass(frozen=True, slots=True)
class KeyScene:
    """One key as it stands."""

    key: str
    holder: str
    gone: bool
    """Whether the holder is dead or frozen, and only its session not over yet."""
    fence: int | None
    seconds: float
    waiters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything as it stands."""

    elapsed: float
    seconds: float
    keys: tuple[KeyScene, ...]
    workers: tuple[tuple[str, str], ...]
    """Each worker's name, and what it does."""
    grants: int
    kills: int


class Story:
    """What happened so far, as far as it matters for telling it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._keys: Sequence[str] = ()
        self._held: dict[str, tuple[str, int]] = {}
        """What each worker works under now: key and fence."""
        self._bereft: dict[str, float] = {}
        """Keys whose holder was killed or frozen, and when."""
        self._frozen: set[str] = set()
        self._grants = self._kills = 0

    def begin(self, store: str, workers: int, keys: Sequence[str], session_seconds: float) -> None:
        """Say what is going to happen."""
        self._keys = keys
        self._screen.title(
            f"{workers} worker processes contend for {len(keys)} keys. Store: {store}.",
            f"Now and then one is killed with SIGKILL, or frozen. Sessions last {session_seconds:g} s here "
            "(15 s by default), so that takeovers can be seen.",
        )

    def say(self, text: str) -> None:
        """Tell something that is in no record."""
        self._screen.tell("note", text)

    def see(self, elapsed: float, seconds: float, views: Sequence[LockView], workers: Sequence[str]) -> None:
        """Show how things stand."""
        by_key = {view.key: view for view in views}
        doing = dict.fromkeys(workers, "idle")
        keys: list[KeyScene] = []
        for key in self._keys:
            view = by_key.get(key)
            waiters = tuple(waiter.party for waiter in view.waiters if waiter.live) if view else ()
            doing.update(dict.fromkeys(waiters, f"waits for {key}"))
            if view is None or view.holder is None:
                keys.append(KeyScene(key, "", False, None, 0.0, waiters))
            else:
                holder = view.holder
                doing[holder.party] = f"holds {key}"
                gone = holder.party not in workers or holder.party in self._frozen
                seconds_held = view.seen_at - holder.granted_at
                keys.append(KeyScene(key, holder.party, gone, holder.fence, seconds_held, waiters))
        states = [(name, "frozen" if name in self._frozen else doing[name]) for name in workers]
        self._screen.show(Scene(elapsed, seconds, tuple(keys), tuple(states), self._grants, self._kills))

    def hear(self, records: Iterable[Record]) -> None:
        """Tell what was written down."""
        for record in sorted(records, key=lambda record: record["at"]):
            self._hear(record)

    def _hear(self, record: Record) -> None:
        who, at = record["who"], record["at"]
        match record["what"]:
            case "started" if self._grants:
                self._screen.tell("note", f"{record['worker']} starts")
            case "granted":
                self._granted(who, record["key"], record["fence"], at)
            case "done":
                self._held.pop(who, None)
            case "killed":
                self._killed(record["victim"], record["sent"])
            case "frozen":
                key, fence = record["key"], record["fence"]
                self._bereft[key] = at
                self._frozen.add(who)
                self._screen.tell("kill", f"{who} is frozen (SIGSTOP), holding {key} with fence {fence}")
            case "thawed":
                self._frozen.discard(who)
                self._screen.tell("note", f"{who} wakes up and does not know its lease is gone")
            case "refused":
                text = f"{record['key']} refused {who}'s write: fence {record['fence']} is stale"
                self._screen.tell("good", text)
            case "lost":
                self._screen.tell("note", f"{who} learned that it lost {record['key']}")

    def _granted(self, who: str, key: str, fence: int, at: float) -> None:
        self._grants += 1
        self._held[who] = (key, fence)
        bereft = self._bereft.pop(key, None)
        if bereft is not None:
            text = f"{who} took over {key} with fence {fence} after {at - bereft:.1f} s"
            self._screen.tell("good", text)

    def _killed(self, victim: str, at: float) -> None:
        self._kills += 1
        held = self._held.pop(victim, None)
        if held is None:
            self._screen.tell("kill", f"kill -9 {victim}, which held nothing")
        else:
            key, fence = held
            self._bereft[key] = at
            self._screen.tell("kill", f"kill -9 {victim}, which held {key} with fence {fence}")
