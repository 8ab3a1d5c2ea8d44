"""The environment of an app, built and never inherited (sandboxes.md 12.4)."""

from __future__ import annotations

import json

from berth.guest.sandbox import grants
from berth.guest.sandbox.identities import account_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from berth.guest.sandbox.policy import Policy

READY_FD = 3
FIRST_LISTENER = 4
GUEST_PATH = "/usr/lib/berth"
CONTEXT = "/context"
BUS_SOCKET, INDEX_SOCKET = "/run/berth/bus/bus.sock", "/run/berth/index/index.sock"


def build(app: Policy, *, boot_id: str, callers: List[str], dev: bool) -> Dict[str, str]:
    """All variables of ``app``; ``callers`` are the peers with a listener, in the order of their descriptors."""
    home = grants.home_of(app.name)
    numbers = {name: FIRST_LISTENER + 1 + position for position, name in enumerate(callers)}
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "TMUX_TMPDIR": home,
        "XDG_CONFIG_HOME": home + "/.config",
        "XDG_CACHE_HOME": home + "/.cache",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "USER": account_of(app.name),
        "LOGNAME": account_of(app.name),
        "PYTHONPATH": GUEST_PATH,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "BERTH_APP_NAME": app.name,
        "BERTH_BOOT_ID": boot_id,
        "BERTH_POLICY": grants.policy_file_of(app.name),
        "BERTH_WORKSPACE_ROOT": grants.DEV_WORKSPACE if dev else "/workspace",
        "BERTH_STATE_DIR": grants.state_of(app.name),
        "BERTH_CONTEXT_DIR": CONTEXT,
        "BERTH_BUS_SOCKET": BUS_SOCKET,
        "BERTH_INDEX_SOCKET": INDEX_SOCKET,
        "BERTH_READY_FD": str(READY_FD),
        "BERTH_LISTEN_FDS": json.dumps({"self": FIRST_LISTENER, **numbers}),
    }
    if app.egress:
        proxy = f"http://127.0.0.1:{grants.EGRESS_PORT}"
        environment.update(dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy))
    return environment
