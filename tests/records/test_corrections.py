"""Diffs: what is accepted and what it means, and every kind of hostile diff."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock import App
from interlock.errors import CorrectionRefusedError
from interlock.records.corrections import (
    MAX_DIFF_BYTES,
    MAX_HISTORY,
    AppliedCorrection,
    History,
    checked_diff,
    correction_id,
    diff_digest,
    merged,
)

ALLOWED = {"payload", "notes"}


class Ticket(BaseModel):
    id: UUID
    payload: dict[str, int] = {}


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return {"payload": value}


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return {"payload": value}


class SlyText(str):
    """Text that claims to be something else."""

    __slots__ = ()

    def split(self, *_: Any) -> list[str]:  # type: ignore[override]
        return ["payload"]


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        (None, "not-an-object"),
        ([("payload", 1)], "not-an-object"),
        ("payload", "not-an-object"),
        (OrderedDict(payload=1), "not-an-object"),
        ({}, "empty"),
        # operators
        ({"$set": {"payload": 1}}, "operator"),
        ({"payload": {"$inc": 1}}, "operator"),
        ({"payload.$push": 1}, "operator"),
        ({"payload.count+": 1}, "operator"),
        ({"payload.count+=": 1}, "operator"),
        ({"payload": [{"$where": "1"}]}, "operator"),
        # calls and code
        ({"payload.pop()": 1}, "call"),
        ({"payload[0]": 1}, "call"),
        ({"payload": {"a;drop": 1}}, "call"),
        ({"payload.{x}": 1}, "call"),
        # dunder names, anywhere
        ({"__class__": 1}, "dunder-name"),
        ({"payload.__class__.__init__": 1}, "dunder-name"),
        ({"payload": {"a": [{"__proto__": 1}]}}, "dunder-name"),
        # dotted traps
        ({"payload..a": 1}, "dotted-path"),
        ({".payload": 1}, "dotted-path"),
        ({"payload.": 1}, "dotted-path"),
        ({"": 1}, "dotted-path"),
        ({"payload": {"a.b": 1}}, "dotted-path"),
        ({"payload": {"": 1}}, "dotted-path"),
        ({"payload.a": 1, "payload": {"a": 2}}, "ambiguous"),
        ({"payload.a": 1, "payload": {"a": 1}}, "ambiguous"),
        ({"payload.a": 1, "payload.a.b": 2}, "ambiguous"),
        ({"payload": 1, "payload.a": 2}, "ambiguous"),
        # names
        ({"_private": 1}, "invalid-name"),
        ({"payload.a b": 1}, "invalid-name"),
        ({"payload.a/b": 1}, "invalid-name"),
        ({"payload.a\0": 1}, "invalid-name"),
        ({"payload." + "a" * 101: 1}, "invalid-name"),
        ({7: 1}, "invalid-name"),
        ({SlyText("status"): 1}, "invalid-name"),
        ({"payload": {7: 1}}, "invalid-name"),
        ({"payload": {None: 1}}, "invalid-name"),
        # fields
        ({"status": "completed"}, "field-not-allowed"),
        ({"version": 7}, "field-not-allowed"),
        ({"id.x": 7}, "field-not-allowed"),
        # types
        ({"payload": object()}, "invalid-type"),
        ({"payload": {1, 2}}, "invalid-type"),
        ({"payload": b"bytes"}, "invalid-type"),
        ({"payload": (1, 2)}, "invalid-type"),
        ({"payload": lambda: 1}, "invalid-type"),
        ({"payload": SlyText("x")}, "invalid-type"),
        ({"payload": {"a": [1, {"b": 1j}]}}, "invalid-type"),
        ({"payload": float("nan")}, "invalid-number"),
        ({"payload": [float("inf")]}, "invalid-number"),
        ({"payload": 2**63}, "invalid-number"),
        ({"payload": 10**5000}, "invalid-number"),
        ({"payload": "a\0b"}, "invalid-text"),
        ({"payload": "\ud800"}, "invalid-text"),
        # size and depth
        (nested(16), "too-deep"),
        (nested(100_000), "too-deep"),
        (cyclic(), "too-deep"),
        ({"payload" + ".a" * 16: 1}, "too-deep"),
        ({"payload": "x" * MAX_DIFF_BYTES}, "too-large"),
        ({"payload": "ü" * (MAX_DIFF_BYTES // 2)}, "too-large"),
        ({"payload": [0] * 100_000}, "too-large"),
        ({"payload" + ".a" * 100_000: 1}, "too-large"),
        ({f"payload.a{n}": 1 for n in range(5000)}, "too-large"),
    ],
)
def test_a_hostile_diff_is_refused_with_its_reason(diff: Any, reason: str) -> None:
    with pytest.raises(CorrectionRefusedError) as refused:
        checked_diff(diff, ALLOWED)

    assert refused.value.reason == reason
    assert len(str(refused.value)) < 400, "the message does not repeat the diff"


def test_text_that_looks_like_code_is_only_text() -> None:
    text = "__import__('os').system('true'); $inc; {{7*7}}"

    assert checked_diff({"payload.x": text}, ALLOWED) == {"payload": {"x": text}}


def test_a_nested_diff_equals_its_dot_paths() -> None:
    forms = (
        {"payload": {"a": {"b": 1, "c": [1, {"d": None}]}}, "notes": "n"},
        {"payload.a.b": 1, "payload.a.c": [1, {"d": None}], "notes": "n"},
        {"notes": "n", "payload.a": {"c": [1, {"d": None}]}, "payload": {"a": {"b": 1}}},
    )
    digests = {diff_digest(checked_diff(form, ALLOWED)) for form in forms}

    assert len(digests) == 1
    assert digests != {diff_digest(checked_diff({"payload": {"a": {"b": 2}}}, ALLOWED))}


def test_the_result_shares_nothing_with_the_diff_that_was_passed() -> None:
    diff: dict[str, Any] = {"payload": {"a": [1]}}
    checked = checked_diff(diff, ALLOWED)
    diff["payload"]["a"].append(2)

    assert checked == {"payload": {"a": [1]}}


def test_the_id_depends_on_the_record_and_on_the_diff_or_the_key() -> None:
    ids = [
        correction_id("Intent", "1", "digest"),
        correction_id("Intent", "2", "digest"),
        correction_id("Other", "1", "digest"),
        correction_id("Intent", "1", "other"),
        correction_id("Intent", "1", "digest", "digest"),
    ]

    assert len(set(ids)) == len(ids)
    assert correction_id("Intent", "1", "other", "k") == correction_id("Intent", "1", "digest", "k")


def test_objects_are_merged_and_everything_else_is_replaced() -> None:
    data = {"payload": {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 1}, "n": 1}
    result = merged(data, {"payload": {"a": {"y": {"z": 3}}, "b": [3], "c": {"d": 4}, "e": None}})

    assert result == {"payload": {"a": {"x": 1, "y": {"z": 3}}, "b": [3], "c": {"d": 4}, "e": None}, "n": 1}
    assert data == {"payload": {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 1}, "n": 1}


def test_the_history_is_bounded_and_counts_on() -> None:
    history = History()
    for number in range(MAX_HISTORY + 3):
        history = history.having(AppliedCorrection(f"c{number}", "d", float(number), "s", "r"))

    assert (history.count, len(history.last), history.complete) == (MAX_HISTORY + 3, MAX_HISTORY, False)
    assert history.find("c2") is None
    assert history.find("c3") is not None
    assert History.from_data(json.loads(json.dumps(history.to_data()))) == history


_names = st.text("abcXYZ019_-äß$.()_ ", min_size=0, max_size=6)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["payload", "payload.a", "notes"]) | _names, _values, max_size=4))
def test_any_diff_is_accepted_or_refused_and_accepted_ones_are_stable(diff: dict[str, Any]) -> None:
    try:
        checked = checked_diff(diff, ALLOWED)
    except CorrectionRefusedError:
        return
    assert set(checked) <= ALLOWED
    assert checked_diff(json.loads(json.dumps(checked)), ALLOWED) == checked
    once = merged({}, checked)
    assert merged(once, checked) == once, "applying it twice changes nothing more"


async def test_a_record_that_was_read_lists_its_corrections() -> None:
    app = App("memory://")
    tickets = app.records(Ticket)
    async with app:
        ticket = await tickets.create(Ticket(id=uuid4()))
        done = await tickets.correct(str(ticket.id), {"payload.a": 1}, source="kana", reason="why")
        read = await tickets.get(str(ticket.id))

        assert tickets.corrections(Ticket(id=ticket.id)).count == 0
        assert tickets.corrections(ticket).count == 0
        assert tickets.corrections(read).count == 1
        (only,) = tickets.corrections(read).last
        assert (only.id, only.source, only.reason) == (done.correction_id, "kana", "why")
        async with tickets.edit(str(ticket.id)) as edited:
            await tickets.correct(str(ticket.id), {"payload.b": 2}, source="kana", reason="more")
            assert tickets.corrections(edited).count == 2


async def test_the_id_of_a_record_may_be_a_uuid() -> None:
    app = App("memory://")
    tickets = app.records(Ticket)
    async with app:
        made = await tickets.create(Ticket(id=uuid4()))
        async with tickets.edit(str(made.id)) as ticket:
            ticket.payload = {"x": 1}
        read = await tickets.get(str(made.id))

        assert read.id == made.id
        assert read.payload == {"x": 1}
        assert await tickets.compare_and_set(str(made.id), read, 1)
