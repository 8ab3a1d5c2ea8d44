"""An app as its ``berth.yml`` describes it (sandboxes.md 2). Values only; ``berth.spec.manifest`` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from berth.guest.sandbox import grants
from berth.spec.capabilities import Capability
from berth.spec.findings import Path, Place


@dataclass(frozen=True)
class Export:
    """A function that an app offers. ``input`` and ``output`` map a field to its type; None is unchecked."""

    name: str
    description: str = ""
    input: dict[str, str] | None = None
    output: dict[str, str] | None = None
    example: dict[str, Any] | None = None
    check: bool = True


@dataclass(frozen=True)
class Resources:
    """What an app asks for: CPUs, MiB, GPUs, processes; None is not declared."""

    cpu: float | None = None
    memory_mb: int | None = None
    gpu: int | None = None
    pids: int | None = None


@dataclass(frozen=True)
class Manifest:
    """A valid manifest. ``file`` is the path it was read from, ``sha256`` the hash of exactly the bytes read.

    ``declared_at`` has the path and place of each capability, for what only shows among other apps.
    """

    name: str
    version: str
    file: str
    sha256: str
    description: str = ""
    entry: str = "src/app.py"
    interpreter: str = "/usr/bin/python3"
    capabilities: tuple[Capability, ...] = ()
    declared_at: tuple[tuple[Path, Place | None], ...] = ()
    exports: tuple[Export, ...] = ()
    on_install: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    secrets: tuple[str, ...] = ()

    @property
    def pids(self) -> int:
        """The process limit: declared or the default."""
        return self.resources.pids or grants.DEFAULT_PIDS
