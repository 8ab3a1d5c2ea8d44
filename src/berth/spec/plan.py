"""The plan object of workspaces.md 2.4: where and how a run of the workspace happens. HOT: pure, few imports."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Registered(Protocol):
        """The part of a registry row that the plan needs."""

        path: str
        runtime: str
        listen: str
        ports: dict[str, int]


def plan_document(row: Registered) -> dict[str, Any]:
    """The JSON object of ``plan``, its keys in the contract's order, from the recorded contract alone."""
    import json

    runtime: dict[str, Any] = json.loads(row.runtime)
    listen: dict[str, int] = json.loads(row.listen)
    in_container = runtime.get("backend") == "container"
    root = "/workspace" if in_container else row.path
    if in_container:
        from berth.spec.ports import gateway_ports

        gateways = gateway_ports(list(row.ports), listen)
    else:
        gateways = {}
    return {
        "gateway_ports": gateways,
        "backend": runtime.get("backend", "native"),
        "engine": runtime.get("engine"),
        "image": runtime.get("image"),
        "working_dir": root,
        "data_dir": os.path.join(root, ".berth", "data"),
        "host_ports": row.ports,
        "listen": listen,
        "network_namespace": in_container,
        "security_sandbox": False,
    }
