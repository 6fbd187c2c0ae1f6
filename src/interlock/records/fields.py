"""Records as models and as stored text: managed fields, validation, and differences for the journal.

The store manages ID, version, status, times and fence in columns of their own. A model declares those that it wants to
see: ``id`` always, ``status`` if it has a machine. The body holds the model's other fields, and under a reserved name
what Interlock keeps with the record, such as the history of its corrections.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from interlock.clock import as_datetime
from interlock.errors import InvalidArgumentError, MisuseError
from interlock.records.corrections import KEPT, History, body_parts
from interlock.records.machine import status_text

if TYPE_CHECKING:
    from interlock.ports.records import StoredRecord
    from interlock.records.machine import Machine

__all__ = ["MANAGED", "Codec", "Content", "changed_fields", "same_json"]

M = TypeVar("M", bound=BaseModel)
MANAGED = ("id", "version", "status", "created_at", "updated_at", "fence")
"""Fields that the store manages. A model that declares them sees their values."""
_KEPT = KEPT  # on a model: the stored record that it was read from
_MAX_BODY = 1024 * 1024
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_TIMES = frozenset({"created_at", "updated_at"})
_quoted = json.encoder.encode_basestring_ascii
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


class Content:
    """The parts of a record that a write stores: its status, its own fields, and the history of its corrections.

    Content that was read keeps its text and parses it only when the fields are needed. A transition never needs them.
    """

    __slots__ = ("_data", "_history", "_text", "status")

    def __init__(
        self, status: str, data: dict[str, Any] | None, history: History | None, text: str | None = None
    ) -> None:
        self.status = status
        self._data = data
        self._history = history
        self._text = text
        """The body. Either this or the data and the history are given."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Content):
            return NotImplemented
        if self.status != other.status:
            return False
        if self._text is not None and self._text == other._text:
            return True
        return same_json(self.data, other.data) and self.history == other.history

    __hash__ = None  # type: ignore[assignment]

    @property
    def data(self) -> dict[str, Any]:
        """The model's own fields. Not to be changed in place."""
        return self._parsed()[0]

    @property
    def history(self) -> History:
        """The history of the record's corrections."""
        return self._parsed()[1]

    @property
    def body(self) -> str:
        """The text to store."""
        if self._text is None:
            data, history = self._parsed()
            kept = {} if not history.count else {_KEPT: {"corrections": history.to_data()}}
            self._text = json.dumps({**data, **kept}, ensure_ascii=False, separators=(",", ":"))
        return self._text

    @property
    def own_text(self) -> str | None:
        """The model's own fields as the text of a JSON object, if the body has nothing else in it."""
        return None if self._text is None or f'"{_KEPT}"' in self._text else self._text

    def with_status(self, status: str) -> Content:
        """The same content with another status."""
        return Content(status, self._data, self._history, self._text)

    def has_body_of(self, other: Content) -> bool:
        """Whether both certainly have the same body; False if only a comparison of the fields would tell."""
        return self._text is not None and self._text == other._text

    def _parsed(self) -> tuple[dict[str, Any], History]:
        if self._data is None or self._history is None:
            assert self._text is not None
            self._data, self._history = body_parts(self._text)
        return self._data, self._history


