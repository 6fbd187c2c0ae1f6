"""The audit of locks: one holder at a time, growing fences, first come first served."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.runs import GONE, ended_at, whose

if TYPE_CHECKING:
    from interlock.cli.demo.findings import Findings
    from interlock.cli.demo.records import Record

__all__ = ["LockAudit"]

_ENDS = ("ended", "failed", "stopped", "gave up")


@dataclass(slots=True)
class _Request:
    who: str
    job: int
    asked: float
    queued: float = math.inf
    granted: float = math.inf


@dataclass(slots=True)
class _Key:
    holder: _Request | None = None
    fence: int = 0
    written: int = 0
    """The largest fence that the target has accepted."""
    waiting: dict[int, _Request] = field(default_factory=dict)
    granted: list[_Request] = field(default_factory=list)
    """Grants that may have been out of order for a request that still waits."""
    bereft: float | None = None


@dataclass(slots=True)
class LockAudit:
    """All locks."""

    findings: Findings
    _keys: dict[str, _Key] = field(default_factory=dict)

    def hear(self, record: Record) -> None:
        """Process a record."""
        what = record["what"]
        if what == "write":
            self._write(record)
        elif what in GONE:
            self._gone(whose(record), ended_at(record))
        elif what == "session lost":
            self._leave(record["who"])
        elif what == "forced":
            self._key(record["subject"]).holder = None
        elif what in ("asked", "queued", "granted", "released") and record.get("key"):
            self._about(what, record["key"], record)
        elif what in _ENDS:
            for key in self._keys.values():
                request = key.waiting.get(record["job"])
                if request is not None and request.who == record["who"]:
                    del key.waiting[record["job"]]

    def _key(self, name: str) -> _Key:
        return self._keys.setdefault(name, _Key())

    def _about(self, what: str, name: str, record: Record) -> None:
        key, job, who, at = self._key(name), record["job"], record["who"], record["at"]
        if what == "asked":
            key.waiting[job] = _Request(who, job, at)
        elif what == "queued" and job in key.waiting:
            key.waiting[job].queued = at
        elif what == "granted":
            request = key.waiting.pop(job) if job in key.waiting else _Request(who, job, at)
            self._granted(name, key, request, record)
        elif what == "released" and key.holder is not None and (key.holder.job, key.holder.who) == (job, who):
            key.holder = None

    def _granted(self, name: str, key: _Key, request: _Request, record: Record) -> None:
        request.granted = record["at"]
        self.findings.seen["grants"] += 1
        if key.holder is not None:
            other = key.holder
            how = f"{name}: {request.who} (job {request.job}) while {other.who} (job {other.job}) held it"
            self.findings.found("two holders of a lock", how)
        if record["fence"] <= key.fence:
            self.findings.found("decreasing fences", f"{name}: {record['fence']} after {key.fence}")
        key.fence = max(key.fence, record["fence"])
        key.holder = request
        # Granted earlier to a request that was made after this one was in the queue.
        for other in key.granted:
            if request.queued < other.asked and other.granted < request.granted:
                how = f"{name}: job {other.job} before job {request.job}"
                self.findings.found("locks granted out of order", how)
        oldest = min((waiting.asked for waiting in key.waiting.values()), default=math.inf)
        key.granted = [one for one in (*key.granted, request) if one.asked > oldest]
        if key.bereft is not None:
            self.findings.locks_taken_over.add(request.granted - key.bereft)
            key.bereft = None

    def _gone(self, who: str, at: float) -> None:
        """Remove a holder and waiters that were killed or frozen."""
        self._leave(who)
        for key in self._keys.values():
            if key.holder is not None and key.holder.who == who:
                key.holder, key.bereft = None, at

    def _leave(self, who: str) -> None:
        for key in self._keys.values():
            key.waiting = {job: one for job, one in key.waiting.items() if one.who != who}

    def _write(self, record: Record) -> None:
        """Process the target's records, in the order in which it accepted and refused writes."""
        key = self._key(record["key"])
        self.findings.seen["writes" if record["accepted"] else "stale writes refused"] += 1
        if record["accepted"] and record["fence"] < key.written:
            self.findings.found("stale writes accepted", f"{record['key']}: {record['fence']} after {key.written}")
        if record["accepted"]:
            key.written = max(key.written, record["fence"])
