"""What a request means in each state of a process: start, restart, stop, signal (supervisor.md 3)."""

from __future__ import annotations

from ..core.children import signal_entry
from . import graph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .host import Host
    from .process import Process

_RUNS = (*graph.UP, graph.LAUNCHING)


def start(process: Process) -> None:
    """Start it if it is not running; during a stop, start it afterwards."""
    if process.state in graph.ENDED or process.state == graph.RESTARTING:
        process.begin_again()
    elif process.state == graph.TERMINATING:
        process.is_again = True


def restart(process: Process, done: Callable[[], None]) -> None:
    """Stop it if it runs, then start it; ``done`` once it has been stopped."""
    if process.state in _RUNS or process.state == graph.TERMINATING:
        stop(process, done)
        process.is_again = True
    else:
        start(process)
        done()


def stop(process: Process, done: Callable[[], None]) -> None:
    """End it for good; ``done`` once nothing of it is left. What has ended keeps its state."""
    process.wait_for_end(done)
    process.is_again = False
    if process.state in _RUNS:
        process.take_down(graph.TERMINATING, graph.BY_STOP)
    elif process.state == graph.TERMINATING:
        process.reason = graph.BY_STOP
    elif process.state in (graph.PENDING, graph.RESTARTING):
        process.give_up()
    else:
        process.end_leftovers()


def send(process: Process, host: Host, signum: int) -> bool:
    """Send a signal to its group; False when it does not run."""
    if process.state not in graph.UP:
        return False
    for entry in host.kin.of(process.name):
        if process.pid in (entry.pid, entry.pgid):
            signal_entry(entry, signum)
    return True
