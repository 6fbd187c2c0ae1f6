"""Operations need an actor and, unless --yes is given, a confirmation."""

from __future__ import annotations

import getpass
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["By", "Yes", "confirm", "named"]

By = Annotated[str | None, typer.Option(help="The actor; default: user@host.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def named(act: str, reason: str | None, by: str | None) -> str:
    """Return the actor: the one given, or user@host. Raises for an empty reason; None is for optional ones."""
    from interlock.arguments import checked_reason

    by = by or f"{getpass.getuser()}@{socket.gethostname()}"
    checked_reason(act, "none needed" if reason is None else reason, by)
    return by


def confirm(act: str, question: str, about: Callable[[], str | None]) -> None:
    """Ask on a terminal, after describing the subject. If there is none (``about`` returns None), do not ask."""
    from interlock.errors import MisuseError

    if not sys.stdin.isatty():
        raise MisuseError(f"{act} needs a confirmation, and standard input is not a terminal.", remedy="Add --yes.")
    found = about()
    if found is not None:
        say(found)
        typer.confirm(question, abort=True, err=True)
