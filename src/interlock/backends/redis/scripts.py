"""Lua scripts, one file per operation, loaded once: ``Scripts("locks").ask``.

A script starts with ``-- include: common locks``. The loader puts those files of ``lua/lib`` in front of it, in that
order.
"""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING

import hiredis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["Script", "Scripts", "pack"]

_PACKAGE = "interlock.backends.redis"
_INCLUDE = re.compile(r"-- include: ([a-z_ ]+)\n")

pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command
"""Encode a command's words as bytes."""


class Script:
    """One script: its text, and the hash under which a server knows it once it is loaded."""

    __slots__ = ("load", "name", "sha")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.load = pack(("SCRIPT", "LOAD", text))
        """The command that loads the script into a server."""


class Scripts:
    """The scripts in one folder, by the names of their files."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        lua = resources.files(_PACKAGE).joinpath("lua")
        self._scripts: dict[str, Script] = {}
        for file in lua.joinpath(folder).iterdir():
            if file.name.endswith(".lua"):
                name = file.name.removesuffix(".lua")
                text = file.read_text("utf-8")
                include = _INCLUDE.match(text)
                if include is None:
                    raise ValueError(f"{folder}/{name}.lua must start with '-- include: …'")
                parts = [lua.joinpath("lib", f"{part}.lua").read_text("utf-8") for part in include[1].split()]
                self._scripts[name] = Script(f"{folder}/{name}", "\n".join([*parts, text]))

    def __getattr__(self, name: str) -> Script:
        try:
            return self._scripts[name]
        except KeyError:
            raise AttributeError(f"There is no {name}.lua in {_PACKAGE}/lua/{self._folder}.") from None

    def __iter__(self) -> Iterator[Script]:
        return iter(self._scripts.values())
