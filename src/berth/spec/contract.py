"""The runtime contract: what a workspace was registered with and keeps (workspaces.md 9.5). HOT.

Back end, engine, image, user, limits, port names and ``listen`` are recorded as JSON in the registry row and compared
with the configuration of the day. ``runtime.supervisor`` is not part of it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from berth.spec.config import Config

KEYS = ("backend", "engine", "image", "user", "memory", "cpus", "pids")
PORTS_CHANGED = "port contract changed; create a new workspace"
RUNTIME_CHANGED = "runtime contract changed; create a new workspace"


class Contract:
    """``runtime`` maps the set keys of KEYS to their values, ``ports`` are names, ``listen`` name → port."""

    __slots__ = ("listen", "ports", "runtime")

    def __init__(self, runtime: Mapping[str, Any], ports: Sequence[str], listen: Mapping[str, int]) -> None:
        self.runtime = {key: runtime[key] for key in KEYS if runtime.get(key) is not None}
        self.ports = sorted(ports)
        self.listen = dict(sorted(listen.items()))

    @classmethod
    def of(cls, config: Config) -> Contract:
        """The contract that a configuration asks for."""
        return cls({key: getattr(config.runtime, key) for key in KEYS}, config.ports, config.listen)

    @classmethod
    def from_record(cls, runtime: str, listen: str, ports: Sequence[str]) -> Contract:
        """The contract on record, from the row's JSON columns and its port names."""
        import json

        return cls(json.loads(runtime), ports, json.loads(listen))

    def record(self) -> tuple[str, str]:
        """``runtime`` and ``listen`` as JSON text for the row."""
        import json

        return json.dumps(self.runtime, sort_keys=True), json.dumps(self.listen, sort_keys=True)


def differences(recorded: Contract, config: Config) -> str | None:
    """What the configuration changes of the recorded contract, naming both; None when it keeps it."""
    wanted = Contract.of(config)
    if recorded.runtime != wanted.runtime:
        return f"{RUNTIME_CHANGED} (registered: {_words(recorded.runtime)}; berth.yaml: {_words(wanted.runtime)})"
    if recorded.ports != wanted.ports or recorded.listen != wanted.listen:
        return f"{PORTS_CHANGED} (registered: {_ports(recorded)}; berth.yaml: {_ports(wanted)})"
    return None


def _ports(contract: Contract) -> str:
    named = [f"{name}→{contract.listen[name]}" if name in contract.listen else name for name in contract.ports]
    return ", ".join(named) or "none"


def _words(mapping: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in mapping.items()) or "none"


def spec_hash(contract: Contract, *, host_ports: Mapping[str, int], git_dir: str, path: str) -> str:
    """sha256 hex of the compact JSON of 9.1, which a container carries as its label. ``host_ports`` are published."""
    import hashlib
    import json

    words = [contract.runtime or None, dict(host_ports) or None, contract.listen or None, git_dir, path]
    return hashlib.sha256(json.dumps(words, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
