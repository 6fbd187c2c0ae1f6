"""Paths and links under the prefix at which the web app is mounted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from interlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

__all__ = ["check_path", "has_controls", "path_of", "root_of", "url"]

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def root_of(scope: Mapping[str, Any]) -> str:
    """The prefix at which the app is mounted, without a trailing slash; empty for none."""
    root: str = scope.get("root_path", "")
    return root.rstrip("/")


def path_of(scope: Mapping[str, Any]) -> str:
    """The path of a request below the prefix. Some servers keep the prefix in the path, others remove it."""
    path: str = scope["path"]
    root = root_of(scope)
    if root and path.startswith(root):
        rest = path[len(root) :]
        if not rest or rest[0] == "/":
            return rest
    return path


def has_controls(text: str) -> bool:
    """Whether it contains a character that is invalid in a path: a route may ignore a newline at the end."""
    return _CONTROLS.search(text) is not None


def check_path(scope: Mapping[str, Any]) -> None:
    """Refuse a path with control characters."""
    if has_controls(scope["path"]):
        raise InvalidArgumentError(
            "The path contains control characters.", remedy="Pass such a name as ?key=, after a path without it."
        )


def url(request: Request, *segments: object, query: Iterable[tuple[str, object]] = (), **more: object) -> str:
    """A link to a page of this app: ``url(request, "lanes", "a/b#1", after="x")``.

    It is ``/prefix/lanes/a%2Fb%231?after=x``. Each argument is one segment, whatever it contains.
    Query parameters that are None are omitted. Names that a client chose, or that are repeated, go into ``query``.
    """
    path = "/".join(quote(str(segment), safe="", errors="replace") for segment in segments)
    given = [(name, str(value)) for name, value in (*query, *more.items()) if value is not None]
    tail = f"?{urlencode(given, errors='replace')}" if given else ""
    return f"{quote(root_of(request.scope), safe='/')}/{path}{tail}"
