"""Request the dashboard's pages as a server would, without the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from benchmarks.insight.filling import Filled

__all__ = ["get", "paths"]

_HEADERS = [(b"host", b"127.0.0.1:8080"), (b"accept", b"text/html")]


def paths(known: Filled) -> dict[str, str]:
    """Every page by its name."""
    return {
        "page overview": "/",
        "page jobs": "/jobs",
        "page jobs, ready": "/jobs?state=ready",
        "page jobs, failed": "/jobs?state=failed",
        "page jobs, waiting": "/jobs?state=waiting",
        "page job, behind": f"/jobs/{known.behind}",
        "page job, failed": f"/jobs/{known.failed}",
        "page lanes": "/lanes",
        "page lane": f"/lanes/{quote(known.long_lane, safe='')}",
        "page locks": "/locks",
        "page limits": "/limits",
        "page events": "/events",
        "page event": f"/events/{known.event}",
        "page claims": "/claims",
        "page workers": "/workers",
    }


async def get(web: Any, path: str) -> None:
    """Render one complete page."""
    path, _, query = path.partition("?")
    status = 0
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": _HEADERS,
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    await web(scope, receive, send)
    assert status == 200, f"{path} responded with {status}"
