"""argparse with berth's manners: a usage error is a BerthError, help goes through ``cli.output``, nothing exits."""

from __future__ import annotations

import argparse

from berth.cli.output import terminal_width
from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from berth.cli.app import App, Flags


_LITERAL = "\0"  # before a word that follows ``--``: the parser for interleaved words would take -x for an option


class HelpAsked(Exception):
    """``-h`` was given; ``text`` is the help."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. Its base would import ``shutil`` to ask, a third of an interpreter start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=max(40, terminal_width() - 2))


class Parser(argparse.ArgumentParser):
    """One command's parser. Flags and positionals may be interleaved; abbreviations are not accepted."""

    def __init__(self, name: str, *, summary: str, example: str, flags: Flags) -> None:
        super().__init__(
            prog=f"berth {name}",
            usage=None,
            description=f"{summary[0].upper()}{summary[1:]}.\n\nexample:\n"
            + "\n".join(f"  {line}" for line in example.splitlines()),
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._flags = flags
        self.add_argument("-h", "--help", action=_Help, help="show this help")
        shared = self.add_argument_group("flags of every command")
        for names, text in (
            (("--json",), "exactly one JSON document on stdout"),
            (("-q", "--quiet"), "no progress and no notes"),
            (("-v", "--verbose"), "show the commands that are run"),
            (("--no-color",), "no colour"),
        ):
            shared.add_argument(*names, action=_SharedFlag, help=text)

    def error(self, message: str) -> NoReturn:
        raise BerthError(message, code="usage", hint=f"{self.prog} -h")

    def words(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse. Raises BerthError (usage) and HelpAsked. What follows ``--`` is never an option."""
        options, rest = list(argv), []
        if "--" in options:
            at = options.index("--")
            options, rest = options[:at], [_LITERAL + word for word in options[at + 1 :]]
        found = self.parse_intermixed_args([*options, *rest])
        for name, value in vars(found).items():
            if isinstance(value, str):
                setattr(found, name, value.removeprefix(_LITERAL))
        return found

    def note_flag(self, word: str) -> None:
        """One of the shared flags was given behind the command's name."""
        self._flags.take(word)


class Command:
    """How one command is parsed and executed: two functions, and an example for its help."""

    __slots__ = ("configure", "example", "execute")

    def __init__(
        self,
        configure: Callable[[Parser], None],
        execute: Callable[[App, argparse.Namespace], int],
        *,
        example: str,
    ) -> None:
        self.configure = configure
        self.execute = execute
        self.example = example


def perform(app: App, name: str, command: Command, words: Sequence[str], *, summary: str) -> int:
    """Parse ``words`` for the command called ``name`` and run it; returns the exit status."""
    try:
        arguments = made(app, name, command, summary=summary).words(words)
    except HelpAsked as help_text:
        app.out.text(help_text.text)
        return 0
    app.apply_flags()
    if getattr(arguments, "schema", False):
        from berth.spec.schemas import schema

        app.out.document(schema(name))
        return 0
    app.context.no_wait = getattr(arguments, "no_wait", False)
    return command.execute(app, arguments)


def made(app: App, name: str, command: Command, *, summary: str) -> Parser:
    """The parser of one command, with the flags that every command has."""
    parser = Parser(name, summary=summary, example=command.example, flags=app.flags)
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of this command's output")
    command.configure(parser)
    return parser


class _Help(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=kwargs.get("help"))

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        raise HelpAsked(parser.format_help())


class _SharedFlag(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=kwargs.get("help"))

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        assert isinstance(parser, Parser)
        parser.note_flag(option or "")