class Codec(Generic[M]):
    """Turns stored records into models and back."""

    def __init__(self, model: type[M], kind: str, machine: Machine | None) -> None:
        if not (isinstance(cast("object", model), type) and issubclass(model, BaseModel)):
            raise InvalidArgumentError(f"{model!r} is not a pydantic model.", remedy="Pass a class of pydantic's.")
        if not _KIND.fullmatch(kind):
            raise InvalidArgumentError(
                f"Invalid record kind {kind!r}.", remedy="Use letters, digits, '.', '_' and '-': name=…."
            )
        fields = model.model_fields
        missing = [name for name in ("id", *(("status",) if machine else ())) if name not in fields]
        if missing:
            raise InvalidArgumentError(
                f"The model {model.__name__} has no field {missing[0]!r}.", remedy=f"Declare {missing[0]}: str."
            )
        aliased = [name for name in MANAGED if name in fields and (fields[name].alias or fields[name].exclude)]
        if aliased:
            raise InvalidArgumentError(
                f"The managed field {aliased[0]!r} of {model.__name__} has an alias or is excluded.",
                remedy="Declare it plainly.",
            )
        self.model = model
        self.kind = kind
        self.machine = machine
        self.managed = frozenset(name for name in MANAGED if name in fields)
        self._has_status = "status" in fields
        self._stored_fields = tuple(name for name in MANAGED if name in fields and name not in ("id", "status"))
        self.own = frozenset(
            field.serialization_alias or field.alias or name for name, field in fields.items() if name not in MANAGED
        )
        """The names of the model's other fields, as they are stored."""

    def name(self, id: str) -> str:  # noqa: A002
        """The record's name in messages."""
        return f"{self.kind} {id!r}"

    # -- reading -------------------------------------------------------------------------------------------------------

    def content(self, stored: StoredRecord) -> Content:
        """What is stored."""
        return Content(stored.status, None, None, stored.body)

    def model_of(self, stored: StoredRecord) -> M:
        """The record as a model."""
        try:
            record = self._parsed(stored.id, self.content(stored), stored)
        except ValidationError as error:
            raise MisuseError(
                f"{self.name(stored.id)} at version {stored.version} does not match the model: {_said(error)}.",
                remedy="Give new fields a default, or migrate the records.",
            ) from error
        self.attach(record, stored)
        return record

    def attach(self, record: M, stored: StoredRecord) -> None:
        """Note on a model which stored record it shows, and set its managed fields."""
        # Directly, because a model may be frozen or validate its assignments.
        values = record.__dict__
        for name in self._stored_fields:
            value = getattr(stored, name)
            values[name] = as_datetime(value) if name in _TIMES else value
        values[_KEPT] = stored

    def stored_of(self, record: BaseModel) -> StoredRecord | None:
        """Return the stored record that a model was read from; a copy of the model has it too."""
        return record.__dict__.get(_KEPT)

    def _parsed(self, id: str, content: Content, stored: StoredRecord | None) -> M:  # noqa: A002
        """Validate content as the model. Raises pydantic's ``ValidationError``."""
        managed = self._managed_text(id, content.status, stored)
        text = content.own_text
        if text is None:
            text = json.dumps(content.data)
        # The managed fields come last: of two fields with one name, the parser keeps the last.
        inner = text.rstrip()[:-1]
        return self.model.model_validate_json(f"{inner}{managed}" if len(inner.strip()) < 2 else f"{inner},{managed}")

    def _managed_text(self, id: str, status: str, stored: StoredRecord | None) -> str:  # noqa: A002
        """The managed fields and the end of a JSON object."""
        text = f'"id":{_quoted(id)}'
        if self._has_status:
            text += f',"status":{_quoted(status)}'
        if stored is not None:
            for name in self._stored_fields:
                value = getattr(stored, name)
                shown = f'"{as_datetime(value).isoformat()}"' if name in _TIMES else json.dumps(value)
                text += f',"{name}":{shown}'
        return text + "}"

    # -- writing -------------------------------------------------------------------------------------------------------

    def id_of(self, record: object) -> str:
        """The ID of a model as it is stored: text, or the text of a UUID."""
        if not isinstance(record, self.model):
            raise InvalidArgumentError(
                f"The record is of type {type(record).__name__}, not {self.model.__name__}.",
                remedy=f"Pass a {self.model.__name__}.",
            )
        id = record.id  # type: ignore[attr-defined]  # noqa: A001
        return str(id) if isinstance(id, UUID) else cast("str", id)

    def write_content(self, record: M, id: str, history: History) -> Content:  # noqa: A002
        """What to store of a model. Raises ``InvalidArgumentError`` if its values do not match its own declaration."""
        if self.id_of(record) != id:
            raise InvalidArgumentError(
                f"The change gives {self.name(id)} the ID {self.id_of(record)!r}.", remedy="Leave the ID as it is."
            )
        try:
            text = record.model_dump_json(exclude=set(self.managed), by_alias=True, round_trip=True, warnings="error")
            status = status_text(record.status) if "status" in self.managed else ""  # type: ignore[attr-defined]
            data = json.loads(text)
            self._check_text(id, text, data)
            content = Content(status, data, history)
            self._parsed(id, content, self.stored_of(record))
        except (ValidationError, PydanticSerializationError, UnicodeEncodeError) as error:
            said = _said(error) if isinstance(error, ValidationError) else str(error).partition("\n")[0]
            raise InvalidArgumentError(
                f"{self.name(id)} does not match its model: {said}.", remedy="Fix the value."
            ) from error
        return content

    def corrected(self, id: str, content: Content, stored: StoredRecord) -> None:  # noqa: A002
        """Raise pydantic's ``ValidationError`` unless the content matches the model."""
        text = json.dumps(content.data, ensure_ascii=False)
        self._check_text(id, text, content.data)
        self._parsed(id, content, stored)

    def accept_status(self, content: Content, stored: StoredRecord) -> None:
        """Raise pydantic's ``ValidationError`` unless a stored record with another status matches the model."""
        self._parsed(stored.id, content, stored)

    def _check_text(self, id: str, text: str, data: dict[str, Any]) -> None:  # noqa: A002
        if len(text.encode()) > _MAX_BODY:
            raise InvalidArgumentError(
                f"{self.name(id)} has {len(text.encode()):,} bytes as JSON, and may have {_MAX_BODY:,}.",
                remedy="Keep large data elsewhere, and store where it is.",
            )
        if _NUL.search(text):
            raise InvalidArgumentError(f"{self.name(id)} contains a NUL character.", remedy="Remove it.")
        if _KEPT in data:
            raise InvalidArgumentError(f"{self.name(id)} has a field {_KEPT!r}.", remedy="Use another name.")


def changed_fields(
    before: Content | None, after: Content | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The fields that a change concerns, before and after it; all of them for a create or a delete."""
    if before is not None and after is not None and before.has_body_of(after):
        same = before.status == after.status
        return ({}, {}) if same else (_status_of(before), _status_of(after))
    old = None if before is None else _shown(before)
    new = None if after is None else _shown(after)
    if old is None or new is None:
        return old, new
    names = [
        name for name in {**old, **new} if name not in old or name not in new or not same_json(old[name], new[name])
    ]
    return {n: old[n] for n in names if n in old}, {n: new[n] for n in names if n in new}


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON. For Python, True equals 1, and False equals 0."""
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(same_json(value, right[name]) for name, value in left.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _shown(content: Content) -> dict[str, Any]:
    return _status_of(content) | content.data


def _status_of(content: Content) -> dict[str, Any]:
    return {"status": content.status} if content.status else {}


def _said(error: ValidationError) -> str:
    """The first of the errors, with the field that it is about."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the model"
    more = "" if error.error_count() == 1 else f" (and {error.error_count() - 1} more)"
    return f"{place}: {first['msg']}{more}"
