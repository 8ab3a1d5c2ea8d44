"""Directories and files of a sandbox before the first app runs: owners, modes, secrets, policies, declared paths
(sandboxes.md 5.2 steps 3 and 5 to 7, 5.3).

Runs as root without FOWNER: a directory's mode is set while root owns it, then its owner. No symlink is followed
below a place that an app can write.
"""

from __future__ import annotations

import errno
import json
import os
import stat

from berth.guest.sandbox import grants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Tuple

    from berth.guest.sandbox.policy import Document, Policy

RUN = "/run/berth"
SECRETS_SOURCE = "/run/berth-secrets"
CONTEXT, INDEX = "/context", "/var/lib/berth/index"
MAX_SECRET = 1024 * 1024
_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotTmpfs(Exception):
    """``/run/berth`` would outlive a restart."""


def make(path: str, mode: int, *, uid: int = 0, gid: int = 0) -> None:
    """A directory with exactly this mode and owner, whether it was there or not. OSError, also when it is a link."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # a volume, or an earlier boot's
    descriptor = os.open(path, _BELOW)
    try:
        _own(descriptor, mode, uid, gid)
    finally:
        os.close(descriptor)


def _own(descriptor: int, mode: int, uid: int, gid: int) -> None:
    """Root first, then the mode, then the owner: chmod on somebody else's directory needs FOWNER, and a chmod after
    the group was given away loses setgid."""
    facts = os.fstat(descriptor)
    if (stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid) == (mode, uid, gid):
        return
    if facts.st_uid != 0 or facts.st_gid not in (0, grants.SHARED_GID):
        os.fchown(descriptor, 0, 0)
    if stat.S_IMODE(facts.st_mode) != mode:
        os.fchmod(descriptor, mode)
    os.fchown(descriptor, uid, gid)


def empty_run(run: str = RUN, *, mounts: str = "/proc/self/mountinfo") -> None:
    """Empty ``/run/berth``, which must be a tmpfs, without following links. Raises NotTmpfs and OSError."""
    with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
        kinds = [line.split(" - ")[1].split()[0] for line in file if line.split()[4] == run]
    if kinds[-1:] != ["tmpfs"]:
        raise NotTmpfs(f"{run} is {kinds[-1] if kinds else 'no mount'}, it must be a tmpfs")
    descriptor = os.open(run, _BELOW)
    try:
        _empty(descriptor)
    finally:
        os.close(descriptor)
    make(run, 0o755)


def _empty(descriptor: int) -> None:
    for name in os.listdir(descriptor):
        if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            below = os.open(name, _BELOW, dir_fd=descriptor)
            try:
                _empty(below)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=descriptor)
        else:
            os.unlink(name, dir_fd=descriptor)


def make_shared(document: Document) -> None:
    """The places that are not one app's: policies, secrets, the daemons' directories, /tmp, /context, /workspace."""
    for name in ("policy", "secrets", "bus", "index"):
        make(os.path.join(RUN, name), 0o711)
    make("/tmp", 0o755)  # noqa: S108  # the contract's place, a tmpfs of this container
    make(CONTEXT, 0o3770, gid=grants.SHARED_GID)
    os.makedirs("/var/lib/berth/state", mode=0o755, exist_ok=True)
    make(INDEX, 0o700, uid=grants.INDEX_UID, gid=grants.INDEX_UID)
    if document.kind in grants.DEV_KINDS:
        os.chown(grants.DEV_WORKSPACE, -1, grants.SHARED_GID)
    else:
        make("/workspace", 0o2775, gid=grants.SHARED_GID)


def make_private(app: Policy) -> None:
    """An app's home, its secrets directory, and its state volume, which is re-owned when the app's place changed."""
    make(grants.home_of(app.name), 0o700, uid=app.uid, gid=app.uid)
    state = grants.state_of(app.name)
    if os.path.isdir(state):
        _reown(state, app.uid)
    else:
        make(state, 0o700, uid=app.uid, gid=app.uid)
    _place_secrets(app)


def _reown(path: str, uid: int) -> None:
    descriptor = os.open(path, _BELOW)
    try:
        if os.fstat(descriptor).st_uid != uid:
            _give(descriptor, uid)
        _own(descriptor, 0o700, uid, uid)
    finally:
        os.close(descriptor)


def _give(descriptor: int, uid: int) -> None:
    """Give everything below an open directory to ``uid``; links are given, never followed."""
    for name in os.listdir(descriptor):
        facts = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            below = os.open(name, _BELOW, dir_fd=descriptor)
            try:
                _give(below, uid)
            finally:
                os.close(below)
        os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)


def _place_secrets(app: Policy, *, source: str = SECRETS_SOURCE) -> None:
    """Copy what the app lists and the host gave into its own directory; a name without a value is left out."""
    directory = grants.secrets_of(app.name)
    os.mkdir(directory, 0o700)
    for name in app.secrets:
        value = _secret(os.path.join(source, name))
        if value is not None:
            _write_file(os.path.join(directory, name), value, 0o400, uid=app.uid, gid=app.uid)
    make(directory, 0o500, uid=app.uid, gid=app.uid)


def _secret(path: str) -> Optional[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(MAX_SECRET)


def write_policy(app: Policy) -> str:
    """Write the app's own object where only root writes and the app reads; returns the path."""
    path = grants.policy_file_of(app.name)
    _write_file(path, json.dumps(app.as_dict()).encode(), 0o640, uid=0, gid=app.uid)
    return path


