"""The manual, made from what the program itself goes by: pages of ``docs/reference`` and the man page ``berth.1``.

``python -m berth.cli.manual`` in a source tree writes them; a test compares them with what this makes.
"""

from __future__ import annotations

import os
import re

from berth.cli.app import App, Flags
from berth.cli.index import COMMANDS, GROUPS
from berth.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SHARED = (
    ("--json", "exactly one JSON document on stdout, also on failure"),
    ("-q, --quiet", "no progress and no notes; warnings and errors stay"),
    ("-v, --verbose", "show the git, engine and supervisor commands that are run"),
    ("--no-color", "no colour"),
    ("--schema", "print the JSON Schema of the command's output"),
    ("-h, --help", "show help"),
)
EXIT_CODES = (
    ("0", "success"),
    ("1", "the operation failed"),
    ("2", "usage error"),
    ("3", "refused, in order to protect work or identity; nothing was changed"),
    ("4", "workspace, process or port not found, or ambiguous"),
    ("5", "runtime state unknown, or a container engine, image or process-compose is not available"),
    ("129, 130, 143", "ended by SIGHUP, SIGINT, SIGTERM"),
    ("141", "stdout was closed by its reader; the action itself was completed"),
    ("other", "of `berth run`: the command's own; 126 not executable, 127 not found, 128+n after signal n"),
)
VARIABLES = (
    ("BERTH_HOME", "berth's directory (default ~/.berth)"),
    ("BERTH_PORT_RANGE", "ports to choose from, as a-b (default 20000-39999)"),
    ("BERTH_PROCESS_COMPOSE", "path of process-compose, for runtime.supervisor: process-compose"),
    ("NO_COLOR, CLICOLOR_FORCE, TERM", "whether to colour"),
)

FIELDS_BEGIN, FIELDS_END = "<!-- fields: python -m berth.cli.manual -->\n", "<!-- end of fields -->"


class Page:
    """One command as the manual shows it."""

    def __init__(self, name: str, summary: str, parser: Parser) -> None:
        self.name = name
        self.summary = summary
        self.example = (parser.description or "").partition("example:\n")[2]
        own = [action for action in parser._actions if not _is_shared(action)]
        self.usage = " ".join([f"berth {name}", *map(_usage, own)])
        self.arguments = [(_label(action), action.help or "") for action in own]


def pages(app: App) -> Iterator[tuple[str, list[Page]]]:
    """The groups of the overview, each with its commands."""
    for title, names in GROUPS:
        yield title, [page for name in names for page in _pages_of(app, name)]


def _pages_of(app: App, name: str) -> Iterator[Page]:
    from berth.cli import agents

    if name in agents.ACTIONS:
        from berth.cli.parser import made

        for action in agents.ACTIONS[name]:
            full = f"{name} {action}"
            summary, command = agents.COMMANDS[full]
            yield Page(full, summary, made(app, full, command, summary=summary))
        return
    family, summary = COMMANDS[name]
    module = __import__(f"berth.cli.{family}", fromlist=["parser_of"])
    yield Page(name, summary, module.parser_of(app, name))


def _is_shared(action: argparse.Action) -> bool:
    return any(option in ("-h", "--json", "-q", "-v", "--no-color", "--schema") for option in action.option_strings)


def _word(action: argparse.Action) -> str:
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.metavar if isinstance(action.metavar, str) else action.dest


def _usage(action: argparse.Action) -> str:
    if not action.option_strings:
        if action.nargs == "...":
            return f"[--] {_word(action)} …"
        return f"[{_word(action)}]" if action.nargs == "?" else f"<{_word(action)}>"
    value = "" if action.nargs == 0 else f" {_word(action)}"
    return f"[{action.option_strings[0]}{value}]"


def _label(action: argparse.Action) -> str:
    if not action.option_strings:
        return _word(action)
    value = "" if action.nargs == 0 else f" {_word(action)}"
    return ", ".join(action.option_strings) + value


