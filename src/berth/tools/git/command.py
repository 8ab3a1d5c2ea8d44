"""The door to the git program: which options and which environment every call carries, and what a failure becomes.

It exists so that no planted configuration, inherited variable, terminal or user string changes what a call means
(workspaces.md 4.4, 7.1). It does not know what the commands are for. On hot paths: few imports.
"""

from __future__ import annotations

import os

from berth.errors import BerthError
from berth.tools import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NO_MONITOR = ("-c", "core.fsmonitor=false")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
# git itself waits, with jitter, for a reference that somebody else has locked; its own limits are 0.1 s and 1 s.
WAIT_FOR_REFS = ("-c", "core.filesRefLockTimeout=5000", "-c", "core.packedRefsTimeout=5000")

OLDEST_GIT = (2, 36)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """What git sees: ``env`` without location variables, and never a prompt on the terminal.

    The language is left alone, because hooks and filters inherit it; no message is ever compared.
    """
    return {**proc.inherited_environment(env), "GIT_TERMINAL_PROMPT": "0"}


def start(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    git_dir: str | None = None,
    hooks: bool = False,
    stdin: bytes | int = proc.DEVNULL,
    variables: Mapping[str, str] | None = None,
) -> proc.Child:
    """Start ``git <args>`` in ``cwd``; with ``git_dir`` on exactly that repository, without looking around.

    ``hooks`` only for ``worktree add``. ``variables`` are set on top of ``env``. The program gets a session of its
    own: an ssh or a credential helper that wants to ask fails, instead of being stopped by the terminal.
    Raises BerthError exec_failed.
    """
    argv = ["git", *NO_MONITOR, *(() if hooks else NO_HOOKS), *WAIT_FOR_REFS]
    if git_dir is not None:
        argv.append(f"--git-dir={git_dir}")
    argv += args
    surroundings = environment(env)
    if variables:
        surroundings.update(variables)
    return proc.start(argv, env=surroundings, cwd=cwd, stdin=stdin, session=True)


def run(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    git_dir: str | None = None,
    hooks: bool = False,
    stdin: bytes | int = proc.DEVNULL,
    variables: Mapping[str, str] | None = None,
) -> proc.Result:
    """Run ``git <args>`` to its end, as ``start`` does; a bad exit code is the caller's matter."""
    child = start(args, env=env, cwd=cwd, git_dir=git_dir, hooks=hooks, stdin=stdin, variables=variables)
    return child.finish()


def output(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    git_dir: str | None = None,
    stdin: bytes | int = proc.DEVNULL,
    variables: Mapping[str, str] | None = None,
    expected: Iterable[int] = (0,),
) -> bytes:
    """stdout of ``git <args>``. Raises BerthError git_failed when the exit code is not in ``expected``."""
    return checked(
        run(args, env=env, cwd=cwd, git_dir=git_dir, stdin=stdin, variables=variables), expected=expected
    ).stdout


def checked(result: proc.Result, *, expected: Iterable[int] = (0,)) -> proc.Result:
    """``result`` itself. Raises BerthError git_failed when its exit code is not in ``expected``."""
    if result.code not in expected:
        raise failure(result)
    return result


def failure(result: proc.Result) -> BerthError:
    """git_failed with the arguments, the exit code and stderr (workspaces.md 13)."""
    said = result.complaint or "it said nothing"
    return BerthError(f"git {_shown(result.argv)} failed with code {result.code}: {said}", code="git_failed")


def _shown(argv: Sequence[str]) -> str:
    """The arguments without those that every call carries."""
    words = list(argv[1:])
    while words[:1] == ["-c"]:
        del words[:2]
    text = " ".join(words)
    return text.encode("utf-8", "replace").decode("utf-8")


def version_start(*, env: Mapping[str, str]) -> proc.Child:
    """Ask git for its version, without waiting. Raises exec_failed when there is no git."""
    return start(["version"], env=env)


def version_finish(child: proc.Child) -> tuple[int, int]:
    """(major, minor). Raises BerthError git_too_old below 2.36, the first that lists worktrees with -z."""
    text = checked(child.finish()).text
    words = text.split()
    parts = words[2].split(".") if len(words) > 2 else []
    try:
        found = int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        raise BerthError(f"cannot read the version of git from {text.strip()!r}", code="git_too_old") from None
    if found < OLDEST_GIT:
        raise BerthError(f"git {'.'.join(parts)} is too old", code="git_too_old", hint="berth needs git 2.36 or newer")
    return found


def decoded(data: bytes) -> str:
    """Bytes of a path or name as text that turns back into the same bytes."""
    return os.fsdecode(data)


def shown(name: str) -> str:
    """A path or name for a message: what is not UTF-8 becomes U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
