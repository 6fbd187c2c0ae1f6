"""Resources of a process that its handlers share: connections, clients, models.

The lifespan of an app creates them when the app opens and releases them when it closes. A handler names those that it
needs by type, as parameters with the default ``INJECTED``. The worker passes them; they are not part of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock.errors import MisuseError, NotFoundError
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.jobs.definition import Definition

__all__ = ["INJECTED", "Resources", "check_provided"]

T = TypeVar("T")


class _Injected:
    """The default of a parameter that the worker fills with a resource."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "INJECTED"


INJECTED: Any = _Injected()
"""The default of a handler's parameter that gets a resource of the app instead of an argument:
``async def fetch(url: str, client: httpx.AsyncClient = INJECTED)``. Its type decides which; see ``App.lifespan``."""


class Resources:
    """The resources of an open app, by type: ``app.resources[httpx.AsyncClient]``."""

    def __init__(self) -> None:
        self._provided: dict[Any, Any] = {}

    def __getitem__(self, kind: type[T]) -> T:
        """The resource that the lifespan provided for this type; ``NotFoundError`` for any other type."""
        try:
            found: T = self._provided[kind]
        except KeyError:
            known = ", ".join(sorted(map(type_name, self._provided))) or "none"
            raise NotFoundError(
                f"No resource of type {type_name(kind)} is provided.",
                remedy=f"Yield it in the lifespan: {{{type_name(kind)}: …}}. Provided now: {known}.",
            ) from None
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self._provided

    def provide(self, provided: object) -> None:
        """Take what the lifespan yielded: a mapping of types and values, or None."""
        if provided is None:
            return
        if not isinstance(provided, Mapping):
            raise MisuseError(
                f"The lifespan yielded {describe_type(provided)}.",
                remedy="Yield a dict of types and resources, such as {httpx.AsyncClient: client}, or nothing.",
            )
        given = cast("Mapping[object, Any]", provided)
        for kind, value in given.items():
            if isinstance(kind, type) and not getattr(kind, "_is_protocol", False) and not isinstance(value, kind):
                raise MisuseError(
                    f"The lifespan provides {describe_type(value)} as {type_name(kind)}.",
                    remedy="Use the type that handlers declare as the key, and an instance of it as the value.",
                )
        self._provided.update(given)

    def clear(self) -> None:
        """Forget them: the lifespan has ended."""
        self._provided.clear()


def check_provided(definitions: Iterable[Definition], resources: Resources) -> None:
    """Raise an error if a handler needs a resource that is not provided."""
    missing = {
        f"{definition.name!r} needs {type_name(kind)} for its parameter {parameter!r}"
        for definition in definitions
        for parameter, kind in definition.injected.items()
        if kind not in resources
    }
    if missing:
        raise MisuseError(
            f"Resources are missing: {'; '.join(sorted(missing))}.",
            remedy="Provide them in the lifespan of the app: yield {Type: resource}.",
        )


def type_name(kind: object) -> str:
    """The name of a type in messages."""
    return getattr(kind, "__qualname__", None) or str(kind)
