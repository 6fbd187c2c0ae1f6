"""Runs Python in a fresh interpreter, where some modules cannot be imported and some attributes do not exist."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_PRELUDE = """
import sys

class Refuse:
    def __init__(self, names): self.names = names
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse(frozenset(%r)))
for name in %r:
    sys.modules.pop(name, None)
"""


def run(code: str, *, without: Iterable[str] = (), arguments: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run the code; ``without`` are top-level modules that are not installed."""
    refused = sorted(without)
    return subprocess.run(
        [sys.executable, "-c", f"{_PRELUDE % (refused, refused)}\n{code}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def evaluate(code: str, expression: str, *, without: Iterable[str] = ()) -> Any:
    """Run the code and return what the expression is then."""
    done = run(f"{code}\nimport json\nprint(json.dumps({expression}))", without=without)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
