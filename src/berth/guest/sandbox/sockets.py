"""Who may reach whom: the peers directories and the listeners of every app (sandboxes.md 5.3, 7.2).

The supervisor makes them all before any app runs; the kernel's answer to ``connect`` is the permission. An app opens
nothing here and can create, rename or remove nothing.
"""

from __future__ import annotations

import os
import socket

from berth.guest.sandbox.directories import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

    from berth.guest.sandbox.policy import Document, Policy

RUN = "/run/berth"
BACKLOG = 64


class Listeners:
    """The listeners of one app: ``own``, and by caller name ``peers``; close when the app has been started."""

    __slots__ = ("own", "peers")

    def __init__(self, own: socket.socket, peers: Dict[str, socket.socket]) -> None:
        self.own = own
        self.peers = peers

    @property
    def descriptors(self) -> List[int]:
        """In the order in which the app inherits them: own, then peers by caller name."""
        return [self.own.fileno(), *(self.peers[name].fileno() for name in sorted(self.peers))]

    def close(self) -> None:
        for listener in (self.own, *self.peers.values()):
            listener.close()


def callers_of(document: Document, target: Policy) -> List[str]:
    """Names of the apps in the sandbox that hold ``app:invoke`` for ``target``, sorted."""
    return sorted(app.name for app in document.apps if target.name in app.invoke and app.name != target.name)


def missing_targets(document: Document) -> List[Tuple[str, str]]:
    """(caller, target) for every ``app:invoke`` whose target is not in the sandbox."""
    present = {app.name for app in document.apps}
    return [(app.name, target) for app in document.apps for target in app.invoke if target not in present]


def make_directories(document: Document, *, run: str = RUN) -> None:
    """``/run/berth/<app>``, and in it a peers directory for every sibling, entered by the granted one or by nobody."""
    for target in document.apps:
        base = os.path.join(run, target.name)
        make(base, 0o711, gid=target.uid)
        make(os.path.join(base, "peers"), 0o711, gid=target.uid)
        granted = callers_of(document, target)
        for sibling in document.apps:
            path = os.path.join(base, "peers", sibling.name)
            if sibling.name in granted:
                make(path, 0o710, gid=sibling.uid)
            else:
                make(path, 0o700)


def listen_all(document: Document, *, run: str = RUN) -> Dict[str, Listeners]:
    """Every app's listeners, by app name. OSError names the path."""
    uids = {app.name: app.uid for app in document.apps}
    made = {}
    for target in document.apps:
        base = os.path.join(run, target.name)
        own = _listen(os.path.join(base, "rpc.sock"), 0o600, uid=target.uid, gid=target.uid)
        peers = {
            caller: _listen(os.path.join(base, "peers", caller, "rpc.sock"), 0o660, uid=target.uid, gid=uids[caller])
            for caller in callers_of(document, target)
        }
        made[target.name] = Listeners(own, peers)
    return made


def _listen(path: str, mode: int, *, uid: int, gid: int) -> socket.socket:
    """A listener at ``path``: bound as root, mode before owner, and ``listen`` with the target's effective ids, so that
    SO_PEERCRED on a client's side of the connection shows them."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        os.chmod(path, mode)
        os.chown(path, uid, gid)
        os.setegid(uid)
        os.seteuid(uid)
        try:
            listener.listen(BACKLOG)
        finally:
            os.seteuid(0)
            os.setegid(0)
    except OSError as error:
        listener.close()
        error.filename = error.filename or path
        raise
    return listener


def unlink_all(target: str, *, run: str = RUN) -> None:
    """Remove the sockets of an app that has ended, so that a call is told at once."""
    base = os.path.join(run, target)
    paths = [os.path.join(base, "rpc.sock")]
    paths += [os.path.join(base, "peers", name, "rpc.sock") for name in os.listdir(os.path.join(base, "peers"))]
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue  # a sibling without a grant has none
