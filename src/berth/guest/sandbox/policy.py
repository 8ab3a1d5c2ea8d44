"""The boot document: what each app of a sandbox may do, as data (sandboxes.md 5.1, 6.1).

The host writes it (``berth.spec.boot``), the supervisor and agent-init read it, and both call ``read``: an object that
is not complete, knows a key too many or grants what no manifest could have declared is refused as a whole.
Decides and applies nothing; the rights behind the words stand in ``rules`` and ``seccomp``.
"""

from __future__ import annotations

from berth.guest.sandbox import recheck
from berth.guest.sandbox.grants import FORMAT
from berth.guest.sandbox.recheck import KEYS, PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Union

    Exports = Union[str, List[str]]

__all__ = ["Document", "Policy", "PolicyError", "check", "read"]


class Policy:
    """What one app may do; the attributes are the keys of its object in the boot document.

    Paths are absolute and canonical, ports are ints, ``invoke`` and ``callers`` map a name to ``"*"`` or to the list
    of exports, ``bus`` maps ``publish`` and ``subscribe`` to a list of patterns or None (unrestricted).
    """

    __slots__ = (
        "bind", "bus", "callers", "capabilities", "connect", "connect_any", "devices", "dir", "egress", "entry", "exec",
        "exports", "groups", "interpreter", "invoke", "limits", "listen", "manifest_sha256", "name", "on_install",
        "proc_all", "read", "secrets", "uid", "write", "write_private",
    )  # fmt: skip

    name: str
    uid: int
    dir: str
    entry: str
    interpreter: str
    manifest_sha256: str
    capabilities: List[str]
    read: List[str]
    write: List[str]
    write_private: List[str]
    exec: List[str]
    devices: List[str]
    proc_all: bool
    connect: List[int]
    connect_any: bool
    bind: List[int]
    listen: bool
    invoke: Dict[str, Exports]
    callers: Dict[str, Exports]
    egress: List[str]
    bus: Dict[str, Optional[List[str]]]
    groups: List[int]
    secrets: List[str]
    limits: Dict[str, int]
    on_install: int
    exports: List[Dict[str, Any]]

    def __init__(self, values: Dict[str, Any]) -> None:
        for key in self.__slots__:
            setattr(self, key, values[key])

    def as_dict(self) -> Dict[str, Any]:
        """The app's object, keys in the order of the contract's example."""
        return {key: getattr(self, key) for key in KEYS}


class Document:
    """One sandbox: its ordered apps and whether a missing mechanism may be tolerated (sandboxes.md 6.7)."""

    __slots__ = ("allow_unenforced", "apps", "kind", "sandbox")

    def __init__(self, *, sandbox: str, kind: str, allow_unenforced: bool, apps: List[Policy]) -> None:
        self.sandbox = sandbox
        self.kind = kind
        self.allow_unenforced = allow_unenforced
        self.apps = apps

    def as_dict(self) -> Dict[str, Any]:
        """The whole document as JSON values."""
        return {
            "format": FORMAT,
            "sandbox": self.sandbox,
            "kind": self.kind,
            "allow_unenforced": self.allow_unenforced,
            "apps": [app.as_dict() for app in self.apps],
        }


def read(data: bytes) -> Document:
    """The checked document behind ``data`` (UTF-8 JSON, no key twice, no NaN); raises PolicyError."""
    return check(recheck.decode(data))


def check(value: Any) -> Document:
    """The document behind decoded JSON values, after every rule of sandboxes.md 6.1; raises PolicyError."""
    recheck.document(value)
    return Document(
        sandbox=value["sandbox"],
        kind=value["kind"],
        allow_unenforced=value["allow_unenforced"],
        apps=[Policy(app) for app in value["apps"]],
    )
