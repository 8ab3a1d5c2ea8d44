"""Where agent files may be written: inside the primary checkout or inside the home directory, never through a link out.

A file is complete or it is the old one: temporary file in the same directory, then rename.
"""

from __future__ import annotations

import os
import tempfile

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.ops.setup.context import Context
    from berth.tools.git.repository import Repository

MODE = 0o644


class Scope:
    """A directory that files are written below: ``name`` is ``project`` or ``user``, ``root`` its canonical path."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self.root = root

    def place(self, relative: str) -> str:
        """Where ``relative`` really lies, links followed. Raises unsupported_path when that is outside the root."""
        path = os.path.join(self.root, relative)
        real = os.path.realpath(path)
        if real != self.root and not real.startswith(os.path.join(self.root, "")):
            raise BerthError(
                f"{path} leads through a symbolic link to {real}, outside {self.root}",
                code="unsupported_path",
                hint="replace the link by a file or directory, or copy what berth would write by hand",
            )
        return real

    def read(self, relative: str) -> bytes | None:
        """The content of ``relative``, or None when there is no such file. Raises unsupported_path."""
        try:
            with open(self.place(relative), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, relative: str, content: bytes) -> bool:
        """Make ``content`` the file ``relative``; False when it already is. Raises unsupported_path."""
        if self.read(relative) == content:
            return False
        replace(self.place(relative), content)
        return True


def replace(path: str, content: bytes) -> None:
    """Put ``content`` at ``path``, mode 0644, in one step; directories on the way are made."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=directory)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), MODE)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def repository_around(ctx: Context) -> Repository:
    """The repository of the current directory. Raises not_a_repository, cwd_missing and what git finds."""
    from berth.ops.setup.locate import current_directory

    return repository_at(ctx, current_directory(ctx))


def repository_at(ctx: Context, directory: str) -> Repository:
    """The repository that ``directory`` is in. Raises not_a_repository and what git finds."""
    from berth.tools.git.repository import repository

    return repository(directory, env=ctx.environ, recorded=lambda common_dir: ctx.registry.repository_of(common_dir))


def project(ctx: Context) -> Scope:
    """The primary checkout. Raises not_a_repository, and unsupported_repository where there is none (bare)."""
    from berth.registry import ensure_home

    ensure_home(ctx.home)
    found = repository_around(ctx)
    if found.bare:
        raise BerthError(
            f"{found.path} is a bare repository: it has no primary checkout to write into",
            code="unsupported_repository",
            hint="write the file in a worktree and commit it, or use --scope user for the skill",
        )
    return Scope("project", os.path.realpath(found.path))


def user(ctx: Context) -> Scope:
    """The home directory of the environment."""
    from berth.registry import ensure_home

    ensure_home(ctx.home)
    return Scope("user", os.path.realpath(home(ctx)))


def home(ctx: Context) -> str:
    """``$HOME``, or the home directory that the system knows."""
    return ctx.environ.get("HOME") or os.path.expanduser("~")
