"""Notifies workers of ready jobs, and sessions of jobs that ended or were interrupted, within this process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.backends.sqlite.job_rows import owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock.backends.sqlite.job_rows import CommitNotice

__all__ = ["JobNotifier"]


class JobNotifier:
    """Notifies of this process's own commits. The watcher reports those of other processes."""

    def __init__(
        self,
        turn: Callable[[str, str], None],
        lost: Callable[[str, str, str], None],
        limits_freed: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        self._turn = turn
        self._lost = lost
        self._limits_freed = limits_freed
        self._workers: dict[object, tuple[frozenset[str], asyncio.AbstractEventLoop, Callable[[], None]]] = {}
        self._watched: dict[int, set[str]] = {}
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last worker has stopped."""

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call a worker back in the current event loop when jobs may be ready."""
        key = object()
        self._workers[key] = (frozenset(queues), asyncio.get_running_loop(), call)

        def end() -> None:
            self._workers.pop(key, None)
            if not self._workers:
                self.on_idle()

        return end

    @property
    def wanted(self) -> set[frozenset[str]]:
        """The queues of the workers that listen."""
        return {queues for queues, _, _ in list(self._workers.values())}

    def watch(self, session: str, ids: Iterable[int]) -> None:
        """Watch the ends of jobs for a session."""
        for id in ids:  # noqa: A001
            self._watched.setdefault(id, set()).add(session)

    def unwatch(self, session: str, ids: Iterable[int]) -> None:
        """Stop watching jobs whose ends a session knows."""
        for id in ids:  # noqa: A001
            self._watched.get(id, set()).discard(session)
            if not self._watched.get(id, True):
                del self._watched[id]

    def forget(self, session: str) -> None:
        """Forget a session that has ended."""
        for id, sessions in list(self._watched.items()):  # noqa: A001
            sessions.discard(session)
            if not sessions:
                del self._watched[id]

    def notify(self, notice: CommitNotice) -> None:
        """Notify of what was committed."""
        if notice.queues:
            self.notify_workers(notice.queues)
        if self._watched:
            for id in notice.ended:  # noqa: A001
                for session in sorted(self._watched.pop(id, ())):
                    self._turn(session, owner(session, id))
        for session, fetched, why in notice.taken:
            self._lost(session, fetched, why)
        if notice.limits:
            self._limits_freed(notice.limits)

    def notify_workers(self, queues: Iterable[str]) -> None:
        """Notify the workers of these queues. May be called in any thread."""
        for wanted, loop, call in list(self._workers.values()):
            if not wanted.isdisjoint(queues):
                with suppress(RuntimeError):  # that event loop is closed
                    loop.call_soon_threadsafe(call)
