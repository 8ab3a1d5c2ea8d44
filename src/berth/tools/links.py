"""Where a relative link leads, judged without going there (workspaces.md 7.6).

A link is walked step by step as the kernel would, through the links on its way, but never out of the root. Nothing is
opened.
"""

from __future__ import annotations

import os

_MOST_LINKS = 40  # as many as the kernel follows (path_resolution(7))


class Links:
    """Where relative links lead, step by step as the kernel would go, but never out of the root."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._targets: dict[str, str | None] = {}

    def stays_inside(self, folder: str, target: str) -> bool:
        """Whether ``target``, read in ``folder`` (a real directory, relative to the root), stays below the root.

        A target that does not exist, or leads round in circles, stays inside as long as no step leaves.
        """
        here = folder.split("/") if folder else []
        pending = list(reversed(target.split("/")))
        followed = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not here:
                    return False
                here.pop()
                continue
            here.append(part)
            further = self._target("/".join(here))
            if further is None:
                continue
            followed += 1
            if further.startswith("/"):
                return False
            if followed > _MOST_LINKS:
                return True
            here.pop()
            pending.extend(reversed(further.split("/")))
        return True

    def _target(self, path: str) -> str | None:
        """What ``path`` links to; None when it is no link."""
        if path not in self._targets:
            try:
                self._targets[path] = os.readlink(os.path.join(self._root, path))
            except OSError:
                self._targets[path] = None
        return self._targets[path]
