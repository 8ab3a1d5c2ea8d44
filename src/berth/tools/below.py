"""Write and remove files in a tree that others write to (a container): no link below the root is followed."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


def replace_below(root: str, parts: Sequence[str], content: bytes, *, mode: int, owner: int | None = None) -> None:
    """Write the file ``parts`` below ``root``, whole or not at all; ``owner`` is given the file, where root may.

    Raises OSError, also for a link or a file where a directory is expected.
    """
    *parents, name = parts
    directory = open_directory(root, parents)
    draft = f".{name}.{os.getpid()}.draft"
    try:
        descriptor = os.open(
            draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, mode, dir_fd=directory
        )
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                if owner is not None:
                    os.fchown(descriptor, owner, -1)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(draft, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def directory_below(root: str, parts: Sequence[str], *, mode: int, owner: int | None = None) -> None:
    """Make the directory ``parts`` below ``root``, whose parents are real directories. Raises OSError."""
    *parents, name = parts
    above = open_directory(root, parents)
    try:
        try:
            os.mkdir(name, mode, dir_fd=above)
        except FileExistsError:
            pass  # whether it is a directory shows when it is opened
        descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        try:
            os.fchmod(descriptor, mode)
            if owner is not None:
                os.fchown(descriptor, owner, -1)
        finally:
            os.close(descriptor)
    finally:
        os.close(above)


def unlink_below(root: str, parts: Sequence[str]) -> None:
    """Remove the file ``parts`` below ``root``; one that is not there, or whose parents are not, is fine."""
    *parents, name = parts
    try:
        directory = open_directory(root, parents)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        os.unlink(name, dir_fd=directory)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        return  # gone, or something that berth did not make
    finally:
        os.close(directory)


def open_directory(root: str, parts: Sequence[str]) -> int:
    """A descriptor of the directory ``parts`` below ``root``, no link below ``root`` followed. Raises OSError."""
    directory = os.open(root, _DIRECTORY)
    try:
        for part in parts:
            inner = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = inner
    except BaseException:
        os.close(directory)
        raise
    return directory
