"""How much memory there is, and a clear refusal before too much of it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


class TooLargeError(ValueError, MemoryError):
    """The problem does not fit; the message says by how much, and what to do instead."""


def available_memory() -> int:
    """Bytes that can still be allocated: of the machine, its control group, its limits."""
    return min([_machine(), *_groups(), *_limits()])


def _machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62  # unknown: let the allocation itself decide


def _groups() -> list[int]:
    """What the control group leaves, where there is one."""
    left = []
    for limit, usage in CGROUP_LIMITS:
        try:
            left.append(max(0, int(Path(limit).read_text()) - int(Path(usage).read_text())))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return left


def _limits() -> list[int]:
    """What the limit on address space leaves, where there is one."""
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY:
            return []
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return []
    return [max(0, soft - used)]


def show_bytes(number: float) -> str:
    """A size for people.

    >>> show_bytes(3_500_000)
    '3.5 MB'
    """
    if number >= 1e18:
        return "over a million TB"
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def check_fits(needed: int, what: str, instead: str) -> None:
    """Refuse what needs more memory than there is, in one sentence."""
    available = available_memory()
    if needed > available:
        raise TooLargeError(
            f"{what} need about {show_bytes(needed)} of memory, and {show_bytes(available)} are "
            f"available; use {instead}"
        )
