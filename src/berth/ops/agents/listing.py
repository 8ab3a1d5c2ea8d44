"""``berth agents``: which coding agents there are, where each looks, what is installed (workspaces.md 2.4, 11.1)."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from berth.errors import BerthError
from berth.ops.agents import scope
from berth.ops.agents.harnesses import COVERED, HARNESSES, Harness
from berth.ops.agents.hook import is_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context


class Row(NamedTuple):
    """One harness and what of it is there."""

    harness: Harness
    installed_project: bool
    installed_user: bool
    hook_installed: bool

    def document(self, repo: str, home: str) -> dict[str, Any]:
        """The JSON object; keys in the order of workspaces.md 2.4, paths absolute."""
        harness = self.harness
        return {
            "name": harness.name,
            "display": harness.display,
            "reads_shared": harness.reads_shared,
            "project_path": os.path.join(repo, harness.skill),
            "user_path": os.path.join(home, harness.skill),
            "hook": harness.hook.event if harness.hook else None,
            "hook_file": os.path.join(repo, harness.hook.file) if harness.hook else None,
            "hook_opt_in": bool(harness.hook and harness.hook.opt_in),
            "installed_project": self.installed_project,
            "installed_user": self.installed_user,
            "hook_installed": self.hook_installed,
            "covers": list(COVERED) if harness.name == "shared" else [],
            "note": harness.note,
        }

    def cells(self) -> tuple[str, ...]:
        """The row of the table; paths are relative to the repository and to the home directory."""
        harness = self.harness
        hook = "-" if harness.hook is None else harness.hook.event + (" (opt-in)" if harness.hook.opt_in else "")
        places = ("project", self.installed_project), ("user", self.installed_user), ("hook", self.hook_installed)
        installed = ",".join(place for place, is_there in places if is_there) or "-"
        shared = "yes" if harness.reads_shared else "no"
        return harness.name, shared, harness.skill, f"~/{harness.skill}", hook, installed, harness.note or "-"


class Listing(NamedTuple):
    """All harnesses, seen from the repository ``repo`` and the home directory ``home``."""

    repo: str
    home: str
    rows: tuple[Row, ...]

    def document(self) -> dict[str, Any]:
        """The JSON document of ``berth agents``."""
        return {
            "repo": self.repo,
            "home": self.home,
            "agents": [row.document(self.repo, self.home) for row in self.rows],
        }


def agents(ctx: Context) -> Listing:
    """Look at the primary checkout and the home directory. Raises not_a_repository."""
    project, home = scope.project(ctx), scope.user(ctx)
    rows = tuple(
        Row(
            harness,
            _has_skill(project, harness),
            _has_skill(home, harness),
            harness.hook is not None and is_installed(_content(project, harness.hook.file)),
        )
        for harness in HARNESSES
    )
    return Listing(project.root, home.root, rows)


def _has_skill(where: scope.Scope, harness: Harness) -> bool:
    path = os.path.join(where.root, harness.skill, "SKILL.md")
    return os.path.isfile(path) and not os.path.islink(path)


def _content(where: scope.Scope, file: str) -> bytes | None:
    try:
        return where.read(file)
    except (OSError, BerthError):
        return None  # a directory, a link that leads outside, no permission: berth did not install that
