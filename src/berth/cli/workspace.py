"""The commands on workspaces: parse, call one verb of ``ops``, render what it returned."""

from __future__ import annotations

from berth.cli.index import COMMANDS as LINES
from berth.cli.parser import Command, Parser, made, perform
from berth.cli.render import block, list_rows, port_lines, status_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from berth.cli.app import App
    from berth.ops.gc import Collected
    from berth.ops.sandboxes.diagnosis import Diagnosis
    from berth.ops.setup.describe import View


def execute(app: App, name: str, words: Sequence[str]) -> int:
    """Parse ``words`` with the parser of command ``name`` and run it; returns the exit status."""
    return perform(app, name, COMMANDS[name], words, summary=LINES[name][1])


def parser_of(app: App, name: str) -> Parser:
    """The parser of one command, for completion and manual."""
    return made(app, name, COMMANDS[name], summary=LINES[name][1])


# -- arguments ------------------------------------------------------------------------------------------------------


def _workspace(parser: Parser) -> None:
    parser.add_argument(
        "workspace", nargs="?", metavar="ws", help="slug, repo/slug or path; default: the one you are in"
    )


def _no_wait(parser: Parser) -> None:
    parser.add_argument("--no-wait", action="store_true", help="fail at once when another command holds the workspace")


def _locking(parser: Parser) -> None:
    _workspace(parser)
    _no_wait(parser)


def _one_process(parser: Parser) -> None:
    parser.add_argument("process", help="name of the process")
    _locking(parser)


def _new(parser: Parser) -> None:
    parser.add_argument("slug", help="name of the workspace: a-z 0-9 - _")
    parser.add_argument("--up", action="store_true", help="start its processes too")
    parser.add_argument(
        "--base", metavar="REF", help="branch, tag or commit to start from; default: base of berth.yaml"
    )
    parser.add_argument("--print-path", action="store_true", help="print only the path")
    _no_wait(parser)


def _adopt(parser: Parser) -> None:
    parser.add_argument("path", nargs="?", help="the worktree; default: the current directory")
    parser.add_argument("--setup", action="store_true", help="prepare it: includes, copies, setup hooks")
    _no_wait(parser)


def _wait(parser: Parser) -> None:
    _workspace(parser)
    parser.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="S", help="seconds; 0 checks once (default 60)"
    )