def markdown(app: App) -> str:
    """``docs/reference/commands.md``."""
    lines = [
        "# Commands",
        "",
        "Made from the program's own parsers; `berth <command> -h` shows the same. Without a command berth does",
        "`berth ls`. Options and arguments may be mixed in any order, except behind `berth run`, whose options end at",
        "`--` or at the first word of the command. `ws` is a slug, `repo/slug`, a path, or nothing for the workspace",
        "around the current directory.",
    ]
    for title, commands in pages(app):
        lines += ["", f"## {title}"]
        for page in commands:
            lines += ["", f"### berth {page.name}", "", f"{page.summary[0].upper()}{page.summary[1:]}.", ""]
            lines += ["```text", page.usage, "```"]
            if page.arguments:
                lines += ["", *(f"- `{label}`: {text}" for label, text in page.arguments)]
            if page.example:
                lines += ["", "For example:", "", "```text", *re.sub("(?m)^  ", "", page.example).splitlines(), "```"]
    lines += ["", "## Flags of every command", "", *(f"- `{label}`: {text}" for label, text in SHARED)]
    lines += ["", "## Exit codes", "", *(f"- **{code}**: {text}" for code, text in EXIT_CODES)]
    return "\n".join(lines) + "\n"


def process_keys() -> str:
    """``docs/reference/process-keys.md``: every key of a process, from the table that the parser checks by."""
    from berth.spec.keys import table

    lines = [
        "# Keys of a process",
        "",
        "Made from the table that berth checks definitions by. *works*: means what it means in process-compose",
        "v1.122.0; *accepted, no effect*: it is so already, or only shown; *refused*: an error when the file is read,",
        "with what to write instead. `runtime.supervisor: process-compose` passes definitions on to that program.",
        "",
        "| key | berth's supervisor | value | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{key}` | {standing} | {kind} | {_cell(meaning)} |" for key, standing, kind, meaning in table()]
    return "\n".join(lines) + "\n"


def with_fields(page: str) -> str:
    """``docs/reference/berth-yaml.md`` with its table of fields made from the one that the schema is made from."""
    from berth.spec.fields import field_rows

    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {_cell(kind)} | {_cell(default)} | {_cell(text)} |" for name, kind, default, text in field_rows()
    ]
    before, begin, rest = page.partition(FIELDS_BEGIN)
    _, end, after = rest.partition(FIELDS_END)
    return "".join((before, begin, "\n", "\n".join(rows), "\n", end, after))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def man(app: App) -> str:
    """The man page, in troff's man macros (man(7))."""
    import berth

    lines = [
        f'.TH BERTH 1 "" "berth {berth.__version__}" "User Commands"',
        ".SH NAME",
        "berth \\- a workspace of its own for every task: worktree, data, ports, processes",
        ".SH SYNOPSIS",
        ".B berth",
        "[\\-\\-json] [\\-q] [\\-v] [\\-\\-no\\-color] <command> \\[u2026]",
        ".SH DESCRIPTION",
        "A workspace is a Git worktree on its own branch with a private data directory, reserved ports and supervised",
        "processes. Several exist side by side without sharing anything. Without a command berth lists them.",
        ".SH COMMANDS",
    ]
    for title, commands in pages(app):
        lines.append(f".SS {_troff(title)}")
        for page in commands:
            lines += [".TP", f".B {_troff(page.usage)}", _troff(f"{page.summary[0].upper()}{page.summary[1:]}.")]
            for label, text in page.arguments:
                lines += [".RS", ".TP", f".B {_troff(label)}", _troff(text), ".RE"]
    for title, entries in (
        ("FLAGS OF EVERY COMMAND", SHARED),
        ("EXIT STATUS", EXIT_CODES),
        ("ENVIRONMENT", VARIABLES),
        ("FILES", (("berth.yaml", "what a workspace needs; at the root of the repository, committed"),)),
    ):
        lines.append(f".SH {title}")
        for label, text in entries:
            lines += [".TP", f".B {_troff(label)}", _troff(text)]
    lines += [".SH SEE ALSO", ".BR git\\-worktree (1)"]
    return "\n".join(lines) + "\n"


def _troff(text: str) -> str:
    """``text`` as troff takes it literally."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "\\[u2026]").replace("`", "")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def write(root: str) -> None:
    """Write the files below ``root``, the source tree."""
    app = App(Flags(), {})
    configuration = "docs/reference/berth-yaml.md"
    with open(os.path.join(root, configuration), encoding="utf-8") as file:
        page = file.read()
    for name, text in (
        (configuration, with_fields(page)),
        ("docs/reference/commands.md", markdown(app)),
        ("docs/reference/process-keys.md", process_keys()),
        ("docs/man/berth.1", man(app)),
    ):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    write(os.getcwd())
