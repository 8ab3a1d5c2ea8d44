"""The list of ignored files that every new workspace gets: ``.worktreeinclude`` (workspaces.md 7.6).

A plain list of paths, no patterns. Copying them is the matter of ``tools.copies``.
"""

from __future__ import annotations

import errno
import os
import stat

from berth.errors import BerthError


def read_includes(path: str) -> list[str]:
    """The relative paths listed in a ``.worktreeinclude`` file, in order; empty when there is none.

    Raises BerthError ``copy_failed`` naming file and line for a path that does not stay inside the repository (3.3).
    """
    from berth.spec.paths import cleaned, repository_path_problem

    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", opener=_open_plainly) as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BerthError(f"cannot read {path}: {error.strerror}", code="copy_failed", hint=path) from None
    wanted: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        problem = repository_path_problem(text)
        if problem is not None:
            raise BerthError(f"{path}:{number}: {text} {problem}", code="copy_failed", hint=f"edit {path}")
        wanted.append(cleaned(text))
    return wanted


def _open_plainly(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    return fd
