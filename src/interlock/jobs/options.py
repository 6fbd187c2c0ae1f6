"""The options of a job: those of its definition, and those that a call may change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from interlock.arguments import checked_key, checked_seconds
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs.retry import Retry
from interlock.key_functions import call_key_function
from interlock.limits.kinds import Cooldown, Limit, Rate, Slots, uses_of
from interlock.log_levels import checked_level
from interlock.ports.jobs import MAX_AFTER, IfFailed, OnFailure
from interlock.templates import Template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.arguments import Seconds
    from interlock.connections import Connection
    from interlock.jobs.handle import Handle
    from interlock.jobs.sync import SyncHandle
    from interlock.ports.limits import Use

__all__ = [
    "JobChanges",
    "JobDefinitionOptions",
    "JobOptions",
    "Key",
    "Lane",
    "after_in",
    "checked_aliases",
    "checked_name",
]

Lane = str | Callable[..., str | None]
"""A template over the arguments, or a function of them that returns the lane, or None for none."""
Key = str | Callable[..., str | None]
"""The same for an idempotency key."""


_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")


class _Shared(TypedDict, total=False):
    queue: str
    lane: Lane | None
    priority: int
    limits: Iterable[Limit]
    retry: Retry
    timeout: Seconds | None
    on_failure: Literal["block", "skip", "park"]
    coalesce: bool
    keep_result: Seconds
    key: Key | None
    keep_key: Seconds
    expires: Seconds | datetime | None


class JobDefinitionOptions(_Shared, total=False):
    """The options of a definition."""

    name: str
    aliases: Iterable[str]
    capture_logs: str | int


class JobChanges(_Shared, total=False):
    """The options that a call may change."""

    delay: Seconds
    at: datetime
    connection: Connection | None
    after: Iterable[Handle[Any] | SyncHandle[Any] | int]
    if_failed: Literal["cancel", "park", "run"]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Validated options."""

    queue: str = "default"
    lane: Lane | None = None
    priority: int = 50
    limits: tuple[Limit, ...] = ()
    retry: Retry = Retry.DEFAULT
    timeout: float | None = None
    on_failure: OnFailure = OnFailure.BLOCK
    coalesce: bool = False
    keep_result: float = 3600.0
    capture_logs: int | None = None
    key: Key | None = None
    keep_key: float = 24 * 3600.0
    expires: float | None = None
    expires_at: float | None = None
    delay: float = 0.0
    at: float | None = None
    after: tuple[int, ...] = ()
    if_failed: IfFailed = IfFailed.CANCEL
    stored: str = ""
    """The changed options that the worker needs, as JSON; empty for none."""
    _uses: tuple[Use, ...] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Limits without a key are the same for all arguments.
        fixed = not any(limit.key for limit in self.limits)
        object.__setattr__(self, "_uses", self._uses_for({}) if fixed else None)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> JobOptions:
        """The options of a definition."""
        for option in ("after", "if_failed"):
            if option in given:
                raise MisuseError(
                    f"{option} was given for a definition.", remedy=f"Pass it with a call: job.options({option}=…)."
                )
        return cls().having(given)

    def changed(self, name: str, parameters: tuple[str, ...] | None, changes: Mapping[str, Any]) -> JobOptions:
        """These options with changes, for some jobs of one definition; see :meth:`check_templates`."""
        if "capture_logs" in changes:
            raise MisuseError("capture_logs was given for a call.", remedy="Set it in the definition of the job.")
        if "delay" in changes and "at" in changes:
            raise InvalidArgumentError("Both delay and at were given.", remedy="Use one of them.")
        if "if_failed" in changes and not (changes.get("after") or self.after):
            raise InvalidArgumentError(
                "if_failed was given without after.", remedy="Name the jobs to wait for: after=[handle]."
            )
        options = self.having(changes)
        options.check_templates(name, parameters)
        stored: dict[str, Any] = json.loads(self.stored) if self.stored else {}
        if "retry" in changes:
            stored["retry"] = options.retry.numbers()
        if "timeout" in changes:
            stored["timeout"] = options.timeout
        if "after" in changes:
            stored.pop("after", None)
        if options.after:
            # For the handler, which may read their results, and for a retry.
            stored |= {"after": options.after, "if_failed": options.if_failed}
        return replace(options, stored=json.dumps(stored, separators=(",", ":"), sort_keys=True) if stored else "")

    def having(self, given: Mapping[str, Any]) -> JobOptions:
        """These options with changes, each validated by itself."""
        checked: dict[str, Any] = {}
        for key, value in given.items():
            if key not in _CHECKS:
                raise MisuseError(f"Unknown option {key!r}.", remedy=f"Valid options: {', '.join(sorted(_CHECKS))}.")
            field, check = _CHECKS[key]
            checked[field] = check(value)
        if "expires" in given:
            expires, expires_at = checked.pop("expires")
            checked |= {"expires": expires, "expires_at": expires_at}
        if "delay" in given:
            checked["at"] = None
        if "at" in given:
            checked["delay"] = 0.0
        return replace(self, **checked)

    def check_templates(self, name: str, parameters: tuple[str, ...] | None) -> None:
        """Reject templates over arguments that the handler does not take, and coalescing without a lane.

        ``parameters`` is None if the names are not known in advance, as for the payload of an event.
        """
        templates = [
            ("lane", self.lane),
            ("key", self.key),
            *((f"limit {limit.name!r}", limit.key) for limit in self.limits),
        ]
        for what, text in templates:
            if not isinstance(text, str) or parameters is None:
                continue
            for root in Template.of(text).roots:
                if root not in parameters:
                    raise InvalidArgumentError(
                        f"The {what} of {name!r} uses {root!r}, which is not a parameter of its handler.",
                        remedy=f"Valid parameters: {', '.join(parameters) or 'none'}.",
                    )
        if self.coalesce and self.lane is None:
            raise InvalidArgumentError(
                f"{name!r} has coalesce=True but no lane.",
                remedy="Give it a lane; jobs are coalesced within their lane.",
            )

    def lane_of(self, name: str, values: Mapping[str, Any]) -> str:
        """The lane for these arguments; empty for none."""
        lane = self.lane
        if lane is None:
            return ""
        if isinstance(lane, str):
            return checked_key(Template.of(lane).render(values))
        found = call_key_function(f"lane of {name!r}", lane, **values)
        return "" if found is None else checked_key(found)

    def key_of(self, name: str, values: Mapping[str, Any]) -> str:
        """The idempotency key for these arguments; empty for none."""
        key = self.key
        if key is None:
            return ""
        if isinstance(key, str):
            return checked_key(Template.of(key).render(values))
        found = call_key_function(f"key of {name!r}", key, **values)
        return "" if found is None else checked_key(found)

    def uses_of(self, values: Mapping[str, Any], *args: Any) -> tuple[Use, ...]:
        """The limits for these values. Key functions get ``args`` if there are any, otherwise the values by name."""
        return self._uses_for(values, *args) if self._uses is None else self._uses

    def _uses_for(self, values: Mapping[str, Any], *args: Any) -> tuple[Use, ...]:
        return uses_of(self.limits, values, *args) if self.limits else ()


