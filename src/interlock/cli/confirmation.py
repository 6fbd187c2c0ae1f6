"""What takes something from others is done for a reason, in somebody's name, and after a yes."""

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

By = Annotated[str | None, typer.Option(help="Who does it; user@host if not given.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def named(act: str, reason: str | None, by: str | None) -> str:
    """In whose name: the one given, else user@host. Refuses an empty reason; None is for acts that need none."""
    from interlock.arguments import checked_reason

    by = by or f"{getpass.getuser()}@{socket.gethostname()}"
    checked_reason(act, "none needed" if reason is None else reason, by)
    return by


def confirm(act: str, question: str, about: Callable[[], str | None]) -> None:
    """Ask on a terminal, after saying what it is about; if that is None there is nothing to lose, and no question."""
    from interlock.errors import MisuseError

    if not sys.stdin.isatty():
        raise MisuseError(f"{act} needs a yes, and there is no terminal to ask.", remedy="Add --yes.")
    found = about()
    if found is not None:
        say(found)
        typer.confirm(question, abort=True, err=True)