def _write_file(path: str, data: bytes, mode: int, *, uid: int, gid: int) -> None:
    with open(os.open(path, _NEW_FILE, 0o600), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fchown(file.fileno(), uid, gid)


def create_declared(document: Document) -> Iterator[Tuple[str, str]]:
    """Create the declared write paths that do not exist; yields (path, reason) for each that cannot be.

    One app's alone is its own, 0755; one that several may write is ``root:berth`` 2775; existing paths are left alone.
    """
    dev = document.kind in grants.DEV_KINDS
    declared = {path: app for app in document.apps for path in app.write if path != "/dev/null"}
    for path in sorted(declared, key=lambda path: path.count("/")):
        in_repository = grants.covers("/workspace", path) and not grants.covers(grants.DEV_WORKSPACE, path)
        if dev and in_repository:
            continue  # a read-only mount; its place in the dev workspace stands in the list too
        writers = [app for app in document.apps if any(grants.covers(other, path) for other in app.write)]
        try:
            _create(path, writers)
        except OSError as error:
            yield path, error.strerror or str(error)


def _create(path: str, writers: List[Policy]) -> None:
    """Walk from the root, no link followed; make what is missing, the last component with its owner."""
    here = os.open("/", _BELOW)
    components = path[1:].split("/")
    try:
        for number, name in enumerate(components):
            is_last = number == len(components) - 1
            try:
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                facts = None
                os.mkdir(name, 0o700, dir_fd=here)
            if facts is not None and (is_last or not stat.S_ISDIR(facts.st_mode)):
                if stat.S_ISLNK(facts.st_mode) or not is_last:
                    raise OSError(errno.ELOOP if stat.S_ISLNK(facts.st_mode) else errno.ENOTDIR, "in the way", path)
                return
            below = os.open(name, _BELOW, dir_fd=here)
            os.close(here)
            here = below
            if facts is None:
                _own_created(here, writers if is_last else None)
    finally:
        os.close(here)


def _own_created(descriptor: int, writers: Optional[List[Policy]]) -> None:
    if writers is None:
        os.fchown(descriptor, 0, 0)  # a setgid parent gave its group
        os.fchmod(descriptor, 0o755)
    elif len(writers) == 1:
        os.fchown(descriptor, 0, 0)
        os.fchmod(descriptor, 0o755)
        os.fchown(descriptor, writers[0].uid, writers[0].uid)
    else:
        os.fchmod(descriptor, 0o2775)
        os.fchown(descriptor, 0, grants.SHARED_GID)
