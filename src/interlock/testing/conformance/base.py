"""Shared by the suites: the store's URL, its capabilities, and helpers for common steps."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pytest

from interlock.backends import from_url
from interlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.ports.store import Capability

__all__ = ["StoreSuite", "needs"]

F = TypeVar("F", bound="Callable[..., Any]")


def needs(*capabilities: Capability) -> Callable[[F], F]:
    """Mark a test that needs these capabilities."""

    def mark(test: F) -> F:
        test.needed_capabilities = capabilities  # type: ignore[attr-defined]
        return test

    return mark


class StoreSuite:
    """A group of tests on the store of the fixture ``store_url``."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = ()
    """The capabilities that all of them need."""

    @pytest.fixture
    def store_url(self) -> str:
        """The URL of a fresh, empty store for every test. Override this."""
        raise NotImplementedError("override the fixture store_url in your subclass")

    @cached_property
    def namespace(self) -> str:
        """A namespace per test, so that suites can share a store that is slow to create."""
        return f"test-{uuid.uuid4().hex}"

    @pytest.fixture(autouse=True)
    def _only_with_capabilities(self, request: pytest.FixtureRequest) -> None:
        needed = (*self.needed_capabilities, *getattr(request.function, "needed_capabilities", ()))
        if needed:
            store = from_url(request.getfixturevalue("store_url"), settings=Settings())
            missing = [capability for capability in needed if capability not in store.capabilities]
            if missing:
                pytest.skip(f"{store.name} does not declare: {', '.join(missing)}")
