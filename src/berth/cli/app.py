"""Composition root: the flags all commands share, and the collaborators made from environment and flags."""

from __future__ import annotations

from berth.cli.output import Output
from berth.ops.setup.context import Context, home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.cli.progress import Progress


class Flags:
    """The flags that every command accepts, before or after its name (workspaces.md 2.1)."""

    __slots__ = ("color", "json", "quiet", "verbose")

    def __init__(self) -> None:
        self.json = False
        self.quiet = False
        self.verbose = False
        self.color = True

    def take(self, word: str) -> bool:
        """Note ``word`` if it is one of these flags, and say whether it is."""
        if word == "--json":
            self.json = True
        elif word == "--no-color":
            self.color = False
        elif word in ("-q", "--quiet"):
            self.quiet = True
        elif word in ("-v", "--verbose"):
            self.verbose = True
        else:
            return False
        return True


class App:
    """What a command works with: ``out`` to print, ``context`` to act."""

    __slots__ = ("context", "environ", "flags", "out")

    def __init__(self, flags: Flags, environ: Mapping[str, str]) -> None:
        self.flags = flags
        self.environ = environ
        self.out = Output(environ)
        self.context = Context(home=home_directory(environ), environ=environ, say=self.out)
        self.apply_flags()

    def apply_flags(self) -> None:
        """Make the flags count; called again once the words behind the command's name are read."""
        flags = self.flags
        self.out.configure(json=flags.json, quiet=flags.quiet, color=flags.color, verbose=flags.verbose)
        if self.flags.verbose:
            self._narrate_commands()

    def progress(self) -> Progress:
        """The context in which long steps are shown."""
        from berth.cli.progress import Progress

        return Progress(self.out)

    def _narrate_commands(self) -> None:
        from berth.tools import proc

        proc.observer = lambda argv: self.out.story("+ " + shown(argv))


def shown(argv: Sequence[str]) -> str:
    """A command line that can be pasted, with the values of variables hidden."""
    import shlex

    words = []
    hide = False
    for word in argv:
        name, equals, _ = word.partition("=")
        words.append(f"{name}=…" if hide and equals else shlex.quote(word))
        hide = word in ("--env", "-e")
    return " ".join(words)