def _logs(parser: Parser) -> None:
    parser.add_argument("process", help="name of the process")
    _workspace(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the supervisor stops")
    parser.add_argument("--tail", type=_count, metavar="N", help="only the last N lines")


def _done(parser: Parser) -> None:
    _locking(parser)
    parser.add_argument("--force", action="store_true", help="discard uncommitted and unmerged work")


def _open(parser: Parser) -> None:
    parser.add_argument("port", nargs="?", help="name of the port; default: web, frontend, ui, http, api or the first")
    parser.add_argument("-w", "--workspace", metavar="ws", help="the workspace")


def _ls(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="sandboxes too")


def _doctor(parser: Parser) -> None:
    parser.add_argument("--fix", action="store_true", help="repair what is certain; destroys nothing")
    parser.add_argument("--sandbox", action="store_true", help="check sandboxes too; so does an app in this directory")


def _gc(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--volumes", action="store_true", help="remove the state volumes of ended sandboxes too")


def _schema(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", help="name of the schema; without it: the list")


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def _nothing(_parser: Parser) -> None:
    """No arguments beyond the shared flags."""


def _seconds(word: str) -> float:
    value = float(word)
    if not 0 <= value < 1e9:
        raise ValueError(word)
    return value


def _count(word: str) -> int:
    value = int(word)
    if value < 0:
        raise ValueError(word)
    return value


# -- commands -------------------------------------------------------------------------------------------------------


def new(app: App, args: argparse.Namespace) -> int:
    """``new`` and, for ``--up``, ``up``: two verbs composed here and nowhere else."""
    from berth.ops import create, supervise

    with app.progress():
        made = create.new(app.context, args.slug, base=args.base, used=args.up)
        view = supervise.up(app.context, made.path) if args.up else made.view
    if args.print_path:
        app.out.text(made.path)
    elif app.out.json:
        app.out.document(view.document())
    else:
        ports = " ".join(f"{name}={port}" for name, port in view.ports.items())
        lines = [f"{made.outcome} {view.slug}", f"path\t{view.path}", f"branch\t{view.branch or '(detached)'}"]
        lines += [f"ports\t{ports}"] if ports else []
        app.out.text("\n".join([*lines, view.path]))
    return 0


def adopt(app: App, args: argparse.Namespace) -> int:
    from berth.ops import create

    with app.progress():
        view = create.adopt(app.context, args.path, setup=args.setup)
    return _show(app, view.document(), lambda: block(view))


def up(app: App, args: argparse.Namespace) -> int:
    from berth.ops import supervise

    with app.progress():
        view = supervise.up(app.context, args.workspace)
    return _show(app, view.document(), lambda: port_lines(view))


def down(app: App, args: argparse.Namespace) -> int:
    from berth.ops import supervise

    with app.progress():
        result = supervise.down(app.context, args.workspace)
    return _show(app, result.document(), lambda: "")


def start(app: App, args: argparse.Namespace) -> int:
    return _steer(app, args, "start")


def stop(app: App, args: argparse.Namespace) -> int:
    return _steer(app, args, "stop")


def restart(app: App, args: argparse.Namespace) -> int:
    return _steer(app, args, "restart")


def _steer(app: App, args: argparse.Namespace, deed: str) -> int:
    from berth.ops import supervise

    with app.progress():
        result = supervise.steer(app.context, deed, args.process, args.workspace)
    return _show(app, result.document(), lambda: "")


def wait(app: App, args: argparse.Namespace) -> int:
    from berth.ops import supervise

    with app.progress():
        view = supervise.wait(app.context, args.workspace, timeout_seconds=args.timeout)
    return _show(app, view.document(), lambda: "")


def logs(app: App, args: argparse.Namespace) -> int:
    from berth.cli.output import document_bytes
    from berth.ops import supervise

    log = supervise.logs(app.context, args.process, args.workspace, tail=args.tail)
    if not args.follow and app.out.json:
        app.out.document({"process": args.process, "lines": list(log.lines())})
        return 0
    for line in log.follow() if args.follow else log.lines():
        app.out.raw(document_bytes({"line": line}, lines=True) if app.out.json else line.encode() + b"\n")
        if app.out.closed:
            break
    return 0


def ls(app: App, args: argparse.Namespace) -> int:
    from berth.ops import inspect

    views = inspect.ls(app.context)
    if args.all:
        return _ls_all(app, views)
    if app.out.json:
        app.out.document({"workspaces": [view.document() for view in views]})
    elif views:
        app.out.table(("SLUG", "BRANCH", "STATUS", "PORTS", "PATH"), list_rows(views))
    else:
        app.out.note("no workspaces yet; berth new <slug> creates one")
    return 0


def _ls_all(app: App, views: Sequence[View]) -> int:
    """Workspaces, then sandboxes: ``kind name state path apps`` (sandboxes.md 4.10)."""
    from berth.ops.sandboxes.listing import listing

    sandboxes = listing(app.context)
    if app.out.json:
        app.out.document({"workspaces": [view.document() for view in views], "sandboxes": sandboxes})
        return 0
    app.out.table(("SLUG", "BRANCH", "STATUS", "PORTS", "PATH"), list_rows(views))
    rows = [(*(one[key] for key in ("kind", "name", "state", "path")), " ".join(one["apps"])) for one in sandboxes]
    app.out.table(("KIND", "NAME", "STATE", "PATH", "APPS"), rows)
    return 0


def status(app: App, args: argparse.Namespace) -> int:
    from berth.ops import inspect

    view = inspect.status(app.context, args.workspace)
    return _show(app, view.document(), lambda: "\n".join([block(view), *status_lines(view)]))


def ports(app: App, args: argparse.Namespace) -> int:
    from berth.ops import inspect

    view = inspect.ports(app.context, args.workspace)
    return _show(app, view.document(), lambda: port_lines(view))


def plan(app: App, args: argparse.Namespace) -> int:
    from berth.ops import inspect

    app.out.text(inspect.plan(app.context, args.workspace))
    return 0


def attach(app: App, args: argparse.Namespace) -> int:
    from berth.cli.render import exports
    from berth.ops import inspect

    view = inspect.attach(app.context, args.workspace)
    return _show(app, view.document(), lambda: exports(view))


def open_port(app: App, args: argparse.Namespace) -> int:
    from berth.ops import inspect

    target = inspect.open_port(app.context, args.port, args.workspace)
    if app.out.json:
        target.launch()
        app.out.document(target.document())
    else:
        app.out.text(target.url)
        target.launch()
    return 0


def reset(app: App, args: argparse.Namespace) -> int:
    from berth.ops import retire

    with app.progress():
        view = retire.reset(app.context, args.workspace)
    return _show(app, view.document(), lambda: "")


def done(app: App, args: argparse.Namespace) -> int:
    from berth.cli.render import done_lines
    from berth.ops import retire

    with app.progress():
        result = retire.done(app.context, args.workspace, force=args.force)
    return _show(app, result.document(), lambda: done_lines(result))


def gc(app: App, args: argparse.Namespace) -> int:
    from berth.cli.render import gc_lines
    from berth.ops import gc as collector

    with app.progress():
        found = collector.gc(app.context, dry_run=args.dry_run)
        _collect_sandboxes(app, found, dry_run=args.dry_run, volumes=args.volumes)
    for warning in found.warnings:
        app.out.warning(warning)
    return _show(app, found.document(), lambda: gc_lines(found))


def _collect_sandboxes(app: App, found: Collected, *, dry_run: bool, volumes: bool) -> None:
    """What dead commands left of their sandboxes joins the list (sandboxes.md 4.10)."""
    from berth.registry_sandboxes import Sandboxes

    if not Sandboxes(app.context.registry).all():
        return
    from berth.ops.sandboxes.collecting import collect

    collected, warnings = collect(app.context, dry_run=dry_run, volumes=volumes)
    for one in collected:
        found.add("sandbox", path=one.name, slug=one.name, reason=one.reason, size=0)
    found.warnings += warnings


def doctor(app: App, args: argparse.Namespace) -> int:
    from berth.errors import BerthError
    from berth.ops import doctor as checks

    with app.progress():
        report = checks.doctor(app.context, fix=args.fix)
        sandbox = _sandbox_part(app, asked=args.sandbox)
    document, lines = report.document(), report.lines()
    failed = [check.name for check in report.checks if not check.ok]
    if sandbox is not None:
        document["checks"] += [check.document() for check in sandbox.checks]
        document["sandbox"] = {"verdict": sandbox.verdict, "reasons": sandbox.reasons}
        lines += ["\t".join((check.name, check.status, check.detail)) for check in sandbox.checks]
        lines.append(f"sandbox\t{sandbox.verdict}\t{'; '.join(sandbox.reasons)}")
        failed += [check.name for check in sandbox.checks if check.status == "fail"]
        failed += [f"sandbox {sandbox.verdict}"] if sandbox.verdict != "active" else []
        document["ok"] = not failed
    _show(app, document, lambda: "\n".join(lines))
    if not failed:
        return 0
    if not app.out.json:
        app.out.error(BerthError(f"failed: {', '.join(failed)}", code="doctor_failed", hint=report.hint))
    return 1


def _sandbox_part(app: App, *, asked: bool) -> Diagnosis | None:
    """The sandbox checks, when they are asked for or the current directory holds an app (sandboxes.md 4.9)."""
    import os

    if not asked and not os.path.lexists("berth.yml"):
        return None
    from berth.ops.sandboxes.diagnosis import diagnose

    return diagnose(app.context)


def schema(app: App, args: argparse.Namespace) -> int:
    from berth.errors import BerthError
    from berth.spec import schemas

    if args.name is None:
        names = schemas.names()
        return _show(app, {"names": names}, lambda: "\n".join(names))
    if args.name not in schemas.names():
        raise BerthError(f"no schema {args.name}", code="usage", hint="berth schema lists them")
    app.out.document(schemas.schema(args.name))
    return 0


def completion(app: App, args: argparse.Namespace) -> int:
    from berth.cli.completion import script

    text = script(app, args.shell)
    return _show(app, {"shell": args.shell, "script": text}, lambda: text)


def version(app: App, args: argparse.Namespace) -> int:
    from berth.cli.build import build_facts

    facts = build_facts()
    line = f"berth {facts['version']} (commit: {facts['commit']}, date: {facts['date']})"
    return _show(app, facts, lambda: line)


def _show(app: App, document: object, text: Callable[[], str]) -> int:
    if app.out.json:
        app.out.document(document)
    else:
        lines = text()
        if lines:
            app.out.text(lines)
    return 0


COMMANDS: dict[str, Command] = {
    "new": Command(_new, new, example="berth new feature-a --up\nberth new fix-7 --base origin/release-2"),
    "adopt": Command(_adopt, adopt, example="cd ../app-spike && berth adopt --setup"),
    "up": Command(_locking, up, example="berth up feature-a"),
    "down": Command(_locking, down, example="berth down feature-a"),
    "start": Command(_one_process, start, example="berth start web feature-a"),
    "stop": Command(_one_process, stop, example="berth stop web feature-a"),
    "restart": Command(_one_process, restart, example="berth restart web feature-a"),
    "wait": Command(_wait, wait, example="berth wait feature-a --timeout 120"),
    "logs": Command(_logs, logs, example="berth logs web feature-a --tail 50\nberth logs web -f"),
    "ls": Command(_ls, ls, example="berth ls\nberth ls --json"),
    "status": Command(_workspace, status, example="berth status feature-a --json"),
    "ports": Command(_workspace, ports, example="berth ports feature-a"),
    "plan": Command(_workspace, plan, example="berth plan feature-a"),
    "attach": Command(_workspace, attach, example='eval "$(berth attach feature-a)"'),
    "open": Command(_open, open_port, example="berth open web -w feature-a"),
    "reset": Command(_locking, reset, example="berth reset feature-a"),
    "done": Command(_done, done, example="berth done feature-a"),
    "gc": Command(_gc, gc, example="berth gc --dry-run"),
    "doctor": Command(_doctor, doctor, example="berth doctor --fix"),
    "schema": Command(_schema, schema, example="berth schema config > berth.schema.json"),
    "completion": Command(_completion, completion, example='eval "$(berth completion bash)"'),
    "version": Command(_nothing, version, example="berth version --json"),
}
