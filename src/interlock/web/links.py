"""Paths and links under whatever prefix the web app is mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

__all__ = ["path_of", "root_of", "url"]


def root_of(scope: Mapping[str, Any]) -> str:
    """The prefix that the app is mounted under, without a slash at its end; empty if it is not."""
    root: str = scope.get("root_path", "")
    return root.rstrip("/")


def path_of(scope: Mapping[str, Any]) -> str:
    """The path of a request below the prefix. Some servers leave the prefix in the path, some take it out."""
    path: str = scope["path"]
    root = root_of(scope)
    if root and path.startswith(root):
        rest = path[len(root) :]
        if not rest or rest[0] == "/":
            return rest
    return path


def url(request: Request, *segments: object, query: Iterable[tuple[str, object]] = (), **more: object) -> str:
    """A link to a page of this app: ``url(request, "lanes", "a/b#1", after="x")``.

    It is ``/prefix/lanes/a%2Fb%231?after=x``. Each segment is one, whatever is in it. Parts of the
    query that are None are left out. Names that a visitor chose, or that come twice, go into ``query``.
    """
    path = "/".join(quote(str(segment), safe="", errors="replace") for segment in segments)
    given = [(name, str(value)) for name, value in (*query, *more.items()) if value is not None]
    tail = f"?{urlencode(given, errors='replace')}" if given else ""
    return f"{quote(root_of(request.scope), safe='/')}/{path}{tail}"
