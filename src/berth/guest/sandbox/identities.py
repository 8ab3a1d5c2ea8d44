"""Accounts of a sandbox in ``/etc/passwd`` and ``/etc/group``: one for each app, one for each daemon, one shared group.

Entries are replaced, not appended, so that a restart finds the same files. An id that somebody else holds is an error:
an app never shares a uid (sandboxes.md 5.2, step 4).
"""

from __future__ import annotations

import errno
import os
import stat

from berth.guest.sandbox import grants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from berth.guest.sandbox.policy import Document

SHARED_GROUP = "berth"
DAEMONS = (("_berth-bus", grants.BUS_UID), ("_berth-egress", grants.EGRESS_UID), ("_berth-index", grants.INDEX_UID))
NO_SHELL = "/usr/sbin/nologin"
MAX_BYTES = 4 * 1024 * 1024


class IdentityTaken(Exception):
    """An id of the sandbox belongs to another account. ``str()`` names both."""


def account_of(app: str) -> str:
    """The user and group name of an app."""
    return "berth-" + app


def establish(document: Document, *, etc: str = "/etc") -> None:
    """Write the accounts of all apps and daemons. Raises IdentityTaken and OSError; then nothing may start."""
    users = [(account_of(app.name), app.uid, grants.home_of(app.name)) for app in document.apps]
    users += [(name, uid, "/nonexistent") for name, uid in DAEMONS]
    groups = [(SHARED_GROUP, grants.SHARED_GID), *((name, uid) for name, uid, _home in users)]
    passwd = [f"{name}:x:{uid}:{uid}::{home}:{NO_SHELL}" for name, uid, home in users]
    group = [f"{name}:x:{gid}:" for name, gid in groups]
    ids = [(name, uid) for name, uid, _home in users]
    _replace(os.path.join(etc, "group"), group, groups)
    _replace(os.path.join(etc, "passwd"), passwd, ids)


def _replace(path: str, lines: List[str], ours: List[Tuple[str, int]]) -> None:
    """``path`` with the entries of ``ours`` exchanged for ``lines``, written whole or not at all."""
    present = _read(path)
    kept = []
    held = {number: name for name, number in ours}
    names = {name for name, _number in ours}
    for line in present:
        name, number = _entry(line)
        if name in names or _is_stale(name, number):
            continue
        if number in held:
            raise IdentityTaken(f'{path}: id {number} of "{held[number]}" belongs to "{name}"')
        kept.append(line)
    _write(path, "".join(line + "\n" for line in [*kept, *lines]).encode("utf-8", "surrogateescape"))


def _entry(line: str) -> Tuple[str, int]:
    """(name, id) of a line of either file; -1 for what is no entry."""
    fields = line.split(":")
    if len(fields) > 2 and fields[2].isascii() and fields[2].isdigit():
        return fields[0], int(fields[2])
    return fields[0], -1


def _is_stale(name: str, number: int) -> bool:
    """An account that an earlier boot with other apps made."""
    in_range = grants.FIRST_UID <= number < grants.FIRST_UID + grants.MAX_APPS
    return in_range and name.startswith("berth-") and grants.is_app_name(name[len("berth-") :])


def _read(path: str) -> List[str]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return data.decode("utf-8", "surrogateescape").splitlines()


def _write(path: str, data: bytes) -> None:
    """A draft beside it, then a rename; where an engine mounted the file itself, in place."""
    draft = path + ".berth"
    try:
        os.unlink(draft)
    except FileNotFoundError:
        pass  # the usual case: no earlier boot was killed between draft and rename
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(data)
    try:
        os.rename(draft, path)
    except OSError as error:
        os.unlink(draft)
        if error.errno != errno.EBUSY:
            raise
        with open(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC), "wb") as file:
            file.write(data)
