"""What has to be said with an act of force, and how much may be."""

from __future__ import annotations

import pytest

from interlock.arguments import checked_reason
from interlock.errors import InvalidArgumentError


@pytest.mark.parametrize("wrong", ["", " ", "\0", "\ud800", None, 7, "x" * 501])
def test_who_and_why_are_short_texts(wrong: object) -> None:
    checked_reason("A hold", "x" * 500, "ann")
    for reason, by in ((wrong, "ann"), ("moving", wrong)):
        with pytest.raises(InvalidArgumentError, match="A hold"):
            checked_reason("A hold", reason, by)
