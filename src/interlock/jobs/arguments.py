"""Typed values as JSON text and back. A value that could not be read back unchanged is rejected before it is stored.

The only module that needs pydantic; it is imported when a job with arguments or a result is defined.
"""

from __future__ import annotations

import json
import re
import types
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Union, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import CoreConfig, PydanticSerializationError, SchemaSerializer

from interlock.errors import InvalidArgumentError, MisuseError
from interlock.jobs.value_checks import check_storable, check_unchanged
from interlock.ports.jobs import MAX_ARGUMENT_BYTES
from interlock.values import describe_type

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Codec"]

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_PLAIN = "Use plain types, dataclasses or pydantic models, with aware datetimes and finite numbers."
_SCALARS = frozenset({int, str, bool, float, type(None)})
_MAX_SHOWN = 5
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64")


class Codec:
    """Values of one type, validated strictly: text is not converted to numbers, nor numbers to text."""

    __slots__ = ("_adapter", "_hint", "_simple", "_to_json", "_validate", "_validate_json", "what")

    def __init__(self, what: str, hint: Any, *, simple: bool | None = None) -> None:
        self.what = what
        # Whether strict validation is enough, so that nested values need no check of their own.
        self._simple = _simple(hint) if simple is None else simple
        try:
            adapter = _adapter(hint)
        except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError) as error:
            first = str(error).partition("\n")[0]
            raise MisuseError(f"{what} cannot be stored as JSON: {first}", remedy=_PLAIN) from error
        self._adapter, self._hint = adapter, hint
        self._validate = adapter.validator.validate_python
        self._validate_json = adapter.validator.validate_json
        # A new one, because pydantic applies the configuration of a record only to reading.
        self._to_json = SchemaSerializer(adapter.core_schema, CoreConfig(ser_json_bytes="base64")).to_json

    @classmethod
    def of_fields(cls, what: str, fields: Mapping[str, tuple[Any, bool]]) -> Codec:
        """A codec for a dict with these keys: the type of each, and whether it is required."""
        # The TypedDict of Python 3.11 does not tell pydantic which keys are required.
        shape: Any = {name: hint if required else NotRequired[hint] for name, (hint, required) in fields.items()}
        new_type: Any = typing_extensions.TypedDict
        record = new_type("Arguments", shape)
        record.__pydantic_config__ = {**_STRICT, "extra": "forbid"}
        return cls(what, record, simple=all(_simple(hint) for hint, _ in fields.values()))

    def schema(self) -> str:
        """The type as text; the same in every process that defines the same type."""
        try:
            return json.dumps(self._adapter.json_schema(), sort_keys=True)
        except PydanticUserError:  # a type without a JSON schema
            hints = getattr(self._hint, "__annotations__", self._hint)
            return re.sub(r" at 0x[0-9a-f]+", "", repr(hints))

    def checked(self, value: Any) -> Any:
        """The value, validated against the type."""
        try:
            return self._validate(value) if self._simple else self._validate(value, strict=True)
        except ValidationError as error:
            raise InvalidArgumentError(f"{self.what}: {_describe(error)}.", remedy="Pass the declared types.") from None

    def encode(self, value: Any) -> str:
        """JSON text for a validated value."""
        try:
            if self._simple:
                text = self._to_json(value)
            else:
                check_storable(value, self.what)
                text = self._to_json(value, by_alias=True, round_trip=True, warnings="none")
        except PydanticSerializationError as error:
            raise InvalidArgumentError(
                f"{self.what} cannot be stored as JSON: {str(error).partition(chr(10))[0]}.", remedy=_PLAIN
            ) from None
        except InvalidArgumentError:
            raise
        except (RecursionError, ValueError):
            raise InvalidArgumentError(
                f"{self.what} is nested too deeply or contains itself.", remedy="Use a flatter structure."
            ) from None
        if len(text) > MAX_ARGUMENT_BYTES:
            raise InvalidArgumentError(
                f"{self.what} has {len(text):,} bytes as JSON; the limit is {MAX_ARGUMENT_BYTES:,}.",
                remedy="Store it elsewhere and pass a reference.",
            )
        if b"\\u0000" in text and _NUL.search(text):
            raise InvalidArgumentError(f"{self.what} contains a NUL character.", remedy="Remove it.")
        if not self._simple:
            self._check_return(value, text)
        return text.decode()

    def encode_any(self, value: Any) -> str | None:
        """JSON text for a value that was not validated yet; None for None."""
        return None if value is None else self.encode(self.checked(value))

    def decode(self, text: str) -> Any:
        """The stored value; ``InvalidArgumentError`` if it does not match the type any more."""
        try:
            return self._validate_json(text, strict=True)
        except ValueError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: ValueError) -> InvalidArgumentError:
        cause = _describe(error) if isinstance(error, ValidationError) else str(error)
        return InvalidArgumentError(
            f"{self.what}, as stored, does not match the handler: {cause}.",
            remedy="Let the handler accept it again, or cancel the job and enqueue another.",
        )

    def _check_return(self, value: Any, text: bytes) -> None:
        """Reject a value that would come back changed, or not at all."""
        try:
            back = self._validate_json(text, strict=True)
        except ValidationError as error:
            raise InvalidArgumentError(
                f"{self.what} could be written but not read back: {_describe(error)}.", remedy=_PLAIN
            ) from None
        check_unchanged(value, back, self.what)


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=_STRICT)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
    return TypeAdapter(hint)  # models and dataclasses bring a configuration of their own


def _simple(hint: Any) -> bool:
    if isinstance(hint, type) and hint in _SCALARS:
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return all(type(value) in _SCALARS for value in inner)
    if origin in (Union, types.UnionType):
        return all(isinstance(one, type) and one in _SCALARS for one in inner)
    if origin is dict:
        return inner[0] is str and _simple(inner[1])
    if origin in (list, tuple, set, frozenset):
        return all(one is Ellipsis or _simple(one) for one in inner)
    return False


def _describe(error: ValidationError) -> str:
    """The errors and their locations, without the values: they may be secrets."""
    lines: list[str] = []
    for found in error.errors(include_url=False, include_context=False)[:_MAX_SHOWN]:
        location = ".".join(map(str, found["loc"])) or "it"
        message = {"missing": "is missing", "extra_forbidden": "is unknown"}.get(found["type"])
        if message is None:
            message = f"is {describe_type(found['input'])}: {found['msg'][:1].lower()}{found['msg'][1:]}"
        lines.append(f"{location!r} {message}")
    more = error.error_count() - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
