"""Who listens on which TCP port: what a workspace's processes serve, and strangers on its ports (workspaces.md 2.4, 6).

A socket belongs to the processes that hold its inode among their descriptors. Nothing is ever stopped here.
"""

from __future__ import annotations

import os
import sys

from berth.errors import BerthError
from berth.tools import processes, procfs, sockdiag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from berth.tools.sockdiag import Listener


class Foreign:
    """A listener on a reserved port that no process of the workspace holds; ``pid`` is None when it cannot be known."""

    __slots__ = ("command", "pid", "port")

    def __init__(self, port: int, pid: int | None, command: str) -> None:
        self.port = port
        self.pid = pid
        self.command = command

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command})" if self.pid is not None else "pid unknown"


def listening_ports(roots: Mapping[str, Iterable[int]]) -> dict[str, list[int]] | None:
    """The sorted ports on which the processes ``roots`` (name -> pids) or their descendants listen, by name.

    One look at /proc for all of them. None where this cannot be known (macOS).
    """
    if not sys.platform.startswith("linux"):
        return None
    wanted = {name: set(pids) for name, pids in roots.items()}
    ports = {str(one.inode): one.port for one in sockdiag.listeners()} if any(wanted.values()) else {}
    if not ports:
        return {name: [] for name in wanted}
    held: dict[int, set[int]] = {}
    children = _children()
    result = {}
    for name, pids in wanted.items():
        found: set[int] = set()
        for pid in _subtree(pids, children):
            if pid not in held:
                held[pid] = {ports[inode] for inode in _socket_inodes(pid) if inode in ports}
            found |= held[pid]
        result[name] = sorted(found)
    return result


def foreign_listeners(ports: Iterable[int], workspace_id: str) -> list[Foreign]:
    """The listeners on ``ports``, on any address, that belong to no marked process of the workspace, by port.

    Several sockets of one holder on one port count once. Empty on macOS.
    """
    reserved = set(ports)
    sockets = [one for one in sockdiag.listeners() if one.port in reserved]
    if not sockets:
        return []
    owners = _owners({str(one.inode) for one in sockets})
    found: dict[tuple[int, int], Foreign] = {}
    for one in sockets:
        holders = owners.get(str(one.inode), [])
        if not holders and _is_kernels_half(one, sockets):
            continue
        if any(processes.belongs(pid, workspace_id) for pid in holders):
            continue
        pid = min(holders, default=None)
        command = "" if pid is None else procfs.command(pid)
        found.setdefault((one.port, pid or 0), Foreign(one.port, pid, command))
    known = {port for port, pid in found if pid}
    return [found[port, pid] for port, pid in sorted(found) if pid or port not in known]


def refuse_foreign(ports: Mapping[str, int], workspace_id: str) -> None:
    """Raise BerthError ``port_in_use`` when somebody else listens on one of ``ports`` (name -> number)."""
    foreign = foreign_listeners(ports.values(), workspace_id)
    if not foreign:
        return
    names = {port: name for name, port in ports.items()}
    message = "; ".join(f"port {one.port} ({names[one.port]}) is in use by {one}" for one in foreign)
    hint = "stop " + ", ".join(dict.fromkeys(map(str, foreign)))
    raise BerthError(message, code="port_in_use", hint=hint)


def _is_kernels_half(one: Listener, sockets: Iterable[Listener]) -> bool:
    return not one.is_multipath and any(
        other.is_multipath and (other.port, other.address) == (one.port, one.address) for other in sockets
    )


def _owners(inodes: set[str]) -> dict[str, list[int]]:
    """Which processes hold each socket, as far as this user may see."""
    found: dict[str, list[int]] = {}
    for pid in procfs.pids():
        for inode in _socket_inodes(pid):
            if inode in inodes:
                found.setdefault(inode, []).append(pid)
    return found


def _socket_inodes(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # gone, or another user's
        return
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid in procfs.pids():
        entry = procfs.stat(pid)
        if entry is not None:
            children.setdefault(entry.ppid, []).append(pid)
    return children


def _subtree(roots: Iterable[int], children: Mapping[int, list[int]]) -> set[int]:
    found: set[int] = set()
    pending = list(roots)
    while pending:
        pid = pending.pop()
        if pid not in found:
            found.add(pid)
            pending.extend(children.get(pid, ()))
    return found
