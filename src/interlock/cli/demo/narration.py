"""Turn records into sentences and scenes for the screen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.bot import COOLDOWN_SECONDS, MAX_CONTAINERS, SESSION_SECONDS
from interlock.cli.demo.runs import ended_at
from interlock.cli.demo.scene import LockScene, Scene, WorkerScene

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from interlock.cli.demo.audit import Audit
    from interlock.cli.demo.records import Record
    from interlock.cli.demo.runs import Run
    from interlock.cli.demo.screen import Screen

__all__ = ["Narration"]

_STATES = {
    "running": "running",
    "fetched": "fetched",
    "ready": "ready",
    "behind": "behind others in their lane",
    "waiting": "waiting for a limit",
    "scheduled": "waiting for a retry",
    "held": "held",
    "failed": "failed permanently",
}


@dataclass(slots=True)
class _Lock:
    who: str = ""
    job: int = 0
    fence: int = 0
    gone: float | None = None
    waiting: dict[int, str] = field(default_factory=dict)


class Narration:
    """The narration so far."""

    def __init__(self, screen: Screen, audit: Audit) -> None:
        self._screen = screen
        self._audit = audit
        self._locks: dict[str, _Lock] = {}
        self._frozen: set[str] = set()
        self._bereft: dict[int, tuple[str, float]] = {}
        """Jobs whose worker was killed or frozen: what it is, and when."""
        self._kills = 0
        self._duplicates = False
        self.held = ""

    @property
    def holders(self) -> Mapping[str, int]:
        """How much others would have to take over from each worker; locks with waiters count twice."""
        riches: Counter[str] = Counter(run.who for run in self._audit.runs.by_job.values())
        for lock in self._locks.values():
            if lock.who and lock.gone is None:
                riches[lock.who] += 5 if lock.waiting else 2
        return riches

    def begin(self, store: str, workers: int, url: str | None) -> None:
        """Describe what is going to happen."""
        self._screen.title(
            url,
            f"{workers} worker processes share one store: {store}.",
            "A forge posts signed webhooks, some of them two or three times, some forged. A bot handles each one once: "
            "issues in order (lanes), pushes one at a time (locks), builds in "
            f"{MAX_CONTAINERS} containers and {COOLDOWN_SECONDS:g} s apart per account (limits). Handlers "
            "fail, and workers are killed or frozen. An audit that never queries the store counts violations. "
            f"Sessions last {SESSION_SECONDS:g} s instead of 15, so that you can watch takeovers.",
        )

    def say(self, text: str) -> None:
        """Show a note without a record."""
        self._screen.tell("note", text)

    def see(self, elapsed: float, seconds: float | None, states: Mapping[str, int], workers: Sequence[str]) -> None:
        """Show the current state."""
        seen, audit = self._audit.findings.seen, self._audit
        verdicts = ("accepted", "duplicate", "ignored", "refused")
        doing = {name: tuple(sorted(run.handler for run in audit.runs.of(name))) for name in workers}
        self._screen.show(
            Scene(
                elapsed,
                seconds,
                (("posts", seen["posts"]), *((verdict, seen[verdict]) for verdict in verdicts)),
                tuple((told, states.get(state, 0)) for state, told in _STATES.items()),
                tuple(self._lock_scenes()),
                (sum(run.handler == "build" for run in audit.runs.by_job.values()), MAX_CONTAINERS),
                self.held,
                tuple(WorkerScene(name, name in self._frozen, doing[name]) for name in workers),
                self._kills,
                audit.under_way,
                tuple(audit.findings.brief.items()),
            )
        )

    def _lock_scenes(self) -> Iterable[LockScene]:
        for key, lock in sorted(self._locks.items()):
            if lock.who:
                holder = f"{lock.who} (job {lock.job})"
                yield LockScene(key, holder, lock.gone is not None, lock.fence, len(lock.waiting))

    def hear(self, records: Iterable[Record]) -> None:
        """Show a record before the audit processes it."""
        for record in records:
            self._hear(record)

    def _hear(self, record: Record) -> None:
        who = record["who"]
        match record["what"]:
            case "started" if record["again"]:
                self._screen.tell("note", f"{record['worker']} starts in its place")
            case "answered" if record["verdict"] == "duplicate" and not self._duplicates:
                self._duplicates = True
                self._screen.tell("good", "the first repeated webhook was rejected as a duplicate")
            case "began":
                self._took_over(record)
            case "asked":
                self._lock(record).waiting[record["job"]] = who
            case "granted":
                self._granted(record)
            case "released":
                lock = self._lock(record)
                if (lock.who, lock.job) == (who, record["job"]):
                    lock.who = ""
            case "gave up":
                self._lock(record).waiting.pop(record["job"], None)
            case "killed":
                self._kills += 1
                victim = record["victim"]
                how = f"{victim} ended itself: this machine is very busy" if "itself" in record else f"kill -9 {victim}"
                self._gone(victim, ended_at(record), how)
            case "frozen":
                self._frozen.add(who)
                self._gone(who, record["at"], f"{who} is frozen (SIGSTOP)")
            case "thawed":
                self._frozen.discard(who)
                self._screen.tell("note", f"{who} wakes up without knowing that its lease has ended")
            case "write" if not record["accepted"]:
                text = f"{record['key']} refused {who}'s write: fence {record['fence']} is stale"
                self._screen.tell("good", text)
            case "finished" if not record["accepted"] and record["outcome"] != "returned":
                self._screen.tell("good", f"{who} acknowledged job {record['job']} too late: refused")
            case "finished" if record["accepted"] and record["outcome"] == "failed":
                self._screen.tell("note", f"job {record['job']} failed permanently; its lane continues")
            case "quarantined":
                self._screen.tell("note", f"job {record['job']} is quarantined: too many workers died with it")
            case "cancelled" | "retried" | "forced" | "forgotten":
                self._screen.tell("note", f"an operator had {record['subject']} {record['what']}")

    def _lock(self, record: Record) -> _Lock:
        return self._locks.setdefault(record["key"], _Lock())

    def _granted(self, record: Record) -> None:
        lock, who = self._lock(record), record["who"]
        lock.waiting.pop(record["job"], None)
        if lock.gone is not None:
            text = (
                f"{who} took over {record['key']} with fence {record['fence']} after {record['at'] - lock.gone:.1f} s"
            )
            self._screen.tell("good", text)
        lock.who, lock.job, lock.fence, lock.gone = who, record["job"], record["fence"], None

    def _took_over(self, record: Record) -> None:
        bereft = self._bereft.pop(record["job"], None)
        if bereft is not None:
            what, at = bereft
            self._screen.tell("good", f"{record['who']} took over {what} after {record['at'] - at:.1f} s")

    def _gone(self, who: str, at: float, how: str) -> None:
        """Record what lost its worker, and show it."""
        left = []
        for key, lock in self._locks.items():
            lock.waiting = {job: waiter for job, waiter in lock.waiting.items() if waiter != who}
            if lock.who == who and lock.gone is None:
                lock.gone = at
                left.append(f"{key} with fence {lock.fence}")
        for run in self._audit.runs.of(who):
            what = self._name(run)
            self._bereft[run.job] = (what, at)
            left.append(what)
        while len(self._bereft) > 1000:
            del self._bereft[next(iter(self._bereft))]
        *others, last = left or [""]
        had = f", which had {', '.join(others)}{' and ' if others else ''}{last}" if left else ""
        self._screen.tell("kill", f"{how}{had}")

    def _name(self, run: Run) -> str:
        delivery = self._audit.webhooks[run.delivery]
        where = f" in {delivery.lane}" if delivery is not None and delivery.lane and run.handler != "welcome" else ""
        return f"job {run.job} ({run.handler}{where})"
