"""``berth skill install``: put the skill where coding agents look for one (workspaces.md 11.2).

The skill's text is the folder ``skills/berth`` of the repository, which the wheel carries as ``berth/skill``.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import berth
from berth.ops.agents import harnesses, scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.ops.setup.context import Context

FILES = ("SKILL.md", "references/berth-yaml.md", "references/recovery.md")


class Installed(NamedTuple):
    """What became of one target: ``scope``, ``agent``, the absolute ``path``, and whether anything ``changed``."""

    scope: str
    agent: str
    path: str
    changed: bool


def source(name: str) -> bytes:
    """One file of the skill that this berth carries."""
    package = os.path.dirname(os.path.abspath(berth.__file__))
    folder = os.path.join(package, "skill")
    if not os.path.isdir(folder):  # running from a source tree
        folder = os.path.join(os.path.dirname(os.path.dirname(package)), "skills", "berth")
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def install(ctx: Context, names: Sequence[str] = (), *, every: bool = False, in_home: bool = False) -> list[Installed]:
    """Install the skill for the harnesses ``names`` (default: the shared location), ``every`` = all of them.

    Into the primary checkout, or with ``in_home`` into the home directory. A file is written only if its bytes differ.
    Raises unknown_agent, not_a_repository, unsupported_path.
    """
    targets = harnesses.with_skill(names, every=every)
    where = scope.user(ctx) if in_home else scope.project(ctx)
    content = {name: source(name) for name in FILES}
    for harness in targets:  # all or nothing where a link leads outside
        for name in FILES:
            where.place(os.path.join(harness.skill, name))
    return [install_into(where, harness, content) for harness in targets]


def install_into(where: scope.Scope, harness: harnesses.Harness, content: dict[str, bytes]) -> Installed:
    """Write one copy of the skill."""
    changed = [where.write(os.path.join(harness.skill, name), data) for name, data in content.items()]
    return Installed(where.name, harness.name, os.path.join(where.root, harness.skill), any(changed))