def after_in(stored: str) -> tuple[int, ...]:
    """The jobs that a job waits for or has waited for, from its stored options."""
    return tuple(json.loads(stored).get("after", ())) if '"after"' in stored else ()


def checked_name(what: str, name: object) -> str:
    """Validate the name of a job or a queue."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"Invalid {what} name {name!r}.",
            remedy="Use 1 to 63 letters, digits, '.', '-' and '_', starting with a letter or digit.",
        )
    return name


def checked_aliases(aliases: object) -> tuple[str, ...]:
    """Validate the former names of a job."""
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise MisuseError(f"Invalid aliases {aliases!r}.", remedy='Pass a list of names: aliases=["old-name"].')
    return tuple(checked_name("alias", alias) for alias in cast("Iterable[object]", aliases))


def _lane(lane: Any) -> Lane | None:
    if lane is None or callable(lane):
        return lane  # type: ignore[no-any-return]
    if not isinstance(lane, str) or not lane:
        raise InvalidArgumentError(f"Invalid lane {lane!r}.", remedy="Use a template, a function, or None for no lane.")
    Template.of(lane)
    return lane


def _key(key: Any) -> Key | None:
    if key is None or callable(key):
        return key  # type: ignore[no-any-return]
    if not isinstance(key, str) or not key:
        raise InvalidArgumentError(f"Invalid key {key!r}.", remedy="Use a template, a function, or None for no key.")
    Template.of(key)
    return key


def _after(after: Any) -> tuple[int, ...]:
    from interlock.jobs.handle import Handle
    from interlock.jobs.sync import SyncHandle

    if isinstance(after, (Handle, SyncHandle, int, str)) or not isinstance(after, Iterable):
        raise InvalidArgumentError(f"Invalid after {after!r}.", remedy="Pass a list of handles or job IDs.")
    ids: dict[int, None] = {}
    for one in cast("Iterable[object]", after):
        number = cast("Handle[Any]", one).id if isinstance(one, (Handle, SyncHandle)) else one
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
            raise InvalidArgumentError(f"{one!r} is not a job ID.", remedy="Pass a handle or the ID of a job.")
        ids[number] = None
    if len(ids) > MAX_AFTER:
        raise InvalidArgumentError(
            f"{len(ids)} jobs to wait for are too many.",
            remedy=f"Use at most {MAX_AFTER}, or collect them in steps: jobs that wait for {MAX_AFTER} each.",
        )
    return tuple(ids)


def _if_failed(if_failed: Any) -> IfFailed:
    try:
        return IfFailed(if_failed)
    except ValueError:
        raise InvalidArgumentError(
            f"Invalid if_failed {if_failed!r}.", remedy="Use 'cancel', 'park' or 'run'."
        ) from None


def _expires(expires: Any) -> tuple[float | None, float | None]:
    if expires is None:
        return None, None
    if isinstance(expires, datetime):
        if expires.utcoffset() is None:
            raise InvalidArgumentError(f"Invalid expires {expires!r}.", remedy="Use seconds or an aware datetime.")
        return None, expires.timestamp()
    seconds = checked_seconds("expires", expires)
    if seconds <= 0:
        raise InvalidArgumentError(f"Invalid expires {expires!r}.", remedy="Use more than 0 seconds, or None.")
    return seconds, None


def _priority(priority: Any) -> int:
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= 100:
        raise InvalidArgumentError(f"Invalid priority {priority!r}.", remedy="Use a whole number from 0 to 100.")
    return priority


def _limits(limits: Any) -> tuple[Limit, ...]:
    if isinstance(limits, (Slots, Rate, Cooldown)) or not isinstance(limits, Iterable):
        raise InvalidArgumentError(f"Invalid limits {limits!r}.", remedy="Pass a list of limits.")
    found: list[Any] = [*limits]
    for limit in found:
        if not isinstance(limit, (Slots, Rate, Cooldown)):
            raise InvalidArgumentError(f"{limit!r} is not a limit.", remedy="Use Slots(…), Rate(…) or Cooldown(…).")
    return tuple(found)


def _retry(retry: Any) -> Retry:
    if not isinstance(retry, Retry):
        raise InvalidArgumentError(
            f"Invalid retry {retry!r}.", remedy="Use Retry(…), or a predefined policy such as Retry.NEVER."
        )
    return retry


def _timeout(timeout: Any) -> float | None:
    if timeout is None:
        return None
    seconds = checked_seconds("timeout", timeout)
    if seconds <= 0:
        raise InvalidArgumentError(f"Invalid timeout {timeout!r}.", remedy="Use more than 0 seconds, or None.")
    return seconds


def _on_failure(on_failure: Any) -> OnFailure:
    try:
        return OnFailure(on_failure)
    except ValueError:
        raise InvalidArgumentError(
            f"Invalid on_failure {on_failure!r}.", remedy="Use 'block', 'skip' or 'park'."
        ) from None


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"Invalid coalesce {value!r}.", remedy="Use True or False.")
    return value


def _at(at: Any) -> float:
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidArgumentError(f"Invalid at {at!r}.", remedy="Use an aware datetime.")
    return at.timestamp()


_CHECKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "queue": ("queue", lambda queue: checked_name("queue", queue)),
    "lane": ("lane", _lane),
    "priority": ("priority", _priority),
    "limits": ("limits", _limits),
    "retry": ("retry", _retry),
    "timeout": ("timeout", _timeout),
    "on_failure": ("on_failure", _on_failure),
    "coalesce": ("coalesce", _flag),
    "capture_logs": ("capture_logs", lambda level: checked_level("capture_logs", level)),
    "keep_result": ("keep_result", lambda keep: checked_seconds("keep_result", keep)),
    "delay": ("delay", lambda delay: checked_seconds("delay", delay)),
    "at": ("at", _at),
    "key": ("key", _key),
    "keep_key": ("keep_key", lambda keep: checked_seconds("keep_key", keep)),
    "expires": ("expires", _expires),
    "after": ("after", _after),
    "if_failed": ("if_failed", _if_failed),
}
