"""Lua kept as files, one operation a file, read once: ``Scripts("locks", "common", "locks").ask``.

What several need stands in files of its own, which are put in front of each.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING

import hiredis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["Script", "Scripts", "pack"]

_PACKAGE = "interlock.backends.redis"

pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command
"""A command's words as bytes to send."""


class Script:
    """One script: its text, and the name under which a server knows it once it was loaded."""

    __slots__ = ("load", "name", "sha")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.load = pack(("SCRIPT", "LOAD", text))
        """The command that makes a server know it."""


class Scripts:
    """The scripts in one folder, by the names of their files."""

    def __init__(self, folder: str, *before: str) -> None:
        self._folder = folder
        lua = resources.files(_PACKAGE).joinpath("lua")
        shared = [lua.joinpath(f"{name}.lua").read_text("utf-8") for name in before]
        self._scripts: dict[str, Script] = {}
        for file in lua.joinpath(folder).iterdir():
            if file.name.endswith(".lua"):
                name = file.name.removesuffix(".lua")
                self._scripts[name] = Script(f"{folder}/{name}", "\n".join([*shared, file.read_text("utf-8")]))

    def __getattr__(self, name: str) -> Script:
        try:
            return self._scripts[name]
        except KeyError:
            raise AttributeError(f"there is no {name}.lua in {_PACKAGE}/lua/{self._folder}") from None

    def __iter__(self) -> Iterator[Script]:
        return iter(self._scripts.values())
