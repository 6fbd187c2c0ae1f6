"""The figures of the Bridge Lite example, on SQLite and PostgreSQL."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "bridge_lite"))
