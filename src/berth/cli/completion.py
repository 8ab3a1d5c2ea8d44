"""Completion scripts, made from the same parsers that parse, and the names they complete while one types."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from berth.cli.app import App

# destination of an argument -> what completes it
LIVE = {"workspace": "workspaces", "process": "processes", "port": "ports"}


def script(app: App, shell: str) -> str:
    """The completion script for ``bash``, ``zsh`` or ``fish``: commands, flags, live slugs, process and port names."""
    import argparse

    import shtab

    from berth.cli.index import COMMANDS

    whole = argparse.ArgumentParser(prog="berth", description="a workspace of its own for every task", add_help=False)
    commands = whole.add_subparsers()
    for name, (family, line) in COMMANDS.items():
        one = commands.add_parser(name, help=line, add_help=False)
        _copy(_parser(app, family, name), one)
    return str(shtab.complete(whole, shell=shell))


def _parser(app: App, family: str, name: str) -> argparse.ArgumentParser:
    module = __import__(f"berth.cli.{family}", fromlist=["parser_of"])
    parser: argparse.ArgumentParser = module.parser_of(app, name)
    return parser


def _copy(source: argparse.ArgumentParser, target: argparse.ArgumentParser) -> None:
    """Give ``target`` the arguments of ``source``, with live completion where there is some."""
    import shtab

    for action in source._actions:
        if action.dest in LIVE:
            action.complete = shtab.cmd(f"berth __complete {LIVE[action.dest]}")  # type: ignore[attr-defined]  # shtab's way
        target._add_action(action)


def names(app: App, kind: str = "workspaces") -> list[str]:
    """What the script asks for while one types: ``workspaces``, or ``processes`` and ``ports`` of the one around."""
    from berth.errors import BerthError

    registry = app.context.registry
    if kind == "workspaces":
        return sorted({row.slug for row in registry.all()})
    cwd = app.context.cwd
    row = registry.containing(cwd) if cwd is not None else None
    rows = [row] if row is not None else registry.all()
    if kind == "ports":
        return sorted({name for row in rows for name in row.ports})
    if kind == "processes":
        from berth.tools import plans

        known = (plans.load(app.context.home, row.path) for row in rows)
        return sorted({name for plan in known if plan is not None for name in plan.processes})
    raise BerthError(f"nothing completes {kind}", code="usage", hint="berth completion -h")
