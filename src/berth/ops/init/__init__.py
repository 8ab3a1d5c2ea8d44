"""``berth init``: look at a project and write the first berth.yaml for it (workspaces.md 2.5).

The lookers read, ``template`` writes; a file that would not be valid is never written. The rest of the checkout is left
alone but for one line in .gitignore and the shared skill.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from berth.errors import BerthError
from berth.ops.agents import harnesses, scope, skill
from berth.ops.init import node, python, services, template
from berth.ops.init.guesses import Guesses
from berth.ops.init.project import Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context

FILE = "berth.yaml"
IGNORED = ".berth/"
DEFAULT_BASE = "main"
ENV_FILES = (".env", ".env.local", ".env.development", ".env.development.local")


class Initialised(NamedTuple):
    """What was written: absolute paths of ``file`` and ``skill``; ``advice`` is ``berth.yaml:line: …``."""

    file: str
    skill: str
    advice: tuple[str, ...]


def init(ctx: Context, *, force: bool = False) -> Initialised:
    """Write berth.yaml into the primary checkout, ignore ``.berth/`` there and install the shared skill.

    Raises config_exists without ``force``, not_a_repository, unsupported_repository (bare), unsupported_path.
    """
    repo = scope.repository_around(ctx)
    where = scope.project(ctx)
    if not force and os.path.lexists(os.path.join(where.root, FILE)):
        raise BerthError(
            f"{os.path.join(where.root, FILE)} exists", code="config_exists", hint="berth init --force replaces it"
        )
    made = propose(ctx, where.root, base=repo.branch or DEFAULT_BASE)
    target = harnesses.BY_NAME["shared"]
    for name in (FILE, ".gitignore", os.path.join(target.skill, "SKILL.md")):
        where.place(name)
    scope.replace(where.place(FILE), made.text.encode())
    _ignore(where)
    _write_schema(where)
    installed = skill.install(ctx)[0]
    advice = tuple(f"{FILE}:{line}: {text}" for line, text in made.advice)
    return Initialised(os.path.join(where.root, FILE), os.path.join(installed.path, "SKILL.md"), advice)


def propose(ctx: Context, root: str, *, base: str) -> template.Written:
    """The berth.yaml for the project at ``root``. What would not be valid is given up, part by part."""
    guesses = look(ctx, root)
    for attempt, start in ((guesses, base), (Guesses(), base), (Guesses(), DEFAULT_BASE)):
        made = template.written(attempt, base=start)
        if _is_valid(made.text):
            return made
    raise AssertionError("the plain template is valid")


def look(ctx: Context, root: str) -> Guesses:
    """Everything that the project's files say."""
    project, guesses = Project(root), Guesses()
    services.look(project, guesses)
    serves = not guesses.processes  # a Procfile names the processes; what else could start them stays out
    node.look(project, guesses, serves=serves)
    python.look(project, guesses, serves=serves)
    services.look_at_ignored_files(project, guesses, _ignored(ctx, project))
    return guesses


def _is_valid(text: str) -> bool:
    from berth.ops.setup.configuration import parse

    try:
        parse(text.encode(), FILE)
    except (BerthError, UnicodeEncodeError):
        return False
    return True


def _ignored(ctx: Context, project: Project) -> list[str]:
    """The .env files that are there and that git ignores."""
    from berth.tools.git import command

    present = [name for name in ENV_FILES if project.has(name)]
    if not present:
        return []
    answer = command.run(["check-ignore", "--", *present], env=ctx.environ, cwd=project.root)
    return [name for name in present if name in answer.text.splitlines()]


def _ignore(where: scope.Scope) -> None:
    """Append ``.berth/`` to .gitignore, unless that text is in it already."""
    before = where.read(".gitignore") or b""
    if IGNORED.encode() in before:
        return
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    addition = f"# state of berth's workspaces\n{IGNORED}\n".encode()
    where.write(".gitignore", before + gap + addition)


def _write_schema(where: scope.Scope) -> None:
    """The schema that the first line of berth.yaml names for editors; git ignores it."""
    from berth.spec.schemas import schema

    text = json.dumps(schema("config"), indent=2, ensure_ascii=False) + "\n"
    where.write(template.SCHEMA_FILE, text.encode())
