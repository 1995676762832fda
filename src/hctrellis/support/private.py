"""Folders that nobody else can write into."""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path

PRIVATE = 0o700


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(PRIVATE, exist_ok=True)


def who_else_writes(folder: Path) -> str | None:
    """Why another user may have put files into a folder, in words; None if none can have.

    The folder must be ours or that of the system's administrator, and so must all folders above
    it: whoever can write into one of them can put another folder in place of ours. A folder such
    as /tmp, into which all may write, but in which nobody can rename what belongs to others, may be
    above it. (On systems without such owners nothing is checked.)
    """
    if not hasattr(os, "geteuid"):
        return None
    whole = folder.resolve()
    for path in (whole, *whole.parents):
        found = path.stat()
        if found.st_uid not in {os.geteuid(), 0}:
            return f"{path} belongs to another user"
        shared = found.st_mode & stat.S_ISVTX and path != whole
        if _others_write(found) and not shared:
            return f"others may write into {path}"
    return None


def _others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)


@cache
def _is_own_group(number: int) -> bool:
    """Whether a group is the private one of this user: it has the user's name and nobody else."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and {*group.gr_mem} <= {user.pw_name}
