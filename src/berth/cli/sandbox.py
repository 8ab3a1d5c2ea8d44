"""The commands on sandboxes: parse, call one verb of ``ops.sandboxes``, render what it returned."""

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
    from berth.ops.sandboxes.resolve import Resolved
    from berth.ops.sandboxes.starting import Settings


def execute(app: App, name: str, words: Sequence[str]) -> int:
    """Parse ``words`` with the parser of command ``name`` and run it; returns the exit status."""
    return perform(app, name, COMMANDS[name], words, summary=LINES[name][1])


def parser_of(app: App, name: str) -> Parser:
    """The parser of one command, for completion and manual."""
    return made(app, name, COMMANDS[name], summary=LINES[name][1])


# -- arguments ------------------------------------------------------------------------------------------------------


def _shared(parser: Parser) -> None:
    parser.add_argument("--apps", metavar="DIRS", help="comma-separated app directories")
    parser.add_argument(
        "--engine", choices=("docker", "podman"), help="docker or podman; default: BERTH_ENGINE, else what answers"
    )
    parser.add_argument("--image", metavar="REF", help="base image; default: BERTH_SANDBOX_IMAGE, berth-sandbox:local")
    parser.add_argument("--allow-unenforced", action="store_true", help="start with what the kernel can apply")
    parser.add_argument("--env-file", metavar="FILE", help="NAME=value lines: values of secrets")
    parser.add_argument("--print-policy", action="store_true", help="print the boot document and start nothing")
    parser.add_argument("--timeout", type=_seconds, default=60.0, metavar="S", help="start-up deadline (default 60)")


def _dev(parser: Parser) -> None:
    parser.add_argument("--name", help="name of the sandbox; default: the primary's")
    parser.add_argument("--fresh", action="store_true", help="delete the state volumes and the dev workspace first")
    parser.add_argument("--no-watch", action="store_true", help="do not restart when sources change")
    _shared(parser)


def _os(parser: Parser) -> None:
    parser.add_argument("verb", choices=("up", "down", "status", "ls"), help="what to do")
    parser.add_argument("name", nargs="?", help="name of the sandbox")
    parser.add_argument("--keep-volumes", action="store_true", help="down: keep volumes and record")
    _shared(parser)


def _rpc(parser: Parser) -> None:
    parser.add_argument("app", help="the app to call")
    parser.add_argument("--export", required=True, help="the export to call")
    parser.add_argument("--input", default="{}", metavar="JSON", help="a JSON object (default {})")
    parser.add_argument("--container", help="the container; default: berth-dev-<app>")
    parser.add_argument("--timeout", type=_seconds, default=30.0, metavar="S", help="of the call (default 30)")
    parser.add_argument("--wait", type=_seconds, default=0.0, metavar="S", help="retry an unreachable socket so long")


def _app(parser: Parser) -> None:
    parser.add_argument("verb", choices=("init",), help="init: create an app")
    parser.add_argument("name", help="name of the app")
    parser.add_argument("--dir", default=".", metavar="D", help="where; default: the current directory")


def _seconds(word: str) -> float:
    value = float(word)
    if not 0 <= value < 1e9:
        raise ValueError(word)
    return value


# -- commands -------------------------------------------------------------------------------------------------------


def dev(app: App, args: argparse.Namespace) -> int:
    import os

    from berth.ops.sandboxes import resolve
    from berth.ops.sandboxes.dev import Dev
    from berth.ops.sandboxes.resident import require_name

    cwd = os.getcwd()
    settings = _settings(app, args)
    if args.name:
        require_name(args.name)
    resolved = resolve.for_dev(cwd, args.apps)
    _tell_warnings(app, resolved)
    if args.print_policy:
        return _print_policy(app, resolved, args, kind="dev", container=f"berth-dev-{args.name or resolved.names[0]}")
    if len(resolved.names) > 1:
        app.out.note(f"companions: {', '.join(resolved.names[1:])}")
    running = Dev(
        app.context,
        resolved,
        name=args.name,
        settings=settings,
        resolve=lambda: resolve.for_dev(cwd, args.apps),
        sink=app.out.raw,
    )
    return running.run(fresh=args.fresh, watch=not args.no_watch)


def os_(app: App, args: argparse.Namespace) -> int:
    return {"up": _up, "down": _down, "status": _status, "ls": _status}[args.verb](app, args)


