"""SQL kept as files, one statement a file, read once: ``Statements("interlock.backends.sqlite", "locks").ask``."""

from __future__ import annotations

import re
from importlib import resources

from interlock.ports.migrations import Migration

__all__ = ["Statements", "read_migrations"]


class Statements:
    """The statements in one folder, by the names of their files."""

    def __init__(self, package: str, folder: str) -> None:
        self._where = f"{package}/sql/{folder}"
        files = resources.files(package).joinpath("sql", folder)
        self._texts = {
            file.name.removesuffix(".sql"): file.read_text("utf-8")
            for file in files.iterdir()
            if file.name.endswith(".sql")
        }

    def __getattr__(self, name: str) -> str:
        try:
            return self._texts[name]
        except KeyError:
            raise AttributeError(f"there is no {name}.sql in {self._where}") from None


def read_migrations(package: str, folder: str) -> list[Migration]:
    """The migrations of a backend in order. Their files are named ``0001_what_it_does.sql``."""
    found = []
    for file in resources.files(package).joinpath(folder).iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.version)
