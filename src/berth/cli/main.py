"""Entry point, and the only place that turns a failure into an exit status.

Dispatch reads a table; only the family of the command at hand is imported (architecture.md, invariant 7).
"""

from __future__ import annotations

import os
import sys

from berth.cli.app import App, Flags
from berth.cli.index import ALIASES, COMMANDS
from berth.cli.output import CLOSED_STDOUT
from berth.errors import BerthError, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    try:
        import _signal as signal  # the C half: a fifth of the price of ``signal``
    except ImportError:  # another implementation than CPython
        import signal

STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit status. ``argv`` is without the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    flags = Flags()
    while words and flags.take(words[0]):
        del words[0]
    app = App(flags, os.environ)
    _watch_signals()
    try:
        status = _dispatch(app, list(words))
    except BerthError as error:
        if error.code == "usage":
            take_flags_of(words, flags)  # the parser may have given up before it came to them
        app.apply_flags()
        app.out.error(error)
        status = error.exit_status
    except (Interrupted, KeyboardInterrupt) as stop:
        status = _interrupted(app, stop)
    except Exception as error:
        failure = _unforeseen(error, flags)
        app.apply_flags()
        app.out.error(failure)
        status = failure.exit_status
    return CLOSED_STDOUT if app.out.closed else status


def _dispatch(app: App, words: list[str]) -> int:
    name = words[0] if words else "ls"
    if name in ("-h", "--help", "help"):
        from berth.cli.index import overview

        app.out.text(overview())
        return 0
    if name == "--version":
        name = "version"
    if name == "__complete":
        from berth.cli.completion import names

        app.out.text("\n".join(names(app, *words[1:2])))
        return 0
    name = ALIASES.get(name, name)
    if name not in COMMANDS:
        raise _unknown(name)
    family = __import__(f"berth.cli.{COMMANDS[name][0]}", fromlist=["execute"])
    return int(family.execute(app, name, words[1:]))


def take_flags_of(words: list[str], flags: Flags) -> None:
    """Note the shared flags of a command line that could not be parsed; ``run``'s end where its command begins."""
    is_run = words[:1] == ["run"]
    for word in words[1:]:
        if word == "--" or (is_run and not word.startswith("-")):
            return
        flags.take(word)


def _unknown(name: str) -> BerthError:
    if name.startswith("-"):
        return BerthError(f"unknown option {name}", code="usage", hint="berth -h")
    import difflib

    close = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], n=1)
    suggestion = f"did you mean berth {close[0]}? " if close else ""
    return BerthError(f"no command {name}", code="usage", hint=f"{suggestion}berth -h lists the commands")


def _watch_signals() -> None:
    """The first HUP, INT or TERM raises Interrupted; later ones are ignored, so they never make it worse."""
    for number in STOPPING:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup stays in force
            signal.signal(number, _stop)
    # A message to a terminal from the background must not stop an action half-way (workspaces.md 2.1).
    for number in (signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, _frame: FrameType | None) -> None:
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def _interrupted(app: App, stop: BaseException) -> int:
    number = stop.signum if isinstance(stop, Interrupted) else int(signal.SIGINT)
    names = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}
    hint = stop.hint if isinstance(stop, Interrupted) else None
    message = f"interrupted by {names.get(number, f'signal {number}')}"
    if app.flags.json:
        app.out.document({"error": {"code": "interrupted", "message": message, "hint": hint}})
    else:
        app.out.story(f"berth: {message}" + (f"\nhint: {hint}" if hint else ""))
    return 128 + number


def _unforeseen(error: Exception, flags: Flags) -> BerthError:
    """A failure that no code foresaw: the operating system's, or a bug of berth's."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return BerthError(f"{where}{error.strerror or error}", code="io_error", hint="check disk space and permissions")
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    message = f"unforeseen {type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
    if flags.verbose:
        sys.stderr.write("".join(traceback.format_exception(error)))
    return BerthError(message, code="internal", hint="report this with the output of the same command with -v")
