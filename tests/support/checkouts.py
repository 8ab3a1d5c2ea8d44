"""Workspaces as git sees them: a repository with one linked worktree made through berth's own functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from berth.tools.git import creation, refs, repository, worktrees
from support.repos import git


class Made:
    """A repository and one worktree of it: what a registry row would know."""

    def __init__(self, repo: repository.Repository, path: Path, start: refs.Start, git_dir: str) -> None:
        self.repo = repo
        self.path = path
        self.start = start
        self.git_dir = git_dir

    @property
    def common_dir(self) -> str:
        return self.repo.common_dir


def env_of(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, **(extra or {})}


def new(
    cwd: Path | str,
    slug: str = "a",
    *,
    base: str = "main",
    base_given: bool = False,
    env: Mapping[str, str] | None = None,
    path: Path | None = None,
) -> Made:
    """What ``berth new <slug>`` does at the level of git."""
    env = env_of() if env is None else env
    repo = repository.repository(os.fspath(cwd), env=env)
    found = refs.resolve_base(repo, base, env=env)
    entries = worktrees.worktrees(repo.common_dir, env=env)
    start = refs.starting_point(repo, slug, base=found, base_given=base_given, entries=entries, env=env)
    target = path if path is not None else Path(f"{repo.path}.berths") / slug
    added = creation.worktree_add(repo, os.fspath(target), start=start, env=env)
    return Made(repo, target, start, added.git_dir)


def refs_of(repo: Path) -> str:
    """Every reference, one a line: for "nothing changed" and "no stray branch"."""
    return git(repo, "for-each-ref", "--format=%(refname) %(objectname)")
