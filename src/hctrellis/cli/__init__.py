"""The command line ``hctrellis``, thin over the library (an extra: ``hctrellis[cli]``).

`commands` declares the options of each command, and `app` puts the commands together. Each does its
work in a module of its own, imported when it is called, so that ``--help`` stays quick. Errors come
out as one line on standard error.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
from collections.abc import Sequence

from hctrellis.cli.errors import FAILED, INTERRUPTED, complain, explain


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without the name of the program; those of the process by default.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by 2>&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show becomes "?"
            stream.reconfigure(errors="replace")
    try:
        from hctrellis.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever reads the output has had enough, as in "| head"
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        return 0
    except Exception as error:
        return complain(explain(error), getattr(error, "exit_code", FAILED))


def command() -> int:
    """What the shell starts: `main`, except that after Ctrl-C the process ends at once."""
    codes: list[int] = []
    atexit.register(_leave, codes)
    codes.append(main())
    return codes[0]


def _leave(codes: list[int]) -> None:
    """End the process at once if it was interrupted: freeing compiled code takes a second."""
    if codes == [INTERRUPTED]:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(INTERRUPTED)
