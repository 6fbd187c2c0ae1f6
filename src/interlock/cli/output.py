"""Output of commands: tables and JSON on standard output, messages and errors on standard error.

Text from a store is shown with its control characters made visible, so that a key cannot control a terminal. The
password of a URL is never shown.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import typer
from typer.core import TyperGroup

from interlock.cli.store_url import StoreUrl
from interlock.errors import InterlockError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

__all__ = [
    "Commands",
    "Json",
    "Limit",
    "brief",
    "console",
    "print_json",
    "print_formatted",
    "print_json_line",
    "say",
    "say_if_cut",
    "shown",
    "without_password",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000_000, help="The maximum number of rows.")]


_WIDE = 1000
_MAX_BRIEF = 60


class Commands(TyperGroup):
    """Commands whose errors end in one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except InterlockError as error:
            store_url = ctx.find_root().obj
            text = f"Error ({error.code}): {error}"
            say(without_password(text, store_url.url if isinstance(store_url, StoreUrl) else None))
            raise typer.Exit(2 if isinstance(error, MisuseError) else 1) from None


def say(text: str) -> None:
    """Print a message as one line of standard error."""
    typer.echo(shown(text), err=True)


def print_json(data: object) -> None:
    """Print data for a program. It is often a person who looks at it, so nothing in it steers a terminal either."""
    from interlock.insight.json_text import depth_exceeds

    # On one line if it is deeply nested: to indent that can take hundreds of times its size.
    indent = None if depth_exceeds(data) else 2
    text = json.dumps(data, indent=indent, ensure_ascii=False, default=_plain)
    typer.echo(_printable(text))


def print_json_line(data: object) -> None:
    """Print data for a program that reads line by line."""
    typer.echo(_printable(json.dumps(data, ensure_ascii=False, default=_plain)))


def print_formatted(data: object, whole: str) -> None:
    """Print data for a person, and what to do to see all of it if it is too long or too deeply nested."""
    from interlock.insight.json_text import format_json

    found = format_json(data)
    typer.echo(_printable(found.text))
    if found.missing:
        say(f"… {found.missing}. To see all of it: {whole}")


def say_if_cut(count: int, limit: int) -> None:
    """Say that a list may continue."""
    if count == limit:
        say(f"These are the first {limit}; there may be more (--limit).")


def console() -> Console:
    """Return the console for tables. A pipe gets every row on one line."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)


def shown(text: str) -> str:
    """Text with everything that is not printable written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def brief(value: object) -> str:
    """A value from a store, on one line of a table."""
    text = value.isoformat() if isinstance(value, datetime) else json.dumps(value, ensure_ascii=False, default=_plain)
    return shown(text if len(text) <= _MAX_BRIEF else f"{text[:_MAX_BRIEF]}…")


def without_password(text: str, url: str | None) -> str:
    """The text without the password that is in the URL."""
    for secret in sorted(_passwords(url or ""), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def _printable(text: str) -> str:
    """JSON over several lines, with everything that is not printable written out."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _plain(value: object) -> str:
    """Datetimes, which JSON does not know."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not data")


def _passwords(url: str) -> Iterable[str]:
    """The URL's passwords, as they are written there and as they are meant."""
    found = re.findall(r"//[^/@:]*:([^@]*)@", url)
    try:
        parts = urlsplit(url)
        found += [parts.password or "", *(value for name, value in parse_qsl(parts.query) if "pass" in name.lower())]
    except ValueError:  # not a URL; the pattern above has found what looks like one
        pass
    return {form for secret in found for form in (secret, repr(secret)[1:-1], unquote(secret)) if form}
