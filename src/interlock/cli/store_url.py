"""The store that a command uses, opened without a session."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from interlock.ports.store import Capability, Store

__all__ = ["Namespace", "StoreUrl", "Url", "chosen_store", "opened", "with_store"]

Url = Annotated[str | None, typer.Option(help="The store; instead of the environment's INTERLOCK_URL.")]
Namespace = Annotated[str | None, typer.Option(help="The namespace in the store; 'default' if not given.")]


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A store and a namespace in it, as far as they were given."""

    url: str | None = field(default=None, repr=False)
    namespace: str | None = None

    def store(self, *needs: Capability) -> Store:
        """The store, not opened yet."""
        from interlock.backends import from_url
        from interlock.errors import MisuseError
        from interlock.settings import Settings

        if not self.url:
            raise MisuseError("No store was given.", remedy="Use --url, or set INTERLOCK_URL.")
        settings = Settings() if self.namespace is None else Settings(namespace=self.namespace)
        return from_url(self.url, settings=settings, needs=needs)


def chosen_store(context: typer.Context, url: str | None, namespace: str | None) -> StoreUrl:
    """Return the store given to the command, else to ``interlock`` itself, else by the environment."""
    root = context.find_root()
    given = root.obj if isinstance(root.obj, StoreUrl) else StoreUrl()
    store_url = root.obj = StoreUrl(url or given.url, namespace or given.namespace)
    return store_url


def with_store(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function whose first parameter is a store: the command has --url and --namespace instead."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

    def command(**given: Any) -> None:
        store_url = chosen_store(given.pop("context"), given.pop("url"), given.pop("namespace"))
        function(store_url, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    store = [
        inspect.Parameter("url", keyword, default=None, annotation=Url),
        inspect.Parameter("namespace", keyword, default=None, annotation=Namespace),
    ]
    own = [parameter.replace(kind=keyword) for parameter in parameters]
    signature = inspect.Signature([context, *own, *store])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command


@contextlib.asynccontextmanager
async def opened(store_url: StoreUrl, need: Capability) -> AsyncGenerator[Store]:
    """The store, opened only if its schema is complete: to look at a store never changes it."""
    from interlock.errors import CapabilityError, SchemaMismatchError
    from interlock.ports.store import Capability

    store = store_url.store(need)
    if Capability.PROCESSES not in store.capabilities:
        raise CapabilityError(
            f"What is in a store of kind {store.name} can only be seen by the process that made it.",
            remedy="Use sqlite:///…, postgresql://… or redis://….",
        )
    if store.name == "sqlite":
        _check_file(store_url)
    if store.migrations is not None:
        pending = (await store.migrations.status()).pending
        if pending is not None:
            raise SchemaMismatchError(f"The store lacks {pending}.")
    try:
        await store.open()
        yield store
    finally:
        await store.close()


def _check_file(store_url: StoreUrl) -> None:
    """Report a missing file as such, rather than as a schema that is out of date."""
    from interlock.errors import SchemaMismatchError

    path = Path(unquote(urlsplit(store_url.url or "").path.removeprefix("/")))
    with contextlib.suppress(OSError):  # what else may be wrong with it, the store says
        try:
            path.stat()
        except FileNotFoundError:
            raise SchemaMismatchError(
                f"The file {path} does not exist.", remedy="Check --url; `interlock migrate up` creates it."
            ) from None
