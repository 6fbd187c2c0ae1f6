"""The definition of a job in code: its handler, its arguments and result, and its options."""

from __future__ import annotations

import inspect
import json
import typing
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs.options import JobOptions, checked_name
from interlock.jobs.resources import INJECTED
from interlock.ports.job_hooks import encode_hooks
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Mapping

    from interlock.jobs.arguments import Codec
    from interlock.jobs.resources import Resources
    from interlock.jobs.retry import Retry
    from interlock.ports.job_hooks import EndHook
    from interlock.ports.limits import Use

__all__ = ["Definition", "NamedDefinition", "Terms", "fingerprint"]

_NO_ARGUMENTS: dict[str, Any] = {}
_MAX_TERMS = 1024


class Terms(typing.NamedTuple):
    """How one job runs, where the call that enqueued it may have changed the definition's options."""

    retry: Retry
    timeout: float | None


def fingerprint(schema: str, version: str) -> str:
    """A short hash that differs for handlers with different arguments, or of different versions of a program."""
    return sha256(f"{version}\0{schema}".encode()).hexdigest()[:12]


class Definition:
    """One job of an app."""

    __slots__ = (
        "_arguments",
        "_defaults",
        "_result",
        "_schema",
        "function",
        "hooks",
        "injected",
        "is_async",
        "name",
        "options",
        "parameters",
        "prepare",
        "read",
        "resources",
        "retry",
        "stored_hooks",
        "terms",
        "timeout",
        "write",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        options: JobOptions,
        *,
        name: str | None = None,
        local: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.name = checked_name("job", getattr(function, "__name__", None) if name is None else name)
        self.is_async = _is_async(function, self.name)
        """Whether the handler is a coroutine function; otherwise it runs in a thread."""
        self.options = options
        self.retry = options.retry
        self.timeout = options.timeout
        parameters, hints = _signature(function, self.name, dict(local or {}))
        self.injected: dict[str, Any] = _take_injected(self.name, parameters, hints)
        """The types of the parameters that get resources. They are no arguments of the job."""
        self.resources: Resources | None = None
        """The resources of the app that it belongs to."""
        self.hooks: tuple[EndHook, ...] = ()
        """What the store enqueues when such a job has ended."""
        self.stored_hooks = ""
        """The same as it travels with each job."""
        self.parameters = tuple(parameters)
        self.prepare: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
        """Turns the stored arguments into the handler's, if they differ; awaited before the handler starts."""
        self._defaults = {
            name: parameter.default
            for name, parameter in parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        self._arguments = self._arguments_of(hints) if parameters else None
        self._result = self._result_of(hints)
        self._schema: str | None = None
        self.read: Callable[[str], dict[str, Any]] = (
            self._read_nothing if self._arguments is None else self._arguments.decode
        )
        """Reads the stored arguments by name, and adds resources; ``InvalidArgumentError`` if the handler no longer
        takes these arguments."""
        if self.injected:
            self.read = _with_resources(self.read, self.added)
        self.write: Callable[[Any], str | None] = _write_nothing if self._result is None else self._result.encode_any
        """Writes the handler's result as JSON; None for None. ``InvalidArgumentError`` if it has another type."""
        self.terms: Callable[[str], Terms] = lru_cache(_MAX_TERMS)(self._terms_of)
        """The terms of a job stored with these options; empty if the call changed none."""
        options.check_templates(self.name, self.roots)

    @property
    def roots(self) -> tuple[str, ...] | None:
        """The names that templates of lanes and limits may start with; None for any name."""
        return self.parameters

    @property
    def takes_connection(self) -> bool:
        """Whether ``enqueue(connection=…)`` names the caller's own connection, and not an argument of the handler."""
        return "connection" not in self.parameters

    @property
    def schema(self) -> str:
        """The arguments of the handler as text; the same for handlers that take the same arguments."""
        if self._schema is None:
            self._schema = "{}" if self._arguments is None else self._arguments.schema()
        return self._schema

    # -- arguments ------------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Validate the arguments of a call. Returns them as JSON, and by name with the handler's defaults."""
        if args:
            kwargs = self._by_name(args, kwargs)
        if self.injected:
            self.refuse_injected(kwargs)
        if self._arguments is None:
            if kwargs:
                raise InvalidArgumentError(
                    f"{self.name!r} takes no arguments, but got {', '.join(map(repr, kwargs))}.",
                    remedy="Pass the declared arguments.",
                )
            return "{}", _NO_ARGUMENTS
        values = self._arguments.checked(kwargs)
        text = self._arguments.encode(values)
        return text, {**self._defaults, **values} if self._defaults else values

    def added(self, given: Container[str] = ()) -> dict[str, Any]:
        """The resources that the handler gets besides its arguments, by parameter, except those that are given."""
        if self.resources is None:
            raise MisuseError(f"{self.name!r} needs resources, but belongs to no app.", remedy="Define it on an App.")
        resources = self.resources
        return {parameter: resources[kind] for parameter, kind in self.injected.items() if parameter not in given}

    def lane_of(self, options: JobOptions, values: Mapping[str, Any]) -> str:
        """The lane for these bound arguments; empty for none."""
        return options.lane_of(self.name, values)

    def uses_of(self, options: JobOptions, values: Mapping[str, Any]) -> tuple[Use, ...]:
        """The limits for these arguments."""
        return options.uses_of(values)

    def key_of(self, options: JobOptions, values: Mapping[str, Any]) -> str:
        """The idempotency key for these arguments; empty for none."""
        return options.key_of(self.name, values)

    def read_result(self, text: str | None) -> Any:
        """The stored result, with the type that the handler declares."""
        if text is None:
            return None
        return json.loads(text) if self._result is None else self._result.decode(text)

    def add_hook(self, hook: EndHook) -> None:
        """Have the store enqueue a hook after the end of each such job that is enqueued from now on."""
        self.hooks = (*self.hooks, hook)
        self.stored_hooks = encode_hooks(self.hooks)

    def refuse_injected(self, kwargs: Mapping[str, Any]) -> None:
        """Raise an error if a resource is passed as an argument."""
        if given := sorted(kwargs.keys() & self.injected.keys()):
            raise InvalidArgumentError(
                f"{given[0]!r} of {self.name!r} is a resource, not an argument.",
                remedy="Leave it out: the worker passes it.",
            )

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.parameters):
            raise InvalidArgumentError(
                f"{self.name!r} takes {len(self.parameters)} arguments, but got {len(args)}.",
                remedy="Pass the declared arguments.",
            )
        named = dict(zip(self.parameters, args, strict=False))
        if twice := named.keys() & kwargs.keys():
            raise InvalidArgumentError(
                f"{self.name!r} got {', '.join(sorted(map(repr, twice)))} twice.", remedy="Pass each argument once."
            )
        return {**named, **kwargs}

    def _read_nothing(self, text: str) -> dict[str, Any]:
        if text == "{}":
            return _NO_ARGUMENTS
        raise InvalidArgumentError(
            f"Stored arguments of {self.name!r} do not match: its handler takes none.",
            remedy="Let the handler accept them again, or cancel the job.",
        )

    # -- building ----------------------------------------------------------------------------------------------------

    def _arguments_of(self, hints: dict[str, Any]) -> Codec:
        from interlock.jobs.arguments import Codec

        fields = {name: (hints.get(name, Any), name not in self._defaults) for name in self.parameters}
        return Codec.of_fields(f"The arguments of {self.name!r}", fields)

    def _result_of(self, hints: dict[str, Any]) -> Codec | None:
        hint = hints.get("return", Any)
        if hint is type(None) or hint is typing.NoReturn or hint is typing.Never:
            return None
        from interlock.jobs.arguments import Codec

        return Codec(f"The result of {self.name!r}", hint)

    def _terms_of(self, options: str) -> Terms:
        stored: dict[str, Any] = json.loads(options) if options else {}
        retry, timeout = self.retry, self.timeout
        if "retry" in stored:
            retry = retry.with_numbers(stored["retry"])
        if "timeout" in stored:
            timeout = stored["timeout"]
        return Terms(retry, timeout)


class NamedDefinition(Definition):
    """A job known only by its name: its handler is in another program, which validates the arguments."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        from interlock.jobs.arguments import Codec

        self.function = _not_here
        self.name = checked_name("job", name)
        self.is_async = True
        self.options = JobOptions()
        self.retry, self.timeout = self.options.retry, self.options.timeout
        self.parameters = ()
        self.injected, self.resources, self.hooks, self.stored_hooks = {}, None, (), ""
        self.prepare = None
        self._defaults = {}
        self._arguments = Codec(f"The arguments of {self.name!r}", dict[str, Any])
        self._result = None
        self._schema = None
        self.read, self.write = self._arguments.decode, _write_nothing
        self.terms = self._terms_of

    @property
    def roots(self) -> None:
        """Templates may start with any argument."""

    @property
    def takes_connection(self) -> bool:
        """The handler's parameters are not known here, so all names are arguments."""
        return False

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Validate that the arguments can be stored."""
        if args:
            raise InvalidArgumentError(
                f"Positional arguments of {self.name!r}: its handler is not defined here, so their order is unknown.",
                remedy="Pass them by name.",
            )
        return super().bind(args, kwargs)


def _take_injected(name: str, parameters: dict[str, inspect.Parameter], hints: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the parameters that get resources, and return their types."""
    injected: dict[str, Any] = {}
    for parameter in [found.name for found in parameters.values() if found.default is INJECTED]:
        del parameters[parameter]
        hint = hints.get(parameter, Any)
        if typing.get_origin(hint) is typing.Annotated:
            hint = hint.__origin__
        if hint is Any:
            raise MisuseError(
                f"The parameter {parameter!r} of {name!r} is INJECTED, but has no type.",
                remedy="Declare the type of the resource that it gets.",
            )
        injected[parameter] = hint
    return injected


def _with_resources(
    read: Callable[[str], dict[str, Any]], added: Callable[[], dict[str, Any]]
) -> Callable[[str], dict[str, Any]]:
    return lambda text: {**read(text), **added()}


async def _not_here(**_: Any) -> None:
    raise MisuseError("The handler of this job is in another program.", remedy="Enqueue it: await job.enqueue(…).")


def _write_nothing(_: Any) -> None:
    """Drop the result of a handler that declares none."""


def _is_async(function: Any, name: str) -> bool:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise MisuseError(
            f"The handler of {name!r} is {describe_type(function)}.", remedy="Use a function: `async def` or `def`."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise MisuseError(f"The handler of {name!r} is a generator.", remedy="Let it return its result.")
    return inspect.iscoroutinefunction(function)


def _signature(
    function: Callable[..., Any], name: str, local: dict[str, Any]
) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    parameters = dict(inspect.signature(function).parameters)
    for parameter in parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise MisuseError(
                f"{name!r} takes {parameter}, but arguments are stored by name.",
                remedy="Use named parameters only: no *args, no **kwargs, no positional-only parameters.",
            )
    try:
        hints = typing.get_type_hints(function, localns=local, include_extras=True)
    except Exception as error:
        raise MisuseError(
            f"Could not resolve an annotation of {name!r}: {error}.",
            remedy="Import its types at run time, not only under TYPE_CHECKING.",
        ) from error
    return parameters, hints
