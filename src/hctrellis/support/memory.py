"""How much memory there is, and a clear refusal before too much of it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
CGROUP_FILES = {  # of both versions of control groups: limit, use, and how much of it can be freed
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


SMALL = 1 << 22  # bytes that are taken without checking how many there are


class TooLargeError(ValueError, MemoryError):
    """The problem does not fit; the message says by how much, and what to do instead.

    Attributes
    ----------
    lasting : str or None
        The same without what is true at this moment only, if that was given.
    """

    def __init__(self, message: str, lasting: str | None = None) -> None:
        super().__init__(message)
        self.lasting = lasting


def available_memory() -> int:
    """Bytes that can still be allocated, by the machine, the control groups and the limits."""
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
    """What the control groups of this process leave: its own, and those that contain it."""
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        lines = []
    folders = {(1, CGROUPS / "memory"), (2, CGROUPS), (2, CGROUPS / "unified")}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version = 2 if controllers == "" else 1
        if version == 2 or "memory" in controllers.split(","):
            inner = Path(path).relative_to("/")
            roots = [folder for known, folder in folders if known == version]
            folders |= {(version, root / up) for root in roots for up in (inner, *inner.parents)}
    found = (_left_by(folder, *CGROUP_FILES[version]) for version, folder in folders)
    return [left for left in found if left is not None]


def _left_by(folder: Path, limit: str, use: str, given_back: str) -> int | None:
    """What one control group leaves; None if it sets no limit."""
    try:
        most, used = (int((folder / name).read_text()) for name in (limit, use))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return max(0, most - used + _cached(folder, given_back))


def _cached(folder: Path, name: str) -> int:
    """How much of what a control group uses is cached files, which can be freed at need."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(number) for key, number in map(str.split, lines) if key == name)


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
    if needed > SMALL and needed > (available := available_memory()):
        raise TooLargeError(
            f"{what} need about {show_bytes(needed)} of memory, and {show_bytes(available)} are "
            f"available; use {instead}"
        )
