"""Turns records and snapshots into sentences and scenes for the screen."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from interlock.cli.demo.containers import ACCOUNTS, COOLDOWN_SECONDS, MOST_CONTAINERS, account_key, containers_key
from interlock.cli.demo.scene import CommentScene, ContainerScene, DeliveryScene, KeyScene, Scene

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from interlock.cli.demo.records import Record
    from interlock.cli.demo.screen import Screen
    from interlock.ports.job_views import LaneView
    from interlock.ports.limits import LimitView
    from interlock.ports.locks import LockView

__all__ = ["Story"]


class Story:
    """What happened so far, as far as it matters for telling it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._keys: Sequence[str] = ()
        self._held: dict[str, tuple[str, int]] = {}
        """What each worker works under now: key and fence."""
        self._handling: dict[str, str] = {}
        """Which delivery each worker works on now."""
        self._running: dict[str, str] = {}
        """For which account each worker runs a container now."""
        self._bereft: dict[str, float] = {}
        """Keys and deliveries whose holder was killed or frozen, and when."""
        self._frozen: set[str] = set()
        self._handled: set[str] = set()
        self._commenting: dict[str, dict[str, int]] = defaultdict(dict)
        """Which comment of which lane each worker runs now."""
        self._comments: set[int] = set()
        """Those that are done."""
        self._duplicates = self._kills = self._failures = 0

    @property
    def handling(self) -> Mapping[str, str]:
        """Which worker works on which delivery now."""
        return self._handling

    def begin(self, store: str, workers: int, keys: Sequence[str], session_seconds: float, *, jobs: bool) -> None:
        """Say what is going to happen."""
        comments = ", and write comments, each issue's in order (jobs)" if jobs else ""
        self._keys = keys
        self._screen.title(
            f"{workers} worker processes share one store: {store}.",
            "They push to repositories (locks), handle webhooks that each of them receives (claims), run containers, "
            f"{MOST_CONTAINERS} at once and {COOLDOWN_SECONDS:g} s apart for an account (limits){comments}. "
            "Now and then one is killed with SIGKILL, or frozen. Sessions last "
            f"{session_seconds:g} s here (15 s by default), so that takeovers can be seen.",
        )

    def say(self, text: str) -> None:
        """Tell something that is in no record."""
        self._screen.tell("note", text)

    def see(
        self,
        elapsed: float,
        seconds: float,
        locks: Sequence[LockView],
        limits: Sequence[LimitView],
        workers: Sequence[str],
        sent: int,
        comments: tuple[int, Sequence[tuple[str, LaneView]]] | None,
    ) -> None:
        """Show how things stand."""
        keys, doing = self._locks(locks, workers)
        states = tuple((name, "frozen" if name in self._frozen else doing[name]) for name in workers)
        deliveries = DeliveryScene(sent, len(self._handled), self._duplicates, len(self._handling))
        self._screen.show(
            Scene(
                min(elapsed, seconds),
                seconds,
                keys,
                deliveries,
                _containers(limits),
                None if comments is None else self._lanes(*comments),
                states,
                self._kills,
            )
        )

    def _lanes(self, enqueued: int, lanes: Sequence[tuple[str, LaneView]]) -> CommentScene:
        told = tuple((issue, str(lane.state), lane.depth) for issue, lane in lanes)
        return CommentScene(enqueued, len(self._comments), self._failures, told)

    def _locks(self, views: Sequence[LockView], workers: Sequence[str]) -> tuple[tuple[KeyScene, ...], dict[str, str]]:
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
        return tuple(keys), doing

    def hear(self, records: Iterable[Record]) -> None:
        """Tell what was written down."""
        for record in sorted(records, key=lambda record: record["at"]):
            self._hear(record)

    def _hear(self, record: Record) -> None:
        who, at = record["who"], record["at"]
        match record["what"]:
            case "started" if self._kills:
                self._screen.tell("note", f"{record['worker']} starts in its place")
            case "granted":
                self._held[who] = (record["key"], record["fence"])
                self._took_over(who, record["key"], f"{record['key']} with fence {record['fence']}", at)
            case "done":
                self._held.pop(who, None)
            case "claimed":
                self._handling[who] = record["delivery"]
                text = f"{_short(record['delivery'])}, attempt {record['attempt']},"
                self._took_over(who, record["delivery"], text, at)
            case "handled":
                self._handling.pop(who, None)
                self._handled.add(record["delivery"])
            case "gave up":
                self._handling.pop(who, None)
                self._screen.tell("note", f"{who} learned that {_short(record['delivery'])} is no longer its own")
            case "duplicate":
                self._duplicates += 1
                if record["state"] == "done":
                    self._handled.add(record["delivery"])
            case "container started":
                self._running[who] = record["account"]
            case "container ended":
                self._running.pop(who, None)
            case "comment began":
                self._commenting[who][record["lane"]] = record["number"]
                what = f"comment {record['number']} of {record['lane']}"
                self._took_over(who, record["lane"], what, at)
            case "comment ended" | "comment failed" | "comment stopped":
                self._commenting[who].pop(record["lane"], None)
                self._failures += record["what"] == "comment failed"
            case "comment acknowledged":
                self._comments.add(record["job"])
            case "comment refused":
                self._screen.tell("good", f"{who}'s acknowledgement of job {record['job']} came too late: refused")
            case "killed":
                self._killed(record["victim"], record["sent"])
            case "frozen":
                self._frozen.add(who)
                self._screen.tell("kill", f"{who} is frozen (SIGSTOP){self._bereave(who, at)}")
            case "thawed":
                self._frozen.discard(who)
                self._screen.tell("note", f"{who} wakes up and does not know its lease is gone")
            case "refused":
                text = f"{record['key']} refused {who}'s write: fence {record['fence']} is stale"
                self._screen.tell("good", text)
            case "lost":
                self._screen.tell("note", f"{who} learned that it lost {record['key']}")

    def _took_over(self, who: str, key: str, what: str, at: float) -> None:
        bereft = self._bereft.pop(key, None)
        if bereft is not None:
            self._screen.tell("good", f"{who} took over {what} after {at - bereft:.1f} s")

    def _killed(self, victim: str, at: float) -> None:
        self._kills += 1
        self._frozen.discard(victim)
        self._screen.tell("kill", f"kill -9 {victim}{self._bereave(victim, at)}")

    def _bereave(self, who: str, at: float) -> str:
        """Note what is left without its holder, and say it."""
        left = []
        if (held := self._held.pop(who, None)) is not None:
            key, fence = held
            self._bereft[key] = at
            left.append(f"{key} with fence {fence}")
        if (delivery := self._handling.pop(who, None)) is not None:
            self._bereft[delivery] = at
            left.append(_short(delivery))
        if (account := self._running.pop(who, None)) is not None:
            left.append(f"a container for {account}")
        for lane, number in self._commenting.pop(who, {}).items():
            self._bereft[lane] = at
            left.append(f"comment {number} of {lane}")
        *others, last = left or [""]
        return f", which had {', '.join(others)}{' and ' if others else ''}{last}" if left else ""


def _containers(views: Sequence[LimitView]) -> ContainerScene:
    by_key = {view.key: view for view in views}
    slots = by_key.get(containers_key())
    accounts = [(account, _next_start(by_key.get(account_key(account)))) for account in ACCOUNTS]
    at_work = tuple(user.party for user in slots.started) if slots else ()
    return ContainerScene(MOST_CONTAINERS, at_work, len(slots.waiting) if slots else 0, tuple(accounts))


def _next_start(pace: LimitView | None) -> float:
    """In how many seconds: when the cooldown is over and, if some wait, the first of them may start."""
    if pace is None:
        return 0.0
    after = [user.at + COOLDOWN_SECONDS for user in pace.started if user.at is not None]
    planned = min((user.at for user in pace.waiting if user.at is not None), default=0.0)
    return max(0.0, max([*after, planned]) - pace.seen_at)


def _short(delivery: str) -> str:
    """A delivery's name without what tells it from those of other runs."""
    return f"delivery {delivery.rpartition('-')[2]}"
