"""What git thinks of single paths in a checkout: which are tracked, what is ignored."""

from __future__ import annotations

from berth.tools.git import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}


def tracked_below(checkout: str, name: str, *, env: Mapping[str, str]) -> frozenset[str]:
    """The files that git tracks at or below ``name``, relative to the checkout. Raises BerthError git_failed."""
    listing = command.output(["ls-files", "-z", "--", name], env=env, cwd=checkout, variables=_LITERAL)
    return frozenset(command.decoded(one) for one in listing.split(b"\0") if one)


def ignores(checkout: str, name: str, *, env: Mapping[str, str]) -> bool:
    """True when an ignore rule covers ``name`` (relative). Raises BerthError git_failed."""
    result = command.run(["check-ignore", "--quiet", "--", name], env=env, cwd=checkout)
    if result.code not in (0, 1):
        raise command.failure(result)
    return result.code == 0
