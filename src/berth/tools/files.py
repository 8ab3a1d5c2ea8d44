"""Replace a file whole: a draft in the same directory, then a rename; readers see the old or the new one."""

from __future__ import annotations

import os


def replace_file(path: str, content: bytes, *, mode: int) -> None:
    """Write ``content`` to ``path`` with ``mode``, whole or not at all. Raises OSError."""
    draft = f"{path}.{os.getpid()}.draft"
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
