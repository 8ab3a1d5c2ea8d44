"""Files that processes of a container left under another uid: removed by a container, because only that may (10.4).

It deletes nothing that belongs to the user, follows no link, and never runs while the workspace's own container does.
"""

from __future__ import annotations

import sys

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from berth.runtime.box import Box

REMOVE_SECONDS = 600.0
MOUNTED_AT = "/workspace"
# argv: the uid that files of the user have inside. Directories of others are emptied, and given to the user when
# something of the user's is left in them.
SCRIPT = r"""
import os, sys
own = int(sys.argv[1])
def clear(directory):
    for name in os.listdir(directory):
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (facts.st_mode & 0o170000) == 0o040000:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                clear(inner)
                if facts.st_uid == own:
                    continue
                try:
                    os.rmdir(name, dir_fd=directory)
                except OSError:
                    os.fchown(inner, own, -1)
            finally:
                os.close(inner)
        elif facts.st_uid != own:
            os.unlink(name, dir_fd=directory)
sys.setrecursionlimit(100000)
clear(os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
"""


def require_remover(box: Box) -> None:
    """Raise foreign_files unless the recorded engine and its image are there to remove them."""
    from berth.tools.engine import images

    try:
        box.engine.require_identity(box.row.engine_id)
        images.require_linux_image(box.engine, box.image)
    except BerthError as error:
        raise BerthError(
            f"files of another user in {box.row.path} can only be removed by a container: {error.message}",
            code="foreign_files",
            hint=error.hint or f"start {box.engine.name}, then berth done again",
        ) from None


def remove_foreign(box: Box) -> None:
    """Delete what other uids left in the checkout. Raises foreign_files with the engine's words."""
    require_remover(box)
    import os

    engine = box.engine
    rootless = engine.facts.rootless
    own = os.getuid() if engine.name == "podman" or not rootless else 0
    keep = ["--userns=keep-id"] if engine.name == "podman" and rootless and sys.platform.startswith("linux") else []
    words = ["container", "run", "--rm", "--pull=never", "--network", "none", "--user", "0:0", *keep]
    words += ["--security-opt", "no-new-privileges:true"]
    words += ["--mount", f"type=bind,source={box.row.path},target={MOUNTED_AT}"]
    words += ["--entrypoint", "python3", box.image, "-I", "-S", "-c", SCRIPT, str(own), MOUNTED_AT]
    result = engine.attempt(words, timeout=REMOVE_SECONDS)
    if result.timed_out or result.code != 0:
        said = result.complaint or f"exit code {result.code}"
        raise BerthError(
            f"files of another user in {box.row.path} could not be removed: {said}",
            code="foreign_files",
            hint="start the engine, or change their owner (chown), then berth done again",
        )
