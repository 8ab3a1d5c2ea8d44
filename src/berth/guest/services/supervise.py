"""``guest supervise``: become the supervisor of one workspace (supervisor.md 1).

Order: own tag, lock, configuration, socket, then processes. A start that fails says one line on standard error and in
the log. Started natively, this process is the supervisor; with ``--token-file -`` (in a container) it detaches one and
ends when the socket answers.
"""

from __future__ import annotations

import fcntl
import os
import sys

from ..core import procfs, wire
from ..core.log import Log
from ..core.loop import Loop, signal
from .control import Server
from .definition import ConfigError, load
from .host import Host
from .project import Project
from .routes import Routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = ("--config", "--socket", "--token-file", "--log")
SHORTEST_TOKEN = 20  # process-compose's rule


class StartFailed(Exception):
    """The supervisor cannot start; ``status`` is its exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def main(arguments: list[str]) -> int:
    """Run the supervisor; 3 when another one holds the lock, 2 for wrong arguments, 1 for any other failed start."""
    options = {arguments[at]: arguments[at + 1] for at in range(1, len(arguments) - 1, 2)}
    if len(arguments) != 2 * len(OPTIONS) + 1 or set(options) != set(OPTIONS):
        print("usage: guest supervise --config P --socket P --token-file P --log P", file=sys.stderr)
        return wire.STATUS_USAGE
    os.closerange(3, 1 << 16)  # whatever the starter forgot to close would be every child's, too
    try:
        log = Log(options["--log"])
    except OSError as error:
        print(f"guest supervise: {options['--log']}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        if options["--token-file"] == "-":
            return _detached(options, log)
        return _supervise(options, log, _token(options["--token-file"]), 1)
    except StartFailed as failure:
        log(f"not started: {failure}")
        print(f"guest supervise: {failure}", file=sys.stderr)
        return failure.status


def _token(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartFailed(f"{path}: {error}") from None
    return _checked(token, path)


def _checked(token: str, source: str) -> str:
    if len(token) < SHORTEST_TOKEN or any(character.isspace() for character in token):
        raise StartFailed(f"{source}: holds no token")
    return token


def _detached(options: dict[str, str], log: Log) -> int:
    """In a container: the token on standard input, a supervisor in a session of its own, then exit 0 once it answers.

    Standard output gets the line of pc.pid, with the pid that is seen inside.
    """
    token = _checked(sys.stdin.readline().strip(), "standard input")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        try:
            status = _supervise(options, log, token, writer)
        except StartFailed as failure:
            log(f"not started: {failure}")
            os.write(writer, f"{failure}\n".encode("utf-8", "replace"))
            status = failure.status
        os._exit(status)
    os.close(writer)
    said = b""
    while block := os.read(reader, 4096):
        said += block
    if said == wire.READY_LINE:
        sys.stdout.write(wire.encode_pid(pid, procfs.start_time(pid), procfs.boot_id()))
        sys.stdout.flush()
        return 0
    status = os.waitpid(pid, 0)[1]
    raise StartFailed(
        said.decode("utf-8", "replace").strip() or f"ended with status {status}", os.WEXITSTATUS(status) or 1
    )


def _supervise(options: dict[str, str], log: Log, token: str, ready: int) -> int:
    """Hold the workspace's processes until everything is brought down. ``ready`` gets a line once it listens."""
    socket_path = os.path.abspath(options["--socket"])
    if os.path.basename(socket_path) != wire.SOCKET_FILE:
        raise StartFailed(f"{socket_path}: must be named {wire.SOCKET_FILE}")
    try:
        directory = os.open(os.path.dirname(socket_path), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        _lock(directory)
    except OSError as error:
        raise StartFailed(f"{os.path.dirname(socket_path)}: {error.strerror}") from None
    try:
        definitions = load(options["--config"])
    except ConfigError as error:
        raise StartFailed(f"{options['--config']}: {error}") from None

    loop = Loop(log.exception)
    host = Host(loop, log, os.environ)
    control = os.path.dirname(socket_path)
    project = Project(definitions, host, exit_file=os.path.join(control, wire.EXIT_FILE), finished=loop.stop)
    routes = Routes(project, options["--config"])
    try:
        server = Server(socket_path, directory, token, loop=loop, log=log, handler=routes)
        if options["--token-file"] != "-":
            _write(
                directory, wire.PID_FILE, wire.encode_pid(os.getpid(), procfs.start_time(os.getpid()), procfs.boot_id())
            )
        _remove(directory, wire.EXIT_FILE)
    except OSError as error:
        raise StartFailed(f"{socket_path}: {error.strerror}") from None
    for signum, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"), (signal.SIGHUP, "HUP")):
        loop.on_signal(signum, _stopper(project, name))
    log(f"supervisor {os.getpid()} of {os.getcwd()}: {len(definitions)} processes, interface {wire.INTERFACE_VERSION}")
    _say_ready(ready)
    project.changed()
    loop.run()

    server.shut()
    if options["--token-file"] != "-":
        _remove(directory, wire.PID_FILE)
    log("everything is stopped")
    routes.stopped()
    return 0


def _stopper(project: Project, name: str) -> Callable[[], None]:
    return lambda: project.stop(f"signal {name}")


def _lock(directory: int) -> None:
    """Take pc.lock for life. Raises StartFailed with status 3 when it is held, OSError."""
    lock = os.open(wire.LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StartFailed(f"another supervisor holds {wire.LOCK_FILE}", wire.STATUS_LOCKED) from None


def _say_ready(descriptor: int) -> None:
    """Tell who waits at a pipe that the socket listens, and let go of the starter's streams."""
    import stat

    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        try:
            os.write(descriptor, wire.READY_LINE)
        except BrokenPipeError:
            pass  # who waited has left; the supervisor stays
    if descriptor > 2:
        os.close(descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)


def _write(directory: int, name: str, text: str) -> None:
    """Replace a control file, whole or not at all."""
    fd = os.open(name + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
    os.rename(name + ".new", name, src_dir_fd=directory, dst_dir_fd=directory)


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return
