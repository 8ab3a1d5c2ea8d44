"""The files of a project as ``berth init`` reads them: small, regular, inside the checkout, and never trusted."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

LARGEST = 256 * 1024
SKIPPED = frozenset(
    ("node_modules", "venv", ".venv", "site-packages", "vendor", "dist", "build", "tests", "test", "migrations")
)


class Project:
    """A checkout that is looked at."""

    def __init__(self, root: str) -> None:
        self.root = root

    def has(self, name: str) -> bool:
        """Whether there is a regular file of that relative name."""
        return os.path.isfile(os.path.join(self.root, name))

    def first(self, *names: str) -> str | None:
        """The first of ``names`` that is there."""
        return next((name for name in names if self.has(name)), None)

    def text(self, name: str) -> str:
        """The text of a file; empty when it is absent, too large, no regular file or not UTF-8."""
        try:
            descriptor = os.open(os.path.join(self.root, name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            data = file.read(LARGEST + 1)
        try:
            return "" if len(data) > LARGEST else data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return ""

    def json(self, name: str) -> dict[str, Any]:
        """A JSON object; empty when it is anything else."""
        try:
            document = json.loads(self.text(name))
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def python_files(self) -> list[str]:
        """Python files of the first two levels, relative, sorted; at most 200."""
        found = []
        for directory in ("", *self._directories("")):
            found += [os.path.join(directory, name) for name in self._names(directory) if name.endswith(".py")]
        return sorted(found)[:200]

    def _directories(self, directory: str) -> list[str]:
        names = [name for name in self._names(directory) if not name.startswith(".") and name not in SKIPPED]
        first = [name for name in names if os.path.isdir(os.path.join(self.root, name))]
        second = [
            os.path.join(parent, name)
            for parent in first
            if parent == "src"
            for name in self._names(parent)
            if os.path.isdir(os.path.join(self.root, parent, name))
        ]
        return (first + second)[:50]

    def _names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(os.path.join(self.root, directory)))[:1000]
        except OSError:
            return []
