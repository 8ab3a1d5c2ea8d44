"""``berth run``: its own small parser, because option parsing ends at the first word of the command.

HOT: every import here is paid on each ``berth run`` (performance.md W1).
"""

from __future__ import annotations

from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.cli.app import App
    from berth.cli.parser import Parser

EXAMPLE = """berth run npm test
berth run -w feature-a -- pytest -x
berth run -- sh -c 'echo "$BERTH_PORT_WEB"'"""

HELP = f"""usage: berth run [-w ws] [--no-wait] [--] command [argument …]

Run a command inside the workspace, with its environment, in its root directory.

example:
{chr(10).join("  " + line for line in EXAMPLE.splitlines())}

options:
  -w, --workspace ws  slug, repo/slug or path; default: the one you are in
  --no-wait           fail at once when another command holds the workspace
  -h, --help          show this help

flags of every command:
  --json              the command's stdout goes to stderr; afterwards one JSON document
  -q, --quiet         no progress and no notes
  -v, --verbose       show the commands that are run
  --no-color          no colour

The exit code is the command's own; 128+n when signal n ended it; 127 not found; 126 not executable."""


def parser_of(app: App, name: str) -> Parser:
    """A parser that says what ``parse`` takes, for completion and manual."""
    from berth.cli.index import COMMANDS
    from berth.cli.parser import Command, made

    def configure(parser: Parser) -> None:
        parser.add_argument(
            "-w", "--workspace", metavar="ws", help="slug, repo/slug or path; default: the one you are in"
        )
        parser.add_argument(
            "--no-wait", action="store_true", help="fail at once when another command holds the workspace"
        )
        parser.add_argument("command", nargs="...", help="the command and its arguments, passed on as they are")

    return made(app, name, Command(configure, lambda _app, _words: 0, example=EXAMPLE), summary=COMMANDS[name][1])


class Words:
    """The command line of ``run``: ``workspace`` or None, ``argv``, ``help`` and ``schema`` asked for."""

    __slots__ = ("argv", "help", "no_wait", "schema", "workspace")

    def __init__(self) -> None:
        self.workspace: str | None = None
        self.argv: list[str] = []
        self.no_wait = False
        self.help = False
        self.schema = False


def execute(app: App, _name: str, words: Sequence[str]) -> int:
    """Parse and run; returns the command's exit code."""
    asked = parse(app, words)
    app.apply_flags()
    if asked.help:
        app.out.text(HELP)
        return 0
    if asked.schema:
        from berth.spec.schemas import schema

        app.out.document(schema("run"))
        return 0
    if not asked.argv:
        raise BerthError("no command to run", code="usage", hint="berth run -h")
    from berth.ops.run import run

    app.context.no_wait = asked.no_wait
    ended = run(app.context, asked.argv, asked.workspace, stdout_to_stderr=app.flags.json)
    if app.flags.json:
        app.out.document(ended.document())
    return ended.exit_status


def parse(app: App, words: Sequence[str]) -> Words:
    """Read options up to ``--`` or the first word that is none. Raises BerthError usage."""
    asked = Words()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            rest.insert(0, word)
            break
        if word in ("-w", "--workspace"):
            if not rest:
                raise BerthError(f"{word} needs a workspace", code="usage", hint="berth run -h")
            asked.workspace = rest.pop(0)
        elif word.startswith("--workspace="):
            asked.workspace = word.partition("=")[2]
        elif word == "--no-wait":
            asked.no_wait = True
        elif word in ("-h", "--help"):
            asked.help = True
        elif word == "--schema":
            asked.schema = True
        elif not app.flags.take(word):
            raise BerthError(f"unknown option {word}", code="usage", hint="berth run -h")
    asked.argv = rest
    return asked
