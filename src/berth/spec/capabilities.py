"""Capability strings of a manifest: their grammar, what is wrong with one, who holds it (sandboxes.md 3).

Pure. What a capability grants is compiled in ``berth.spec.boot``; the spellings of paths, ports and patterns are the
guest's own, so that both sides refuse the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from berth.guest.sandbox import grants

KERNEL, BROKER, RECORDED = "kernel", "broker", "recorded"


class Capability(NamedTuple):
    """``namespace:action:scope``, split at the first two colons."""

    namespace: str
    action: str
    scope: str

    @property
    def family(self) -> tuple[str, str]:
        return (self.namespace, self.action)

    def __str__(self) -> str:
        return ":".join(self)


def parse(text: str) -> Capability | None:
    """The parts of ``text``, or None when it does not follow the grammar."""
    if len(text) > grants.MAX_CAPABILITY or not grants.is_plain(text):
        return None
    found = grants.CAPABILITY.fullmatch(text)
    return Capability(*found.groups()) if found else None


def matches(granted: str, requested: str) -> bool:
    """True when ``granted`` covers ``requested``: same family, and the scope as an anchored glob.

    Only ``*`` is special and stands for any run of characters, ``/`` and ``.`` included.
    """
    one, two = parse(granted), parse(requested)
    if one is None or two is None or one.family != two.family:
        return False
    glob = ".*".join(re.escape(part) for part in one.scope.split("*"))
    return re.fullmatch(glob, two.scope, re.DOTALL) is not None


def problem(text: str, own: str, others: tuple[str, ...] = ()) -> str | None:
    """Why app ``own``, in a sandbox with apps ``others``, cannot declare ``text``; None when it can."""
    if len(text) > grants.MAX_CAPABILITY:
        return f"is longer than {grants.MAX_CAPABILITY} characters"
    capability = parse(text)
    if capability is None:
        return f'"{text}" is not <namespace>:<action>:<scope> in lower-case letters, digits, "_" and "-"'
    if capability.namespace == "filesystem" and capability.action in ("read", "write"):
        return grants.path_problem(capability.scope, own, others)
    check = _CHECKS.get(capability.family)
    return check(capability.scope, own) if check else None


def tier(capability: Capability) -> str:
    """``kernel``, ``broker`` or ``recorded``: who refuses what is not declared."""
    if str(capability) == "network:connect:*":
        return RECORDED
    if capability.family in _BROKERED:
        return BROKER
    if capability.family == ("app", "invoke"):
        return BROKER if "/" in capability.scope else KERNEL
    if is_terminal(capability) or str(capability) == "process:list:*":
        return KERNEL
    return KERNEL if capability.family in _KERNEL else RECORDED


def is_terminal(capability: Capability) -> bool:
    """True for ``terminal:<action>:*``, which grants pseudo-terminals."""
    return capability.namespace == "terminal" and capability.scope == "*"


def is_egress(capability: Capability) -> bool:
    """True for the two families that the egress broker serves."""
    return capability.family in _EGRESS


def split_invoke(scope: str) -> tuple[str, str]:
    """(app, export or ``*``) of the scope of an ``app:invoke``."""
    app, _slash, export = scope.partition("/")
    return app, export or "*"


_EGRESS = {("network", "host"), ("browser", "navigate")}
_BROKERED = {*_EGRESS, ("bus", "publish"), ("bus", "subscribe")}
_KERNEL = {("filesystem", "read"), ("filesystem", "write"), ("network", "connect"), ("network", "bind")}


def _connect(scope: str, _own: str) -> str | None:
    if scope == "*" or grants.parse_port(scope):
        return None
    return f'scope "{scope}" is not a port from 1 to 65535 or *'


def _bind(scope: str, _own: str) -> str | None:
    if scope == "*":
        return 'scope "*" is not allowed: bind one port, or declare network:connect:*'
    if not grants.parse_port(scope):
        return f'scope "{scope}" is not a port from 1 to 65535'
    if int(scope) == grants.EGRESS_PORT:
        return f'scope "{scope}" is the port of the egress broker'
    return None


def _egress(scope: str, _own: str) -> str | None:
    if grants.is_egress_pattern(scope):
        return None
    return (
        f'scope "{scope}" is not <host pattern>[:<port>|:*]: lower-case ASCII letters, digits, "-", "." and "*", '
        f"at most {grants.MAX_HOST} characters"
    )


def _invoke(scope: str, own: str) -> str | None:
    app, slash, export = scope.partition("/")
    if app == "*":
        return 'scope "*" is not allowed: name each app'
    if not grants.is_app_name(app):
        return f'scope "{scope}" does not begin with the name of an app'
    if slash and not grants.EXPORT_NAME.fullmatch(export):
        return f'scope "{scope}" does not end in the name of an export'
    return f'app "{own}" needs no capability to call itself' if app == own else None


def _topic(scope: str, _own: str) -> str | None:
    if grants.is_topic_pattern(scope):
        return None
    return f'scope "{scope}" is not a topic, or a topic followed by .* (at most {grants.MAX_TOPIC} bytes)'


_CHECKS: dict[tuple[str, str], Callable[[str, str], str | None]] = {
    ("network", "connect"): _connect,
    ("network", "bind"): _bind,
    ("network", "host"): _egress,
    ("browser", "navigate"): _egress,
    ("app", "invoke"): _invoke,
    ("bus", "publish"): _topic,
    ("bus", "subscribe"): _topic,
}
