"""The commands for agents and for the first hour: ``init``, ``skill``, ``hook``, ``agents``. Parse, call, render."""

from __future__ import annotations

from berth.cli.index import COMMANDS as LINES
from berth.cli.parser import Command, Parser, made, perform
from berth.errors import BerthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from berth.cli.app import App
    from berth.ops.agents.skill import Installed

STDIN = 0


def execute(app: App, name: str, words: Sequence[str]) -> int:
    """Run ``berth <name> <words>``; ``skill`` and ``hook`` take the action as their next word."""
    if name in ACTIONS:
        name, words = _with_action(app, name, words)
    if name in ACTIONS:
        app.out.text(_help_of_actions(name))
        return 0
    summary, command = COMMANDS[name]
    return perform(app, name, command, words, summary=summary)


def parser_of(app: App, name: str) -> Parser:
    """The parser of one command, for completion and manual; for ``skill`` and ``hook`` with the options of install."""
    if name not in ACTIONS:
        return made(app, name, COMMANDS[name][1], summary=COMMANDS[name][0])
    example = "\n".join(COMMANDS[f"{name} {action}"][1].example for action in ACTIONS[name])

    def configure(parser: Parser) -> None:
        parser.add_argument("action", choices=ACTIONS[name], help="what to do")
        COMMANDS[f"{name} install"][1].configure(parser)

    return made(app, name, Command(configure, skill_install, example=example), summary=LINES[name][1])


def _with_action(app: App, name: str, words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The full name of the command and the words behind it; ``name`` alone when help was asked for."""
    rest = list(words)
    while rest and app.flags.take(rest[0]):
        del rest[0]
    if rest and rest[0] in ("-h", "--help"):
        return name, ()
    if not rest or rest[0] not in ACTIONS[name]:
        for word in rest:
            app.flags.take(word)  # --json counts behind the mistake too
        wrong = f"berth {name} has no action {rest[0]}" if rest else f"berth {name} needs an action"
        raise BerthError(wrong, code="usage", hint=f"one of {', '.join(ACTIONS[name])}; berth {name} -h")
    return f"{name} {rest[0]}", rest[1:]


def _help_of_actions(name: str) -> str:
    lines = [f"usage: berth {name} {'|'.join(ACTIONS[name])} …", "", f"{LINES[name][1].capitalize()}.", ""]
    lines += [f"  berth {name} {action:<10}{COMMANDS[f'{name} {action}'][0]}" for action in ACTIONS[name]]
    return "\n".join(lines)


# -- arguments ------------------------------------------------------------------------------------------------------


def _init(parser: Parser) -> None:
    parser.add_argument("--force", action="store_true", help="replace an existing berth.yaml")


def _targets(parser: Parser) -> None:
    parser.add_argument(
        "--agent", action="append", default=[], metavar="A[,B]", help="names from `berth agents`; may be repeated"
    )
    parser.add_argument("--all", action="store_true", help="every agent; for hooks every one that is not opt-in")
    parser.add_argument(
        "--scope",
        choices=("project", "user"),
        default="project",
        help="the repository (default) or the home directory",
    )


def _hook_targets(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", help="one agent with a hook, or all")
    _targets(parser)


def _harness(parser: Parser) -> None:
    parser.add_argument("harness", choices=("claude",), help="the harness that calls")
    parser.add_argument("--no-wait", action="store_true", help="fail at once when another command holds the workspace")


def _nothing(_parser: Parser) -> None:
    """No arguments beyond the shared flags."""


# -- commands -------------------------------------------------------------------------------------------------------


def init(app: App, args: argparse.Namespace) -> int:
    from berth.ops import init as looking

    made = looking.init(app.context, force=args.force)
    for advice in made.advice:
        app.out.note(advice)
    if app.out.json:
        app.out.document({"file": "berth.yaml", "ok": True, "skill": made.skill})
    else:
        app.out.text(f"{made.file}\n{made.skill}")
    return 0


def skill_install(app: App, args: argparse.Namespace) -> int:
    from berth.ops.agents import skill
    from berth.ops.agents.harnesses import split_names

    names = split_names(args.agent)
    return _show_installed(app, skill.install(app.context, names, every=args.all, in_home=args.scope == "user"))


def hook_install(app: App, args: argparse.Namespace) -> int:
    from berth.ops.agents import hook
    from berth.ops.agents.harnesses import split_names, with_hook

    names = split_names(args.agent)
    every = args.all or args.name == "all"
    if args.name is not None and args.name != "all":
        names.insert(0, args.name)
    if args.scope == "user":
        with_hook(names, every=every)  # a wrong name is an error here too
        app.out.note(hook.USER_SCOPE)
        return _show_installed(app, [])
    return _show_installed(app, hook.install(app.context, names, every=every))


def hook_run(app: App, args: argparse.Namespace) -> int:
    """The worktree, then ``adopt --setup``: two verbs composed here and nowhere else. Adoption may fail, not block."""
    from berth.ops import create
    from berth.ops.agents import claude

    request = claude.read_request(STDIN)
    workspace: dict[str, Any] | None = None
    with app.progress():
        path = claude.make_worktree(app.context, request)
        try:
            workspace = create.adopt(app.context, path, setup=True).document()
        except (BerthError, OSError) as error:
            _diagnose(app, path, error)
    if app.out.json:
        app.out.document({"path": path, "workspace": workspace})
    else:
        app.out.text(path)
    return 0


def _diagnose(app: App, path: str, error: BerthError | OSError) -> None:
    """Say on stderr what went wrong; the harness gets its directory all the same."""
    message = error.message if isinstance(error, BerthError) else str(error)
    hint = error.hint if isinstance(error, BerthError) else None
    app.out.story(f"berth: {message}" + (f"\nhint: {hint}" if hint else ""))
    app.out.story(f"berth: {path} is there, but it is no ready workspace; `berth adopt --setup` in it tries again")


def agents(app: App, args: argparse.Namespace) -> int:
    from berth.ops.agents.listing import agents as listed

    listing = listed(app.context)
    if app.out.json:
        app.out.document(listing.document())
        return 0
    app.out.text(f"repo\t{listing.repo}\nhome\t{listing.home}")
    header = ("NAME", "SHARED", "PROJECT", "USER", "HOOK", "INSTALLED", "NOTE")
    app.out.table(header, [row.cells() for row in listing.rows])
    return 0


def _show_installed(app: App, installed: Sequence[Installed]) -> int:
    if app.out.json:
        app.out.document({"installed": [entry._asdict() for entry in installed]})
        return 0
    for entry in installed:
        state = "installed" if entry.changed else "already installed"
        app.out.text("\t".join((entry.scope, entry.agent, entry.path, state)))
    return 0


ACTIONS = {"skill": ("install",), "hook": ("install", "run")}

# full name -> one line, command
COMMANDS: dict[str, tuple[str, Command]] = {
    "init": (LINES["init"][1], Command(_init, init, example="berth init && git add -A && git commit -m berth")),
    "skill install": (
        "put the skill where coding agents look for it",
        Command(_targets, skill_install, example="berth skill install --all\nberth skill install --agent claude,cline"),
    ),
    "hook install": (
        "let worktrees that an agent's harness makes become workspaces",
        Command(_hook_targets, hook_install, example="berth hook install\nberth hook install claude"),
    ),
    "hook run": (
        "what an installed hook calls; not for typing",
        Command(_harness, hook_run, example="""echo '{"name": "x", "cwd": "'"$PWD"'"}' | berth hook run claude"""),
    ),
    "agents": (LINES["agents"][1], Command(_nothing, agents, example="berth agents\nberth agents --json")),
}
