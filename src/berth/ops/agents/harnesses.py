"""The coding agents that berth knows: where each reads skills, which file can hold a hook (workspaces.md 11.1).

Plain facts in the order of presentation. Nothing here looks at the disk.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHARED_SKILL = ".agents/skills/berth"

_REGISTER = "`berth adopt --setup` or `berth new` registers them"
_NO_HOOK = f"no repository-side worktree hook; {_REGISTER}"
_NO_SURFACE = f"worktrees without hook surface; {_REGISTER}"
_TRUST = "project skills load only once the project is trusted"


class Hook(NamedTuple):
    """A hook that a harness reads: the ``event``, the repository's ``file``; ``opt_in`` = only when it is named."""

    event: str
    file: str
    opt_in: bool = False


class Harness(NamedTuple):
    """One coding agent. ``skill`` is relative to the repository and, the same, to the home directory."""

    name: str
    display: str
    skill: str = SHARED_SKILL
    hook: Hook | None = None
    note: str = ""

    @property
    def reads_shared(self) -> bool:
        """True when it reads skills from the shared location."""
        return self.skill == SHARED_SKILL


HARNESSES: tuple[Harness, ...] = (
    Harness("shared", "Shared .agents/skills convention", note="one directory that most harnesses read"),
    Harness(
        "claude",
        "Claude Code",
        ".claude/skills/berth",
        Hook("WorktreeCreate", ".claude/settings.json", opt_in=True),
        "reads only its own skill directory; the hook replaces its own worktree creation",
    ),
    Harness("cline", "Cline", ".cline/skills/berth", note=f"reads only its own skill directory; {_NO_SURFACE}"),
    Harness("codex", "OpenAI Codex CLI", note=_NO_HOOK),
    Harness(
        "cursor", "Cursor", hook=Hook("setup-worktree", ".cursor/worktrees.json"), note="the hook sets its worktrees up"
    ),
    Harness("copilot", "GitHub Copilot"),
    Harness("gemini", "Gemini CLI", note=_NO_HOOK),
    Harness("opencode", "opencode", note=_NO_HOOK),
    Harness(
        "windsurf",
        "Windsurf / Devin Desktop",
        hook=Hook("post_setup_worktree", ".windsurf/hooks.json"),
        note="the hook sets its worktrees up",
    ),
    Harness("roo", "Roo Code"),
    Harness("kilo", "Kilo Code", note=_NO_HOOK),
    Harness("zed", "Zed", note="the shared location is its only skills root"),
    Harness("junie", "JetBrains Junie", note=f"{_TRUST}; {_NO_SURFACE}"),
    Harness("antigravity", "Google Antigravity", note=f"no repository-side worktree hook; {_NO_SURFACE}"),
    Harness("pi", "pi", note=f"{_TRUST}; {_NO_HOOK}"),
)
BY_NAME = {harness.name: harness for harness in HARNESSES}
# The harnesses that the shared row stands for.
COVERED = tuple(harness.name for harness in HARNESSES if harness.reads_shared and harness.name != "shared")


def split_names(values: Iterable[str]) -> list[str]:
    """The names in repeated, comma-separated option values, in order. Raises usage for an empty element."""
    names = [name.strip() for value in values for name in value.split(",")]
    if not all(names):
        raise BerthError(
            "--agent has an empty element",
            code="usage",
            hint="berth skill install -h; names are separated by one comma",
        )
    return names


def with_skill(names: Sequence[str], *, every: bool) -> list[Harness]:
    """The harnesses to install the skill for; of those that share a directory only the first named.

    Raises unknown_agent.
    """
    chosen = list(HARNESSES) if every else []
    for name in names:
        if name not in BY_NAME:
            raise BerthError(
                f"unknown agent {name!r}", code="unknown_agent", hint=f"one of {', '.join(BY_NAME)}; or --all"
            )
        chosen.append(BY_NAME[name])
    if not chosen:
        chosen = [BY_NAME["shared"]]
    unique = {harness.skill: harness for harness in reversed(chosen)}
    return [harness for harness in dict.fromkeys(chosen) if unique[harness.skill] is harness]


def with_hook(names: Sequence[str], *, every: bool) -> list[Harness]:
    """The harnesses whose hook to install: those named, and for ``every`` or no name at all each that is not opt-in.

    In the order of presentation. Raises unknown_agent.
    """
    hooked = [harness.name for harness in HARNESSES if harness.hook]
    for name in names:
        if name not in hooked:
            known = f"{BY_NAME[name].display} has no hook" if name in BY_NAME else f"unknown agent {name!r}"
            raise BerthError(known, code="unknown_agent", hint=f"harnesses with a hook: {', '.join(hooked)}")
    return [
        harness
        for harness in HARNESSES
        if harness.hook and (harness.name in names or ((every or not names) and not harness.hook.opt_in))
    ]
