"""The rules for paths in berth.yaml, decided by their spelling alone (workspaces.md 3.1, 3.3). No file is touched."""

from __future__ import annotations

import posixpath

OWN_DIRECTORIES = (".git", ".berth")
FORBIDDEN = {"\\": "a backslash", ":": "a colon", "\0": "NUL"}


def cleaned(path: str) -> str:
    """``path`` without ``.`` components, doubled slashes and ``x/..`` pairs."""
    return posixpath.normpath(path)


def repository_path_problem(path: str) -> str | None:
    """Why ``path`` is no repository-relative path, in words, or None (3.3)."""
    for char, word in FORBIDDEN.items():
        if char in path:
            return f"must not contain {word}"
    if path.startswith("/"):
        return "must be relative to the repository, not absolute"
    if cleaned(path) == ".":
        return "must name something inside the repository"
    return _component_problem(cleaned(path))


def worktree_root_problem(path: str) -> str | None:
    """Why ``path`` cannot hold the workspaces, in words, or None (3.1)."""
    if not path.strip():
        return "must not be empty"
    if path.startswith("/"):
        return None
    if path == "~" or path.startswith("~/"):
        return "must be absolute, or relative to the primary checkout: ~ is not expanded"
    if ".." in path.split("/"):
        return "must not contain a .. component"
    return _component_problem(cleaned(path))


def _component_problem(clean: str) -> str | None:
    components = clean.split("/")
    if ".." in components:
        return "must not leave the repository through a .. component"
    # Some file systems do not tell .GIT from .git, as git itself takes into account.
    if components[0].lower() in OWN_DIRECTORIES:
        return f"must not be {components[0]} or anything below it"
    return None
