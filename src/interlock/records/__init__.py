"""Records: versioned state with a journal. ``app.records(Model)`` returns the records of one model.

A name is imported from its module on first use, because a model needs pydantic and an explanation of a record does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.record_strategies import Strategy
    from interlock.records.corrections import AppliedCorrection, CorrectionResult, History
    from interlock.records.machine import Machine
    from interlock.records.records import Records

__all__ = ["AppliedCorrection", "CorrectionResult", "History", "Machine", "Records", "Strategy"]

_MODULE_OF = {
    "AppliedCorrection": "interlock.records.corrections",
    "CorrectionResult": "interlock.records.corrections",
    "History": "interlock.records.corrections",
    "Machine": "interlock.records.machine",
    "Records": "interlock.records.records",
    "Strategy": "interlock.record_strategies",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, whether it was used or not."""
    return sorted({*globals(), *__all__})
