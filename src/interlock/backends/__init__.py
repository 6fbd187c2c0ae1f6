"""Creates stores from URLs. A backend is imported only when a URL names it, so its driver is needed only then.

Other packages can add backends through the entry-point group ``interlock.backends``: the name is a scheme, the object a
``factory(url, *, settings, clock) -> Store``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from interlock.errors import CapabilityError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from interlock.clock import Clock
    from interlock.ports.store import Capability, Store
    from interlock.settings import Settings

    class Factory(Protocol):
        """Creates a store for a URL without connecting."""

        def __call__(self, url: str, *, settings: Settings, clock: Clock | None) -> Store: ...


__all__ = ["from_url"]

_BUILT_IN = {
    "memory": ("interlock.backends.memory", ""),
    "sqlite": ("interlock.backends.sqlite", ""),
    "postgresql": ("interlock.backends.postgres", "postgres"),
    "postgres": ("interlock.backends.postgres", "postgres"),
    "redis": ("interlock.backends.redis", "redis"),
    "rediss": ("interlock.backends.redis", "redis"),
    "redis+unix": ("interlock.backends.redis", "redis"),
}


def from_url(url: str, *, settings: Settings, clock: Clock | None = None, needs: Iterable[Capability] = ()) -> Store:
    """Return a store for ``url``, not opened yet; raises ``CapabilityError`` if it lacks a needed capability.

    ``memory://`` is a new store, ``memory://name`` is shared in the process. ``sqlite:///file.db`` is
    a relative path, ``sqlite:////file.db`` an absolute one. ``clock`` replaces the store's own clock, for tests.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise InvalidArgumentError(f"Invalid store URL: {error}.", remedy="Check its host.") from error
    store = _factory(scheme)(url, settings=settings, clock=clock)
    missing = [need for need in needs if need not in store.capabilities]
    if missing:
        raise CapabilityError(f"{store.name} offers no {', '.join(missing)}.", remedy="Choose another store.")
    return store


def _factory(scheme: str) -> Factory:
    if scheme in _BUILT_IN:
        module, extra = _BUILT_IN[scheme]
        try:
            return cast("Factory", importlib.import_module(module).from_url)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("interlock"):
                raise
            raise InvalidArgumentError(
                f"{scheme}:// requires the package {error.name}, which is not installed.",
                remedy=f"Run: pip install 'interlock[{extra}]'." if extra else "Install it.",
            ) from error
    from importlib.metadata import entry_points  # slow to import, and needed only for the backends of others

    for entry in entry_points(group="interlock.backends", name=scheme):
        return cast("Factory", entry.load())
    shown = f"{scheme}://…" if scheme else "a URL without a scheme"
    raise InvalidArgumentError(
        f"Unknown store URL: {shown}.",
        remedy=f"Valid schemes: {', '.join(f'{s}://' for s in sorted(_BUILT_IN))}.",
    )
