"""Who commits are by, as git on the host knows it in a checkout: handed to containers, which have no configuration."""

from __future__ import annotations

from berth.tools.git.command import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = ("user.name", "user.email")


def identity(path: str, *, env: Mapping[str, str]) -> dict[str, str]:
    """``user.name`` and ``user.email`` of the checkout at ``path``, each only where git knows it."""
    asked = run(["config", "-z", "--get-regexp", r"^user\.(name|email)$"], env=env, cwd=path)
    found = {}
    for entry in asked.text.split("\0"):
        key, newline, value = entry.partition("\n")
        if newline and key in KEYS:
            found[key] = value  # the last one wins, as in git
    return found
