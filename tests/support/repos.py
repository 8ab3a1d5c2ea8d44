"""Real git repositories for tests: one costs about 0.05 s."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

GIT_TEST_CONFIG = """[user]
\tname = Test Author
\temail = author@example.com
[init]
\tdefaultBranch = main
[commit]
\tgpgSign = false
[protocol "file"]
\tallow = always
"""


def git(path: Path | str, *args: str, check: bool = True, env: Mapping[str, str] | None = None) -> str:
    """Run git in ``path`` and return its stdout without the last newline."""
    done = subprocess.run(
        ["git", "-C", os.fspath(path), *args],
        check=False,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env=None if env is None else {**os.environ, **env},
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.rstrip("\n")


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write ``files`` (relative path -> content) below ``root``."""
    for name, content in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content, encoding="utf-8")


def make_repo(path: Path, files: Mapping[str, str | bytes] | None = None, *, message: str = "init") -> Path:
    """Make a repository on branch main with one commit of ``files`` (default: one text file)."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    write(path, files if files is not None else {"a.txt": "hi\n"})
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", message)
    return path


def commit(path: Path, files: Mapping[str, str | bytes], message: str = "work") -> str:
    """Commit ``files`` in the checkout at ``path`` and return the commit id."""
    write(path, files)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", message)
    return git(path, "rev-parse", "HEAD")
