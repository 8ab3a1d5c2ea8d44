"""Starting one program with its output kept: log, keeper, lookup on PATH, spawn."""

from __future__ import annotations

import errno
import os

from .host import environment_of, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Definition
    from .host import Host
    from .output import Output

NOT_FOUND = 127
NOT_EXECUTABLE = 126  # also: no output for it, no memory, no process to be had


class LaunchFailed(Exception):
    """A program could not be started; ``code`` is the exit code that says so, the text the reason."""

    def __init__(self, definition: Definition, what: str, error: Exception) -> None:
        number = error.errno if isinstance(error, OSError) else None
        where = f" in {definition.working_dir}" if definition.working_dir else ""
        super().__init__(f"{what}{where}: {os.strerror(number) if number else error}")
        self.code = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE


def launch(
    definition: Definition,
    host: Host,
    output: Output,
    *,
    truncate: bool,
    on_exec: Callable[[int], None],
    on_exit: Callable[[int], None],
) -> tuple[int, int]:
    """(pid, offset of its output in the log) of a new process, which is about to execute its program.

    Raises LaunchFailed; ``on_exec(errno)`` tells of the failures that only the child sees.
    """
    try:
        if truncate:
            output.truncate()
        sink, terminal = output.open(terminal=definition.is_tty)
    except OSError as error:
        raise LaunchFailed(definition, f"no output for it at {definition.log_location}", error) from None
    try:
        offset = os.stat(definition.log_location).st_size
        environment = environment_of(definition, host.environment)
        argv = definition.argv()
        argv[0] = resolve(argv[0], environment.get("PATH", os.defpath), definition.working_dir)
        pid = host.children.spawn(
            argv,
            env=environment,
            cwd=definition.working_dir,
            stdout=sink,
            stderr=sink,
            terminal=terminal,
            tag=host.tag(definition.number),
            on_exec=on_exec,
            on_exit=on_exit,
        )
    except (OSError, ValueError) as error:
        raise not_executed(definition, error) from None
    finally:
        os.close(sink)
    host.kin.leaders[pid] = host.kin.sessions[pid] = definition.name
    host.trimmer.follow(definition.log_location)
    return pid, offset


def not_executed(definition: Definition, error: Exception) -> LaunchFailed:
    """The program of ``definition`` could not be executed, for the reason in ``error``."""
    return LaunchFailed(definition, f"cannot run {(definition.entrypoint or ['/bin/sh'])[0]}", error)


def adopt_daemon(definition: Definition, host: Host, on_exit: Callable[[int], None]) -> int:
    """The pid of the daemon that a returned command left below the supervisor, watched from now on; 0 for none."""
    own = os.getpid()
    found = [entry for entry in host.kin.of(definition.name) if entry.ppid == own]
    if not found:
        return 0
    pid = min(found, key=lambda entry: entry.start).pid
    host.kin.leaders[pid] = definition.name
    host.children.adopt(pid, on_exit)
    return pid
