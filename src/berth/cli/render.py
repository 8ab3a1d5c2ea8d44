"""Text of the results: lines a person reads and a script can split at tabs. Pure functions of what ``ops`` returned."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from berth.ops.gc import Collected
    from berth.ops.inspect import Ports
    from berth.ops.retire import Done
    from berth.ops.setup.describe import View


def block(view: View) -> str:
    """The workspace block: slug, path, branch, ports, running; ``key<TAB>value``."""
    lines = [f"slug\t{view.slug}", f"path\t{view.path}", f"branch\t{view.branch or '(detached)'}"]
    if view.ports:
        lines.append("ports\t" + " ".join(f"{name}={port}" for name, port in view.ports.items()))
    lines.append(f"running\t{ {True: 'true', False: 'false', None: 'unknown'}[view.running] }")
    return "\n".join(lines)


def status_lines(view: View) -> list[str]:
    """What ``status`` adds to the block: url, proc, warning and error lines."""
    lines = [f"url\t{name}\t{url}" for name, url in view.urls.items()]
    lines += [process_line(process) for process in view.processes]
    lines += [f"warning\t{_one_line(warning)}" for warning in view.warnings]
    if view.error is not None:
        lines.append(f"error\t{_one_line(view.error)}")
    return lines


def process_line(process: Mapping[str, Any]) -> str:
    """One process of ``status``."""
    listening = process["listening"]
    return "\t".join(
        (
            "proc",
            process["name"],
            process["status"],
            f"ready={process['ready']}",
            f"pid={process['pid'] if process['pid'] is not None else '-'}",
            f"restarts={process['restarts']}",
            f"listening={','.join(map(str, listening)) if listening else '-'}",
        )
    )


def port_lines(view: View | Ports) -> str:
    """Per port, sorted by name: name, port, address, URL."""
    return "\n".join(
        f"{name}\t{port}\thttp://127.0.0.1:{port}\t{view.urls[name]}" for name, port in sorted(view.ports.items())
    )


def list_rows(views: Iterable[View]) -> list[Sequence[str]]:
    """The rows of ``ls``."""
    return [
        (
            view.slug,
            view.branch or "(detached)",
            view.state + ("*" if view.dirty else ""),
            " ".join(f"{name}={port}" for name, port in view.ports.items()),
            view.path,
        )
        for view in views
    ]


def exports(view: View) -> str:
    """What ``attach`` prints: safe to ``eval`` in a POSIX shell."""
    lines = [f"# path {_one_line(view.path)}", f"# branch {view.branch or '(detached)'}"]
    for name, value in sorted((view.env or {}).items()):
        quoted = value.replace("'", "'\\''")
        lines.append(f"export {name}='{quoted}'")
    return "\n".join(lines)


def done_lines(result: Done) -> str:
    """What ``done`` prints: the slug, then what became of each branch."""
    lines = [f"done {result.slug}"]
    if result.branch_deleted:
        lines.append(f"branch deleted {result.branch}")
    lines += [f"branch kept {branch}" for branch in result.branches_kept]
    return "\n".join(lines)


def gc_lines(found: Collected) -> str:
    """``kind<TAB>slug<TAB>bytes<TAB>reason`` per action."""
    if not found.actions:
        return "nothing to collect"
    return "\n".join(
        f"{action.kind}\t{action.slug or '-'}\t{action.bytes}\t{_one_line(action.reason)}" for action in found.actions
    )


def _one_line(text: str) -> str:
    return text.replace("\n", "; ").replace("\t", " ").replace("\r", "")
