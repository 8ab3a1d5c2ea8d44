"""What an app may be called and may name: spellings both sides of a sandbox agree on (sandboxes.md 2, 3, 6.1, 8).

The host applies these rules to a manifest, the guest applies them again to the boot document, so that a document made
by anything else than berth's compiler grants nothing the compiler would have refused. Touches no file.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import List, Optional

APP_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
EXPORT_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
INTERPRETER = re.compile(r"/usr/.+|/opt/[^/]+/(?:.+/)?bin/[^/]+")
CAPABILITY = re.compile(r"([a-z0-9_-]+):([a-z0-9_-]+):(.+)")
HOST_PATTERN = re.compile(r"[a-z0-9.*-]{1,253}")
TOPIC = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")

RESERVED_NAMES = frozenset(
    (
        *("agent-init", "berth", "boot", "bus", "context", "egress", "governor", "host", "index"),
        *("peers", "policy", "root", "secrets", "self", "supervisor"),
    )
)
FIELD_TYPES = frozenset(("string", "number", "boolean", "object", "array"))
ROOTS = ("/workspace", "/context", "/tmp", "/app")  # noqa: S108 — the roots of the contract, not scratch files
DEV_WORKSPACE = "/workspace/.berth/dev-workspace"
EGRESS_PORT = 8090
TERMINAL_PORT = 7681
DEFAULT_EGRESS_PORTS = (80, 443)
MAX_CAPABILITY = 256
MAX_TOPIC = 128
MAX_HOST = 253

FORMAT = 1
KINDS = ("dev", "mcp", "test", "os", "boot", "deploy")
DEV_KINDS = ("dev", "mcp")  # the workspace is a bind of the host's, apps stay where they lie in it
FIRST_UID = 10000
MAX_APPS = 64
SHARED_GID = 9999
BUS_UID, EGRESS_UID, INDEX_UID = 9001, 9002, 9003
NOFILE = 4096
OOM_PRIMARY, OOM_COMPANION = 200, 400
MIN_PIDS, DEFAULT_PIDS = 32, 256
MAX_DOCUMENT = 8 * 1024 * 1024
TERMINAL_DEVICES = ("/dev/pts", "/dev/ptmx", "/dev/tty")
DEVICE = re.compile(r"/dev/(?:pts|ptmx|tty|nvidia[a-z0-9-]*|dri|kfd)")

_SECRETS_KEPT = frozenset(("PATH", "BASH_ENV", "ENV", "SHELL", "HOME"))
_SECRET_PREFIXES = ("BERTH_", "LD_", "PYTHON")


def is_app_name(text: str) -> bool:
    """True for a name that an app may bear: the pattern of sandboxes.md 2.1 and not reserved."""
    return APP_NAME.fullmatch(text) is not None and text not in RESERVED_NAMES


def is_secret_name(text: str) -> bool:
    """True for a name that may be listed under ``secrets``: never one that steers a program."""
    return (
        SECRET_NAME.fullmatch(text) is not None and text not in _SECRETS_KEPT and not text.startswith(_SECRET_PREFIXES)
    )


def is_plain(text: str) -> bool:
    """True when ``text`` is encodable as UTF-8 and holds no control character (C0, DEL, C1)."""
    return not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in text)


def is_canonical(path: str) -> bool:
    """True for an absolute path without empty, ``.`` or ``..`` segments and without a trailing slash."""
    return path.startswith("/") and path != "/" and not any(s in ("", ".", "..") for s in path[1:].split("/"))


def is_interpreter(path: str) -> bool:
    """True for a canonical spelling beneath ``/usr`` or of ``/opt/<dir>/…/bin/<file>``; it may name a link."""
    return is_canonical(path) and is_plain(path) and INTERPRETER.fullmatch(path) is not None


def interpreter_prefix(path: str) -> str:
    """The directory above the interpreter's ``bin``, which holds its library; ``/usr`` for all beneath ``/usr``."""
    return "/usr" if path.startswith("/usr/") else path.rsplit("/", 2)[0]


def covers(parent: str, path: str) -> bool:
    """True when ``path`` equals ``parent`` or lies beneath it, compared by segment."""
    return path == parent or path.startswith(parent + "/")


def overlaps(one: str, two: str) -> bool:
    """True when one of the two canonical paths equals or contains the other."""
    return covers(one, two) or covers(two, one)


def path_problem(path: str, own: str, others: Iterable[str] = ()) -> Optional[str]:
    """Why ``path`` can be no ``filesystem:*`` scope of app ``own`` in a sandbox with apps ``others``; None when it can.

    The rules of sandboxes.md 3, in the order in which a reader would name them.
    """
    shown = f'scope "{path}"'
    if not path.startswith("/"):
        return f"{shown} is not absolute"
    forbidden = [c for c in "*~$\0" if c in path]
    if forbidden:
        return f"{shown} contains {forbidden[0]!a}"
    if path != "/" and not is_canonical(path):
        return f"{shown} is not canonical: no empty, . or .. segment, no trailing slash"
    if not any(covers(root, path) for root in ROOTS):
        return f"{shown} is not beneath /workspace, /context, /tmp or /app"
    if path == "/tmp":  # noqa: S108
        return f"{shown} is shared by all apps; the own directory is /tmp/{own}"
    for other in others:
        if other != own and overlaps(f"/tmp/{other}", path):  # noqa: S108
            return f'{shown} belongs to app "{other}"'
    return None


def is_port(value: object) -> bool:
    """True for an int, no bool, from 1 to 65535."""
    return type(value) is int and 1 <= value <= 65535


def parse_port(text: str) -> Optional[int]:
    """A decimal port without sign or leading zero, 1–65535; None for anything else."""
    if not text.isascii() or not text.isdigit() or len(text) > 5 or text[0] == "0":
        return None
    return int(text) if is_port(int(text)) else None


def is_egress_pattern(text: str) -> bool:
    """True for ``<host pattern>[:<port>|:*]`` in the one accepted spelling (sandboxes.md 3)."""
    host, colon, port = text.partition(":")
    if HOST_PATTERN.fullmatch(host) is None:
        return False
    return not colon or port == "*" or parse_port(port) is not None


def is_topic(text: str) -> bool:
    """True for a bus topic of at most 128 bytes (sandboxes.md 8)."""
    return len(text) <= MAX_TOPIC and TOPIC.fullmatch(text) is not None


def is_topic_pattern(text: str) -> bool:
    """True for a topic, or a topic followed by ``.*``."""
    return is_topic(text[:-2] if text.endswith(".*") else text)


def home_of(name: str) -> str:
    """HOME and TMPDIR of an app."""
    return "/tmp/" + name  # noqa: S108


def state_of(name: str) -> str:
    """The state directory of an app."""
    return "/var/lib/berth/state/" + name


def policy_file_of(name: str) -> str:
    """The file in which an app finds its own object."""
    return f"/run/berth/policy/{name}.json"


def secrets_of(name: str) -> str:
    """The directory of an app's secrets, one file each."""
    return "/run/berth/secrets/" + name


def own_reads(name: str, directory: str) -> List[str]:
    """What every app reads without a capability, besides the baseline (sandboxes.md 6.1, first row)."""
    return [directory, policy_file_of(name), secrets_of(name)]


def may_execute(path: str, *, writes: List[str], dev: bool) -> bool:
    """False when ``path`` equals, contains or lies beneath a write path of any app or, in dev, the dev workspace.

    Otherwise an app could execute what it, or a sibling for it, has written.
    """
    written = [w for w in writes if w != "/dev/null"] + ([DEV_WORKSPACE] if dev else [])
    return not any(overlaps(path, w) for w in written)