def _up(app: App, args: argparse.Namespace) -> int:
    import os

    from berth.ops.sandboxes import resident, resolve

    settings = _settings(app, args)
    if args.name:
        resident.require_name(args.name)
    resolved = resolve.for_os(os.getcwd(), args.apps)
    _tell_warnings(app, resolved)
    name = resident.require_name(args.name or resolved.names[0])
    if args.print_policy:
        return _print_policy(app, resolved, args, kind="os", container=f"berth-os-{name}")
    with app.progress():
        result = resident.up(app.context, resolved, name=name, settings=settings)
    if app.out.json:
        app.out.document({"sandboxes": resident.status(app.context, name)})
        return 0
    row = result.row
    app.out.text(f"{'already up' if result.was_running else 'up'} {row.name} ({row.container})")
    app.out.note(f"call it: berth rpc {row.app_names[0]} --container={row.container} --export=<name> --input='{{…}}'")
    app.out.note(f"tear it down: berth os down {row.name}")
    return 0


def _down(app: App, args: argparse.Namespace) -> int:
    from berth.ops.sandboxes import resident

    if not args.name:
        raise BerthError("os down needs a name", code="usage", hint="berth os status")
    with app.progress():
        row = resident.down(app.context, args.name, keep_volumes=args.keep_volumes)
    if app.out.json:
        app.out.document({"name": row.name, "container": row.container, "volumes_kept": args.keep_volumes})
    else:
        app.out.text(f"down {row.name}")
    return 0


def _status(app: App, args: argparse.Namespace) -> int:
    from berth.ops.sandboxes import resident

    found = resident.status(app.context, args.name)
    if app.out.json:
        app.out.document({"sandboxes": found})
        return 0
    for one in found:
        app.out.text("  ".join((one["name"], one["state"], one["container"], resident.apps_line(one["apps"]))))
        if args.name:
            app.out.text("\n".join(_app_line(entry) for entry in one["apps"]))
    return 0


def _app_line(entry: dict[str, Any]) -> str:
    code = f"  exit {entry['exit_code']}" if entry["exit_code"] is not None else ""
    missing = f"  missing {', '.join(entry['missing'])}" if entry["missing"] else ""
    pid = entry["pid"] if entry["pid"] is not None else "-"
    return f"  {entry['name']}  uid {entry['uid']}  pid {pid}  {entry['state']}{code}  {entry['enforcement']}{missing}"


def rpc(app: App, args: argparse.Namespace) -> int:
    import json

    from berth.ops.sandboxes import calls

    try:
        value = json.loads(args.input, parse_constant=_refuse_constant)
    except ValueError as error:
        raise BerthError(f"--input is not JSON: {error}", code="usage") from error
    if not isinstance(value, dict):
        raise BerthError("--input must be a JSON object", code="usage", hint='--input=\'{"path": "README.md"}\'')
    result = calls.call(
        app.context,
        args.app,
        args.export,
        value,
        container=args.container,
        seconds=args.timeout,
        wait_seconds=args.wait,
    )
    app.out.document(result)
    return 0


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def app_(app: App, args: argparse.Namespace) -> int:
    from berth.ops.sandboxes import app_init

    path = app_init.init(args.name, directory=args.dir)
    if app.out.json:
        app.out.document({"path": path})
    else:
        app.out.text(path)
    return 0


# -- shared ---------------------------------------------------------------------------------------------------------


def _settings(app: App, args: argparse.Namespace) -> Settings:
    """The shared flags; raises usage for an image reference that an engine would misread."""
    from berth.ops.sandboxes.engines import base_image
    from berth.ops.sandboxes.starting import Settings

    base_image(args.image, environ=app.environ)
    return Settings(
        engine=args.engine,
        image=args.image,
        allow_unenforced=_unenforced(app, args),
        env_file=args.env_file,
        timeout_seconds=args.timeout,
    )


def _unenforced(app: App, args: argparse.Namespace) -> bool:
    return bool(args.allow_unenforced) or app.environ.get("BERTH_ALLOW_UNENFORCED") == "1"


def _print_policy(app: App, resolved: Resolved, args: argparse.Namespace, *, kind: str, container: str) -> int:
    from berth.ops.sandboxes import starting

    made = starting.document(resolved, container=container, kind=kind, allow_unenforced=_unenforced(app, args))
    app.out.document(made.as_dict())
    return 0


def _tell_warnings(app: App, resolved: Resolved) -> None:
    for issue in resolved.warnings:
        app.out.story(issue.text("warning: "))


COMMANDS: dict[str, Command] = {
    "dev": Command(
        _dev, dev, example="cd apps/filesystem && berth dev --apps=apps/code-editor"
    ),
    "os": Command(
        _os, os_, example="berth os up shop --apps=apps/filesystem,apps/notes\nberth os status shop\nberth os down shop"
    ),
    "rpc": Command(
        _rpc,
        rpc,
        example="berth rpc code-editor --container=berth-dev-filesystem --export=open_file --input='{\"path\":\"a\"}'",
    ),
    "app": Command(_app, app_, example="berth app init notes --dir apps"),
}  # fmt: skip
