"""Single files, whole or not at all: readers of a replaced file see the old content or the new.

Reads take only regular files and follow no link in the last component, for what they read may lie where others write
(a FIFO would hang, a link would lead away). Names may be relative to an open directory (``tools.trees``).
"""

from __future__ import annotations

import os

from berth.tools import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DRAFT_PREFIX = ".berth-draft-"
_READ_LIMIT = 16 << 20


def replace_file(
    path: str, content: bytes, *, mode: int, dir_fd: int | None = None, draft_fd: int | None = None
) -> None:
    """Write ``content`` to ``path`` with ``mode``, whole or not at all, and flushed to the disk. Raises OSError.

    A link at ``path`` is replaced, never followed. ``draft_fd`` is a directory of the same file system for the draft,
    where one that a kill leaves behind does no harm; by default it lies beside the file.
    """
    folder, name = os.path.split(path)
    draft = os.path.join("" if draft_fd is not None else folder, f"{DRAFT_PREFIX}{os.getpid()}-{name[:100]}")
    where = dir_fd if draft_fd is None else draft_fd
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(draft, flags, 0o600, dir_fd=where)
    except FileExistsError:  # of a process with our pid that was killed
        os.unlink(draft, dir_fd=where)
        fd = os.open(draft, flags, 0o600, dir_fd=where)
    try:
        try:
            write_all(fd, content)
            os.fchmod(fd, mode)
            os.fsync(fd)
        finally:
            os.close(fd)
        steps.reach(f"before {name} is replaced")
        os.rename(draft, path, src_dir_fd=where, dst_dir_fd=dir_fd)
    except BaseException:
        os.unlink(draft, dir_fd=where)
        raise


def write_all(fd: int, content: bytes) -> None:
    """Write all of ``content``. Raises OSError."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def read_file(path: str, *, dir_fd: int | None = None) -> bytes | None:
    """The content of a regular file of at most 16 MiB; None when there is nothing at ``path``.

    Raises OSError, also (ELOOP, EINVAL, EFBIG) when it is a link, no regular file, or larger.
    """
    import errno
    import stat

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        content = b""
        while block := os.read(fd, max(4096, facts.st_size + 1 - len(content))):
            content += block
            if len(content) > _READ_LIMIT:
                raise OSError(errno.EFBIG, "larger than 16 MiB", path)
        return content
    finally:
        os.close(fd)


def read_json(path: str, *, dir_fd: int | None = None) -> dict[str, Any] | None:
    """The JSON object in a regular file; None when there is none, or what is there is nothing of ours."""
    import json

    try:
        content = read_file(path, dir_fd=dir_fd)
        value = None if content is None else json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def replace_json(path: str, value: dict[str, Any], *, mode: int, dir_fd: int | None = None) -> None:
    """Write a JSON object as ``replace_file`` does. Raises OSError."""
    import json

    replace_file(path, (json.dumps(value, indent=2) + "\n").encode(), mode=mode, dir_fd=dir_fd)
