"""Record what an App learns from its store, and what operators do, for the audit."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, cast

from interlock.errors import MisuseError
from interlock.jobs import current_job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.app import App
    from interlock.cli.demo.records import Notebook
    from interlock.ports.jobs import Acknowledged, Acknowledgement, FetchRequest, FetchResult, SessionEnded

__all__ = ["Recorder"]

_HEARD = {"lock_waiting": "queued", "session_lost": "session lost", "job_quarantined": "quarantined"}
"""Interlock's own log events that are recorded, and their record names."""
_MAX_ASKED = 1000


class Recorder:
    """Observes the calls of one process's App, which is not open yet, to its stores."""

    def __init__(self, app: App, log: Notebook) -> None:
        self._log = log
        self._asked: dict[int, float] = {}
        jobs = app.jobs._store_client  # noqa: SLF001 - the store is the demo's own business, and nobody else's
        store_clients = {id(jobs): jobs}
        for part in (app.locks, app.claims):
            store_clients[id(part._store_client)] = part._store_client  # noqa: SLF001
        for store_client in store_clients.values():
            store_client.store = cast(
                "Any", _Seen(store_client.store, self._parts(store_client.store, jobs=store_client is jobs))
            )
        logger = logging.getLogger("interlock")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_Listener(log))
        logger.propagate = False

    def asked(self, job: int) -> float:
        """When this job was fetched: it did not start earlier."""
        return self._asked.get(job, time.monotonic())

    def _parts(self, store: Any, *, jobs: bool) -> dict[str, Any]:
        acts: dict[str, dict[str, str]] = {"locks": {"force": "forced"}, "claims": {"forget": "forgotten"}}
        parts = {
            name: _Seen(
                getattr(store, name), {act: self._told(getattr(store, name), act, what) for act, what in of.items()}
            )
            for name, of in acts.items()
        }
        if jobs:
            inner = store.jobs
            methods: dict[str, Any] = {
                "fetch": self._fetch(inner),
                "acknowledge": self._acknowledge(inner),
                "cancel": self._told(inner, "cancel", "cancelled"),
                "retry": self._told(inner, "retry", "retried"),
            }
            parts["jobs"] = _Seen(inner, methods)
        return parts

    def _told(self, part: Any, act: str, what: str) -> Callable[..., Any]:
        """Record an operation before it is performed, because other processes may record its effects first."""
        done = getattr(part, act)

        async def tell(subject: object, *args: Any) -> Any:
            self._log.write(what, subject=subject)
            return await done(subject, *args)

        return tell

    def _fetch(self, jobs: Any) -> Callable[..., Any]:
        async def fetch(request: FetchRequest) -> FetchResult | SessionEnded:
            asked = time.monotonic()
            batch: FetchResult | SessionEnded = await jobs.fetch(request)
            for job in getattr(batch, "jobs", ()):
                self._asked[job.id] = asked
            while len(self._asked) > _MAX_ASKED:
                del self._asked[next(iter(self._asked))]
            return batch

        return fetch

    def _acknowledge(self, jobs: Any) -> Callable[..., Any]:
        async def acknowledge(session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
            acknowledged: Acknowledged = await jobs.acknowledge(session, acknowledgements)
            for one, accepted in zip(acknowledgements, acknowledged.accepted, strict=True):
                self._log.write(
                    "acknowledged", job=one.id, fence=one.fence, outcome=str(one.outcome), accepted=bool(accepted)
                )
            return acknowledged

        return acknowledge


class _Seen:
    """An object with some of its members replaced."""

    def __init__(self, inner: Any, members: dict[str, Any]) -> None:
        self._inner = inner
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Listener(logging.Handler):
    """Records what only Interlock knows, such as when a request was queued."""

    def __init__(self, log: Notebook) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        what = _HEARD.get(getattr(record, "event", ""))
        if what is None:
            return
        fields = getattr(record, "fields", {})
        try:
            job = fields.get("id") or current_job().id
        except MisuseError:
            job = None
        self._log.write(what, key=fields.get("key"), job=job)
