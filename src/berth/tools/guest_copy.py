"""The guest program as containers mount it: one immutable copy for each content (workspaces.md 5.1).

::

    <home>/guest/<first 16 hex of its sha256>/guest/…    directories 0755, files 0644, whatever the umask

Written aside and renamed into place, so what has its final name is complete. It removes nothing: ``gc`` does.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = "guest"


def guests_directory(home: str) -> str:
    """Where the copies are; what containers mount."""
    return os.path.join(home, DIRECTORY)


def current_guest() -> str:
    """The hash of this berth's own guest: 16 hex digits of the sha256 over names and contents of its modules."""
    import hashlib

    digest = hashlib.sha256()
    for name, content in _modules():
        digest.update(b"%s\0%d\0" % (os.fsencode(name), len(content)))
        digest.update(content)
    return digest.hexdigest()[:16]


def ensure_guest(home: str) -> str:
    """Make the copy of this berth's guest unless it is there, and return its hash. Raises OSError."""
    guest = current_guest()
    guests = guests_directory(home)
    final = os.path.join(guests, guest)
    if os.path.isdir(final):
        return guest
    # Other uids must pass: a container may run as any user. <home> itself stays closed to them.
    os.makedirs(guests, exist_ok=True)
    os.chmod(guests, 0o755)  # noqa: S103  # see above
    draft = os.path.join(guests, f".{guest}.{os.getpid()}")
    _write(draft)
    try:
        os.rename(draft, final)
    except OSError:
        _discard(draft)
        if not os.path.isdir(final):
            raise
    return guest


def _modules() -> Iterator[tuple[str, bytes]]:
    """(path below the package, content) of every module of the guest, sorted."""
    root = _package()
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, "rb") as file:
                    yield os.path.relpath(path, root), file.read()


def _package() -> str:
    import berth.guest

    return os.path.dirname(berth.guest.__file__ or "")


def _write(draft: str) -> None:
    for name, content in _modules():
        path = os.path.join(draft, "guest", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for directory, _, _ in os.walk(draft):
        os.chmod(directory, 0o755)  # noqa: S103  # a container's user reads it


def _discard(draft: str) -> None:
    """Somebody else was first: take ours away."""
    for directory, names, files in os.walk(draft, topdown=False):
        for name in files:
            os.unlink(os.path.join(directory, name))
        for name in names:
            os.rmdir(os.path.join(directory, name))
    os.rmdir(draft)
