"""The migrations of a store, read from its numbered files."""

from __future__ import annotations

import re
from importlib import resources

from interlock.ports.migrations import Migration

__all__ = ["read_migrations"]


def read_migrations(package: str, folder: str) -> list[Migration]:
    """Read the migrations of a backend in order. Their files are named ``0001_what_it_does.sql``."""
    found = []
    for file in resources.files(package).joinpath(folder).iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.version)
