"""The command line ``hctrellis``, thin over the library (an extra: ``hctrellis[cli]``).

`app` declares the commands; each does its work in a module of its own, imported when it is called,
so that ``--help`` stays quick. Errors come out as one line on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

EXTRA = ("typer", "rich")
FAILED = 1
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without the name of the program; those of the process by default.
    """
    try:
        from hctrellis.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except Exception as error:
        return complain(explain(error), getattr(error, "exit_code", FAILED))


def complain(message: str, code: int = FAILED) -> int:
    """Write one line on standard error and return the exit code."""
    print(f"hctrellis: {' '.join(message.split())}", file=sys.stderr)
    return code


def explain(error: Exception) -> str:
    """What went wrong, in words: the kind of error is named only if the message may not do."""
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA:
        return 'the command line needs typer and rich: pip install "hctrellis[cli]"'
    if hasattr(error, "format_message"):  # of the command line itself
        return f"{error.format_message()} (hctrellis --help shows what there is)"
    if isinstance(error, ValueError | OSError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"
