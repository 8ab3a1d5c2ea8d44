"""Which commands there are: family, group and one line of each. Read by dispatch, help, suggestions and completion.

Plain data, so that ``berth -h`` and completion import no parser.
"""

from __future__ import annotations

# command -> (module of berth.cli that parses it, one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("workspace", "create a workspace, or finish an interrupted creation"),
    "adopt": ("workspace", "register a worktree that something else made"),
    "up": ("workspace", "start its processes and wait until they are ready"),
    "down": ("workspace", "stop them all; nothing is left running"),
    "run": ("run", "run a command inside the workspace"),
    "done": ("workspace", "put the workspace away, if its work is kept elsewhere"),
    "reset": ("workspace", "start over with an empty data directory"),
    "gc": ("workspace", "put away what nobody needs any more, machine-wide"),
    "ls": ("workspace", "list the workspaces of this machine"),
    "status": ("workspace", "show a workspace, its processes, where they listen"),
    "logs": ("workspace", "print what a process wrote"),
    "wait": ("workspace", "wait until every process is ready"),
    "start": ("workspace", "start one process"),
    "stop": ("workspace", "stop one process"),
    "restart": ("workspace", "restart one process"),
    "ports": ("workspace", "list the reserved ports and their URLs"),
    "open": ("workspace", "open a port in the browser"),
    "attach": ("workspace", "print the environment, for eval"),
    "plan": ("workspace", "show what a run of the workspace would use"),
    "init": ("agents", "look at the project and write its berth.yaml"),
    "skill": ("agents", "teach coding agents to use berth"),
    "hook": ("agents", "turn the worktrees of coding agents into workspaces"),
    "agents": ("agents", "list coding agents and what is installed for each"),
    "dev": ("sandbox", "run apps from their sources in one sandbox"),
    "os": ("sandbox", "sandboxes that stay: up, down, status, ls"),
    "rpc": ("sandbox", "call an export of an app in a sandbox"),
    "app": ("sandbox", "create an app"),
    "doctor": ("workspace", "check git, registry, configuration, supervisor"),
    "schema": ("workspace", "print a JSON Schema"),
    "completion": ("workspace", "print a completion script"),
    "version": ("workspace", "print the version"),
}
ALIASES = {"list": "ls"}

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Work on a task", ("new", "up", "run", "down", "done", "gc")),
    ("Look", ("ls", "status", "logs", "wait", "ports", "open", "plan")),
    ("Steer", ("start", "stop", "restart", "reset", "adopt", "attach")),
    ("Set up", ("init", "skill", "hook", "agents")),
    ("Run apps in a sandbox", ("app", "dev", "os", "rpc")),
    ("Around it", ("doctor", "schema", "completion", "version")),
)


# Commands that share a line in the overview.
TOGETHER: dict[str, tuple[tuple[str, ...], str]] = {
    "start": (("start", "stop", "restart"), "one process"),
    "skill": (("skill", "hook"), "teach coding agents berth; adopt their worktrees"),
    "schema": (("schema", "completion"), "print a JSON Schema, a completion script"),
}


def overview() -> str:
    """The text of ``berth -h``: one screen of 80 columns, grouped by what a person wants to do."""
    lines = [
        "berth - a workspace of its own for every task: worktree, data, ports, processes",
        "  berth new feature-a --up               create a workspace, start its services",
        "  berth run -w feature-a -- make test    run a command inside it",
        "  berth done feature-a                   put it away, unless work would be lost",
    ]
    for title, names in GROUPS:
        lines += ["", f"{title}:"]
        told: set[str] = set()
        for name in names:
            if name in told:
                continue
            together, line = TOGETHER.get(name, ((name,), COMMANDS[name][1]))
            told.update(together)
            lines.append(f"  {', '.join(together):<21} {line}")
    lines += ["", "berth <command> -h shows one command. Everywhere: --json, -q, -v, --no-color."]
    return "\n".join(lines)
