"""What a command says when it fails, in one line, and its exit codes."""

from __future__ import annotations

import sys

from hctrellis.tables.speech import on_command_line

EXTRA = ("typer", "rich")
FAILED = 1
INTERRUPTED = 130


def complain(message: str, code: int = FAILED) -> int:
    """Write one line on standard error and return the exit code."""
    print(f"hctrellis: {' '.join(message.split())}", file=sys.stderr)
    return code


def explain(error: Exception) -> str:
    """What went wrong, in words; the type of an error is named if its message may not be enough."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in EXTRA:
        return 'the command line needs typer and rich: pip install "hctrellis[cli]"'
    if hasattr(error, "format_message"):  # of the command line itself
        command = getattr(getattr(error, "ctx", None), "command_path", "hctrellis")
        return f"{error.format_message()} (see {command} --help)"
    if isinstance(error, UnicodeEncodeError):
        odd = error.object[error.start : error.end]
        return f"the character {odd!r:.40} in a name or text cannot be written in UTF-8; replace it"
    if isinstance(error, ValueError):
        return on_command_line(str(error))
    if isinstance(error, OSError | ImportError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({str(error) or 'no more was given'}); use fewer items"
    return f"{type(error).__name__}: {error}"
