"""Who in this process hears of jobs: workers of something to fetch, sessions of what they await and what is taken."""

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
    """Tells at once of what this process did itself; what others do is for whoever looks out to tell."""

    def __init__(self, turn: Callable[[str, str], None], lost: Callable[[str, str, str], None]) -> None:
        self._turn = turn
        self._lost = lost
        self._workers: dict[object, tuple[frozenset[str], asyncio.AbstractEventLoop, Callable[[], None]]] = {}
        self._awaited: dict[int, set[str]] = {}
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last worker has gone."""

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Have a worker called back, on the loop that is running now."""
        mark = object()
        self._workers[mark] = (frozenset(queues), asyncio.get_running_loop(), call)

        def end() -> None:
            self._workers.pop(mark, None)
            if not self._workers:
                self.on_idle()

        return end

    @property
    def wanted(self) -> set[frozenset[str]]:
        """The queues that workers want to hear of."""
        return {queues for queues, _, _ in list(self._workers.values())}

    def awaits(self, session: str, ids: Iterable[int]) -> None:
        """A session wants to hear of the ends of jobs."""
        for id in ids:  # noqa: A001
            self._awaited.setdefault(id, set()).add(session)

    def knows(self, session: str, ids: Iterable[int]) -> None:
        """A session was told of the ends of jobs."""
        for id in ids:  # noqa: A001
            self._awaited.get(id, set()).discard(session)
            if not self._awaited.get(id, True):
                del self._awaited[id]

    def forget(self, session: str) -> None:
        """Nobody is left in a session."""
        for id, sessions in list(self._awaited.items()):  # noqa: A001
            sessions.discard(session)
            if not sessions:
                del self._awaited[id]

    def tell(self, notice: CommitNotice) -> None:
        """Pass on what was committed."""
        if notice.queues:
            self.notify_workers(notice.queues)
        if self._awaited:
            for id in notice.ended:  # noqa: A001
                for session in sorted(self._awaited.pop(id, ())):
                    self._turn(session, owner(session, id))
        for session, fetched, why in notice.taken:
            self._lost(session, fetched, why)

    def notify_workers(self, queues: Iterable[str]) -> None:
        """There may be something to fetch in these queues. May be called on any thread."""
        for wanted, loop, call in list(self._workers.values()):
            if not wanted.isdisjoint(queues):
                with suppress(RuntimeError):  # that loop is closed: nobody is left to tell
                    loop.call_soon_threadsafe(call)
