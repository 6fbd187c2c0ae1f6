"""Values that are equal in Python and different in JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from interlock import App
from interlock.pipelines.merging import merged_content
from interlock.records.corrections import History
from interlock.records.fields import Content


class Flags(BaseModel):
    id: str
    version: int = 0
    payload: dict[str, Any] = Field(default_factory=dict)


async def test_true_is_not_one_and_false_is_not_zero() -> None:
    app = App("memory://")
    flags = app.records(Flags)
    async with app:
        await flags.create(Flags(id="a", payload={"x": 1, "deep": [{"y": 0}]}))
        async with flags.edit("a") as edited:
            edited.payload["x"] = True
        await flags.update("a", {"payload": {"x": True, "deep": [{"y": False}]}})
        found = await flags.get("a")
        assert found.version == 2
        assert (found.payload["x"], found.payload["deep"][0]["y"]) == (True, False)
        assert found.payload["x"] is True
        assert found.payload["deep"][0]["y"] is False


def test_a_merge_keeps_true_where_one_was() -> None:
    def content(data: dict[str, Any]) -> Content:
        return Content("", data, History())

    before, current = content({"p": {"f": {"x": 1}}}), content({"p": {"f": {"x": 1}, "z": 1}})
    merged, kept = merged_content(before, content({"p": {"f": {"x": True}}}), current, None)
    assert merged.data["p"]["f"]["x"] is True
    assert merged.data["p"]["z"] == 1
    assert not kept
