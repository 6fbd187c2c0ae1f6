"""Keys from values: ``"{repository.full_name}#{issue.number}"``.

A field is a dotted path into the values: names for dicts and for fields of dataclasses and pydantic models, numbers for
lists. Nothing is ever called or formatted. Characters of a value that the template itself uses between its fields are
escaped, so that different values never make the same key. ``{{`` and ``}}`` stand for braces.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from interlock.errors import InvalidArgumentError
from interlock.values import describe_type

__all__ = ["Template"]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_MAX_NUMBER = 10**100
_PATH = re.compile(r"\w+(\.\w+)*")


class Template:
    """A parsed template. Parsing refuses invalid templates; rendering refuses invalid values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[str | tuple[str, ...]] = []
        at, literal = 0, ""
        for token in _TOKEN.finditer(text):
            literal += text[at : token.start()]
            at = token.end()
            if token[0] in ("{{", "}}"):
                literal += token[0][0]
            elif token[1] is not None and _PATH.fullmatch(token[1]):
                if self._parts and not _parts(literal):
                    raise InvalidArgumentError(
                        f"Nothing parts {token[0]!r} from the field before it in {text!r}.",
                        remedy="Put a separator in between, such as a colon; letters and digits may be in a value too.",
                    )
                self._parts += [literal, tuple(token[1].split("."))]
                literal = ""
            else:
                raise InvalidArgumentError(
                    f"The template {text!r} cannot be read at {token[0]!r}.",
                    remedy="A field is {name} or {name.inner.0}; write {{ and }} for braces.",
                )
        self._parts.append(literal + text[at:])
        self.roots = tuple(dict.fromkeys(part[0] for part in self._parts if isinstance(part, tuple)))
        """The names that have to be among the values."""
        used = {char for part in self._parts if isinstance(part, str) for char in part if _parts(char)}
        self._escapes = {ord(char): _escaped(char) for char in {*used, "%"}}

    @classmethod
    @lru_cache(1024)
    def of(cls, text: str) -> Template:
        """The template, parsed once."""
        return cls(text)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text for these values."""
        return "".join([part if type(part) is str else self._field(part, values) for part in self._parts])  # type: ignore[arg-type]

    def find(self, values: Mapping[str, Any]) -> str | None:
        """The same; None if one of the fields is not there, or is nothing."""
        try:
            found = [part if type(part) is str else self._text(part, _at(values, part)) for part in self._parts]  # type: ignore[arg-type]
        except LookupError:
            return None
        return "".join(found)

    def _field(self, path: tuple[str, ...], values: Mapping[str, Any]) -> str:
        found: Any = values
        for depth, name in enumerate(path):
            try:
                found = _inside(found, name)
            except LookupError:
                raise InvalidArgumentError(
                    f"The template {self.text!r} needs {'.'.join(path[: depth + 1])!r}, which is not there.",
                    remedy="Pass it, or mend the template.",
                ) from None
        return self._text(path, found)

    def _text(self, path: tuple[str, ...], found: Any) -> str:
        if type(found) is str:
            return found if found.isalnum() else found.translate(self._escapes)
        if isinstance(found, int) and not -_MAX_NUMBER < found < _MAX_NUMBER:
            raise InvalidArgumentError(
                f"The number at {'.'.join(path)!r} is too long for a key.", remedy="Use fewer than 100 digits."
            )
        if isinstance(found, (str, int, UUID)):
            text = str(found)
        elif isinstance(found, (date, datetime)):
            text = found.isoformat()
        else:
            raise InvalidArgumentError(
                f"The template {self.text!r} finds {describe_type(found)} at {'.'.join(path)!r}.",
                remedy="Keys are made of text, whole numbers, UUIDs and dates.",
            )
        return text if text.isalnum() else text.translate(self._escapes)


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _parts(text: str) -> bool:
    """Whether a literal has a character that is escaped in values, and so parts them."""
    return any(not char.isalnum() for char in text)


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What is at the end of a path; LookupError if that is nothing."""
    found: Any = values
    for name in path:
        found = _inside(found, name)
    if found is None:
        raise LookupError(path[-1])
    return found


def _inside(value: Any, name: str) -> Any:
    if type(value) is dict or isinstance(value, Mapping):
        return value[name]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and name.isdecimal():
        return value[int(name)]
    if dataclasses.is_dataclass(value) and name in {field.name for field in dataclasses.fields(value)}:
        return getattr(value, name)
    if name in getattr(type(value), "__pydantic_fields__", ()):
        return getattr(value, name)
    raise LookupError(name)
