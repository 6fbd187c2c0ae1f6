"""The console script: ``interlock`` and ``python -m interlock``.

The command line needs the ``cli`` extra. Without it the script names the extra instead of printing a traceback.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXIT_MISUSE = 2
_EXTRA = ("typer", "click", "rich", "shellingham")


def main() -> None:
    """Run the command line, or say which extra is missing."""
    try:
        from interlock.cli import main as run

        run()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRA:
            raise
        sys.stderr.write(
            f"The interlock command requires the package {name}, which is not installed. "
            "Run: pip install 'interlock[cli]'.\n"
        )
        sys.exit(_EXIT_MISUSE)


if __name__ == "__main__":
    main()
