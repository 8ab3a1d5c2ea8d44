"""Which filter program a checkout needs and does not have (gitattributes(5), ``filter``).

Asked only after a checkout failed: git's message is not read, the configuration and the attributes are.
"""

from __future__ import annotations

import os

from berth.tools.git import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def missing_filter(common_dir: str, *, commit: str, env: Mapping[str, str]) -> tuple[str, str] | None:
    """(filter, program) of the first required filter that ``commit`` uses and whose program is not there; else None.

    A required filter without any command counts as missing, with its own name (for lfs: git-lfs) as the program.
    Raises BerthError git_failed.
    """
    drivers = _required(common_dir, env)
    if not drivers:
        return None
    attributes = _attributes(common_dir, commit, env)
    for name, line in sorted(drivers.items()):
        program = _program(name, line)
        if f"filter={name}" in attributes and not _is_found(program, env):
            return name, program
    return None


def _required(common_dir: str, env: Mapping[str, str]) -> dict[str, str]:
    """name → the command that fills the checkout, of every filter with ``required``."""
    listing = command.output(
        ["config", "-z", "--get-regexp", r"^filter\..*\.(required|smudge|process)$"],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
        expected=(0, 1),
    )
    settings: dict[str, dict[str, str]] = {}
    for record in command.decoded(listing).split("\0"):
        key, _, value = record.partition("\n")
        if key:
            section, _, variable = key.rpartition(".")
            settings.setdefault(section[len("filter.") :], {})[variable] = value
    return {
        name: found.get("process") or found.get("smudge") or ""
        for name, found in settings.items()
        if found.get("required", "false").lower() in ("", "true", "yes", "on", "1")
    }


def _attributes(common_dir: str, commit: str, env: Mapping[str, str]) -> frozenset[str]:
    """Every word of every attribute file that applies: those in the commit, and the repository's own."""
    listing = command.output(
        ["ls-tree", "-r", "-z", "--full-tree", commit], env=env, git_dir=common_dir, cwd=common_dir
    )
    blobs = []
    for entry in listing.split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        if name.rpartition(b"/")[2] == b".gitattributes":
            blobs.append(facts.split()[2])
    text = command.output(
        ["cat-file", "--batch"],
        env=env,
        git_dir=common_dir,
        cwd=common_dir,
        stdin=b"".join(blob + b"\n" for blob in blobs),
    )
    try:
        with open(os.path.join(common_dir, "info", "attributes"), "rb") as own:
            text += own.read()
    except OSError:
        pass  # most repositories have none
    return frozenset(command.decoded(text).split())


def _program(name: str, line: str) -> str:
    import shlex

    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return words[0] if words else ("git-lfs" if name == "lfs" else name)


def _is_found(program: str, env: Mapping[str, str]) -> bool:
    import shutil

    if program == "git":
        return True
    return shutil.which(program, path=env.get("PATH", os.defpath)) is not None
