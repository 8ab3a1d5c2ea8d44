"""Is the directory on record the workspace it was? The marker file, git's plain files, and the row must agree (7.3)."""

from __future__ import annotations

import os
import stat

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.registry import Workspace

MARKER = "identity.json"
METADATA = ".berth"


def check_identity(row: Workspace) -> None:
    """Prove from plain files that ``row.path`` is this workspace; starts no process.

    Raises checkout_missing, repository_missing, primary_checkout or identity_mismatch saying what differs.
    """
    from berth.tools.git.checkout import verify_plain

    verify_plain(row.path, git_dir=row.git_dir, common_dir=row.common_dir, primary=row.repo)
    check_marker(row)


def check_marker(row: Workspace, *, at: str | None = None) -> None:
    """The marker below ``at`` (default: the row's path) names this workspace. Raises identity_mismatch."""
    metadata = os.path.join(at or row.path, METADATA)
    try:
        is_directory = stat.S_ISDIR(os.lstat(metadata).st_mode)
    except OSError:
        is_directory = False
    if not is_directory:
        raise _mismatch(f"{metadata} is not a directory of the workspace")
    marker = read_marker(at or row.path)
    if marker is None:
        raise _mismatch(f"{os.path.join(metadata, MARKER)} is missing or no marker of berth's")
    for key, wanted in (("ID", row.id), ("Repo", row.repo), ("GitDir", row.git_dir)):
        if marker.get(key) != wanted:
            raise _mismatch(f"{os.path.join(metadata, MARKER)}: {key} is {marker.get(key)!r}, not {wanted!r}")


def read_marker(path: str) -> dict[str, str] | None:
    """The marker of the workspace at ``path``; None when there is no regular, readable one."""
    import json

    from berth.tools.git.checkout import read_plain

    text = read_plain(os.path.join(path, METADATA, MARKER))
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def write_marker(path: str, *, workspace_id: str, repo: str, git_dir: str) -> None:
    """Make ``.berth`` (a real directory, 0700) with its ``.gitignore`` and the marker (0600) below ``path``."""
    import json

    from berth.tools.files import replace_file

    metadata = os.path.join(path, METADATA)
    try:
        os.mkdir(metadata, 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(metadata).st_mode):
            raise _mismatch(f"{metadata} is not a directory") from None
    replace_file(os.path.join(metadata, ".gitignore"), b"*\n", mode=0o600)
    marker = {"ID": workspace_id, "Repo": repo, "GitDir": git_dir}
    replace_file(os.path.join(metadata, MARKER), json.dumps(marker, indent=2).encode() + b"\n", mode=0o600)


def damage(row: Workspace) -> str | None:
    """What is wrong with the checkout, for ``status`` and ``ls``; None when it is sound or not made yet."""
    if row.phase == "creating":
        return None
    try:
        check_identity(row)
    except BerthError as error:
        return error.message
    return None


def _mismatch(what: str) -> BerthError:
    return BerthError(what, code="identity_mismatch", hint="move the right checkout back")
