"""Fixtures of the runs."""

from __future__ import annotations

import os
import random

import pytest


@pytest.fixture
def seed() -> int:
    """Of the nemesis and all dice; printed with every run, and given by `INTERLOCK_CHAOS_SEED` to repeat one."""
    return int(os.environ.get("INTERLOCK_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
