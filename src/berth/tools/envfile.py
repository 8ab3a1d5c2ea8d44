"""The block of variables in a workspace's ``env_file`` (workspaces.md 7.7).

Other content of the file is the user's and is kept as it is. What the variables are is decided elsewhere.
"""

from __future__ import annotations

import os
import stat

from berth.errors import BerthError
from berth.tools import files, trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN = "# BEGIN BERTH"
END = "# END BERTH"

_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+,=-")


def write_block(root: str, name: str, env: Mapping[str, str]) -> None:
    """Put ``env``, sorted, into the block at the end of ``<root>/<name>``.

    A new file gets 0600, an old one keeps its mode; one that would not change is not written.
    Raises BerthError ``env_file_invalid`` naming the path when that or a parent of it is a link, no regular file, or a
    begin has no end; ``io_error`` when it cannot be written.
    """
    path = os.path.join(root, name)
    *parents, last = [part for part in name.split("/") if part not in ("", ".")]
    try:
        folder = trees.make_directories(root, parents, mode=0o755, keep_open=True)
    except (NotADirectoryError, FileExistsError) as error:
        raise _invalid(path, f"{error.filename} is not a real directory") from None
    except OSError as error:
        raise _failed(path, error) from None
    try:
        old, mode = _read(path, last, folder)
        new = _without_block(path, old) + render(env).encode("utf-8", "surrogateescape")
        if old != new:
            _replace(root, last, new, mode=mode, folder=folder)
    except OSError as error:
        raise _failed(path, error) from None
    finally:
        os.close(folder)


def _replace(root: str, name: str, content: bytes, *, mode: int, folder: int) -> None:
    """The draft lies in ``.berth``, which git ignores: left by a kill in the checkout, it would be somebody's work."""
    try:
        drafts = trees.open_directory(root, (".berth",))
    except OSError:
        files.replace_file(name, content, mode=mode, dir_fd=folder)
        return
    try:
        files.replace_file(name, content, mode=mode, dir_fd=folder, draft_fd=drafts)
    finally:
        os.close(drafts)


def render(env: Mapping[str, str]) -> str:
    """The block, with its two lines around it."""
    lines = (f"{key}={quote(env[key])}" for key in sorted(env))
    return "\n".join((BEGIN, *lines, END)) + "\n"


def quote(value: str) -> str:
    """``value`` as a POSIX shell reads it back exactly: bare, else in single quotes, else in double quotes."""
    if value and _BARE.issuperset(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    escaped = "".join("\\" + char if char in '\\"$`' else char for char in value)
    return f'"{escaped}"'


def _read(path: str, name: str, folder: int) -> tuple[bytes, int]:
    """The content and mode of the file, empty and 0600 when there is none."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return b"", 0o600
    if stat.S_ISLNK(facts.st_mode):
        raise _invalid(path, "it is a symbolic link")
    if not stat.S_ISREG(facts.st_mode):
        raise _invalid(path, "it is not a regular file")
    return files.read_file(name, dir_fd=folder) or b"", stat.S_IMODE(facts.st_mode)


def _without_block(path: str, content: bytes) -> bytes:
    """The file's other lines, ending in a newline when there are any.

    A block reaches to the last end before another begin: a value of several lines may contain what looks like one.
    """
    lines = content.splitlines(keepends=True)
    words = [line.strip() for line in lines]
    kept: list[bytes] = []
    at = 0
    while at < len(lines):
        if words[at] != BEGIN.encode():
            kept.append(lines[at])
            at += 1
            continue
        limit = words.index(BEGIN.encode(), at + 1) if BEGIN.encode() in words[at + 1 :] else len(words)
        ends = [number for number in range(at + 1, limit) if words[number] == END.encode()]
        if not ends:
            raise BerthError(
                f"{path}:{at + 1}: {BEGIN} without {END}",
                code="env_file_invalid",
                hint=f"delete line {at + 1} of {path}, or add {END} where the block ends",
            )
        at = ends[-1] + 1
    text = b"".join(kept)
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _invalid(path: str, reason: str) -> BerthError:
    return BerthError(f"{path} cannot be the env_file: {reason}", code="env_file_invalid", hint=f"look at {path}")


def _failed(path: str, error: OSError) -> BerthError:
    return BerthError(f"cannot write {path}: {error.strerror}", code="io_error", hint=path)
