"""The files that pages load: style, scripts, the icon. Their links carry a digest, so they may be kept for ever."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["static", "static_version"]

_FOLDER = Path(__file__).parent.parent / "static"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


class _File(NamedTuple):
    body: bytes
    kind: str
    digest: str


@cache
def _files() -> dict[str, _File]:
    """All of them, read once: they are few and small, and names from a request never touch the disk."""
    found: dict[str, _File] = {}
    for path in sorted(_FOLDER.iterdir()):
        if path.suffix in _KINDS:
            body = path.read_bytes()
            found[path.name] = _File(body, _KINDS[path.suffix], hashlib.sha256(body).hexdigest()[:12])
    return found


def static_version(name: str) -> str:
    """The digest that a link to the file carries."""
    return _files()[name].digest


async def static(request: Request) -> Response:
    """One file."""
    file = _files().get(request.path_params["name"])
    if file is None:
        raise HTTPException(404)
    current = request.query_params.get("v") == file.digest
    keep = "public, max-age=31536000, immutable" if current else "no-cache"
    headers = {"cache-control": keep, "etag": f'"{file.digest}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=f"{file.kind}; charset=utf-8")
